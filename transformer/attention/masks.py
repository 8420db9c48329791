"""Which key each query may see. True (or 1) = keep, False (or 0) = block; masks join by logical and.

B batch, H heads, L queries, S keys, D d_model, K d_head.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from transformer.slots import Attention, Pattern, Positional


def as_bool(mask: Tensor) -> Tensor:
    """A mask of 0 and 1 in any dtype as bool.

    Raises:
        ValueError: other values, such as those of an additive mask.
    """
    if mask.dtype is not torch.bool and not ((mask == 0) | (mask == 1)).all():
        raise ValueError("a mask holds 1 (keep) and 0 (block) only; pass scores to add as `bias`")
    return mask.bool()


def causal_keep(length: int, n_keys: int, device: torch.device) -> Tensor:
    """bool (L, S): the L queries are the last of S positions, and each sees keys up to its own."""
    return torch.ones(length, n_keys, dtype=torch.bool, device=device).tril(n_keys - length)


def joined(keep: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Mask and bias as the one tensor that fused attention takes: bool, or float with -inf at blocked keys."""
    if bias is None:
        return keep
    # float32 at least: bf16 cannot tell distances 300 and 301 apart; but CUDA's kernels want the dtype of the queries
    bias = bias.to(dtype if bias.is_cuda else torch.promote_types(dtype, torch.float32))
    if bias.dim() == 3 and not bias.requires_grad:
        bias = bias[None]  # what fused attention takes; with three, torch writes it out, as a trained bias needs
    return bias if keep is None else bias.masked_fill(~keep, -torch.inf)


def self_pattern(
    positional: Positional, attention: Attention, *, causal: bool, length: int, past: int,
    key_keep: Tensor | None, like: Tensor,
) -> tuple[Pattern, Tensor]:
    """The pattern of self-attention for `length` new positions after `past` cached ones.

    Args:
        key_keep: bool (B, past + length), True = a real token; None = all are.
        like: a tensor with the device and dtype of the activations.

    Returns:
        The pattern, and the positions of the new tokens: int64 (L,), or (B, L) where padding makes rows differ.
    """
    n_keys = past + length
    positional.reach(n_keys)
    key_at = torch.arange(n_keys, device=like.device)
    query_at = key_at[past:]
    at = query_at if key_keep is None else (key_keep.cumsum(-1) - 1).clamp_min(0)[:, past:]
    bias = positional.bias(query_at, key_at)
    keep = attention.keep(query_at, key_at)
    if key_keep is not None:
        keep = key_keep[:, None, None, :] if keep is None else keep & key_keep[:, None, None, :]
    plain = causal and past == 0 and bias is None and keep is None
    if causal and length > 1 and not plain:  # one new position is the last of all: it sees every key
        rule = query_at[:, None] >= key_at
        keep = rule if keep is None else keep & rule
    pattern = Pattern(
        causal=plain, keep=keep, bias=bias, mask=joined(keep, bias, like.dtype), key_keep=key_keep,
        rotate=partial(positional.rotate, at=at),
    )
    return pattern, at


def cross_pattern(key_keep: Tensor | None) -> Pattern:
    """The pattern of cross-attention: the padding of the source and nothing else. key_keep: bool (B, S)."""
    keep = None if key_keep is None else key_keep[:, None, None, :]
    return Pattern(keep=keep, mask=keep, key_keep=key_keep)
