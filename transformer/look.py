"""Looking inside a forward pass: attention weights of every head, and what activations look like.

The model runs as it is, with hooks that are gone afterwards; a pass that nobody looks at pays nothing.
B batch, H heads, L queries, S keys.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor, nn

from transformer.attention import MultiHeadAttention
from transformer.blocks import Layer
from transformer.generation.reader import evaluating
from transformer.slots import FeedForward


@dataclass(frozen=True)
class Statistics:
    """Of one activation: mean, standard deviation, root mean square, largest size, over all of its numbers."""

    mean: float
    std: float
    rms: float
    largest: float


@dataclass
class Inside:
    """What a forward pass held.

    Attributes:
        logits: what it returned.
        weights: (B, H, L, S) by attention, such as `decoder.layers.0.self_attention`; before dropout; a blocked
            key has exactly 0.
        activations: Statistics by module: what each attention and feed-forward layer gives to the residual
            stream, and the stream after each layer (`decoder.layers.0`).
    """

    logits: Tensor
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    activations: Mapping[str, Statistics] = field(default_factory=dict)


def look(model: nn.Module, *inputs: Any, **options: Any) -> Inside:
    """Runs `model(*inputs, **options)` in eval mode without gradients, and tells what it held.

    Source: attention maps as Vaswani et al. 2017, arXiv:1706.03762, figures 3 to 5.
    """
    weights: dict[str, Tensor] = {}
    activations: dict[str, Statistics] = {}
    with evaluating(model), _watched(model, weights, activations):
        logits = model(*inputs, **options)
    return Inside(logits, weights, activations)


@contextlib.contextmanager
def _watched(
    model: nn.Module, weights: dict[str, Tensor], activations: dict[str, Statistics]
) -> Iterator[None]:
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            handles.append(module.register_forward_pre_hook(_ask_for_weights, with_kwargs=True))
            handles.append(module.register_forward_hook(partial(_note_weights, name, weights)))
        if isinstance(module, MultiHeadAttention | FeedForward | Layer):
            handles.append(module.register_forward_hook(partial(_note_activations, name, activations)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _ask_for_weights(module: nn.Module, inputs: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return inputs, {**options, "need_weights": True}


def _note_weights(name: str, weights: dict[str, Tensor], module: nn.Module, inputs: Any, output: Any) -> None:
    weights[name] = output[1]


def _note_activations(
    name: str, activations: dict[str, Statistics], module: nn.Module, inputs: Any, output: Any
) -> None:
    x = (output[0] if isinstance(output, tuple) else output).double()
    activations[name] = Statistics(
        float(x.mean()), float(x.std(unbiased=False)), float(x.square().mean().sqrt()), float(x.abs().max())
    )
