"""Which share of the machine's own matrix-product rate a training step reaches."""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.libraries import Size, Step
from benchmarks.pairs import interleaved, median_of, spread
from benchmarks.table import Table
from transformer.costs import costs

SIZES = {Size(64, 2, 4, 64, 32): (20, 4), Size(256, 6, 8, 256, 4): (6, 2), Size(768, 12, 12, 128, 1): (4, 1)}
LARGE = Size(768, 12, 12, 1024, 16)  # for a GPU


def measure(quick: bool) -> list[Table]:
    """Matrix product and step in turn, so that both see the same machine."""
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    torch.set_num_threads(1)
    rows = []
    sizes = {LARGE: (10, 3)} | dict(list(SIZES.items())[2:]) if cuda else SIZES
    for size, rounds in sizes.items():
        product, flops = _product(device)
        step = Step("this suite", size, device)
        seconds = interleaved({"product": product, "step": step}, rounds=rounds[quick], warmup=1)
        per_step = 3 * costs(step.model, length=size.length).flops_per_token * size.batch * size.length
        pairs = zip(seconds["product"], seconds["step"], strict=True)
        rates = [(per_step / s) / (flops / p) for p, s in pairs]
        peak = flops / median_of(seconds, "product")
        reached = per_step / median_of(seconds, "step")
        rows.append([str(size), f"{peak / 1e9:.0f}", f"{reached / 1e9:.0f}", spread(rates)])
    where = "CUDA, bf16" if cuda else "one CPU thread, fp32"
    notes = [] if cuda else ["not measured: 12 x 768 against the bf16 rate of a GPU (no CUDA device here)"]
    return [Table(
        "Share of the matrix-product rate", f"{where}. A step counts three forward passes of matrix products and "
        "nothing else; the rate is that of one large square product, measured in turn with the step.",
        ["size", "square product, GFLOP/s", "step, GFLOP/s", "share"], rows, notes,
    )]


def _product(device: str) -> tuple[Callable[[], object], int]:
    n, dtype = (8192, torch.bfloat16) if device == "cuda" else (1024, torch.float32)
    left, right = (torch.ones(n, n, device=device, dtype=dtype) for _ in range(2))
    return lambda: left @ right, 2 * n**3
