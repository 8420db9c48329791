"""From sessions to a stack: what a separate step would keep in memory, and which parameters it would reach."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from experiments.training.forward import moved
from experiments.training.memory import Kept
from experiments.training.replicas.stack import NotTogether, Stack
from experiments.training.session import Session
from experiments.training.step import loss_of, split


def assembled(runs: Sequence[Session]) -> Stack:
    """The stack of these sessions, at the steps where they stand.

    Raises:
        NotTogether: they cannot be stacked.
    """
    first = runs[0]
    if first.sampling is not None or first.config.train.checkpoint_activations:
        raise NotTogether("scheduled sampling and recomputed activations need a pass of their own for each run")
    sizes: dict[int, int] = {}
    for run in runs:
        if run.progress.step == 0:
            _measure(run, sizes)
    reached = _reached(first)
    models, optimisers = [run.model for run in runs], [run.optimiser for run in runs]
    return Stack(models, optimisers, [run.config.train for run in runs], first.recipe, reached)


def _measure(run: Session, sizes: dict[int, int]) -> None:
    """Notes what a separate run would have noted at its first step: its memory must not depend on the company."""
    length = run.task.train_batch(run.config.seed, 0, run.config.train.batch_size).inputs.shape[1]
    if length not in sizes:
        kept = Kept(run.model)
        _first_loss(run, kept)
        sizes[length] = kept.nbytes()
    run.progress.length, run.progress.saved_bytes = length, sizes[length]


def _reached(run: Session) -> set[str]:
    """The parameters that get a gradient: an optimiser leaves the others alone, weight decay included."""
    _first_loss(run, nullcontext(), backward=True)
    found = {name for name, parameter in run.model.named_parameters() if parameter.grad is not None}
    run.optimiser.zero_grad(set_to_none=True)
    return found


def _first_loss(run: Session, watch: AbstractContextManager[object], *, backward: bool = False) -> None:
    train = run.config.train
    batch = moved(run.task.train_batch(run.config.seed, 0, train.batch_size), run.recipe.device)
    with watch:
        loss = loss_of(run.model, split(batch, train.accumulate)[0], run.recipe)
    if backward:
        loss.backward()  # type: ignore[no-untyped-call]
