"""How long a step of each variant takes here, measured once: what the budget `seconds` needs to make steps of time.

A few steps of every variant are trained with real data in a scratch folder, variants in turn over several rounds, and
the fastest round counts, since whatever else the machine does can only slow a round down. The rates are written to
calibration.json beside the results, so that every later launch plans the same runs; remove the file to measure again.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

from experiments import records
from experiments.config import RunConfig, Spec, digest
from experiments.experiment import Experiment
from experiments.files import Declared

CALIBRATION = "calibration.json"
ROUNDS, SECONDS = 4, 0.5  # how often every variant is timed, and for about how long each time
FEWEST, MOST = 8, 200  # steps of one timing


def calibrated(declared: Declared, results: Path, *, measure: bool = True) -> Declared:
    """The experiment with measured rates, if its budget needs them and none are declared; otherwise as it is.

    Args:
        measure: False = only what was measured and recorded before.
    """
    experiment = declared.experiment
    if experiment.budget.name != "seconds" or experiment.budget.options.get("rates") is not None:
        return declared
    configs = {v.name: experiment.baseline.replace(v.changes) for v in experiment.expand()}
    path = results / experiment.name / CALIBRATION
    known = _stored(path)
    keys = {name: _key(config) for name, config in configs.items()}
    if not all(key in known for key in keys.values()):
        if not measure:
            return declared
        known |= {keys[name]: rate for name, rate in measured(configs).items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        records.write_json(path, {"schema": records.SCHEMA, "seconds_per_step": known, "variants": keys})
    budget = Spec("seconds", rates={name: known[key] for name, key in keys.items()})
    changed: Experiment = experiment.replace({"budget": budget})
    return dataclasses.replace(declared, experiment=changed)


def measured(configs: dict[str, RunConfig]) -> dict[str, float]:
    """variant -> seconds a step in training proper (no evaluation), on this machine with one thread.

    The slope between a run of 2 steps and a longer one, so that what comes before the first step costs nothing.
    """
    steps = {name: _steps(config) for name, config in configs.items()}
    rounds = [
        {name: (_train_seconds(c, 2), _train_seconds(c, 2 + steps[name])) for name, c in configs.items()}
        for _ in range(ROUNDS)
    ]
    fastest = {name: tuple(min(one[name][i] for one in rounds) for i in range(2)) for name in configs}
    return {name: max((long - short) / steps[name], 1e-6) for name, (short, long) in fastest.items()}


def _steps(config: RunConfig) -> int:
    """How many steps take about SECONDS."""
    rough = (_train_seconds(config, 2 + FEWEST) - _train_seconds(config, 2)) / FEWEST
    return min(MOST, max(FEWEST, round(SECONDS / max(rough, 1e-6))))


def _train_seconds(config: RunConfig, steps: int) -> float:
    import torch

    from experiments.training.train import train

    torch.set_num_threads(1)
    few = config.replace({"train.steps": steps, "train.eval_every": steps, "train.warmup": 0})
    with tempfile.TemporaryDirectory() as folder:
        outcome: dict[str, Any] = train(few, Path(folder), run_hash="calibration")
    return float(outcome["cost"]["train_seconds"])


def _stored(path: Path) -> dict[str, float]:
    try:
        return dict(records.read_json(path)["seconds_per_step"])
    except (FileNotFoundError, records.Damaged, KeyError):
        return {}


def _key(config: RunConfig) -> str:
    """A configuration up to what does not change the time of a step."""
    plain = config.to_dict()
    train = {k: v for k, v in plain["train"].items() if k not in ("steps", "lr", "warmup", "eval_every", "patience")}
    return digest({"model": plain["model"], "task": plain["task"], "train": train})[:16]
