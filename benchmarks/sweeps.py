"""A whole experiment of 12 runs, from the shell and back, beside a plain loop, Optuna and Ray Tune."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.contestants import LRS, SEEDS
from benchmarks.pairs import spread
from benchmarks.table import Ran, Table, in_process

NAMES = {
    "sequential": "plain sequential loop, default threads", "one_thread": "plain sequential loop, one thread",
    "optuna": "Optuna, n_jobs=2", "ray": "Ray Tune, 2 CPUs",
}
ONCE = ("one_thread", "ray")  # far enough from the others that one round tells, and the slowest
WIDTHS = (64, 16)
NEEDS = {"optuna": "optuna", "ray": "ray.tune"}


def measure(quick: bool) -> list[Table]:
    """The default model, and one so small that more threads hardly help it."""
    steps, rounds = (100, 1) if quick else (300, 3)
    return [_compared(width, steps, rounds) for width in WIDTHS]


def _compared(width: int, steps: int, rounds: int) -> Table:
    """Rounds in which every way takes its turn; each is a process of its own, start-up included."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BENCHMARK_SCRATCH"] = folder
        work = {"ours": lambda: _ours(Path(folder), steps, width)} | _others(steps, width)
        ran: dict[str, list[Ran]] = {name: [] for name in work}
        names = list(work)
        for turn in range(rounds):
            for name in names[turn % len(names):] + names[: turn % len(names)]:
                if turn == 0 or name not in ONCE:
                    ran[name].append(work[name]())
    seconds = {name: [one.seconds for one in ran[name]] for name in names}
    processor = {name: f"{statistics.median(one.processor for one in ran[name]):.1f}" for name in names}
    rows = [["this suite", f"{statistics.median(seconds['ours']):.1f}", processor["ours"], "1.00"]]
    for name in names[1:]:
        pairs = [theirs / ours for theirs, ours in zip(seconds[name], seconds["ours"], strict=name not in ONCE)]
        rows.append([NAMES[name], f"{statistics.median(seconds[name]):.1f}", processor[name], spread(pairs)])
    share = [ours / loop for ours, loop in zip(seconds["ours"], seconds["sequential"], strict=True)]
    says = (
        f"{len(LRS)} learning rates x {len(SEEDS)} seeds, {steps} steps of 32 x 64 tokens, validation every 100 steps "
        f"and a test at the end; wall time from the shell, start-up included; rounds: {rounds} (of Ray Tune and of one "
        "thread 1); default workers. This suite also writes, checks and can resume every run. It takes "
        f"{spread(share)} of the plain loop's time."
    )
    missing = [NAMES[name] for name in NEEDS if name not in work]
    notes = [f"not measured, since not installed: {', '.join(missing)}"] if missing else []
    header = ["way", "seconds", "processor seconds", "over this suite"]
    return Table(f"Whole experiments, 2 x {width}", says, header, rows, notes)


def _ours(folder: Path, steps: int, width: int) -> Ran:
    content = {
        "name": "twelve", "question": "Which learning rate is best?", "seeds": len(SEEDS),
        "baseline": {"model": {"d_model": width}, "train": {"steps": steps, "lr": LRS[0]}},
        "vary": {"train.lr": list(LRS[1:])},
    }
    file, results = folder / "twelve.yaml", folder / "results"
    file.write_text(json.dumps(content))  # JSON is YAML
    shutil.rmtree(results, ignore_errors=True)
    ran = in_process("run_all.py", "run", str(file), "--wandb", "off", "--quiet", results=results)
    assert len(list(results.glob("twelve/runs/*/result.json"))) == len(LRS) * len(SEEDS)
    return ran


def _others(steps: int, width: int) -> dict[str, Callable[[], Ran]]:
    options = ("--steps", str(steps), "--width", str(width))
    return {
        name: lambda name=name: in_process("-m", "benchmarks.contestants", name, *options)
        for name in NAMES if name not in NEEDS or _installed(NEEDS[name])
    }


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False
