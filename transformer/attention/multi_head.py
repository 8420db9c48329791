"""Multi-head attention: project, attend in every head, concatenate, project.

B batch, L queries, S keys, D d_model, H heads, K d_head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.attention.masks import as_bool
from transformer.attention.scaled_dot_product import Softmax
from transformer.slots import Attention, Pattern, into_residual
from transformer.spec import Dims

if TYPE_CHECKING:
    from transformer.generation.cache import LayerCache

# One product of three joined weights takes 0.98 of the time of three products at widths 64 and 128 and as long at 256;
# from 512 on the copy that joins them costs more than it saves (a step of 12 x 768: 1.1 of the time, 6 % more memory).
JOINED_BELOW = 256


class MultiHeadAttention(nn.Module):
    """concat_h(attention(q W_q, k W_k, v W_v)) W_o

    Args:
        d_model: width of queries, keys, values and output (D).
        n_heads: heads (H), each of width K = D / H, or as `dims` says.
        bias: whether the four projections carry a bias.
        dropout: probability that an attention weight is dropped in training.
        attention: how each head attends; softmax when None.
        scale: factor on the scores; 1 / sqrt(K) when None.
        dims: sizes of the stack that it belongs to, for its initial values; a stack of one when None.

    Raises:
        ValueError: n_heads does not divide d_model, and there are no dims.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2. Ours has biases by default, as GPT-2.
    """

    def __init__(
        self, d_model: int, n_heads: int, *, bias: bool = True, dropout: float = 0.0,
        attention: Attention | None = None, scale: float | None = None, dims: Dims | None = None,
    ) -> None:
        super().__init__()
        if dims is None and d_model % n_heads:
            raise ValueError(f"d_model={d_model} is not divisible by n_heads={n_heads}")
        dims = dims or Dims(d_model, n_heads, n_layers=1, d_ff=4 * d_model, vocab_size=1, max_len=1, dropout=dropout)
        self.n_heads = n_heads
        self.scale = dims.d_head**-0.5 if scale is None else scale
        self.packed = d_model < JOINED_BELOW  # one product for three projections of the same input; the same result
        inner = n_heads * dims.d_head
        self.query = nn.Linear(d_model, inner, bias=bias)
        self.key = nn.Linear(d_model, inner, bias=bias)
        self.value = nn.Linear(d_model, inner, bias=bias)
        self.attention: Attention = attention or Softmax(dims)
        self.output = into_residual(nn.Linear(inner, d_model, bias=bias), dims)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | Pattern | None = None, *,
        cache: LayerCache | None = None, need_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        """Queries (B, L, D) attend to keys and values (B, S, D).

        Args:
            mask: 1 = keep, 0 = block, broadcastable to (B, H, L, S), or (B, L, S) for all heads; or a Pattern.
            cache: what this attention remembers of earlier calls; None = nothing.

        Returns:
            The output (B, L, D) and the weights of every head (B, H, L, S) before dropout, or None.
        """
        pattern = mask if isinstance(mask, Pattern) else _given(mask)
        q_BHLK, k_BHSK, v_BHSK = self.project(q, k, v, pattern, cache)
        out_BHLK, weights = self.attention(
            q_BHLK, k_BHSK, v_BHSK, pattern, scale=self.scale, cache=cache, need_weights=need_weights
        )
        return self.output(out_BHLK.transpose(1, 2).flatten(2)), weights

    def project(
        self, q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, cache: LayerCache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, and keys and values of the whole sequence so far, by head."""
        same = q is k and k is v
        if same and self.packed:
            q_BHLK, k_BHLK, v_BHLK = self._packed(q)
        else:
            q, k, v = (_cast(q),) * 3 if same else (q, k, v)
            q_BHLK, k_BHLK, v_BHLK = self.heads(self.query(q)), self.heads(self.key(k)), self.heads(self.value(v))
        k_BHSK, v_BHSK = self.attention.past(pattern.rotate(k_BHLK), v_BHLK, cache)
        return pattern.rotate(q_BHLK), k_BHSK, v_BHSK

    def heads(self, x_BLD: Tensor) -> Tensor:
        """(B, L, D) -> (B, H, L, K)"""
        batch, length, width = x_BLD.shape
        return x_BLD.view(batch, length, self.n_heads, width // self.n_heads).transpose(1, 2)

    def _packed(self, x_BLD: Tensor) -> list[Tensor]:
        three = (self.query, self.key, self.value)
        bias = None if self.query.bias is None else torch.cat([linear.bias for linear in three])
        x_BL3D = F.linear(x_BLD, torch.cat([linear.weight for linear in three]), bias)
        return [self.heads(part) for part in x_BL3D.chunk(3, dim=-1)]


class CrossAttention(MultiHeadAttention):
    """Queries of the decoder attend to the encoder's output, whose keys and values are computed once."""

    def project(
        self, q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, cache: LayerCache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        def keys_and_values() -> tuple[Tensor, Tensor]:
            return self.heads(self.key(k)), self.heads(self.value(v))

        q_BHLK = self.heads(self.query(q))
        k_BHSK, v_BHSK = keys_and_values() if cache is None else cache.once(keys_and_values)
        return q_BHLK, k_BHSK, v_BHSK


def _cast(x: Tensor) -> Tensor:
    """x as autocast would cast it: once here, or it would be cast and remembered for each product."""
    device = x.device.type
    known = x.dtype == torch.float32 and torch.amp.is_autocast_available(device)  # `meta` is not
    return x.to(torch.get_autocast_dtype(device)) if known and torch.is_autocast_enabled(device) else x


def _given(mask: Tensor | None) -> Pattern:
    if mask is None:
        return Pattern()
    keep = as_bool(mask)
    keep = keep[:, None] if keep.dim() == 3 else keep
    return Pattern(keep=keep, mask=keep, given=True)
