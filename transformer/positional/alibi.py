"""A penalty on the score that grows with distance."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from transformer.positional.tables import FixedTable
from transformer.slots import POSITIONAL, Positional
from transformer.spec import Dims, Positive


def slopes(n_heads: int, max_bias: float = 8.0) -> list[float]:
    """2^(-max_bias (h + 1) / H) for H a power of two; else those of the power P below, then every second of 2 P's."""
    power = 2 ** math.floor(math.log2(n_heads))
    first = [2.0 ** (-max_bias * (h + 1) / power) for h in range(power)]
    more = [2.0 ** (-max_bias * (h + 1) / (2 * power)) for h in range(0, 2 * power, 2)]
    return first + more[: n_heads - power]


@POSITIONAL.register("alibi", paper="arXiv:2108.12409")
class ALiBi(Positional):
    """Adds -slope_h |i - j| to the scaled score of query i on key j; no parameters; symmetric in an encoder."""

    adds_bias: ClassVar[bool] = True
    ranges: ClassVar[dict[str, Any]] = {"max_bias": {"log": [1.0, 32.0]}}

    def __init__(self, dims: Dims, *, max_bias: Positive = 8.0) -> None:
        super().__init__(dims)
        self.slopes = FixedTable(partial(_rows, max_bias=max_bias), dims.n_heads)

    def bias(self, query_at: Tensor, key_at: Tensor) -> Tensor:
        distance_LS = (query_at[:, None] - key_at).abs()
        return -self.slopes.values[:, None, None] * distance_LS


def _rows(n_heads: int, max_bias: float) -> Tensor:
    return torch.tensor(slopes(n_heads, max_bias), dtype=torch.float64)
