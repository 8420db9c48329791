"""Jobs that stand in for training while tuning: their loss is a known function of the learning rate.

Light on purpose: every worker imports this module when it starts.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.records import CONFIG, METRICS, RESULT, file_digest, run_directory, write_json

TARGET = "tests.experiments.tuning_jobs:execute"
UNTRAINED = 4.0


class Interrupted(Exception):
    """Raised by a job that was asked to stop."""


@dataclass(frozen=True)
class Valley:
    """One run: loss = 2 + width * log10(lr / best)^2 + noise; it diverges above `diverges`, fails above `fails`.

    Attributes:
        kill_after: the worker kills itself with this chance, once per run.
    """

    directory: str
    run_id: str
    experiment: str
    variant: str
    seed: int
    hash: str
    config: dict[str, Any]
    best: float = 3e-3
    width: float = 1.0
    noise: float = 0.02
    diverges: float = math.inf
    fails: float = math.inf
    seconds: float = 0.0
    steps: int = 4
    kill_after: float = 0.0

    @classmethod
    def maker(cls, results: Path, **settings: Any) -> Any:
        """What `Options.job` is."""

        def job(planned: Any) -> Valley:
            run = planned.wanted.run
            directory = run_directory(results.absolute(), run.experiment, run.id)
            names = (run.id, run.experiment, run.variant, run.config.seed, run.hash, run.config.to_dict())
            return cls(str(directory), *names, **settings)

        return job

    def loss(self) -> float:
        """The final validation loss."""
        lr, draw = float(self.config["train"]["lr"]), Draw(self.hash)
        return 2.0 + self.width * math.log10(lr / self.best) ** 2 + self.noise * draw.normal("noise")


@dataclass(frozen=True)
class Draw:
    """Random numbers that are a function of a run's identity."""

    key: str

    def uniform(self, name: str) -> float:
        """In (0, 1)."""
        return (int(hashlib.sha256(f"{self.key}/{name}".encode()).hexdigest()[:12], 16) + 0.5) / 16**12

    def normal(self, name: str) -> float:
        """Standard normal, by Box and Muller."""
        return math.sqrt(-2 * math.log(self.uniform(f"{name}/a"))) * math.cos(2 * math.pi * self.uniform(f"{name}/b"))


def execute(job: Valley, *, device: str = "cpu", stop: Any = lambda: False, report: Any = lambda **p: None) -> None:
    """Writes what training writes."""
    directory, lr = Path(job.directory), float(job.config["train"]["lr"])
    directory.mkdir(parents=True, exist_ok=True)
    names = {"run_id": job.run_id, "experiment": job.experiment, "variant": job.variant, "seed": job.seed}
    write_json(directory / CONFIG, {"schema": 1, **names, "hash": job.hash, "changes": {}, "config": job.config, "identity": {}})
    _die_once(job, directory)
    if lr > job.fails:
        raise ValueError(f"lr={lr} is too much for this job")
    final, rows = job.loss(), []
    for step in range(1, job.steps + 1):
        time.sleep(job.seconds / job.steps)
        value = final + (UNTRAINED - final) * (1 - step / job.steps)
        rows.append({"step": step, "seconds": 0.0, "train/loss": UNTRAINED if step == 1 else value, "validation/loss": value})
        (directory / METRICS).write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
        report(step=step, steps=job.steps, loss=value)
        if stop():
            raise Interrupted
    _finish(job, directory, names, final, diverged=lr > job.diverges)


def _die_once(job: Valley, directory: Path) -> None:
    marker = directory / "died"
    if not marker.exists() and Draw(job.hash).uniform("death") < job.kill_after:
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _finish(job: Valley, directory: Path, names: dict[str, Any], final: float, diverged: bool) -> None:
    scores = {"validation/loss": final, "test/loss": final + 0.01}
    write_json(directory / RESULT, {
        "schema": 1, **names, "hash": job.hash, "status": "diverged" if diverged else "done",
        "metrics": {} if diverged else scores, "lengths": {},
        "cost": {"parameters": 1000 + job.config["model"]["n_layers"], "flops_per_token": 10.0, "tokens": 100, "steps": job.steps,
                 "seconds": 0.2, "train_seconds": 0.1, "peak_memory_bytes": 1},
        "diverged": {"step": job.steps, "reason": "loss is nan"} if diverged else None, "environment": {"device": "cpu"},
        "started": "2026-01-01T00:00:00", "finished": "2026-01-01T00:00:01",
        "metrics_sha256": file_digest(directory / METRICS),
    })
    with open(directory / "completions", "a") as file:
        file.write("x")
