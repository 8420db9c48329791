"""The factor on q.k before the softmax. Scores of independent unit-variance q and k have variance d_head."""

from __future__ import annotations

from transformer.slots import SCALING, Scaling


@SCALING.register("sqrt_d_head", paper="arXiv:1706.03762")
class SqrtDHead(Scaling):
    """1 / sqrt(d_head): scores keep unit variance."""

    def factor(self) -> float:
        return self.d_head**-0.5


@SCALING.register("none", paper="arXiv:1910.10683")
class NoScaling(Scaling):
    """1: the softmax saturates unless the initial weights make up for it."""


@SCALING.register("sqrt_d_model")
class SqrtDModel(Scaling):
    """1 / sqrt(d_model): the width of the model in place of the head's, a common slip."""

    def factor(self) -> float:
        return self.d_model**-0.5


@SCALING.register("d_head", paper="arXiv:2203.03466")
class DHead(Scaling):
    """1 / d_head: for q and k that align as training goes on, as in muP."""

    def factor(self) -> float:
        return 1.0 / self.d_head
