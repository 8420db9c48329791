"""What a decoder remembers between calls, so that each new token costs one position.

B batch, H heads, T positions so far, K d_head.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class LayerCache:
    """The memory of one attention: keys (turned already) and values so far, or a running state.

    Attributes:
        keys, values: (B, H, T, K); None = nothing yet.
        state: whatever an attention keeps in place of keys, batch first; None = nothing yet.
    """

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.state: Tensor | None = None

    def extend(self, k_BHLK: Tensor, v_BHLK: Tensor) -> tuple[Tensor, Tensor]:
        """Appends new keys and values; returns all of them."""
        if self.keys is not None and self.values is not None:
            k_BHLK, v_BHLK = torch.cat([self.keys, k_BHLK], dim=2), torch.cat([self.values, v_BHLK], dim=2)
        self.keys, self.values = k_BHLK, v_BHLK
        return k_BHLK, v_BHLK

    def once(self, make: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Keys and values that never grow: made at the first call."""
        if self.keys is None or self.values is None:
            self.keys, self.values = make()
        return self.keys, self.values

    def reorder(self, index: Tensor) -> None:
        """Row b becomes what row index[b] was; the batch may change size."""
        self.keys, self.values, self.state = (
            None if kept is None else kept.index_select(0, index) for kept in (self.keys, self.values, self.state)
        )


class Cache:
    """The memory of a decoder. One cache serves one batch of sequences; start the next with a fresh one.

    Attributes:
        length: positions seen so far, padding included.
    """

    def __init__(self) -> None:
        self.length = 0
        self._layers: list[tuple[LayerCache, LayerCache]] = []

    def layer(self, i: int) -> tuple[LayerCache, LayerCache]:
        """The memory of layer i: of its self-attention, and of its cross-attention."""
        while len(self._layers) <= i:
            self._layers.append((LayerCache(), LayerCache()))
        return self._layers[i]

    def advance(self, length: int) -> int:
        """Counts `length` new positions; returns how many there were before."""
        past, self.length = self.length, self.length + length
        return past

    def reorder(self, index: Tensor) -> None:
        """Row b becomes what row index[b] was, in every layer: beams, repeats, or fewer rows. index: int64 (B',)."""
        for pair in self._layers:
            for memory in pair:
                memory.reorder(index)
