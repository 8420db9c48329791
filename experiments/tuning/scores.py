"""What is stored of a run, as a tuner needs it: whether it has ended, and its validation score. Torch-free."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments import records

UNTRAINED: dict[str, Callable[[float], float]] = {
    "loss": lambda nats: nats, "perplexity": lambda nats: math.exp(min(nats, 700.0)),
    "bits_per_token": lambda nats: nats / math.log(2),
}


@dataclass(frozen=True)
class Score:
    """How a run stands.

    Attributes:
        status: done, diverged, failed (and its failure is recorded) or missing.
        value: its validation score; None unless it is done and the score is finite.
        metrics, cost: as in result.json; empty without a result.
        untrained: what the first training step scored in this metric, for a finite cap; None = unknown.
    """

    status: str
    value: float | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    cost: Mapping[str, Any] = field(default_factory=dict)
    untrained: float | None = None
    error: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more is to be expected of the run, short of a retry."""
        return self.status != "missing"


def read_score(results: Path, experiment: str, run_id: str, run_hash: str, metric: str) -> Score:
    """The score of a run from its directory; a result of another configuration counts as missing."""
    directory = records.run_directory(results, experiment, run_id)
    stored = records.read_run(directory)
    result, failure = stored.result, stored.failure
    if result is not None and result.get("hash") == run_hash:
        metrics = result.get("metrics") or {}
        value = metrics.get(metric)
        cost = result.get("cost") or {}
        if result.get("status") == "done" and isinstance(value, int | float) and math.isfinite(value):
            return Score("done", float(value), metrics, cost)
        return Score("diverged", None, metrics, cost, untrained_score(directory, metric))
    if failure is not None and failure.get("hash") == run_hash and failure.get("kind") != "interrupted":
        return Score("failed", error=f"{failure.get('kind')}: {failure.get('error')}")
    return Score("missing")


def untrained_score(directory: Path, metric: str) -> float | None:
    """What the model scored before it learned anything: the first logged training loss, in the metric's terms."""
    convert = UNTRAINED.get(metric.rsplit("/", 1)[-1])
    for row in records.read_metrics(directory):
        loss = row.get("train/loss")
        if isinstance(loss, int | float) and math.isfinite(loss):
            return convert(float(loss)) if convert else None
    return None


def validation_metric(metric: str) -> str:
    """The validation counterpart of a reported metric: choices are made on it, never on test."""
    return f"validation/{metric.removeprefix('test/')}" if metric.startswith("test/") else metric
