"""Sines and cosines of geometrically spaced frequencies."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from transformer.positional.tables import FixedTable, positions
from transformer.slots import POSITIONAL, Positional
from transformer.spec import Dims, NotNegative


def sinusoid(n: int, d_model: int) -> Tensor:
    """float64 (n, D): [p, 2i] = sin(p w_i), [p, 2i + 1] = cos(p w_i), w_i = 10000^(-2i / D); odd D ends in a sine."""
    frequencies = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = positions(n) * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]


@POSITIONAL.register("sinusoidal", paper="arXiv:1706.03762")
class Sinusoidal(Positional):
    """x + amplitude * sinusoid(position).

    At amplitude 1 it drowns token embeddings whose scaled standard deviation is far below 0.7.
    """

    ranges: ClassVar[dict[str, Any]] = {"amplitude": {"log": [0.01, 1.0]}}

    def __init__(self, dims: Dims, *, amplitude: NotNegative = 1.0) -> None:
        super().__init__(dims)
        self.amplitude = amplitude
        self.table = FixedTable(partial(_rows, d_model=dims.d_model, amplitude=amplitude), dims.max_len)

    def reach(self, length: int) -> None:
        self.table.reach(length)

    def embed(self, x_BLD: Tensor, at: Tensor) -> Tensor:
        return x_BLD + self.table(at).to(x_BLD.dtype)


def _rows(n: int, d_model: int, amplitude: float) -> Tensor:
    return amplitude * sinusoid(n, d_model)
