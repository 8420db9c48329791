"""What vmap cannot do well by itself: fused attention, and dropout that does not depend on the group.

R replicas, B batch, H heads, L queries, S keys, K d_head. Inside `Folded` a model sees the tensors of one replica.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

GOLDEN, FIRST, SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685  # SplitMix64, as int64


class Folded(TorchFunctionMode):
    """While it is entered, torch's fused attention takes all replicas as one batch, and dropout draws by counting.

    Attributes:
        key: int64, the dropout stream of this step, one a replica; set inside vmap.
        site: how many times dropout was asked for in this step; micro-batches count on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.key: Tensor | None = None
        self.site = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return self._attention(*args, **given)
        if func is F.dropout:
            return self._dropout(*args, **given)
        if func is F.layer_norm:
            return _layer_norm(*args, **given)
        return func(*args, **given)

    def _attention(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> Tensor:
        if enable_gqa or q.dim() != 4:
            return F.scaled_dot_product_attention(
                q, k, v, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale,
                enable_gqa=enable_gqa,
            )
        if dropout_p > 0.0:
            return self._dropped(_weights(q, k, attn_mask, is_causal, scale), dropout_p).to(v.dtype) @ v
        out: Tensor = _Attention.apply(q, k, v, attn_mask, is_causal, scale)  # type: ignore[no-untyped-call]
        return out

    def _dropout(self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        return self._dropped(input, p) if training and p > 0.0 else input

    def _dropped(self, x: Tensor, p: float) -> Tensor:
        assert self.key is not None, "a forward pass without a dropout stream"
        self.site += 1
        key = self.key + ((self.site * SECOND + 2**63) % 2**64 - 2**63)
        kept = uniform24(key, x.numel(), x.device).view(x.shape) >= round(p * 2**24)
        return x * kept.to(x.dtype).mul_(1.0 / (1.0 - p))


def uniform24(key: Tensor, n: int, device: torch.device) -> Tensor:
    """n integers, uniform in [0, 2^24): element i of stream `key` is a pure function of the two.

    Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators", figure 15 (SplitMix64).
    """
    z = torch.arange(n, device=device) * GOLDEN + key
    z = (z ^ ((z >> 30) & (2**34 - 1))) * FIRST
    z = (z ^ ((z >> 27) & (2**37 - 1))) * SECOND
    return (z >> 40) & (2**24 - 1)


def _layer_norm(
    input: Tensor, shape: list[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Gain and shift in one pass: vmap's own rule, which knows that they differ, takes two."""
    if weight is None or bias is None:
        return F.layer_norm(input, shape, weight, bias, eps)
    return torch.addcmul(bias, F.layer_norm(input, shape, None, None, eps), weight)


def _weights(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    """softmax(scale q k^T + mask), 0 in rows that see nothing; as torch computes it where it drops weights."""
    precise = torch.promote_types(q.dtype, torch.float32)
    scores = (q.to(precise) * (q.shape[-1] ** -0.5 if scale is None else scale)) @ k.to(precise).transpose(-2, -1)
    if causal:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    return scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)


class _Attention(torch.autograd.Function):
    """Fused attention whose rule under vmap is to fold replicas into the batch: (R, B, ...) -> (R B, ...)."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing to keep: only the folded call below is ever differentiated, by torch itself."""

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool,
        scale: float | None,
    ) -> tuple[Tensor, int]:
        n = info.batch_size
        q_RBHLK, k_RBHSK, v_RBHSK = (_stacked(x, dim, n) for x, dim in zip((q, k, v), in_dims[:3], strict=True))
        mask = None if mask is None else _folded_mask(mask, in_dims[3], q_RBHLK.shape)
        out = F.scaled_dot_product_attention(
            q_RBHLK.flatten(0, 1), k_RBHSK.flatten(0, 1), v_RBHSK.flatten(0, 1), attn_mask=mask, is_causal=causal,
            scale=scale,
        )
        return out.unflatten(0, (n, -1)), 0


def _stacked(x: Tensor, dim: int | None, replicas: int) -> Tensor:
    return x.expand(replicas, *x.shape) if dim is None else x.movedim(dim, 0)


def _folded_mask(mask: Tensor, dim: int | None, q_shape: torch.Size) -> Tensor:
    """One mask for the folded batch; it is spread over rows only where replicas or rows differ."""
    replicas, rows = q_shape[0], q_shape[1]
    if dim is None and (mask.dim() < 4 or mask.shape[0] == 1):
        return mask
    mask = _stacked(mask, dim, replicas)
    mask = mask[(slice(None), *(None,) * (5 - mask.dim()))]
    return mask.expand(replicas, rows, *mask.shape[2:]).flatten(0, 1)
