"""What a study keeps of its trials: what decides, a trial that was asked for, a trial that was told."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optuna.trial import FrozenTrial, Trial

from experiments.experiment import Run
from experiments.tuning.choice import Goal
from experiments.tuning.proposals import PROPOSAL
from experiments.tuning.scores import Score

TOLD = "told"  # the user attribute in which a trial keeps how it ended
PRUNED = "pruned"


@dataclass(frozen=True)
class Objective:
    """What a trial is judged by: a validation metric, or `cost/NAME` for an entry of a result's cost."""

    metric: str
    goal: Goal

    def of(self, score: Score) -> float | None:
        """Its value for a run that is done; None = it has none."""
        if not self.metric.startswith("cost/"):
            return score.value
        value = score.cost.get(self.metric.removeprefix("cost/"))
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


@dataclass
class Asked:
    """A trial that was asked for and not yet told.

    Attributes:
        values: path -> configuration value. runs: one per seed, in order.
        scores: run id -> how it ended, filled in as runs end. pruned: whether it was given up.
    """

    trial: Trial
    values: dict[str, Any]
    runs: tuple[Run, ...]
    scores: dict[str, Score] = field(default_factory=dict)
    reported: int = -1
    pruned: bool = False

    @property
    def number(self) -> int:
        """Optuna's number of the trial, from 0."""
        return self.trial.number


@dataclass(frozen=True)
class Told:
    """A finished trial.

    Attributes:
        status: done, diverged, failed or pruned; only `done` can be best.
        scores: one value per objective, what the sampler was told; None = it was told nothing.
        runs: id, seed and hash of each. cost: averaged over them. seconds: summed over them.
    """

    number: int
    status: str
    values: Mapping[str, Any]
    params: Mapping[str, Any]
    scores: tuple[float, ...] | None
    runs: tuple[Mapping[str, Any], ...]
    cost: Mapping[str, float]
    seconds: float
    error: str = ""


def told_of(trial: FrozenTrial) -> Told:
    """A finished trial as it is reported."""
    record, proposal = trial.user_attrs.get(TOLD, {}), trial.user_attrs.get(PROPOSAL, {})
    status = str(record.get("status", "failed"))
    return Told(
        trial.number, status, proposal.get("values", {}), dict(trial.params),
        tuple(trial.values) if trial.values is not None else None, tuple(record.get("runs", ())),
        record.get("cost", {}), float(record.get("seconds", 0.0)), str(record.get("error", "")),
    )


def named(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Id, seed and hash of runs, as a trial keeps them."""
    return [{"id": run.id, "seed": run.config.seed, "hash": run.hash} for run in runs]


def status_of(scores: Sequence[Score], pruned: bool) -> str:
    """How a trial ended: failed, diverged, pruned or done."""
    if any(score.status == "failed" for score in scores):
        return "failed"
    if any(score.status == "diverged" for score in scores):
        return "diverged"
    return PRUNED if pruned else "done"


def total(scores: Sequence[Score], name: str) -> float:
    """Sum of one cost over the runs that have it."""
    return math.fsum(float(score.cost.get(name) or 0.0) for score in scores)


def mean_cost(scores: Sequence[Score]) -> dict[str, float]:
    """Each cost averaged over the runs that have it."""
    names = {name for score in scores for name, value in score.cost.items() if isinstance(value, int | float)}
    found = {name: [float(s.cost[name]) for s in scores if isinstance(s.cost.get(name), int | float)] for name in names}
    return {name: math.fsum(values) / len(values) for name, values in sorted(found.items())}
