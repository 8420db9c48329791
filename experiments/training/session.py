"""What a run holds while it goes on, and how it is put together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from experiments.check import build_task, model_arguments
from experiments.config import RunConfig
from experiments.records import CHECKPOINT
from experiments.tasks import Evaluation, Task
from experiments.training.checkpoint import Progress, load_checkpoint
from experiments.training.divergence import finite
from experiments.training.evaluate import Split, evaluate
from experiments.training.forward import recompute_activations
from experiments.training.memory import start_counting
from experiments.training.optimisers import adamw
from experiments.training.overlap import check_overlap
from experiments.training.recorder import Recorder
from experiments.training.schedules import SAMPLING, SCHEDULES, Horizon, Sampling, Schedule
from experiments.training.step import Recipe
from experiments.training.trackers import Guarded, MetricsFile
from transformer.models import build


@dataclass(frozen=True)
class Moment:
    """What `on_progress` is told.

    Attributes:
        step, total: how far the run is. loss: of that step, nats per token.
        tokens_per_second: in training steps alone. scores: of the last validation.
    """

    step: int
    total: int
    loss: float
    tokens_per_second: float
    scores: Mapping[str, float]


@dataclass(frozen=True)
class Watchers:
    """Who looks on, and how often the run is saved. None of it can change a number.

    Attributes:
        on_progress: told at most every `progress_seconds`, and at every validation.
        should_stop: asked after every step; True = write a checkpoint and raise Interrupted.
        checkpoint_seconds, checkpoint_steps: a checkpoint is due after this long, or at multiples of this many steps.
        mirrors: trackers, started and finished by whoever made them.
        layers: write down what the layers look like before training and at each validation; see recorder.py.
    """

    on_progress: Callable[[Moment], None] = lambda moment: None
    should_stop: Callable[[], bool] = lambda: False
    progress_seconds: float = 0.5
    checkpoint_seconds: float | None = 30.0
    checkpoint_steps: int | None = None
    mirrors: Guarded = field(default_factory=lambda: Guarded([]))
    layers: bool = False


@dataclass
class Session:
    """Everything that a run holds while it goes on."""

    config: RunConfig
    directory: Path
    run_hash: str
    task: Task
    model: nn.Module
    optimiser: torch.optim.Optimizer
    schedule: Schedule
    sampling: Sampling | None
    recipe: Recipe
    progress: Progress
    metrics: MetricsFile
    mirrors: Guarded
    validation: list[Evaluation]
    began: float
    recorder: Recorder | None = None
    stopped_early: bool = False
    diverged: dict[str, Any] | None = None
    replicas: int = 1  # how many runs train together with this one, itself included

    @property
    def over(self) -> bool:
        """Nothing is left to train."""
        return self.stopped_early or self.diverged is not None or self.progress.step >= self.config.train.steps

    def seconds(self) -> float:
        """Time since the run began, interruptions left out."""
        return round(time.perf_counter() - self.began, 4)

    def score(self, sets: Sequence[Evaluation], split: Split) -> dict[str, float]:
        """Scores of the weights as they are now."""
        return evaluate(
            self.model, sets, split, sequences=self.task.sequence_metrics,
            device=self.recipe.device, precision=self.recipe.precision,
        )

    def look(self) -> None:
        """Records what the layers look like now, if somebody wants that."""
        if self.recorder is not None:
            self.recorder.note(self.progress.step, self.model)

    def write(self, row: Mapping[str, float]) -> None:
        """One row, finite numbers only, to metrics.jsonl and the mirrors."""
        kept = finite(row)
        self.metrics.log(kept)
        self.mirrors.log(kept)


def prepare(config: RunConfig, directory: Path, run_hash: str, device: str, watchers: Watchers) -> Session:
    """Task, model and optimiser as they are at step 0, or where a checkpoint left them.

    Raises:
        Overlap: an evaluation example occurs in training.
    """
    began = time.perf_counter()
    train, task = config.train, build_task(config.task)
    check_overlap(task, config.seed)
    start_counting(device)
    model = build(config.model, seed=config.seed, device=device, **model_arguments(task))
    if train.checkpoint_activations:
        recompute_activations(model)
    optimiser = adamw(model, train)
    progress = load_checkpoint(directory / CHECKPOINT, run_hash, model, optimiser, device=device)
    horizon = Horizon(train.lr, train.warmup_steps(), train.steps, config.model.d_model)
    sampling = train.scheduled_sampling
    run = Session(
        config, directory, run_hash, task, model.train(), optimiser,
        schedule=SCHEDULES.build(train.schedule, horizon),
        sampling=None if sampling is None else SAMPLING.build(sampling, train.steps),
        recipe=Recipe(train.clip, train.label_smoothing, train.precision, device),
        progress=progress,
        metrics=MetricsFile(directory, keep=progress.metrics_bytes),
        mirrors=watchers.mirrors,
        validation=task.evaluations("validation", config.seed),
        began=began - progress.seconds,
    )
    if watchers.layers:
        run.recorder = Recorder(directory, run.validation, run.recipe, done=progress.step)
        if not progress.step:
            run.look()
    return run
