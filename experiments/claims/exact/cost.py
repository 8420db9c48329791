"""Time of one part against another, in turn, on the kernels that training uses."""

from __future__ import annotations

import torch
from torch import Tensor

from experiments.claims.exact.models import normal, timed
from experiments.claims.measured import Repeats
from transformer.slots import NORM
from transformer.spec import Dims, Spec

ROWS, LENGTH, WIDTH, REPEATS, INNER = 16, 128, 256, 40, 4


def norms() -> list[Repeats]:
    """Forward and backward of RMSNorm over that of LayerNorm."""
    dims = Dims(WIDTH, 4, n_layers=1, d_ff=1, vocab_size=1, max_len=LENGTH)
    rms, layer = (NORM.build(Spec(name), dims) for name in ("rmsnorm", "layernorm"))
    x_BLD = normal(ROWS, LENGTH, WIDTH).requires_grad_()
    pairs = [_pair(rms, layer, x_BLD) for _ in range(REPEATS + 3)][3:]  # the first calls pay for the warm-up
    a, b = (tuple(column) for column in zip(*pairs, strict=True))
    return [Repeats("time", "time of RMSNorm over LayerNorm, forward and backward", a, b)]


def _pair(rms: torch.nn.Module, layer: torch.nn.Module, x_BLD: Tensor) -> tuple[float, float]:
    return timed(lambda: _pass(rms, x_BLD)), timed(lambda: _pass(layer, x_BLD))


def _pass(norm: torch.nn.Module, x_BLD: Tensor) -> None:
    for _ in range(INNER):
        torch.autograd.backward(norm(x_BLD).sum())
