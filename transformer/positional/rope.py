"""Rotary positions: queries and keys turn with their position, so that scores see only differences.

B batch, H heads, L positions, K d_head, R rotated part of K.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer.positional.tables import FixedTable, computed, positions
from transformer.slots import POSITIONAL, Positional
from transformer.spec import Dims, Positive


@POSITIONAL.register("rope", paper="arXiv:2104.09864")
class RoPE(Positional):
    """(x1, x2) -> (x1 cos a - x2 sin a, x2 cos a + x1 sin a), a = p base^(-2i / R), on queries and keys.

    Args:
        base: the slowest pair turns once in about 2 pi base positions.
        layout: which dims pair: `half` (i, i + R/2), as public LLaMA weights; `interleaved` (2i, 2i + 1), as the paper.
        share: part of each head that turns; the rest has no position.

    Raises:
        ValueError: the turning part of a head is not an even number of at least 2.
    """

    ranges: ClassVar[dict[str, Any]] = {"base": {"log": [1e2, 1e6]}}
    partner: Tensor

    def __init__(
        self, dims: Dims, *, base: Positive = 10000.0, layout: Literal["half", "interleaved"] = "half",
        share: float = 1.0,
    ) -> None:
        super().__init__(dims)
        n_turning = round(share * dims.d_head)
        if n_turning % 2 or not 2 <= n_turning <= dims.d_head:
            raise ValueError(_odd(dims, share, n_turning))
        self.table = FixedTable(
            partial(_turns, d_head=dims.d_head, n_turning=n_turning, base=base, layout=layout), dims.max_len
        )
        partner = computed(partial(_partner, dims.d_head, n_turning, layout))
        self.register_buffer("partner", partner, persistent=False)
        half = dims.d_head // 2
        self.roll = half if n_turning == dims.d_head and layout == "half" else None

    def reach(self, length: int) -> None:
        self.table.reach(length)

    def rotate(self, x_BHLK: Tensor, at: Tensor) -> Tensor:
        cos, sin = self.table(at).unsqueeze(-4).unbind(-2)  # at (L,) -> (1, L, K); (B, L) -> (B, 1, L, K)
        x = x_BHLK.to(cos.dtype)  # at least float32
        other = x.roll(self.roll, -1) if self.roll else x.index_select(-1, self.partner)
        return torch.addcmul(x * cos, other, sin).to(x_BHLK.dtype)


def _partner(d_head: int, n_turning: int, layout: str) -> Tensor:
    i = torch.arange(n_turning)
    turning = (i + n_turning // 2) % n_turning if layout == "half" else i ^ 1
    return torch.cat([turning, torch.arange(n_turning, d_head)])


def _turns(n: int, d_head: int, n_turning: int, base: float, layout: str) -> Tensor:
    """float64 (n, 2, K): the factor on each dim, and the signed factor on its partner."""
    angles = positions(n) * base ** (-torch.arange(0, n_turning, 2, dtype=torch.float64) / n_turning)
    cos, sin = angles.cos(), angles.sin()
    if layout == "half":
        cos, sin = torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)
    else:
        cos, sin = torch.stack([cos, cos], -1).flatten(1), torch.stack([-sin, sin], -1).flatten(1)
    still = d_head - n_turning
    return torch.stack([F.pad(cos, (0, still), value=1.0), F.pad(sin, (0, still))], 1)


def _odd(dims: Dims, share: float, n_turning: int) -> str:
    if share != 1.0:
        return f"rope: share={share} of d_head={dims.d_head} is {n_turning} dims; it must be even and from 2 to d_head"
    if dims.head_width is not None:
        return f"rope turns pairs, so d_head={dims.d_head} must be even; the nearest that are: " + " and ".join(
            str(n) for n in (dims.d_head - 1, dims.d_head + 1) if n
        )
    near = [n for n in range(1, dims.d_model // 2 + 1) if dims.d_model % (2 * n) == 0]
    width = dims.n_heads * 2 * max(1, round(dims.d_head / 2))
    ways = f"the nearest d_model that works: {width}"
    if near:
        ways = f"the nearest n_heads that works: {min(near, key=lambda n: abs(n - dims.n_heads))}, {ways}"
    sizes = f"d_model={dims.d_model} / n_heads={dims.n_heads} = {dims.d_head}"
    return f"rope turns pairs, so d_head must be even, but {sizes}; {ways}"
