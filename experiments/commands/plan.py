"""`plan`: what a `run` would do. Writes nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments.check import parameters
from experiments.commands.launch import Prepared, headline, prepare
from experiments.commands.progress import duration
from experiments.estimate import seconds_of
from experiments.experiment import BASELINE
from experiments.files import Declared
from experiments.runner.devices import slots
from experiments.runner.plan import TO_RUN, State


def command(declared: Declared, results: Path, workers: int | None, as_json: bool, verify: bool) -> int:
    """Prints the number of runs first, then time, parameters per variant, and every run with its state."""
    workers = len(slots("cpu", workers))
    prepared = prepare(declared, results, verify=verify)
    known = {run.variant for run in prepared.runs}
    rows = [_row(prepared, variant.name) for variant in declared.experiment.expand() if variant.name in known]
    to_run = prepared.plan.in_state(*TO_RUN)
    seconds = sum(seconds_of([p.wanted.run for p in to_run if p.wanted.run], results)) / workers
    if as_json:
        print(json.dumps(_answer(prepared, rows, seconds, workers), indent=1))
        return 0
    _print(prepared, rows, seconds, workers)
    return 0


def _row(prepared: Prepared, variant: str) -> dict[str, Any]:
    run = next(run for run in prepared.runs if run.variant == variant)
    counts = parameters(run.config)
    states = prepared.plan.matrix()[variant]
    return {
        "variant": variant, "changes": dict(run.changes), "parameters": counts["total"],
        "parameters_non_embedding": counts["non_embedding"],
        "states": {str(seed): state.value for seed, state in states.items()},
    }


def _answer(prepared: Prepared, rows: list[dict[str, Any]], seconds: float, workers: int) -> dict[str, Any]:
    runs = [
        {"id": p.id, "variant": p.wanted.variant, "seed": p.wanted.seed, "state": p.state.value, "why": list(p.why)}
        for p in prepared.plan.runs
    ]
    return {
        "experiment": prepared.plan.experiment, "runs_total": len(runs),
        "counts": {state.value: n for state, n in prepared.plan.counts().items()},
        "estimated_seconds": None if math.isnan(seconds) else round(seconds, 1), "workers": workers,
        "changed": prepared.changed, "variants": rows,
        "runs": runs,
    }


def _print(prepared: Prepared, rows: list[dict[str, Any]], seconds: float, workers: int) -> None:
    console = Console(highlight=False, markup=False)
    console.print(headline(prepared), soft_wrap=True, markup=False)
    workers_text = f"{workers} worker{'s' if workers > 1 else ''}"
    console.print(prepared.declared.experiment.question, soft_wrap=True, markup=False)
    time = "unknown, too large to be timed here" if math.isnan(seconds) else f"{duration(seconds)} with {workers_text}"
    console.print(f"estimated time: {time}")
    for line in prepared.changed:
        console.print(f"  changed since the last launch: {line}", markup=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("variant", "parameters", "vs baseline", "seeds"):
        table.add_column(title, justify="left" if title in ("variant", "seeds") else "right")
    base = next((row["parameters"] for row in rows if row["variant"] == BASELINE), 0)
    for row in rows:
        share = f"{(row['parameters'] / base - 1) * 100:+.1f} %" if base and row["variant"] != BASELINE else ""
        table.add_row(row["variant"], f"{row['parameters']:,}", share, _states(row["states"]))
    console.print(table)
    for planned in prepared.plan.runs:
        for why in planned.why if planned.state is not State.REUSABLE else ():
            console.print(f"{planned.state.value:<12} {planned.id}: {why}", markup=False, soft_wrap=True)


def _states(states: dict[str, str]) -> str:
    different = list(dict.fromkeys(states.values()))
    if len(different) == 1:
        return f"{len(states)} {different[0]}"
    return ", ".join(f"{sum(s == state for s in states.values())} {state}" for state in different)
