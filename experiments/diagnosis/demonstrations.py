"""Two facts that need no trained model: why scores are divided by sqrt(d_k), and what attention costs in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from experiments.claims.exact.models import slope
from experiments.seeds import torch_stream
from experiments.training.memory import Kept
from transformer.attention.scaled_dot_product import scaled_dot_product_attention

WIDTHS = (8, 16, 32, 64, 128, 256, 512)
PAIRS, KEYS, ROWS = 4096, 64, 256
SATURATED = 0.99
LENGTHS, LENGTH = (256, 512, 1024), 512
HEADS, HEAD_COUNT, MODEL_WIDTH = (2, 4, 8, 16), 4, 64


def random_vectors() -> dict[str, Any]:
    """q.k of random vectors of unit variance, up to 512 dimensions: its standard deviation is sqrt(d).

    Source: Vaswani et al. 2017, arXiv:1706.03762, footnote 4.
    """
    rows = [_width(d) for d in WIDTHS]
    q, k = _normal(PAIRS, WIDTHS[-1], "q"), _normal(PAIRS, WIDTHS[-1], "k")
    products = (q * k).sum(-1)
    return {"pairs": PAIRS, "keys": KEYS, "limit": SATURATED, "widths": rows, "widest": WIDTHS[-1],
            "products": histogram(products, 41), "scaled": histogram(products / WIDTHS[-1] ** 0.5, 41)}


def _width(d: int) -> dict[str, float]:
    q, k = _normal(ROWS, 1, d, "queries"), _normal(ROWS, KEYS, d, "keys")
    scores = (q * k).sum(-1)
    plain, scaled = scores.softmax(-1), (scores / d**0.5).softmax(-1)
    return {
        "d": d, "std": round(float(scores.std()), 4), "scaled_std": round(float((scores / d**0.5).std()), 4),
        "saturated": round(float((plain.amax(-1) > SATURATED).double().mean()), 4),
        "scaled_saturated": round(float((scaled.amax(-1) > SATURATED).double().mean()), 4),
    }


def _normal(*shape: int | str) -> torch.Tensor:
    *sizes, address = shape
    stream = torch_stream("diagnosis", "vectors", address, sizes[-1])
    return torch.randn([int(size) for size in sizes], generator=stream)


def histogram(
    values: torch.Tensor, bins: int, limits: tuple[float, float] | None = None
) -> dict[str, list[float]]:
    """Edges of the bins and the share of values in each; bins span the values unless limits are given."""
    low, high = limits or (float(values.min()), float(values.max()))
    edges = torch.linspace(low, max(high, low + 1e-6), bins + 1)
    counts = torch.histogram(values.detach().float().flatten().cpu(), edges).hist
    shares = counts / counts.sum()
    return {"edges": [round(e, 4) for e in edges.tolist()], "share": [round(c, 5) for c in shares.tolist()]}


def attention_memory() -> dict[str, Any]:
    """Bytes that attention keeps for the backward pass, measured; slopes of their logarithms.

    Source: written-out attention keeps B H L^2 weights; fused kernels keep none (Dao et al. 2022, arXiv:2205.14135).
    """
    ways = {"written out": True, "fused": False}
    lengths = {way: [_bytes(n, HEAD_COUNT, out) for n in LENGTHS] for way, out in ways.items()}
    heads = {way: [_bytes(LENGTH, n, out) for n in HEADS] for way, out in ways.items()}
    return {
        "lengths": list(LENGTHS), "heads": list(HEADS),
        "at": {"heads": HEAD_COUNT, "length": LENGTH, "width": MODEL_WIDTH},
        "by_length": lengths, "by_heads": heads,
        "slope_length": {way: round(slope(LENGTHS, sizes), 3) for way, sizes in lengths.items()},
        "slope_heads": {way: round(slope(HEADS, sizes), 3) for way, sizes in heads.items()},
    }


def _bytes(length: int, heads: int, written_out: bool) -> int:
    q, k, v = (torch.zeros(1, heads, length, MODEL_WIDTH // heads, requires_grad=True) for _ in range(3))
    kept = Kept(nn.Identity())
    with kept:
        scaled_dot_product_attention(q, k, v, causal=True, need_weights=written_out)
    return kept.nbytes()
