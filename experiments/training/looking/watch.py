"""Looks at every layer while a model trains: sizes of activations and gradients, step by step.

B batch, L positions, D d_model.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor, nn

from transformer.attention import MultiHeadAttention
from transformer.blocks import Embedding, Layer
from transformer.models import Head
from transformer.slots import FeedForward, Norm

WATCHED = (Embedding, MultiHeadAttention, FeedForward, Norm, Layer, Head)


@dataclass
class Look:
    """What one step looked like.

    Attributes:
        activations: root mean square of what each watched module gave, in the order of the forward pass.
        gradients: norm of the gradient of each parameter.
    """

    activations: dict[str, float] = field(default_factory=dict)
    gradients: dict[str, float] = field(default_factory=dict)

    def first_not_finite(self) -> str | None:
        """The module where numbers first stopped being numbers: forward first, then backward from the end."""
        forward = next((name for name, size in self.activations.items() if not math.isfinite(size)), None)
        if forward is not None:
            return forward
        return next((name for name, size in reversed(self.gradients.items()) if not math.isfinite(size)), None)

    def describe(self) -> str:
        """Sizes in the order of the forward pass."""
        return ", ".join(f"{name or 'model'} {size:.3g}" for name, size in self.activations.items())


@contextlib.contextmanager
def watched(model: nn.Module) -> Iterator[Look]:
    """While it is entered, each forward pass fills the look; gradients are those that stand at the end."""
    look, sizes, handles = Look(), dict[str, Tensor](), []
    for name, module in model.named_modules():
        if isinstance(module, WATCHED):
            handles.append(module.register_forward_hook(partial(_note, name, sizes)))
    try:
        yield look
    finally:
        for handle in handles:
            handle.remove()
        look.activations = {name: float(size) for name, size in sizes.items()}
        look.gradients = {
            name: float(p.grad.norm()) for name, p in model.named_parameters() if p.grad is not None
        }


def _note(name: str, sizes: dict[str, Tensor], module: nn.Module, inputs: Any, output: Any) -> None:
    x = (output[0] if isinstance(output, tuple) else output).detach().float()
    sizes[name] = x.square().mean().sqrt()


def by_layer(gradients: dict[str, float]) -> dict[str, float]:
    """Norms of whole layers and of what is outside them, from norms of parameters."""
    squares: dict[str, float] = {}
    for name, size in gradients.items():
        parts = name.split(".")
        at = parts.index("layers") + 2 if "layers" in parts else max(1, len(parts) - 1)
        squares[".".join(parts[:at])] = squares.get(".".join(parts[:at]), 0.0) + size**2
    return {name: math.sqrt(value) for name, value in squares.items()}


def rms(x: Tensor) -> float:
    """Root mean square."""
    return float(x.detach().double().square().mean().sqrt())
