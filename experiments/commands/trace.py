"""`trace`: one forward pass as a table of its matrix products."""

from __future__ import annotations

import contextlib
import json as json_module
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rich.console import Console
from rich.table import Table

from experiments.check import build_task, model_arguments
from experiments.config import ConfigError, RunConfig
from experiments.experiment import BASELINE
from experiments.files import declare, import_file
from transformer.registry import unknown

if TYPE_CHECKING:
    from transformer.trace import Product

TOKENS = 10


def command(
    target: str | None, variant: str | None, sets: list[str], imports: list[str], rows: int, length: int | None,
    as_json: bool,
) -> int:
    """Prints every matrix product of a variant's model for a batch of `rows` sequences of `length` tokens.

    Args:
        length: None = TOKENS, or fewer where the task has no room for so many.

    Raises:
        ConfigError: no such experiment or variant, or a model that cannot be built.
    """
    for file in imports:
        import_file(Path(file))
    config = _config(target, variant, sets)
    problems = config.problems()
    if problems:
        raise ConfigError(problems)
    length = min(TOKENS, build_task(config.task).max_len) if length is None else length
    with contextlib.redirect_stdout(sys.stderr):  # a user's own part may print, which is no part of our answer
        products = _products(config, rows, length)
    if as_json:
        print(json_module.dumps([asdict(product) for product in products], indent=1))
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("where", "what", "left", "right", "result", "parameters", "FLOPs"):
        table.add_column(title, justify="right" if title in ("parameters", "FLOPs") else "left", no_wrap=True)
    for p in products:
        table.add_row(p.where, p.what, str(p.left), str(p.right), str(p.out), f"{p.parameters:,}", f"{p.flops:,}")
    console = Console(highlight=False, markup=False)
    Console(highlight=False, markup=False, width=max(console.width, 150)).print(table)
    flops = sum(p.flops for p in products)
    console.print(f"{len(products)} products, {flops:,} FLOPs forward, {rows} x {length} tokens")
    return 0


def _config(target: str | None, variant: str | None, sets: list[str]) -> RunConfig:
    if target is None:
        raise ConfigError([("", "name an experiment, such as: python run_all.py trace components")])
    experiment = declare(target, sets=sets).experiment
    variants = {v.name: v for v in experiment.expand()}
    if (variant or BASELINE) not in variants:
        raise ConfigError([("", unknown("variant", variant or BASELINE, variants))])
    return experiment.baseline.replace(variants[variant or BASELINE].changes)


def _products(config: RunConfig, rows: int, length: int) -> list[Product]:
    from transformer.models import Model, build
    from transformer.trace import trace

    task = build_task(config.task)
    if length > task.max_len:
        raise ConfigError([("--length", f"{length} is more than the {task.max_len} positions of task '{config.task}'")])
    model = build(config.model, seed=0, device="meta", **model_arguments(task))
    return trace(model, *cast(Model, model).dry_inputs(rows, length))
