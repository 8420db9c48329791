"""Short trainings that give evidence: the first steps again, one batch alone, a range of learning rates.

They are the real thing: same data, same initial weights, same steps as `train`, in a folder that is gone afterwards.
"""

from __future__ import annotations

import math
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from experiments.check import build_task, model_arguments
from experiments.config import RunConfig
from experiments.training.looking.watch import Look, watched
from experiments.training.optimisers import adamw
from experiments.training.session import Watchers, prepare
from experiments.training.step import Recipe, take_step
from experiments.training.train import one_step
from transformer.models import build
from transformer.spec import Spec

VALIDATIONS = 6
ONE_BATCH_STEPS, ONE_BATCH_ROWS = 150, 8
LOWEST, HIGHEST = 1e-5, 3.0  # of the learning-rate range test
SMOOTHING = 0.6
FLAT = 0.02  # of the first loss


@dataclass
class Trial:
    """What some steps of training looked like.

    Attributes:
        losses, norms: of each step, nats per token and gradient norm before clipping; the last may not be finite.
        clipped: steps whose gradient was clipped.
        validation: (step, validation loss).
        model: as it was after the last step.
        diverged: {step, reason} where training ended in numbers that are none, or in a loss that stayed high.
        look, before: the layers at the last step and at the one before it.
        error: what a step raised, where it did.
    """

    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    clipped: int = 0
    validation: list[tuple[int, float]] = field(default_factory=list)
    model: nn.Module | None = None
    diverged: dict[str, Any] | None = None
    look: Look = field(default_factory=Look)
    before: Look = field(default_factory=Look)
    error: str | None = None


def replay(config: RunConfig, *, steps: int, seconds: float, validate: bool = True) -> Trial:
    """The first steps of a run, watched: as many as asked for, or as fit into `seconds`."""
    trial = Trial()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _train(trial, config, Path(folder), steps, seconds, validate)
        except (ValueError, RuntimeError, IndexError, TypeError, AssertionError) as error:
            trial.error = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return trial


def _train(trial: Trial, config: RunConfig, folder: Path, steps: int, seconds: float, validate: bool) -> None:
    run = prepare(config, folder, "diagnosis", "cpu", Watchers())
    trial.model = run.model
    steps = min(steps, config.train.steps)
    every, until = max(1, steps // VALIDATIONS), time.perf_counter() + seconds
    while not run.over and len(trial.losses) < steps and time.perf_counter() < until:
        trial.before = trial.look
        with watched(run.model) as trial.look:
            result = one_step(run)
        trial.losses.append(result.loss)
        trial.norms.append(result.grad_norm)
        trial.clipped += result.clipped
        if validate and run.diverged is None and run.progress.step % every == 0:
            scores = run.score(run.validation, "validation")
            trial.validation.append((run.progress.step, scores.get("validation/loss", math.nan)))
    trial.diverged = run.diverged


@dataclass(frozen=True)
class OneBatch:
    """Training on one batch alone: first and last loss, steps, rows."""

    first: float
    last: float
    steps: int
    rows: int


def one_batch(config: RunConfig, *, lr: float, seconds: float, d_model: int | None = None) -> OneBatch | None:
    """Whether the model can learn one batch by heart, without dropout.

    Args:
        lr: a constant rate.
        d_model: another width, to tell a small model from a broken one.

    Returns:
        None where not even that could be trained.
    """
    changes: dict[str, Any] = {
        "train.overfit_one_batch": True, "train.lr": lr, "train.steps": ONE_BATCH_STEPS, "train.warmup": 10,
        "train.accumulate": 1, "train.schedule": Spec("constant"),
        "train.batch_size": min(ONE_BATCH_ROWS, config.train.batch_size),
        "train.label_smoothing": 0.0, "train.patience": None, "train.scheduled_sampling": None, "model.dropout": 0.0,
    }
    if d_model is not None:
        changes["model.d_model"] = d_model
    trial = replay(config.replace(changes), steps=ONE_BATCH_STEPS, seconds=seconds, validate=False)
    finite = [loss for loss in trial.losses if math.isfinite(loss)]
    if not finite or trial.error:
        return None
    return OneBatch(finite[0], min(finite[-5:]), len(finite), changes["train.batch_size"])


@dataclass(frozen=True)
class Range:
    """A learning-rate range test.

    Attributes:
        rates, losses: rate of each step and the smoothed loss after it.
        edge: the rate from which the loss rises again, or None where it never did.
        best: the rate of the least loss over three, a usual choice; None where no rate moved the loss by FLAT.

    Source: Smith 2017, arXiv:1506.01186, with an exponential sweep.
    """

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    edge: float | None
    best: float | None


def range_test(config: RunConfig, *, steps: int, seconds: float) -> Range:
    """One short training whose rate grows from LOWEST to HIGHEST by a factor a step."""
    task, train = build_task(config.task), config.train
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = build(config.model, seed=config.seed, **model_arguments(task)).train()
    optimiser, recipe = adamw(model, train), Recipe(train.clip, train.label_smoothing, train.precision)
    rates, losses, smooth, until = list[float](), list[float](), 0.0, time.perf_counter() + seconds
    for step in range(steps):
        rate = LOWEST * (HIGHEST / LOWEST) ** (step / max(1, steps - 1))
        batch = task.train_batch(config.seed, step, train.batch_size)
        loss = take_step(model, optimiser, [batch], recipe, lr=rate).loss
        if not math.isfinite(loss) or time.perf_counter() > until:
            break
        smooth = SMOOTHING * smooth + (1 - SMOOTHING) * loss
        rates.append(rate)
        losses.append(smooth / (1 - SMOOTHING ** (step + 1)))
    return Range(tuple(rates), tuple(losses), *_turn(rates, losses))


def _turn(rates: list[float], losses: list[float]) -> tuple[float | None, float | None]:
    if not losses:
        return LOWEST, None
    at = losses.index(min(losses))
    limit = losses[at] + max(0.1, 0.2 * (losses[0] - losses[at]))
    edge = next((rate for rate, loss in zip(rates[at:], losses[at:], strict=True) if loss > limit), None)
    return edge, rates[at] / 3 if losses[0] - losses[at] > FLAT * losses[0] else None
