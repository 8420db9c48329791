"""No position information."""

from __future__ import annotations

from transformer.slots import POSITIONAL, Positional


@POSITIONAL.register("none", paper="arXiv:2203.16634")
class NoPosition(Positional):
    """Nothing is added: a causal decoder still learns order from its mask; an encoder sees a set."""
