"""Scaled dot-product attention, fused and written out.

B batch, H heads, L queries, S keys, K d_head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer.attention.masks import as_bool, causal_keep, joined
from transformer.slots import ATTENTION, Attention, Pattern
from transformer.spec import Dims

if TYPE_CHECKING:
    from transformer.generation.cache import LayerCache


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *,
    scale: float | None = None, bias: Tensor | None = None, causal: bool = False,
    dropout: float = 0.0, training: bool = True, need_weights: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """softmax(scale q k^T + bias) v, over the keys that the mask keeps.

    Args:
        q: queries (B, H, L, K).
        k, v: keys and values (B, H, S, K).
        mask: 1 = keep, 0 = block; bool or 0/1 numbers, broadcastable to (B, H, L, S).
        scale: factor on the scores; 1 / sqrt(K) when None.
        bias: added to the scores after scaling, broadcastable to (B, H, L, S).
        causal: query i of the last L positions sees keys up to its own position i + S - L.
        dropout: probability that a weight is dropped, when `training`.
        need_weights: return the weights too; without them torch's fused attention does the work.

    Returns:
        The output (B, H, L, K) and the weights (B, H, L, S) before dropout, or None.
        A query that may see no key gets the output 0.

    Raises:
        ValueError: a mask with values other than 0 and 1.

    Source: Vaswani et al. 2017, arXiv:1706.03762, equation 1.
    """
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    length, n_keys = q.shape[-2], k.shape[-2]
    plain = causal and length == n_keys and mask is None and bias is None
    keep = None if mask is None else as_bool(mask)
    if causal and not (plain and not need_weights):
        rule = causal_keep(length, n_keys, q.device)
        keep = rule if keep is None else keep & rule
    drop = dropout if training else 0.0
    if need_weights:
        return written_out(q, k, v, keep, bias, scale=factor, dropout=drop)
    return fused(q, k, v, joined(keep, bias, q.dtype), causal=plain, scale=factor, dropout=drop), None


def fused(
    q_BHLK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, mask: Tensor | None, *, causal: bool, scale: float, dropout: float
) -> Tensor:
    """torch's fused attention. Its own causal rule is aligned to the first key: only for L = S and no mask."""
    return F.scaled_dot_product_attention(
        q_BHLK, k_BHSK, v_BHSK, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale
    )


def written_out(
    q_BHLK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, keep: Tensor | None, bias: Tensor | None, *,
    scale: float, dropout: float,
) -> tuple[Tensor, Tensor]:
    """The same, one equation a line, with the weights."""
    precise = torch.promote_types(q_BHLK.dtype, torch.float32)  # half precision cannot hold scores
    scores_BHLS = (q_BHLK.to(precise) * scale) @ k_BHSK.to(precise).transpose(-2, -1)
    if bias is not None:
        scores_BHLS = scores_BHLS + bias
    weights_BHLS = masked_softmax(scores_BHLS, keep)
    out_BHLK = F.dropout(weights_BHLS, dropout, training=dropout > 0).to(v_BHSK.dtype) @ v_BHSK
    return out_BHLK, weights_BHLS.to(q_BHLK.dtype)


def masked_softmax(scores: Tensor, keep: Tensor | None) -> Tensor:
    """Softmax over kept keys; exactly 0 elsewhere, and in rows that keep nothing, with finite gradients."""
    if keep is None:
        return scores.softmax(-1)
    some = keep.any(-1, keepdim=True)  # a row of nothing but -inf would give NaN, so such a row stays unmasked here
    return scores.masked_fill(~keep & some, -torch.inf).softmax(-1).masked_fill(~keep, 0.0)


@ATTENTION.register("softmax", paper="arXiv:1706.03762")
class Softmax(Attention):
    """softmax(scale q k^T + bias) v"""

    def __init__(self, dims: Dims) -> None:
        super().__init__(dims)
        self.dropout = dims.dropout

    def forward(
        self, q_BHLK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, pattern: Pattern, *,
        scale: float, cache: LayerCache | None = None, need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        dropout = self.dropout if self.training else 0.0
        if need_weights:
            keep = causal_keep(q_BHLK.shape[-2], k_BHSK.shape[-2], q_BHLK.device) if pattern.causal else pattern.keep
            return written_out(q_BHLK, k_BHSK, v_BHSK, keep, pattern.bias, scale=scale, dropout=dropout)
        return fused(q_BHLK, k_BHSK, v_BHSK, pattern.mask, causal=pattern.causal, scale=scale, dropout=dropout), None
