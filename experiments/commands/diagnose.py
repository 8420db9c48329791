"""`diagnose CONFIG|RUN`: symptom, evidence, likely cause, what to change, worst first."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.diagnosis.finding import Diagnosis, Finding

COLORS = {"broken": "bold red", "harmful": "red", "hint": "yellow", "note": "dim"}


def command(
    target: str, results: Path, as_json: bool, *, variant: str | None = None, sets: Sequence[str] = (),
    imports: Sequence[str] = (), steps: int = 150, seconds: float = 50.0,
) -> int:
    """Examines a stored run, or the baseline (or a variant) of an experiment.

    Args:
        target: run id, the beginning of one, a run's directory, a catalog name or an experiment file.
        steps: how many first steps are trained again. seconds: what all short trainings together may take.

    Returns:
        1 when something is broken or harmful, else 0.

    Raises:
        ConfigError: nothing has that name, or it cannot be read.
    """
    import torch

    from experiments.diagnosis.case import Budget
    from experiments.diagnosis.diagnose import diagnose
    from experiments.diagnosis.target import find

    began, threads = time.perf_counter(), torch.get_num_threads()
    torch.set_num_threads(1)  # the bits of a replay are those of a run, which has one thread
    try:
        case = find(target, results, variant=variant, sets=sets, imports=imports, budget=Budget(steps, 60, seconds))
        found = diagnose(case)
    finally:
        torch.set_num_threads(threads)
    took = time.perf_counter() - began
    if as_json:
        print(json.dumps({**found.to_dict(), "total_seconds": round(took, 2)}, indent=1))
    else:
        _print(found, took)
    return 1 if found.alarms else 0


def _print(found: Diagnosis, took: float) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    n = len(found.alarms)
    verdict = "no alarm" if not n else f"{n} alarm{'s' if n > 1 else ''}"
    console.print(f"{found.target}: {verdict} (from {found.looked_at})", style="bold", markup=False, soft_wrap=True)
    for finding in found.findings:
        _print_one(console, finding)
    slow = sorted(found.seconds.items(), key=lambda pair: -pair[1])[:3]
    told = ", ".join(f"{name} {value:.1f} s" for name, value in slow)
    console.print(f"\n{len(found.seconds)} checks in {took:.1f} s, most of it: {told}", style="dim", markup=False)


def _print_one(console: object, finding: Finding) -> None:
    from rich.console import Console

    assert isinstance(console, Console)
    console.print(f"\n{finding.severity.upper()}  {finding.symptom}", style=COLORS[finding.severity], markup=False)
    for title, text in (("evidence", finding.evidence), ("cause", finding.cause), ("change", finding.change)):
        console.print(f"  {title:9s} {text}", markup=False, soft_wrap=True)
