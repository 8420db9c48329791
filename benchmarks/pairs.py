"""Interleaved timing. The machine drifts, so contestants take turns and only ratios within a round are compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

Seconds = dict[str, list[float]]


def interleaved(work: Mapping[str, Callable[[], object]], *, rounds: int, warmup: int = 2) -> Seconds:
    """Seconds of each contestant in each round. The order turns by one every round."""
    names = list(work)
    seconds: Seconds = {name: [] for name in names}
    for turn in range(rounds + warmup):
        for name in names[turn % len(names):] + names[: turn % len(names)]:
            began = time.perf_counter()
            work[name]()
            synchronise()
            if turn >= warmup:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def ratios(seconds: Seconds, over: str, name: str) -> list[float]:
    """(name / over) of every round."""
    return [a / b for a, b in zip(seconds[name], seconds[over], strict=True)]


def median_of(seconds: Seconds, name: str) -> float:
    """Median seconds."""
    return statistics.median(seconds[name])


def spread(values: list[float]) -> str:
    """`1.05 (1.02 to 1.09)`: median and middle half."""
    if len(values) < 4:
        return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def synchronise() -> None:
    """Waits for the GPU, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
