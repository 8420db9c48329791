"""One trained vector a position."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.slots import POSITIONAL, Positional
from transformer.spec import Dims, NotNegative


@POSITIONAL.register("learned", paper="arXiv:1705.03122")
class Learned(Positional):
    """x + table[position]; starts at N(0, std^2). Row 0 is position 0; there is nothing beyond max_len."""

    def __init__(self, dims: Dims, *, std: NotNegative = 0.02) -> None:
        super().__init__(dims)
        self.std = std
        self.table = nn.Parameter(torch.zeros(dims.max_len, dims.d_model))

    def reset(self, generator: torch.Generator) -> None:
        """Draws the table."""
        self.table.normal_(0.0, self.std, generator=generator)

    def reach(self, length: int) -> None:
        if length > self.table.shape[0]:
            raise ValueError(
                f"{length} positions are more than max_len={self.table.shape[0]}, where learned positions end; "
                "raise max_len, or use a positional that has no end, such as sinusoidal, rope, alibi, relative or none"
            )

    def embed(self, x_BLD: Tensor, at: Tensor) -> Tensor:
        return x_BLD + F.embedding(at, self.table)
