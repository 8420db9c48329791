"""Is a step over micro-batches the step over the whole batch?"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from experiments.claims.exact.models import gradients, model, relative_error, tokens
from experiments.claims.measured import Value
from experiments.tasks.task import IGNORE, Batch
from experiments.training.loss import asked_tokens, summed_loss
from experiments.training.step import Recipe, split, take_step

VOCAB, LENGTH, ROWS, PARTS = 16, 16, 8, 4
SAME, DIFFERENT = 1e-5, 1e-2


def equals_batch() -> list[Value]:
    """Relative error of the gradient against the whole batch's, for rows of equal and of different lengths."""
    found = []
    for words, batch in (("equal lengths", _batch(equal=True)), ("different lengths", _batch(equal=False))):
        whole = _weighted(batch, 1)
        error, naive = relative_error(_weighted(batch, PARTS), whole), relative_error(_mean_of_means(batch), whole)
        found.append(Value("token-weighted", f"{words}: gradient error", error, high=SAME))
        bounds = {"high": SAME} if words == "equal lengths" else {"low": DIFFERENT}
        found.append(Value("mean-of-means", f"{words}: gradient error", naive, **bounds))
    return found


def _batch(*, equal: bool) -> Batch:
    rows = tokens(ROWS, LENGTH + 1, VOCAB, "accumulation")
    targets = rows[:, 1:].clone()
    if not equal:
        lengths = torch.tensor([2, 16, 3, 15, 1, 12, 2, 16])
        targets[torch.arange(LENGTH) >= lengths[:, None]] = IGNORE
    return Batch(rows[:, :-1].contiguous(), targets)


def _weighted(batch: Batch, parts: int) -> Tensor:
    """The gradient that training itself takes."""
    made = _model()
    optimiser = torch.optim.SGD(made.parameters(), lr=0.0)
    take_step(made, optimiser, split(batch, parts), Recipe(), lr=0.0)
    return gradients(made)


def _mean_of_means(batch: Batch) -> Tensor:
    """The gradient of the mean over micro-batches of their mean losses, as libraries long did it."""
    made = _model()
    for part in split(batch, PARTS):
        loss = summed_loss(made(part.inputs), part.targets) / asked_tokens(part.targets) / PARTS
        torch.autograd.backward(loss)
    return gradients(made)


def _model() -> nn.Module:
    return model(VOCAB, LENGTH)
