"""`status`: what is stored against what was last asked for. Imports neither torch nor pandas."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments import catalog, records
from experiments.config import ConfigError
from experiments.runner.plan import Plan, status
from transformer.registry import unknown

MARKS = {"done": "✓", "new": "·", "running": "▶", "diverged": "∞", "interrupted": "…"}


def command(target: str | None, results: Path, as_json: bool, verify: bool) -> int:
    """Prints states per variant and seed for one experiment, or one line per experiment."""
    stored = records.experiments(results)
    if target is not None:
        name = _name(target)
        if name not in stored:
            if name in catalog.NAMES:
                return _nothing(name, as_json)
            raise ConfigError([("", f"{unknown('stored experiment', name, stored or ['(none yet)'])}")])
        stored = [name]
    plans: list[Plan] = []
    damaged: list[str] = []
    for name in stored:
        try:
            plans.append(status(name, results, verify=verify))
        except records.Damaged as error:
            damaged.append(str(error))
    if as_json:
        print(json.dumps({"experiments": [_answer(plan) for plan in plans], "damaged": damaged}, indent=1))
    else:
        _print(plans, damaged, results, detailed=target is not None or len(plans) == 1)
    return 0


def _name(target: str) -> str:
    if Path(target).suffix in (".py", ".yaml", ".yml"):
        from experiments.files import load

        return load(target).experiment.name
    return target


def _nothing(name: str, as_json: bool) -> int:
    experiment = catalog.get(name)
    runs = len(experiment.expand()) * len(experiment.seed_list())
    if as_json:
        print(json.dumps({"experiments": [{"experiment": name, "counts": {"new": runs}, "runs": []}], "damaged": []}))
    else:
        print(f"{name}: {runs} runs, none started; start with: python run_all.py run {name}")
    return 0


def _answer(plan: Plan) -> dict[str, Any]:
    return {
        "experiment": plan.experiment,
        "counts": {state.value: n for state, n in plan.counts().items()},
        "runs": [
            {"id": p.id, "variant": p.wanted.variant, "seed": p.wanted.seed, "state": p.state.value, "why": list(p.why)}
            for p in plan.runs
        ],
        "left_over": list(plan.left_over),
    }


def _print(plans: list[Plan], damaged: list[str], results: Path, detailed: bool) -> None:
    console = Console(highlight=False, markup=False)
    if not plans and not damaged:
        console.print(f"nothing under {results} yet; start with: python run_all.py", markup=False)
    for plan in plans:
        words = ", ".join(f"{n} {state.value.replace('_', ' ')}" for state, n in plan.counts().items())
        console.print(f"{plan.experiment}: {len(plan.runs)} runs: {words}", markup=False)
        if detailed:
            console.print(_matrix(plan))
            _reasons(console, plan)
    for line in damaged:
        console.print(f"damaged: {line}", markup=False, soft_wrap=True)


def _matrix(plan: Plan) -> Table:
    matrix = plan.matrix()
    seeds = list(dict.fromkeys(seed for row in matrix.values() for seed in row))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("variant \\ seed")
    for seed in seeds:
        table.add_column(str(seed))
    marks = MARKS if _drawable("".join(MARKS.values())) else {}
    for variant, row in matrix.items():
        table.add_row(variant, *(marks.get(row[s], row[s].value) if s in row else "" for s in seeds))
    return table


def _drawable(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _reasons(console: Console, plan: Plan) -> None:
    for planned in plan.runs:
        for why in planned.why:
            console.print(f"{planned.state.value:<12} {planned.id}: {why}", markup=False, soft_wrap=True)
    if plan.left_over:
        console.print(f"{len(plan.left_over)} stored runs are no longer asked for (kept): {plan.left_over[0]} ...")
