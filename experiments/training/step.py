"""One optimiser step: forward and backward over its micro-batches, clip, update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from experiments.tasks import Batch
from experiments.training.forward import Precision, each, logits_of, precision_context
from experiments.training.loss import asked_tokens, summed_loss
from experiments.training.optimisers import set_rate
from experiments.training.sampling import coins, mixed


@dataclass(frozen=True)
class Recipe:
    """What stays the same over the steps of a run.

    Attributes:
        clip: largest global gradient norm; None = no clipping.
        smoothing: label smoothing. precision, device: of the forward pass.
    """

    clip: float | None = None
    smoothing: float = 0.0
    precision: Precision = "fp32"
    device: str = "cpu"


@dataclass(frozen=True)
class StepResult:
    """What a step reports: loss (nats per asked token, as trained), gradient norm before clipping, clipped or not."""

    loss: float
    grad_norm: float
    clipped: bool


def take_step(
    model: nn.Module, optimiser: torch.optim.Optimizer, micro_batches: Sequence[Batch], recipe: Recipe, *, lr: float,
    teacher_forcing: float = 1.0, generator: torch.Generator | None = None,
    watch: AbstractContextManager[object] | None = None,
) -> StepResult:
    """One update from micro-batches of any lengths, equal to the update from all of them in one batch.

    Args:
        micro_batches: on the recipe's device.
        lr: the learning rate of this step.
        teacher_forcing: chance that an input is the gold one; below 1 a first pass without gradients answers before
            the second, and `generator` (CPU) throws the coins.
        watch: entered around the first forward pass.

    Returns:
        The loss and norm; when one is not finite the weights are left as they were.
    """
    optimiser.zero_grad(set_to_none=True)
    asked = max(1, sum(asked_tokens(batch.targets) for batch in micro_batches))
    total = torch.zeros((), device=recipe.device)
    for batch in micro_batches:
        if teacher_forcing < 1.0 and generator is not None:
            batch = _sampled(model, batch, recipe, teacher_forcing, generator)
        with watch or nullcontext():
            loss = loss_of(model, batch, recipe) / asked
        watch = None
        torch.autograd.backward(loss)
        total = total + loss.detach()
    return _update(optimiser, total, recipe.clip, lr)


def split(batch: Batch, parts: int) -> list[Batch]:
    """The rows of a batch in `parts` equal micro-batches."""
    if parts == 1:
        return [batch]
    return [each(batch, _part(part, len(batch) // parts)) for part in range(parts)]


def _part(part: int, rows: int) -> Callable[[Tensor], Tensor]:
    return lambda tensor: tensor[part * rows : (part + 1) * rows]


def loss_of(model: nn.Module, batch: Batch, recipe: Recipe) -> Tensor:
    """Summed training loss of a batch, nats."""
    with precision_context(recipe.precision, recipe.device):
        logits = logits_of(model, batch)
    return summed_loss(logits, batch.targets, smoothing=recipe.smoothing)


def _sampled(
    model: nn.Module, batch: Batch, recipe: Recipe, chance: float, generator: torch.Generator
) -> Batch:
    # eval mode: what the model would say when used. An autocast of its own: weights cast without gradients must not
    # be reused by the pass that needs them.
    model.eval()
    with torch.no_grad(), precision_context(recipe.precision, recipe.device):
        predicted = logits_of(model, batch).argmax(-1)
    model.train()
    return mixed(batch, predicted, coins(batch, chance, generator))


def _update(optimiser: torch.optim.Optimizer, loss: Tensor, clip: float | None, lr: float) -> StepResult:
    parameters = [p for group in optimiser.param_groups for p in group["params"] if p.grad is not None]
    norm = nn.utils.get_total_norm([p.grad for p in parameters])
    total, length = torch.stack([loss, norm]).tolist()  # the one synchronisation of a step
    clipped = clip is not None and length > clip
    if _finite(total, length):
        if clip is not None and clipped:
            nn.utils.clip_grads_with_norm_(parameters, clip, norm)
        set_rate(optimiser, lr)
        optimiser.step()
    return StepResult(total, length, clipped)


def _finite(*values: float) -> bool:
    return all(value - value == 0 for value in values)
