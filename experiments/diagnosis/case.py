"""What a diagnosis knows of its target; evidence that costs time is made once, when a check first asks for it."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from experiments.check import build_task, model_arguments
from experiments.config import RunConfig
from experiments.diagnosis.trial import OneBatch, Range, Trial, one_batch, range_test, replay
from experiments.tasks import IGNORE, Batch, Task
from experiments.training.checkpoint import load_weights
from experiments.training.looking.probes import Seen, Slopes, attention_of, rows_of, slopes
from experiments.training.overlap import Overlap, check_overlap
from transformer.models import build

ROWS = 16  # of the batch that models are looked at with
DATA_BATCHES = 16
MOST_WIDTH = 256


@dataclass(frozen=True)
class Budget:
    """How much may be spent: steps of the replay and of the range test, and seconds in all, on one core.

    Replays take at most half of the seconds, the other short trainings what is said where they are.
    """

    steps: int = 150
    range_steps: int = 60
    seconds: float = 50.0


@dataclass(frozen=True)
class History:
    """Losses over steps, from the record of a run or from its first steps trained again.

    Attributes:
        losses, norms: (step, value); norm = gradient norm before clipping.
        validation: (step, validation loss).
        clipped: share of steps whose gradient was clipped.
        complete: whether these are all the steps that the run is to have.
        diverged: {step, reason}, or None.
    """

    losses: Sequence[tuple[int, float]]
    norms: Sequence[tuple[int, float]]
    validation: Sequence[tuple[int, float]]
    clipped: float
    complete: bool
    diverged: Mapping[str, Any] | None

    @property
    def first(self) -> float:
        """Loss of the first step."""
        return self.losses[0][1] if self.losses else math.nan

    @property
    def last(self) -> float:
        """Median loss of the last tenth, so that one batch decides nothing."""
        return self._median(len(self.losses))

    @property
    def falling(self) -> float:
        """By how much the loss fell in the last third."""
        return self._median(len(self.losses) * 2 // 3) - self.last

    def _median(self, end: int) -> float:
        start = max(0, end - max(5, len(self.losses) // 10))
        tail = [loss for _, loss in self.losses[start:end] if math.isfinite(loss)]
        return statistics.median(tail) if tail else math.nan


@dataclass
class Case:
    """One target.

    Attributes:
        name: as a person calls it. config: what is trained.
        rows: metrics.jsonl of a stored run. layers: inside.jsonl of it, see by_step.py.
        result, failure: its files, where there are any.
        weights: its weights, where there are any.
    """

    name: str
    config: RunConfig
    rows: Sequence[Mapping[str, float]] = ()
    layers: Sequence[Mapping[str, float]] = ()
    result: Mapping[str, Any] | None = None
    failure: Mapping[str, Any] | None = None
    weights: Path | None = None
    budget: Budget = field(default_factory=Budget)
    started: float = field(default_factory=time.perf_counter)

    @cached_property
    def problems(self) -> list[tuple[str, str]]:
        """What the configuration itself says is wrong."""
        return self.config.problems()

    @cached_property
    def task(self) -> Task:
        """The task."""
        return build_task(self.config.task)

    @cached_property
    def batch(self) -> Batch:
        """Some rows of the first training batch."""
        return rows_of(self.task.train_batch(self.config.seed, 0, self.config.train.batch_size), ROWS)

    @cached_property
    def batches(self) -> list[Batch]:
        """The first training batches."""
        size = self.config.train.batch_size
        return [self.task.train_batch(self.config.seed, step, size) for step in range(DATA_BATCHES)]

    @cached_property
    def chance(self) -> float:
        """Loss of who knows nothing but how often each target occurs, nats: the entropy of asked targets."""
        counts = Counter(t for batch in self.batches for t in batch.targets.flatten().tolist() if t != IGNORE)
        total = sum(counts.values())
        return -sum(n / total * math.log(n / total) for n in counts.values()) if total else 0.0

    @property
    def floor(self) -> float:
        """The least loss that can be reached; 0 where the task does not say."""
        return self.task.loss_floor or 0.0

    @cached_property
    def overlap(self) -> str | None:
        """What is wrong with the splits."""
        try:
            check_overlap(self.task, self.config.seed)
        except Overlap as error:
            return str(error)
        return None

    def fresh(self) -> nn.Module:
        """The model as it is before the first step."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return build(self.config.model, seed=self.config.seed, **model_arguments(self.task))

    @cached_property
    def start(self) -> Slopes:
        """Loss and gradients before the first step."""
        return slopes(self.fresh().train(), self.batch)

    @cached_property
    def start_attention(self) -> list[Seen]:
        """Attention before the first step."""
        return attention_of(self.fresh(), rows_of(self.batch, 8))

    @cached_property
    def trained(self) -> nn.Module | None:
        """The model with the run's weights, or after the replayed steps."""
        if self.weights is None:
            return self.trial.model
        model = self.fresh()
        load_weights(self.weights, model)
        return model.eval()

    @cached_property
    def trained_attention(self) -> list[Seen]:
        """Attention of the trained model; nothing where its weights are no numbers."""
        if self.trained is None or any(not bool(p.isfinite().all()) for p in self.trained.parameters()):
            return []
        return attention_of(self.trained, rows_of(self.batch, 8))

    @cached_property
    def trial(self) -> Trial:
        """The first steps, trained again; as far as a run got before it diverged."""
        steps = self.budget.steps
        if self.result is not None and self.result.get("diverged"):
            steps = max(steps, min(4 * steps, int(self.result["diverged"]["step"])))
        return replay(self.config, steps=steps, seconds=0.35 * self.budget.seconds)

    @property
    def good_rate(self) -> float:
        """What the range test recommends, or the run's own rate where it found none."""
        return self.range.best or self.config.train.lr

    @property
    def slow_rate(self) -> float:
        """A learning rate that should do no harm: a tenth of the run's, or of where the range test saw harm if less."""
        edge = math.inf if self.range.edge is None else self.range.edge
        return min(self.config.train.lr / 10, self.range.best or math.inf, edge / 10)

    @cached_property
    def slow(self) -> Trial:
        """The same steps at that rate."""
        config = self.config.replace({"train.lr": self.slow_rate})
        steps = max(10, len(self.trial.losses))
        return replay(config, steps=steps, seconds=0.25 * self.budget.seconds, validate=False)

    @cached_property
    def range(self) -> Range:
        """Learning-rate range test."""
        return range_test(self.config, steps=self.budget.range_steps, seconds=0.15 * self.budget.seconds)

    @cached_property
    def by_heart(self) -> OneBatch | None:
        """Training on one batch alone, at a rate that suits the model whatever its own is."""
        return one_batch(self.config, lr=self.good_rate, seconds=0.15 * self.budget.seconds)

    @property
    def wider(self) -> int:
        """A width that tells a small model from a broken one."""
        return self.config.model.d_model * max(1, min(4, MOST_WIDTH // self.config.model.d_model))

    @cached_property
    def wider_by_heart(self) -> OneBatch | None:
        """The same with a wider model; None where it is wide enough."""
        if self.wider == self.config.model.d_model:
            return None
        return one_batch(self.config, lr=self.good_rate, seconds=0.25 * self.budget.seconds, d_model=self.wider)

    @cached_property
    def history(self) -> History:
        """The record of the run if it has one of any length, else the replayed steps."""
        losses = _column(self.rows, "train/loss")
        if len(losses) >= 10 or (self.result is not None and losses):
            return History(
                losses, _column(self.rows, "train/grad_norm"), _column(self.rows, "validation/loss"),
                float((self.result or {}).get("clipped_share", math.nan)), self.result is not None,
                (self.result or {}).get("diverged"),
            )
        trial = self.trial
        n = len(trial.losses)
        return History(
            list(enumerate(trial.losses, 1)), list(enumerate(trial.norms, 1)), trial.validation,
            trial.clipped / max(1, n), n >= self.config.train.steps, trial.diverged,
        )

    @property
    def at_chance(self) -> bool:
        """Whether nothing but the frequency of targets was learned."""
        return not self.history.last <= self.floor + 0.95 * (self.chance - self.floor)

    def looked_at(self) -> str:
        """The evidence in words."""
        if "history" not in self.__dict__:
            return "the configuration alone"
        steps, kind = len(self.history.losses), "recorded" if self.rows else "replayed"
        return f"{steps} {kind} steps of {self.config.train.steps}"


def _column(rows: Sequence[Mapping[str, float]], name: str) -> list[tuple[int, float]]:
    return [(int(row["step"]), float(row[name])) for row in rows if name in row and "step" in row]
