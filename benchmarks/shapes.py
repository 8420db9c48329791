"""How a step grows with length, from 128 to 4096 tokens, and with the number of heads."""

from __future__ import annotations

import torch

from benchmarks.libraries import Size, Step
from benchmarks.pairs import interleaved, median_of, ratios, spread
from benchmarks.table import Table

TOKENS, LENGTHS, HEADS = 4096, (128, 256, 512, 1024, 2048, 4096), (1, 2, 4, 8, 16)


def measure(quick: bool) -> list[Table]:
    """Equal tokens a step, so that everything but attention costs the same."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    rounds = 2 if quick else 5
    lengths = {n: Size(64, 2, 4, n, TOKENS // n) for n in (LENGTHS[:4] if quick else LENGTHS)}
    heads = {n: Size(64, 2, n, 512, TOKENS // 512) for n in HEADS}
    return [
        Table("Growth with length", f"2 x 64, 4 heads, {TOKENS} tokens a step, {device}, one thread; relative to "
              f"{LENGTHS[0]} tokens in interleaved steps.", ["length", "ms", "time", "memory"],
              _grown(lengths, rounds, device)),
        Table("Growth with heads", f"2 x 64, {TOKENS // 512} x 512 tokens a step; relative to one head.",
              ["heads", "ms", "time", "memory"], _grown(heads, rounds, device)),
    ]


def _grown(sizes: dict[int, Size], rounds: int, device: str) -> list[list[str]]:
    steps = {str(n): Step("this suite", size, device) for n, size in sizes.items()}
    seconds = interleaved(steps, rounds=rounds, warmup=1)
    first = next(iter(steps))
    peaks = {name: step.peak_bytes() for name, step in steps.items()}
    return [
        [name, f"{median_of(seconds, name) * 1e3:.0f}", spread(ratios(seconds, first, name)),
         f"{peaks[name] / peaks[first]:.2f}"]
        for name in steps
    ]
