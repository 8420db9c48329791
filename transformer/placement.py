"""Where the norm, the dropout and the sum stand around a sublayer f. Dropout follows f everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor, nn

from transformer.slots import PLACEMENT, Placement
from transformer.spec import Dims

Sublayer = Callable[[Tensor], Tensor]


class OneNorm(Placement):
    """What placements with one norm a sublayer hold."""

    def __init__(self, dims: Dims, make_norm: Callable[[], nn.Module]) -> None:
        super().__init__(dims, make_norm)
        self.norm = make_norm()
        self.dropout = nn.Dropout(dims.dropout)


@PLACEMENT.register("post", paper="arXiv:1706.03762")
class PostNorm(OneNorm):
    """norm(x + f(x)); no further norm at the end of the stack."""

    def forward(self, x_BLD: Tensor, sublayer: Sublayer) -> Tensor:
        return self.norm(x_BLD + self.dropout(sublayer(x_BLD)))


@PLACEMENT.register("pre", paper="arXiv:2002.04745")
class PreNorm(OneNorm):
    """x + f(norm(x)); the stack ends with one more norm."""

    needs_final_norm: ClassVar[bool] = True

    def forward(self, x_BLD: Tensor, sublayer: Sublayer) -> Tensor:
        return x_BLD + self.dropout(sublayer(self.norm(x_BLD)))


@PLACEMENT.register("sandwich", paper="arXiv:2105.13290")
class Sandwich(OneNorm):
    """x + norm_out(f(norm(x))); the stack ends with one more norm."""

    needs_final_norm: ClassVar[bool] = True

    def __init__(self, dims: Dims, make_norm: Callable[[], nn.Module]) -> None:
        super().__init__(dims, make_norm)
        self.norm_out = make_norm()

    def forward(self, x_BLD: Tensor, sublayer: Sublayer) -> Tensor:
        return x_BLD + self.dropout(self.norm_out(sublayer(self.norm(x_BLD))))


@PLACEMENT.register("none", paper="arXiv:2103.03404")
class NoResidual(OneNorm):
    """f(norm(x)): no residual stream, so depth has to carry everything; the stack ends with one more norm."""

    needs_final_norm: ClassVar[bool] = True

    def forward(self, x_BLD: Tensor, sublayer: Sublayer) -> Tensor:
        return self.dropout(sublayer(self.norm(x_BLD)))
