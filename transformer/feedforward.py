"""Position-wise layers, (B, L, D) -> (B, L, D). No dropout inside: it sits on the residual branch alone."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from transformer.slots import FEEDFORWARD, FeedForward, into_residual
from transformer.spec import Dims

Gelu = Literal["none", "tanh"]


class TwoMatrices(FeedForward):
    """W_down act(W_up x)"""

    def __init__(self, dims: Dims) -> None:
        super().__init__(dims)
        self.up = nn.Linear(dims.d_model, dims.d_ff, bias=dims.bias)
        self.down = into_residual(nn.Linear(dims.d_ff, dims.d_model, bias=dims.bias), dims)

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.down(self.act(self.up(x_BLD)))

    def act(self, h_BLF: Tensor) -> Tensor:
        """The non-linearity."""
        raise NotImplementedError(type(self).__name__)


class Gated(FeedForward):
    """W_down (act(W_gate x) * W_up x)"""

    gated: ClassVar[bool] = True

    def __init__(self, dims: Dims) -> None:
        super().__init__(dims)
        self.gate = nn.Linear(dims.d_model, dims.d_ff, bias=dims.bias)
        self.up = nn.Linear(dims.d_model, dims.d_ff, bias=dims.bias)
        self.down = into_residual(nn.Linear(dims.d_ff, dims.d_model, bias=dims.bias), dims)

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.down(self.act(self.gate(x_BLD)) * self.up(x_BLD))

    def act(self, h_BLF: Tensor) -> Tensor:
        """What the gate passes through."""
        raise NotImplementedError(type(self).__name__)


@FEEDFORWARD.register("relu", paper="arXiv:1706.03762")
class ReLU(TwoMatrices):
    """W_down max(0, W_up x)"""

    def act(self, h_BLF: Tensor) -> Tensor:
        return F.relu(h_BLF)


@FEEDFORWARD.register("gelu", paper="arXiv:1606.08415")
class GELU(TwoMatrices):
    """W_down gelu(W_up x); approximate `none` is x Phi(x) by erf, `tanh` is what GPT-2 uses."""

    def __init__(self, dims: Dims, *, approximate: Gelu = "none") -> None:
        super().__init__(dims)
        self.approximate = approximate

    def act(self, h_BLF: Tensor) -> Tensor:
        return F.gelu(h_BLF, approximate=self.approximate)


@FEEDFORWARD.register("silu", paper="arXiv:1702.03118")
class SiLU(TwoMatrices):
    """W_down silu(W_up x), silu(x) = x sigmoid(x)"""

    def act(self, h_BLF: Tensor) -> Tensor:
        return F.silu(h_BLF)


@FEEDFORWARD.register("swiglu", paper="arXiv:2002.05202")
class SwiGLU(Gated):
    """W_down (silu(W_gate x) * W_up x)"""

    def act(self, h_BLF: Tensor) -> Tensor:
        return F.silu(h_BLF)


@FEEDFORWARD.register("geglu", paper="arXiv:2002.05202")
class GeGLU(Gated):
    """W_down (gelu(W_gate x) * W_up x); approximate `tanh` is what T5 1.1 uses."""

    def __init__(self, dims: Dims, *, approximate: Gelu = "none") -> None:
        super().__init__(dims)
        self.approximate = approximate

    def act(self, h_BLF: Tensor) -> Tensor:
        return F.gelu(h_BLF, approximate=self.approximate)


@FEEDFORWARD.register("reglu", paper="arXiv:2002.05202")
class ReGLU(Gated):
    """W_down (max(0, W_gate x) * W_up x)"""

    def act(self, h_BLF: Tensor) -> Tensor:
        return F.relu(h_BLF)


@FEEDFORWARD.register("bilinear", paper="arXiv:2002.05202")
class Bilinear(Gated):
    """W_down (W_gate x * W_up x)"""

    def act(self, h_BLF: Tensor) -> Tensor:
        return h_BLF
