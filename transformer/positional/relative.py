"""A trained bias for each bucket of distances."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.slots import POSITIONAL, Positional
from transformer.spec import Dims, NotNegative


def bucket(relative: Tensor, *, buckets: int, max_distance: int, bidirectional: bool) -> Tensor:
    """The bucket of each distance `relative` = key - query: exact near 0, then logarithmic up to max_distance.

    Bidirectional: the first half of the buckets is for keys at or before the query, the second for those after it.
    Otherwise keys after the query share bucket 0.
    """
    buckets = buckets // 2 if bidirectional else buckets
    first = (relative > 0).long() * (buckets if bidirectional else 0)
    distance = relative.abs() if bidirectional else (-relative).clamp_min(0)
    exact = buckets // 2
    ratio = torch.log(distance.clamp_min(1).float() / exact) / math.log(max_distance / exact)
    far = (exact + (ratio * (buckets - exact)).long()).clamp_max(buckets - 1)
    return first + torch.where(distance < exact, distance, far)


@POSITIONAL.register("relative", paper="arXiv:1910.10683")
class Relative(Positional):
    """Adds table[bucket(j - i), h] to the scaled score of query i on key j; one table for all layers of a stack.

    T5 leaves its scores unscaled; set the scaling to `none` for that.
    """

    adds_bias: ClassVar[bool] = True

    def __init__(self, dims: Dims, *, buckets: int = 32, max_distance: int = 128, std: NotNegative = 0.02) -> None:
        super().__init__(dims)
        if buckets < 4 or buckets % 2 or max_distance <= buckets:
            raise ValueError(
                f"relative: buckets={buckets} must be an even number of at least 4, "
                f"and max_distance={max_distance} above it"
            )
        self.buckets, self.max_distance, self.causal, self.std = buckets, max_distance, dims.causal, std
        self.table = nn.Parameter(torch.zeros(buckets, dims.n_heads))

    def reset(self, generator: torch.Generator) -> None:
        """Draws the table."""
        self.table.normal_(0.0, self.std, generator=generator)

    def bias(self, query_at: Tensor, key_at: Tensor) -> Tensor:
        at_LS = bucket(
            key_at - query_at[:, None],
            buckets=self.buckets, max_distance=self.max_distance, bidirectional=not self.causal,
        )
        return F.embedding(at_LS, self.table).permute(2, 0, 1)
