"""Scores and softmax at the start of training, by scaling, head width and initial values."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from experiments.claims.exact.models import normal
from experiments.claims.measured import Value
from experiments.seeds import torch_stream
from transformer.attention import MultiHeadAttention
from transformer.slots import INIT, SCALING
from transformer.spec import Dims, Spec

LENGTH, HEADS, ROWS = 64, 4, 8
SATURATED = 0.99


def saturation() -> list[Value]:
    """Share of softmax rows with a weight above .99, and the variance of scores."""
    found = []
    for width in (64, 256):
        unit = _weights("none", "xavier", width)
        found += [
            Value("unit-variance", f"no scaling, d_head {width}: saturated rows", _saturated(unit), low=0.1),
            Value("unit-variance", f"1/sqrt(d_head), d_head {width}: saturated rows",
                  _saturated(_weights("sqrt_d_head", "xavier", width)), high=0.01),
        ]  # fmt: skip
    small = _saturated(_weights("none", "gpt", 64))
    found.append(Value("small-init", "no scaling, d_head 64, weights of std 0.02: saturated rows", small, low=0.1))
    for width in (16, 64):
        variance = _score_variance("none", "xavier", width) / width
        found.append(Value("variance", f"variance of q.k over d_head, d_head {width}", variance, 0.7, 1.4))
    return found


def wrong_scale() -> list[Value]:
    """1/sqrt(d_model) in place of 1/sqrt(d_head): how much flatter does the softmax start?"""
    right, wrong = (_entropy(_weights(scaling, "xavier", 16)) for scaling in ("sqrt_d_head", "sqrt_d_model"))
    ratio = _score_variance("sqrt_d_model", "xavier", 16) / _score_variance("sqrt_d_head", "xavier", 16)
    return [
        Value("start", "entropy of attention over ln L, 1/sqrt(d_model)", wrong, low=0.95),
        Value("start", "entropy of attention over ln L, 1/sqrt(d_head)", right, high=0.95),
        Value("start", "variance of scores, as a share, times heads", ratio * HEADS, 0.99, 1.01),
    ]


def _attention(scaling: str, init: str, width: int) -> MultiHeadAttention:
    dims = Dims(HEADS * width, HEADS, n_layers=1, d_ff=1, vocab_size=1, max_len=LENGTH)
    made = MultiHeadAttention(
        dims.d_model, HEADS, scale=SCALING.build(Spec(scaling), dims).factor(), dims=dims
    )
    law = INIT.build(Spec(init), dims)
    with torch.no_grad():
        for name in ("query", "key", "value"):
            linear = getattr(made, name)
            law.linear(linear.weight, torch_stream("claims", name, width))
            linear.bias.zero_()
    return made.eval()


def _weights(scaling: str, init: str, width: int) -> Tensor:
    """(B, H, L, L) of an untrained layer that reads normalised input."""
    x_BLD = normal(ROWS, LENGTH, HEADS * width, address=width)
    with torch.no_grad():
        weights: Tensor | None = _attention(scaling, init, width)(x_BLD, x_BLD, x_BLD)[1]
    assert weights is not None
    return weights


def _score_variance(scaling: str, init: str, width: int) -> float:
    """Of scores between different positions."""
    made, x_BLD = _attention(scaling, init, width), normal(ROWS, LENGTH, HEADS * width, address=width)
    with torch.no_grad():
        q, k = made.heads(made.query(x_BLD)), made.heads(made.key(x_BLD))
        scores = made.scale * q @ k.transpose(-2, -1)
    return float(scores[..., ~torch.eye(LENGTH, dtype=torch.bool)].var())


def _saturated(weights: Tensor) -> float:
    return float((weights.amax(-1) > SATURATED).double().mean())


def _entropy(weights: Tensor) -> float:
    return float(torch.special.entr(weights).sum(-1).mean() / math.log(LENGTH))
