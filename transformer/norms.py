"""Normalisation. Statistics in float32 at least, result in the dtype of the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.slots import NORM, Norm
from transformer.spec import Dims, NotNegative, Share


@NORM.register("layernorm", paper="arXiv:1607.06450")
class LayerNorm(Norm):
    """(x - mean) / sqrt(var + eps) * weight + bias, with the biased variance."""

    def __init__(self, dims: Dims, *, eps: NotNegative = 1e-5) -> None:
        super().__init__(dims)
        self.eps, self.shape = eps, (dims.d_model,)
        self.weight = nn.Parameter(torch.ones(dims.d_model))
        self.bias = nn.Parameter(torch.zeros(dims.d_model)) if dims.bias else None

    def forward(self, x_BLD: Tensor) -> Tensor:
        return F.layer_norm(x_BLD, self.shape, self.weight, self.bias, self.eps).to(x_BLD.dtype)


@NORM.register("rmsnorm", paper="arXiv:1910.07467", added=("rounds",))
class RMSNorm(Norm):
    """x / sqrt(mean(x^2) + eps) * weight

    Args:
        rounds: where half precision comes back: at the `end`, or before the `gain` (the multiplication by weight), as
            in public LLaMA and T5 code. The same in float32 but for the last bit.
    """

    def __init__(self, dims: Dims, *, eps: NotNegative = 1e-6, rounds: Literal["end", "gain"] = "end") -> None:
        super().__init__(dims)
        self.eps, self.shape, self.normed = eps, (dims.d_model,), ROUNDS[rounds]
        self.weight = nn.Parameter(torch.ones(dims.d_model))

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.normed(x_BLD, self.shape, self.weight, self.eps)


def round_at_the_end(x_BLD: Tensor, shape: tuple[int, ...], weight: Tensor, eps: float) -> Tensor:
    """In float32 up to the gain included."""
    precise = torch.promote_types(x_BLD.dtype, torch.float32)  # 300^2 overflows float16
    return F.rms_norm(x_BLD.to(precise), shape, weight.to(precise), eps).to(x_BLD.dtype)


def round_before_the_gain(x_BLD: Tensor, shape: tuple[int, ...], weight: Tensor, eps: float) -> Tensor:
    """In float32 without the gain."""
    precise = torch.promote_types(x_BLD.dtype, torch.float32)
    return F.rms_norm(x_BLD.to(precise), shape, None, eps).to(x_BLD.dtype) * weight.to(x_BLD.dtype)


ROUNDS: dict[str, Callable[[Tensor, tuple[int, ...], Tensor, float], Tensor]] = {
    "end": round_at_the_end, "gain": round_before_the_gain,
}


@NORM.register("none")
class NoNorm(Norm):
    """x"""

    def forward(self, x_BLD: Tensor) -> Tensor:
        return x_BLD


@NORM.register("batchnorm", paper="arXiv:1502.03167")
class BatchNorm(Norm):
    """(x - mean) / sqrt(var + eps) * weight + bias, over batch and positions of each feature; running averages in eval.

    A cautionary contrast: in training, position t is normalised with the positions after it, padding included.
    Recomputed activations count twice in the running averages.
    """

    mixes_positions: ClassVar[bool] = True
    mean: Tensor
    variance: Tensor

    def __init__(self, dims: Dims, *, eps: NotNegative = 1e-5, momentum: Share = 0.1) -> None:
        super().__init__(dims)
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(dims.d_model))
        self.bias = nn.Parameter(torch.zeros(dims.d_model)) if dims.bias else None
        self.register_buffer("mean", torch.zeros(dims.d_model))
        self.register_buffer("variance", torch.ones(dims.d_model))

    def forward(self, x_BLD: Tensor) -> Tensor:
        rows, averages = x_BLD.flatten(0, 1), (self.mean, self.variance)
        normed = F.batch_norm(rows, *averages, self.weight, self.bias, self.training, self.momentum, self.eps)
        return normed.view_as(x_BLD).to(x_BLD.dtype)
