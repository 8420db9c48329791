"""One run, from initial weights to scores. Read `train` top to bottom.

What is reported: the test scores at the last step, or at the step where early stopping ended the run, and the
validation scores of the same weights beside them. The best validation and its step are recorded, but no table picks
them, since a minimum over many validations flatters noisy variants.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.config import RunConfig
from experiments.records import CHECKPOINT
from experiments.seeds import seed_dropout, torch_stream
from experiments.training.checkpoint import save_checkpoint
from experiments.training.divergence import finite, score_trouble, step_trouble
from experiments.training.forward import moved
from experiments.training.memory import Kept
from experiments.training.outcome import conclude
from experiments.training.session import Moment, Session, Watchers, prepare
from experiments.training.step import StepResult, split, take_step

NOBODY = Watchers()
LOGGED_STEPS = 500  # a longer run logs every second, third ... step, so that no file grows without bound


class Interrupted(Exception):
    """Asked to stop; the checkpoint is written and the same call goes on from it."""


def train(
    config: RunConfig, directory: Path, *, run_hash: str, device: str = "cpu", watchers: Watchers = NOBODY,
) -> dict[str, Any]:
    """Trains a run in its directory, going on from a checkpoint of it if there is one.

    On CPU with one thread every number is a function of `config` alone: same command, same bits, interrupted or not.

    Args:
        config: what to train. run_hash: its identity; a checkpoint with another is not used.
        directory: exists; metrics.jsonl, checkpoint.pt and weights.safetensors are written in it.
        device: `cpu`, `cuda`, `cuda:1`, `mps`.

    Returns:
        status, metrics, lengths, cost, diverged, stopped_early, best, loss_floor, clipped_share, metrics_sha256:
        the part of result.json that training knows. A run that diverges returns like any other.

    Raises:
        Interrupted: `should_stop` said so.
        Overlap: an evaluation example occurs in training.
        OSError: the disk is full or the directory cannot be written.
    """
    run = prepare(config, directory, run_hash, device, watchers)
    saved = told = time.monotonic()
    while not run.over:
        result = one_step(run)
        validated = validation_due(run)
        if validated:
            validate(run, run.score(run.validation, "validation"))
        log_step(run, result, validated)
        if validated or time.monotonic() - told > watchers.progress_seconds:
            told = time.monotonic()
            watchers.on_progress(moment(run, result))
        stop = not run.over and watchers.should_stop()
        if stop or checkpoint_due(run, watchers, saved):
            saved = time.monotonic()
            save(run)
        if stop:
            raise Interrupted(f"stopped at step {run.progress.step} of {config.train.steps}")
    return conclude(run)


def one_step(run: Session) -> StepResult:
    """Step `progress.step`, counted from 0 for data and from 1 for schedules and logs."""
    train, seed, step = run.config.train, run.config.seed, run.progress.step
    began = time.perf_counter()
    seed_dropout(seed, step, device=run.recipe.device)
    batch = run.task.train_batch(seed, 0 if train.overfit_one_batch else step, train.batch_size)
    forcing = 1.0 if run.sampling is None else run.sampling.teacher_forcing(step)
    kept = Kept(run.model) if step == 0 else None
    result = take_step(
        run.model, run.optimiser, split(moved(batch, run.recipe.device), train.accumulate), run.recipe,
        lr=run.schedule.lr(step + 1), teacher_forcing=forcing,
        generator=torch_stream(seed, "sampling", step) if forcing < 1 else None, watch=kept,
    )
    count(run, result, len(batch) * batch.inputs.shape[1], time.perf_counter() - began)
    if kept is not None:
        run.progress.length, run.progress.saved_bytes = batch.inputs.shape[1], kept.nbytes()
    return result


def count(run: Session, result: StepResult, tokens: int, seconds: float) -> None:
    """Adds a step to what the run has counted, and asks whether it is still sane."""
    progress = run.progress
    progress.step += 1
    progress.tokens += tokens
    progress.clipped += result.clipped
    progress.train_seconds += seconds
    run.diverged = step_trouble(progress.step, result.loss, result.grad_norm, progress)


def validation_due(run: Session) -> bool:
    """At every `eval_every` steps, and at the last step whatever its number."""
    step, train = run.progress.step, run.config.train
    return run.diverged is None and (step % train.eval_every == 0 or step >= train.steps)


def validate(run: Session, scores: Mapping[str, float]) -> None:
    """Takes scores on validation; notes the best, and stops after `patience` validations without a better loss."""
    progress = run.progress
    run.diverged = score_trouble(progress.step, scores)
    if run.diverged is not None:
        return
    progress.scores = finite(scores)
    loss = scores.get("validation/loss", progress.best_loss)
    if loss < progress.best_loss:
        progress.best_loss, progress.best_step, progress.worse = loss, progress.step, 0
        return
    progress.worse += 1
    patience = run.config.train.patience
    run.stopped_early = patience is not None and progress.worse >= patience


def log_step(run: Session, result: StepResult, validated: bool) -> None:
    """A row of this step's own numbers, at every validation and at LOGGED_STEPS places of the run."""
    step, steps = run.progress.step, run.config.train.steps
    if not (validated or run.over or step == 1 or step % math.ceil(steps / LOGGED_STEPS) == 0):
        return
    row = {
        "step": step, "seconds": run.seconds(), "train/loss": result.loss, "train/lr": run.schedule.lr(step),
        "train/grad_norm": result.grad_norm, **(run.progress.scores if validated and not run.diverged else {}),
    }
    run.write(row)
    if looked_at(run, validated):
        run.look()
    if validated:
        run.metrics.flush()
        run.mirrors.flush()


def looked_at(run: Session, validated: bool) -> bool:
    """Layers are recorded with every validation, and where a run diverges."""
    return run.recorder is not None and (validated or run.over)


def checkpoint_due(run: Session, watchers: Watchers, saved: float) -> bool:
    """By the clock, or by the count of steps; not at the end, which is written down at once."""
    if run.over:
        return False
    every, wait = watchers.checkpoint_steps, watchers.checkpoint_seconds
    by_steps = every is not None and run.progress.step % every == 0
    return by_steps or (wait is not None and time.monotonic() - saved > wait)


def save(run: Session) -> None:
    """Metrics first, then the checkpoint that knows how long they are."""
    run.metrics.flush(sync=True)
    if run.recorder is not None:
        run.recorder.rows.flush(sync=True)
    run.progress.metrics_bytes, run.progress.seconds = run.metrics.size, run.seconds()
    save_checkpoint(run.directory / CHECKPOINT, run.run_hash, run.model, run.optimiser, run.progress)


def moment(run: Session, result: StepResult) -> Moment:
    """What a progress display shows."""
    progress = run.progress
    speed = progress.tokens / max(progress.train_seconds, 1e-9)
    return Moment(progress.step, run.config.train.steps, result.loss, speed, progress.scores)
