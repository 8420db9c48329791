"""AdamW for replicas side by side: every row of a matrix is the parameters of one. R replicas, P parameters.

Equal to torch's AdamW (decoupled decay, eps 1e-8) and to clipping by the global norm, row by row, but for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from experiments.config import TrainConfig

EPS = 1e-8


@dataclass
class Rates:
    """What is a number in a separate run is a column here, (R, 1): one value a replica."""

    weight_decay: Tensor
    beta1: Tensor
    beta2: Tensor
    clip: Tensor

    @classmethod
    def of(cls, trains: Sequence[TrainConfig], device: str) -> Rates:
        """The columns of several runs; no clipping is clipping at infinity."""
        def column(values: list[float]) -> Tensor:
            return torch.tensor(values, dtype=torch.float64, device=device)[:, None]

        return cls(
            column([t.weight_decay for t in trains]), column([t.beta1 for t in trains]),
            column([t.beta2 for t in trains]), column([float("inf") if t.clip is None else t.clip for t in trains]),
        )

    def rows(self, index: Tensor) -> Rates:
        """The columns of some of the replicas."""
        return Rates(*(getattr(self, field.name)[index] for field in fields(self)))


@dataclass
class Moments:
    """What AdamW remembers: running means of the gradient and of its square (R, P), and steps taken, float64 (R, 1)."""

    mean: Tensor
    square: Tensor
    steps: Tensor

    def rows(self, index: Tensor) -> Moments:
        """Those of some of the replicas."""
        return Moments(self.mean[index], self.square[index], self.steps[index])


def update(
    weights: Tensor, gradient: Tensor, norm: Tensor, well: Tensor, *, lr: Tensor, rates: Rates, moments: Moments,
    decayed: int,
) -> None:
    """One step of every replica, in place.

    Args:
        weights, gradient: (R, P). norm: (R, 1), of the gradient before clipping.
        well: bool (R, 1); False = leave the replica's weights as they are, whatever its gradient holds.
        lr: float64 (R, 1). decayed: how many parameters, from the left, weight decay is for.
    """
    lr, factor = torch.where(well, lr, 0.0), _clipping(norm, rates.clip)
    gradient.mul_(factor.float()).masked_fill_(~well, 0.0)  # NaN times 0 would be NaN
    moments.steps += well
    taken = moments.steps.clamp_min(1)
    weights[:, :decayed].mul_((1 - lr * rates.weight_decay).float())
    moments.mean.lerp_(gradient, (1 - rates.beta1).float())
    moments.square.mul_(rates.beta2.float()).addcmul_(gradient * (1 - rates.beta2).float(), gradient)
    root = (1 - rates.beta2**taken).sqrt().float()
    size = (lr / (1 - rates.beta1**taken)).float()
    weights.sub_((moments.mean / moments.square.sqrt().div_(root).add_(EPS)).mul_(size))


def _clipping(norm: Tensor, clip: Tensor) -> Tensor:
    return torch.where(norm > clip, (clip / (norm + 1e-6)).clamp_max(1.0), 1.0)
