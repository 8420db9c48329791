"""The design on one page: what fills each slot of a transformer, and the registry of each.

B batch, L queries, S keys, D d_model, H heads, K d_head, F d_ff, V vocabulary.
A hook whose default is "do nothing" is all that a component leaves alone; nothing in the model asks for a name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from transformer.registry import Registry
from transformer.spec import Dims

if TYPE_CHECKING:
    from transformer.config import ModelConfig
    from transformer.generation.cache import LayerCache


def unchanged(x: Tensor) -> Tensor:
    """What a hook does that does nothing."""
    return x


@dataclass(frozen=True, eq=False)
class Pattern:
    """Which key each query may see, and the bias on the scaled score.

    Built once per forward and shared by the layers of a stack (attention/masks.py).

    Attributes:
        causal: nothing but the plain causal rule holds, with L = S (lets fused attention build the mask itself).
        keep: bool (B or 1, 1 or H, L, S), True = may see; None = sees all, or what `causal` says.
        bias: float32 (H, L, S) added after scaling; None = none.
        mask: `keep` and `bias` as one tensor for fused attention: bool, or float with -inf; None = neither.
        key_keep: bool (B, S): the padding alone, for attention that cannot take a full mask.
        rotate: turns new queries and keys (B, H, L, K) by their positions.
        given: the mask is a caller's own, over any pairs.
    """

    causal: bool = False
    keep: Tensor | None = None
    bias: Tensor | None = None
    mask: Tensor | None = None
    key_keep: Tensor | None = None
    rotate: Callable[[Tensor], Tensor] = unchanged
    given: bool = False


class Positional(nn.Module):
    """Position information, in any of three places. Acts in self-attention only.

    Class attributes:
        adds_bias: `bias` returns something, so the attention must be able to add it.
    Positions count kept tokens only: with padding on the left the first real token is at 0.
    """

    adds_bias: ClassVar[bool] = False

    def __init__(self, dims: Dims) -> None:
        super().__init__()

    def reach(self, length: int) -> None:
        """Called before each forward with the positions in use: a table grows, or ValueError says why it cannot."""

    def embed(self, x_BLD: Tensor, at: Tensor) -> Tensor:
        """Adds positions to scaled token embeddings. at: int64 (L,) or (B, L)."""
        return x_BLD

    def rotate(self, x_BHLK: Tensor, at: Tensor) -> Tensor:
        """Turns queries or keys by their position. at: int64 (L,) or (B, L)."""
        return x_BHLK

    def bias(self, query_at: Tensor, key_at: Tensor) -> Tensor | None:
        """A float32 (H, L, S) bias on the scaled scores. query_at: int64 (L,), key_at: int64 (S,)."""
        return None


class Attention(nn.Module):
    """How queries, keys and values of all heads become outputs.

    Class attributes:
        takes_bias: can add a positional bias and the scaling matters.
        products: names of its matrix products in order, for the trace.
    """

    takes_bias: ClassVar[bool] = True
    products: ClassVar[tuple[str, ...]] = ("scores", "weighted sum")

    def __init__(self, dims: Dims) -> None:
        super().__init__()

    def keep(self, query_at: Tensor, key_at: Tensor) -> Tensor | None:
        """bool (L, S): a restriction on top of the model's own mask (a window); None = none. Self-attention only."""
        return None

    def past(self, k_BHLK: Tensor, v_BHLK: Tensor, cache: LayerCache | None) -> tuple[Tensor, Tensor]:
        """Keys and values of the whole sequence so far, given the new ones (rotated already)."""
        return (k_BHLK, v_BHLK) if cache is None else cache.extend(k_BHLK, v_BHLK)

    def forward(
        self, q_BHLK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, pattern: Pattern, *,
        scale: float, cache: LayerCache | None = None, need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the output (B, H, L, K) and, when asked for, weights (B, H, L, S) before dropout."""
        raise NotImplementedError(type(self).__name__)


class Scaling(nn.Module):
    """The factor on q.k before the softmax."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.d_model, self.d_head = dims.d_model, dims.d_head

    def factor(self) -> float:
        """The number that multiplies every score."""
        return 1.0


class FeedForward(nn.Module):
    """The position-wise layer, (B, L, D) -> (B, L, D). `gated` layers have three matrices instead of two."""

    gated: ClassVar[bool] = False

    def __init__(self, dims: Dims) -> None:
        super().__init__()


class Norm(nn.Module):
    """Normalises (B, L, D) -> (B, L, D), in the dtype of its input.

    Class attributes:
        mixes_positions: its statistics run over positions in training, so the future leaks into the past.
    """

    mixes_positions: ClassVar[bool] = False

    def __init__(self, dims: Dims) -> None:
        super().__init__()


class Placement(nn.Module):
    """Joins a sublayer to the residual stream: where the norm, the dropout and the sum are.

    Args:
        dims: shared sizes.
        make_norm: makes one fresh norm; call it once for each norm that the placement holds.
    """

    needs_final_norm: ClassVar[bool] = False

    def __init__(self, dims: Dims, make_norm: Callable[[], nn.Module]) -> None:
        super().__init__()

    def forward(self, x_BLD: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        raise NotImplementedError(type(self).__name__)


def into_residual(linear: nn.Linear, dims: Dims) -> nn.Linear:
    """Marks a linear layer as the one that writes a sublayer's result to the residual stream."""
    linear.branches = dims.n_layers * dims.n_branches  # type: ignore[assignment]
    return linear


class Init:
    """The law of every initial value. The value itself comes from (seed, parameter name): see initialise.py."""

    def __init__(self, dims: Dims) -> None:
        self.dims = dims

    def linear(self, weight: Tensor, generator: torch.Generator, *, branches: int = 0) -> None:
        """Fills a linear weight in place. branches: of the residual stream that it writes to; 0 = it does not."""
        raise NotImplementedError(type(self).__name__)

    def embedding(self, weight: Tensor, generator: torch.Generator) -> None:
        """Fills a token-embedding table in place."""
        raise NotImplementedError(type(self).__name__)


def _load() -> None:
    for module in ("positional", "attention", "feedforward", "norms", "placement", "initialise"):
        importlib.import_module(f"transformer.{module}")


POSITIONAL: Registry[Positional] = Registry("positional", _load, Positional)
ATTENTION: Registry[Attention] = Registry("attention", _load, Attention)
SCALING: Registry[Scaling] = Registry("scaling", _load, Scaling)
FEEDFORWARD: Registry[FeedForward] = Registry("feedforward", _load, FeedForward)
NORM: Registry[Norm] = Registry("norm", _load, Norm)
PLACEMENT: Registry[Placement] = Registry("placement", _load, Placement)
INIT: Registry[Init] = Registry("init", _load, Init)

REGISTRIES: dict[str, Registry[Any]] = {
    "positional": POSITIONAL, "attention": ATTENTION, "scaling": SCALING, "feedforward": FEEDFORWARD,
    "norm": NORM, "placement": PLACEMENT, "init": INIT,
}


PLAIN_SCALING = "sqrt_d_head"


def clashes(config: ModelConfig) -> list[str]:
    """Combinations of known components that cannot work, found before anything is built."""
    positional, attention = POSITIONAL.entry(config.positional.name), ATTENTION.entry(config.attention.name)
    if attention.cls.takes_bias:
        return []
    able = ", ".join(name for name in ATTENTION.names() if ATTENTION.entry(name).cls.takes_bias)
    found = []
    if positional.cls.adds_bias:
        found.append(
            f"positional '{positional.name}' adds a bias to the attention scores, which attention "
            f"'{attention.name}' cannot take; attentions that can: {able}"
        )
    if config.scaling.name != PLAIN_SCALING:
        found.append(
            f"scaling '{config.scaling.name}' would change nothing, since attention '{attention.name}' does not scale "
            f"its scores; use {PLAIN_SCALING}, or an attention that does: {able}"
        )
    return found


def cautions(config: ModelConfig) -> list[str]:
    """What works but misleads, in words."""
    norm = NORM.entry(config.norm.name)
    if norm.cls.mixes_positions and config.architecture != "encoder":
        return [
            f"norm '{norm.name}' leaks across time: in training every position is normalised with the positions after "
            "it, so a causal model sees the future there, and its training loss is too good to be true"
        ]
    return []
