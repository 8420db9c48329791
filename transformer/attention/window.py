"""Softmax attention to nearby keys only."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from transformer.attention.scaled_dot_product import Softmax
from transformer.slots import ATTENTION
from transformer.spec import Dims


@ATTENTION.register("window", paper="arXiv:2004.05150")
class Window(Softmax):
    """Softmax attention of query i to keys j with i - window < j <= i when causal, else with |i - j| <= window.

    Causal: `window` keys, its own included. A mask and not a saving:
    scores of blocked keys cost what kept ones do. Cross-attention sees the whole source.
    """

    ranges: ClassVar[dict[str, Any]] = {"window": {"int": [2, 64], "log": True}}

    def __init__(self, dims: Dims, *, window: int = 16) -> None:
        super().__init__(dims)
        if window < 1:
            raise ValueError(f"window={window} must be at least 1: a query sees at least itself")
        self.window, self.causal = window, dims.causal

    def keep(self, query_at: Tensor, key_at: Tensor) -> Tensor:
        back = query_at[:, None] - key_at
        return (back < self.window) if self.causal else (back.abs() <= self.window)
