"""What a user's own file might hold: one component for every slot, each registered with one decorator."""

import torch
from torch import nn

from transformer.attention import Softmax
from transformer.slots import (
    ATTENTION,
    FEEDFORWARD,
    INIT,
    NORM,
    PLACEMENT,
    POSITIONAL,
    SCALING,
    FeedForward,
    Init,
    Norm,
    Placement,
    Positional,
    Scaling,
    into_residual,
)


@POSITIONAL.register("user_decay")
class LearnedDecay(Positional):
    """Adds -softplus(rate_h) |i - j| with a trained rate."""

    adds_bias = True

    def __init__(self, dims, *, start: float = 0.5):
        super().__init__(dims)
        self.start = start
        self.rate = nn.Parameter(torch.zeros(dims.n_heads))

    def reset(self, generator):
        self.rate.normal_(self.start, 0.1, generator=generator)

    def bias(self, query_at, key_at):
        return -nn.functional.softplus(self.rate)[:, None, None] * (query_at[:, None] - key_at).abs()


@ATTENTION.register("user_strided")
class Strided(Softmax):
    """Sees every `stride`-th key back, itself included."""

    def __init__(self, dims, *, stride: int = 2):
        super().__init__(dims)
        self.stride = stride

    def keep(self, query_at, key_at):
        return (query_at[:, None] - key_at) % self.stride == 0


@SCALING.register("user_fixed")
class Fixed(Scaling):
    """A number of one's own."""

    def __init__(self, dims, *, value: float = 0.3):
        super().__init__(dims)
        self.value = value

    def factor(self):
        return self.value


@FEEDFORWARD.register("user_squared_relu")
class SquaredReLU(FeedForward):
    """W_down max(0, W_up x)^power"""

    def __init__(self, dims, *, power: float = 2.0):
        super().__init__(dims)
        self.power = power
        self.up = nn.Linear(dims.d_model, dims.d_ff, bias=dims.bias)
        self.down = into_residual(nn.Linear(dims.d_ff, dims.d_model, bias=dims.bias), dims)

    def forward(self, x):
        return self.down(self.up(x).relu() ** self.power)


@NORM.register("user_scale")
class Scale(Norm):
    """x * gain / norm(x)"""

    def __init__(self, dims, *, gain: float = 4.0):
        super().__init__(dims)
        self.gain = nn.Parameter(torch.full((dims.d_model,), gain))

    def forward(self, x):
        return (self.gain * x / x.norm(dim=-1, keepdim=True).clamp_min(1e-6)).to(x.dtype)


@PLACEMENT.register("user_half")
class Half(Placement):
    """norm(x + share * f(x))"""

    def __init__(self, dims, make_norm, *, share: float = 0.5):
        super().__init__(dims, make_norm)
        self.norm, self.dropout, self.share = make_norm(), nn.Dropout(dims.dropout), share

    def forward(self, x, sublayer):
        return self.norm(x + self.share * self.dropout(sublayer(x)))


@INIT.register("user_uniform")
class Uniform(Init):
    """U(-width, width) for every matrix."""

    def __init__(self, dims, *, width: float = 0.1):
        super().__init__(dims)
        self.width = width

    def linear(self, weight, generator, *, branches=0):
        weight.uniform_(-self.width, self.width, generator=generator)

    def embedding(self, weight, generator):
        weight.uniform_(-self.width, self.width, generator=generator)
