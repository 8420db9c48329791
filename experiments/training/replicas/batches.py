"""Batches of several replicas as one. R replicas, B batch, L positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.tasks import IGNORE, Batch


def stacked(batches: Sequence[Batch], pad_id: int) -> Batch:
    """(B, L) of each replica -> (R, B, L); shorter ones are padded at the end, which `keep` tells and no loss asks."""
    inputs, keep = _joined([b.inputs for b in batches], [b.keep for b in batches], pad_id)
    source, source_keep = None, None
    if batches[0].source is not None:
        sources = [b.source for b in batches if b.source is not None]
        source, source_keep = _joined(sources, [b.source_keep for b in batches], pad_id)
    return Batch(inputs, _padded([b.targets for b in batches], IGNORE), keep, source, source_keep)


def alike(batches: Sequence[Batch]) -> bool:
    """Whether batches have the same shapes, so that stacking pads nothing."""
    return all(_form(batch) == _form(batches[0]) for batch in batches)


def _form(batch: Batch) -> tuple[Any, ...]:
    tensors = (batch.inputs, batch.targets, batch.keep, batch.source, batch.source_keep)
    return tuple(None if tensor is None else tensor.shape for tensor in tensors)


def _joined(tokens: list[Tensor], keeps: Sequence[Tensor | None], pad_id: int) -> tuple[Tensor, Tensor | None]:
    """Tokens (R, B, L), and what of them is real where that is not all."""
    if all(keep is None for keep in keeps) and len({t.shape[1] for t in tokens}) == 1:
        return torch.stack(tokens), None
    pairs = zip(tokens, keeps, strict=True)
    real = [torch.ones_like(row, dtype=torch.bool) if keep is None else keep for row, keep in pairs]
    return _padded(tokens, pad_id), _padded(real, False)


def _padded(tensors: list[Tensor], value: float) -> Tensor:
    longest = max(t.shape[-1] for t in tensors)
    return torch.stack([F.pad(t, (0, longest - t.shape[-1]), value=value) for t in tensors])
