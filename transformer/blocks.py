"""Layers and stacks: the two columns of the paper's figure.

B batch, L positions, S source positions, D d_model.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from transformer.attention import CrossAttention, MultiHeadAttention
from transformer.attention.masks import cross_pattern, self_pattern
from transformer.config import ModelConfig
from transformer.slots import ATTENTION, FEEDFORWARD, NORM, PLACEMENT, POSITIONAL, SCALING, Pattern, Placement
from transformer.spec import Dims

if TYPE_CHECKING:
    from transformer.generation.cache import Cache, LayerCache


class Layer(nn.Module):
    """Self-attention, then feed-forward, each joined to the residual stream."""

    def __init__(self, config: ModelConfig, dims: Dims) -> None:
        super().__init__()
        self.self_attention = _attention(MultiHeadAttention, config, dims)
        self.feedforward = FEEDFORWARD.build(config.feedforward, dims)
        self.join_self = _placement(config, dims)
        self.join_feedforward = _placement(config, dims)

    def forward(
        self, x_BLD: Tensor, pattern: Pattern, memory_BSD: Tensor | None = None, across: Pattern | None = None,
        cache: LayerCache | None = None, cross_cache: LayerCache | None = None,
    ) -> Tensor:
        x_BLD = self.join_self(x_BLD, lambda h: self.attend(h, pattern, cache))
        return self.join_feedforward(x_BLD, self.feedforward)

    def attend(self, h_BLD: Tensor, pattern: Pattern, cache: LayerCache | None) -> Tensor:
        """Self-attention."""
        return self.self_attention(h_BLD, h_BLD, h_BLD, pattern, cache=cache, need_weights=False)[0]


class CrossLayer(Layer):
    """Masked self-attention, then attention to the encoder's output, then feed-forward."""

    def __init__(self, config: ModelConfig, dims: Dims) -> None:
        super().__init__(config, dims)
        self.cross_attention = _attention(CrossAttention, config, replace(dims, causal=False))
        self.join_cross = _placement(config, dims)

    def forward(
        self, x_BLD: Tensor, pattern: Pattern, memory_BSD: Tensor | None = None, across: Pattern | None = None,
        cache: LayerCache | None = None, cross_cache: LayerCache | None = None,
    ) -> Tensor:
        x_BLD = self.join_self(x_BLD, lambda h: self.attend(h, pattern, cache))
        x_BLD = self.join_cross(x_BLD, lambda h: self.attend_across(h, memory_BSD, across, cross_cache))
        return self.join_feedforward(x_BLD, self.feedforward)

    def attend_across(
        self, h: Tensor, memory: Tensor | None, across: Pattern | None, cache: LayerCache | None
    ) -> Tensor:
        """Attention to the encoder's output."""
        return self.cross_attention(h, memory, memory, across, cache=cache, need_weights=False)[0]


class Embedding(nn.Embedding):
    """Token embeddings times a number."""

    def __init__(self, vocab_size: int, d_model: int, multiplier: float) -> None:
        # values come from the initialiser, by name; torch's own would load its compiler on the meta device (1.4 s)
        super().__init__(vocab_size, d_model, _weight=torch.empty(vocab_size, d_model))
        self.multiplier = multiplier

    def forward(self, tokens_BL: Tensor) -> Tensor:
        x_BLD = super().forward(tokens_BL)
        return x_BLD if self.multiplier == 1.0 else x_BLD * self.multiplier


class Stack(nn.Module):
    """Embeddings with positions, then layers, then the final norm that the placement asks for.

    Attributes:
        recompute: drop activations of layers in training and compute them again in the backward pass.
    """

    def __init__(self, config: ModelConfig, dims: Dims, embedding: Embedding, *, crosses: bool = False) -> None:
        super().__init__()
        self.causal, self.recompute = dims.causal, False
        self.embedding = embedding
        self.positional = POSITIONAL.build(config.positional, dims)
        self.dropout = nn.Dropout(dims.dropout)
        kind = CrossLayer if crosses else Layer
        self.layers = nn.ModuleList(kind(config, dims) for _ in range(dims.n_layers))
        final = PLACEMENT.entry(config.placement.name).cls.needs_final_norm
        self.final_norm = NORM.build(config.norm, dims) if final else nn.Identity()

    def forward(
        self, tokens_BL: Tensor, keep: Tensor | None = None, *, cache: Cache | None = None,
        memory_BSD: Tensor | None = None, memory_keep: Tensor | None = None,
    ) -> Tensor:
        """tokens (B, L) -> hidden states (B, L, D). keep: bool (B, cached + L), True = a real token."""
        pattern, at = self.pattern(tokens_BL, keep, cache)
        across = cross_pattern(memory_keep)
        x_BLD = self.dropout(self.positional.embed(self.embedding(tokens_BL), at))
        for i, layer in enumerate(self.layers):
            apply = partial(checkpoint, layer, use_reentrant=False) if self.recompute and self.training else layer
            x_BLD = apply(x_BLD, pattern, memory_BSD, across, *(cache.layer(i) if cache is not None else ()))
        return self.final_norm(x_BLD)

    def pattern(self, tokens_BL: Tensor, keep: Tensor | None, cache: Cache | None) -> tuple[Pattern, Tensor]:
        """What this forward's self-attention may see, and the positions of its tokens."""
        length = tokens_BL.shape[1]
        past = 0 if cache is None else cache.advance(length)
        if keep is not None and keep.shape[1] != past + length:
            raise ValueError(f"keep covers {keep.shape[1]} positions, but {past} cached and {length} new ones need it")
        if cache is not None and self.recompute and self.training:
            raise ValueError("a cache and recomputed activations exclude each other: the second pass appends twice")
        first = cast(Layer, self.layers[0])
        return self_pattern(
            self.positional, first.self_attention.attention, causal=self.causal, length=length, past=past,
            key_keep=keep, like=self.embedding.weight,
        )


def _attention(kind: type[MultiHeadAttention], config: ModelConfig, dims: Dims) -> MultiHeadAttention:
    return kind(
        dims.d_model, dims.n_heads, bias=dims.bias, attention=ATTENTION.build(config.attention, dims),
        scale=SCALING.build(config.scaling, dims).factor(), dims=dims,
    )


def _placement(config: ModelConfig, dims: Dims) -> Placement:
    return PLACEMENT.build(config.placement, dims, partial(NORM.build, config.norm, dims))
