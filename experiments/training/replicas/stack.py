"""R models of one shape as one: their parameters lie in a matrix (R, P), one forward and backward pass trains them all.

vmap turns the model's own forward into one over stacked parameters; the backward pass is torch's ordinary one, since
the loss of a replica depends on no other's weights. R replicas, P parameters, B batch, L positions, V vocabulary.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import vmap

from experiments.config import TrainConfig
from experiments.tasks import IGNORE, Batch
from experiments.training.forward import arguments, each, precision_context
from experiments.training.loss import token_losses
from experiments.training.replicas.fold import Folded
from experiments.training.replicas.optimiser import Moments, Rates, update
from experiments.training.step import Recipe
from transformer.stateless import call, places


class NotTogether(Exception):
    """These models cannot be stacked; they can be trained one by one."""


@dataclass(frozen=True)
class Part:
    """Where a parameter lies in a row: columns `start` to `start` + its size."""

    name: str
    shape: torch.Size
    start: int

    def of(self, matrix: Tensor) -> Tensor:
        """The parameter in every row, (R, *shape), sharing memory."""
        return matrix[:, self.start : self.start + math.prod(self.shape)].view(len(matrix), *self.shape)


class Stack:
    """What is trained together, and the one step that does it.

    Args:
        models, optimisers: of the replicas, as a separate run would hold them; only read.
        trains: their settings.
        recipe: device, precision and smoothing, which they share; its clip is not used.
        reached: names of the parameters that a backward pass gives a gradient; others stay as they are.

    Raises:
        NotTogether: the models keep state beside their parameters.
    """

    def __init__(
        self, models: Sequence[nn.Module], optimisers: Sequence[torch.optim.Optimizer], trains: Sequence[TrainConfig],
        recipe: Recipe, reached: set[str],
    ) -> None:
        self.template, self.recipe = copy.deepcopy(models[0]), recipe
        _without_state(self.template)
        self.places = places(self.template)
        owned = [dict(model.named_parameters()) for model in models]
        moving = sorted((n for n, p in owned[0].items() if n in reached), key=lambda n: owned[0][n].dim() < 2)
        self.parts, self.width, self.decayed = _laid_out([(n, owned[0][n]) for n in moving])
        self.weights = torch.stack([_row(own[part.name] for part in self.parts) for own in owned])
        still = [n for n in owned[0] if n not in reached]
        self.still = {n: torch.stack([own[n].detach() for own in owned]) for n in still}
        self.rates = Rates.of(trains, recipe.device)
        self.moments = self._moments(owned, optimisers)
        self.alive = torch.ones(len(models), 1, dtype=torch.bool, device=self.weights.device)
        self._spread()

    def __len__(self) -> int:
        return len(self.weights)

    def step(self, batch: Batch, keys: Tensor, lr: Sequence[float], parts: int = 1) -> Tensor:
        """One optimiser step of every replica.

        Args:
            batch: stacked, (R, B, L), on the device. parts: micro-batches that it is cut into.
            keys: int64 (R,), dropout streams of this step. lr: learning rates of this step.

        Returns:
            (2, R): loss in nats per asked token, and gradient norm before clipping. From where one is not finite on,
            the replica's weights are left as they were.
        """
        asked = (batch.targets != IGNORE).flatten(1).sum(1).clamp_min(1)
        total, gradient, folded = asked.new_zeros(len(self), dtype=torch.float32), None, Folded()
        for micro in _split(batch, parts):
            loss = self._losses(self.logits(micro, keys, folded), micro.targets) / asked
            found = self._gradient(loss.sum())
            gradient = found if gradient is None else gradient.add_(found)
            total += loss.detach()
        assert gradient is not None
        norm = torch.linalg.vector_norm(gradient, dim=1)
        self.alive &= (total.isfinite() & norm.isfinite())[:, None]
        rates = torch.tensor(lr, dtype=torch.float64, device=self.weights.device)[:, None]
        with torch.no_grad():
            update(
                self.weights, gradient, norm[:, None], self.alive, lr=rates, rates=self.rates,
                moments=self.moments, decayed=self.decayed,
            )
        return torch.stack([total, norm])

    def logits(self, batch: Batch, keys: Tensor, folded: Folded | None = None) -> Tensor:
        """(R, B, L, V), or (R, B, V) of classifiers; in the mode (train, eval) of the template."""
        folded = folded or Folded()
        given = arguments(batch)
        present = tuple(tensor for tensor in given if tensor is not None)

        def one(parameters: dict[str, Tensor], tensors: tuple[Tensor, ...], key: Tensor) -> Tensor:
            folded.key, left = key, iter(tensors)
            own = tuple(None if tensor is None else next(left) for tensor in given)
            logits: Tensor = call(self.template, self.places, parameters, own)
            return logits

        with precision_context(self.recipe.precision, self.recipe.device), folded:
            logits: Tensor = vmap(one)({**self.leaves, **self.still}, present, keys)
        return logits

    def hand_back(self, row: int, model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        """Copies a replica to the model and optimiser of its own run, where they are evaluated and saved."""
        own = dict(model.named_parameters())
        for part in self.parts:
            mine = own[part.name]
            mine.data.copy_(part.of(self.weights)[row])
            if self.moments.steps[row] > 0:
                optimiser.state[mine] = {
                    "step": self.moments.steps[row].float().reshape(()).clone(),
                    "exp_avg": part.of(self.moments.mean)[row].clone(),
                    "exp_avg_sq": part.of(self.moments.square)[row].clone(),
                }

    def rows(self, rows: Sequence[int]) -> Stack:
        """A stack of some of the replicas; itself when those are all."""
        if list(rows) == list(range(len(self))):
            return self
        index, some = torch.tensor(rows, device=self.weights.device), copy.copy(self)
        some.weights, some.still = self.weights[index], {n: t[index] for n, t in self.still.items()}
        some.rates, some.moments, some.alive = self.rates.rows(index), self.moments.rows(index), self.alive[index]
        some._spread()
        return some

    def _spread(self) -> None:
        """Leaves for autograd, all of them views of the one matrix."""
        self.leaves = {part.name: part.of(self.weights).detach().requires_grad_() for part in self.parts}

    def _moments(
        self, owned: Sequence[dict[str, nn.Parameter]], optimisers: Sequence[torch.optim.Optimizer]
    ) -> Moments:
        found = Moments(
            torch.zeros_like(self.weights), torch.zeros_like(self.weights),
            torch.zeros(len(owned), 1, dtype=torch.float64, device=self.weights.device),
        )
        for row, (own, optimiser) in enumerate(zip(owned, optimisers, strict=True)):
            for part in self.parts:
                state = optimiser.state.get(own[part.name])
                if state:
                    part.of(found.mean)[row] = state["exp_avg"]
                    part.of(found.square)[row] = state["exp_avg_sq"]
                    found.steps[row] = float(state["step"])
        return found

    def _gradient(self, loss: Tensor) -> Tensor:
        found = torch.autograd.grad(loss, list(self.leaves.values()))
        return torch.cat([gradient.flatten(1) for gradient in found], dim=1)

    def _losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Summed loss of every replica, (R,); see loss.py."""
        return token_losses(logits, targets, smoothing=self.recipe.smoothing).flatten(1).sum(1)


def _row(parameters: Iterable[Tensor]) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in parameters])


def _laid_out(parameters: Sequence[tuple[str, Tensor]]) -> tuple[list[Part], int, int]:
    """Places of the parameters, matrices first; how wide a row is, and how much of it is matrices."""
    parts, at, decayed = [], 0, 0
    for name, parameter in parameters:
        parts.append(Part(name, parameter.shape, at))
        at += parameter.numel()
        decayed = at if parameter.dim() >= 2 else decayed
    return parts, at, decayed


def _without_state(model: nn.Module) -> None:
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    state = sorted(model.state_dict().keys() - parameters)
    if state:
        raise NotTogether(f"{state[0]} changes while the model trains and is no parameter")


def _split(batch: Batch, parts: int) -> list[Batch]:
    """Micro-batches: the rows (axis 1) of every replica in equal parts."""
    rows = batch.inputs.shape[1] // parts
    return [each(batch, _rows(slice(part * rows, (part + 1) * rows))) for part in range(parts)]


def _rows(rows: slice) -> Callable[[Tensor], Tensor]:
    return lambda tensor: tensor[:, rows]
