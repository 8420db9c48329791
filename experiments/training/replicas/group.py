"""The training loop of a group: `train.py` for several runs at once. Read `train_together` top to bottom.

Replicas may stand at different steps (some were interrupted earlier), end at different steps, stop early or diverge:
each takes its own batch, learning rate and dropout stream at its own step, and leaves the stack when it is over.
On a GPU the host reads losses once in a window of steps, so that it can run ahead of the device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from experiments.seeds import stream_seed
from experiments.tasks import Batch
from experiments.training.forward import moved
from experiments.training.outcome import conclude
from experiments.training.replicas.assemble import assembled
from experiments.training.replicas.batches import stacked
from experiments.training.replicas.evaluate import scores_together
from experiments.training.replicas.stack import Stack
from experiments.training.session import Session, Watchers
from experiments.training.step import StepResult
from experiments.training.train import (
    Interrupted,
    checkpoint_due,
    count,
    log_step,
    looked_at,
    moment,
    save,
    validate,
    validation_due,
)

WINDOWS = {"cuda": 16}  # steps between two looks at the losses; elsewhere looking costs nothing
Ended = Callable[[Session, dict[str, Any]], None]


@dataclass
class Group:
    """The replicas that still train, in the order of the stack's rows; `mark` is when time was last shared out."""

    runs: list[Session]
    stack: Stack
    mark: float

    def share(self) -> None:
        """Time that went by since the last call counts in equal shares, not once for each run."""
        now = time.perf_counter()
        for run in self.runs:
            run.began += (now - self.mark) * (1 - 1 / len(self.runs))
        self.mark = now

    def hand_back(self, run: Session) -> None:
        """Brings a run's own model and optimiser up to date."""
        self.stack.hand_back(self.runs.index(run), run.model, run.optimiser)

    def drop(self, gone: Sequence[Session]) -> None:
        """Goes on without some of the runs."""
        rows = [row for row, run in enumerate(self.runs) if run not in gone]
        self.runs = [self.runs[row] for row in rows]
        if gone and rows:
            self.stack = self.stack.rows(rows)


def train_together(
    runs: Sequence[Session], watchers: Watchers, ended: Ended, lost: Callable[[Session], bool] = lambda run: False
) -> None:
    """Trains sessions of one shape until each is over; `ended` is told of each as soon as it is.

    Args:
        runs: as `prepare` made them, with mirrors of their own. watchers: of the group; its mirrors are not used.
        ended: takes a session and what `train` would have returned for it.
        lost: asked often; True = the run has another owner now, and nothing of it is written any more.

    Raises:
        NotTogether: they cannot be stacked. Interrupted: every run that is not over has a checkpoint.
    """
    group = Group(list(runs), assembled(runs), _shared_start(runs))
    saved = told = time.monotonic()
    while group.runs:
        result = advance(group)
        group.drop([run for run in group.runs if lost(run)])
        if group.runs and time.monotonic() - told > watchers.progress_seconds:
            told = time.monotonic()
            watchers.on_progress(moment(group.runs[0], result))
        _conclude(group, ended)
        stop = bool(group.runs) and watchers.should_stop()
        if stop or any(checkpoint_due(run, watchers, saved) for run in group.runs):
            saved = time.monotonic()
            _save(group)
        if stop:
            raise Interrupted(f"stopped with {len(group.runs)} runs of a group unfinished")


def advance(group: Group) -> StepResult:
    """A window of steps, and what the host does with their losses. Returns the first replica's last step."""
    began, window = time.perf_counter(), _window(group)
    steps = [_step(group, ahead) for ahead in range(window)]
    read = torch.stack([found for found, _ in steps]).tolist()  # the one synchronisation of a window
    seconds = (time.perf_counter() - began) / window / len(group.runs)
    results: list[StepResult] = []
    for ahead, ((losses, norms), (_, tokens)) in enumerate(zip(read, steps, strict=True)):
        going = [run for run in group.runs if not run.over]
        results = [_result(run, *pair) for run, *pair in zip(group.runs, losses, norms, strict=True)]
        for run, result, n in zip(group.runs, results, tokens, strict=True):
            if run in going:
                count(run, result, n, seconds)
        group.share()
        validated = _validate(group, going) if ahead == window - 1 else []
        for run, result in zip(group.runs, results, strict=True):
            if run in going:
                if looked_at(run, run in validated):
                    group.hand_back(run)
                log_step(run, result, run in validated)
    return results[0]


def _window(group: Group) -> int:
    """How many steps until the host must look: a validation is due, or a run ends, or the losses have waited enough."""
    most = WINDOWS.get(group.stack.recipe.device.partition(":")[0], 1)
    trains = [(run.config.train, run.progress.step) for run in group.runs]
    return min(most, *(min(t.eval_every - step % t.eval_every, t.steps - step) for t, step in trains))


def _step(group: Group, ahead: int) -> tuple[Tensor, list[int]]:
    """Every replica's step `progress.step + ahead`; (2, R) losses and norms, and the tokens that each read."""
    runs, places = group.runs, [run.progress.step + ahead for run in group.runs]
    batches = [_batch(run, step) for run, step in zip(runs, places, strict=True)]
    keys = [stream_seed(run.config.seed, "dropout", step) for run, step in zip(runs, places, strict=True)]
    device = group.stack.recipe.device
    found = group.stack.step(
        moved(stacked(batches, runs[0].task.pad_id), device), torch.tensor(keys, device=device),
        [run.schedule.lr(step + 1) for run, step in zip(runs, places, strict=True)], runs[0].config.train.accumulate,
    )
    return found, [batch.inputs.numel() for batch in batches]


def _batch(run: Session, step: int) -> Batch:
    train = run.config.train
    return run.task.train_batch(run.config.seed, 0 if train.overfit_one_batch else step, train.batch_size)


def _result(run: Session, loss: float, norm: float) -> StepResult:
    clip = run.config.train.clip
    return StepResult(loss, norm, clip is not None and norm > clip)


def _validate(group: Group, runs: Sequence[Session]) -> list[Session]:
    """Scores the runs whose validation is due, together where that is possible; which they were."""
    due = [run for run in runs if validation_due(run)]
    if due:
        found = _scores(group, due, [run.validation for run in due], "validation")
        group.share()
        for run, scores in zip(due, found, strict=True):
            validate(run, scores)
    return due


def _scores(group: Group, runs: list[Session], sets: list[Any], split: Any) -> list[dict[str, float]]:
    rows, task = [group.runs.index(run) for run in runs], runs[0].task
    found = scores_together(
        group.stack.rows(rows), sets, split, sequences=task.sequence_metrics, pad_id=task.pad_id
    )
    if found is not None:
        return found
    for run in runs:
        group.hand_back(run)
    return [run.score(own, split) for run, own in zip(runs, sets, strict=True)]


def _conclude(group: Group, ended: Ended) -> None:
    """Ends the runs that are over, with test scores of those that did not diverge."""
    over = [run for run in group.runs if run.over]
    sets = {run.run_hash: run.task.evaluations("test", run.config.seed) for run in over}
    sound = [run for run in over if run.diverged is None]
    found = _scores(group, sound, [sets[run.run_hash] for run in sound], "test") if sound else []
    tested = {run.run_hash: scores for run, scores in zip(sound, found, strict=True)}
    for run in over:
        group.hand_back(run)
        group.share()
        ended(run, conclude(run, sets[run.run_hash], tested.get(run.run_hash)))
    group.drop(over)


def _save(group: Group) -> None:
    for run in group.runs:
        group.hand_back(run)
        save(run)


def _shared_start(runs: Sequence[Session]) -> float:
    """Preparing them one after another took time, of which each has an equal share. Returns now."""
    now = time.perf_counter()
    share = (now - runs[0].began - runs[0].progress.seconds) / len(runs)
    for run in runs:
        run.began = now - run.progress.seconds - share
        run.replicas = len(runs)
    return now
