"""What is left of the differences between positions after many layers, with and without a residual stream?"""

from __future__ import annotations

import torch
from torch import Tensor

from experiments.claims.exact.models import model, tokens
from experiments.claims.measured import Value

LENGTH, VOCAB = 32, 32


def rank_collapse() -> list[Value]:
    """|X - mean over positions| / |X| after the last layer of an untrained encoder of 2, 6, 12 and 24 layers."""
    without = {depth: _spread(depth, "none") for depth in (2, 12, 24)}
    kept = {depth: _spread(depth, "pre") for depth in (2, 12, 24)}
    return [
        Value("rank", "24 layers without residuals: what differs between positions, as a share", without[24], high=0.1),
        Value("rank", "24 layers with residuals: what differs between positions, as a share", kept[24], low=0.3),
        Value("rank", "without residuals: 24 layers over 2 layers", without[24] / without[2], high=0.5),
        Value("rank", "with residuals: 24 layers over 2 layers", kept[24] / kept[2], low=0.3),
    ]


def _spread(depth: int, placement: str) -> float:
    made = model(
        VOCAB, LENGTH, n_classes=2, architecture="encoder", n_layers=depth, placement={"name": placement},
        init={"name": "xavier"}, embedding_scale="sqrt_d_model", positional={"name": "none"},
    ).eval()
    with torch.no_grad():
        x_BLD: Tensor = made.encoder(tokens(4, LENGTH, VOCAB, "depth"))  # type: ignore[operator, union-attr]
    return float((x_BLD - x_BLD.mean(1, keepdim=True)).norm() / x_BLD.norm())
