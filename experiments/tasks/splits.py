"""Which split an example belongs to, decided by its content alone, so that no example can be in two.

Rows are int64 (N, W), padded with 0 at the end; padding does not change where a row belongs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from experiments.seeds import stream_seed

Rows = NDArray[np.int64]
SPLITS = ("train", "validation", "test")
SHARES = (0.90, 0.05, 0.05)
ROUNDS = 50
FEWEST = 1000  # different examples; with fewer, a held-out split could be empty


def split_of(rows: Rows, seed: int, shares: tuple[float, float, float] = SHARES) -> NDArray[np.int64]:
    """Index into SPLITS of each row: a hash of its content, salted with the seed, against the shares."""
    salt, factors = np.uint64(stream_seed(seed, "split")), _factors(rows.shape[1])
    position = _mix((rows.astype(np.uint64) * factors).sum(axis=1, dtype=np.uint64) ^ salt)
    share = (position >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return np.searchsorted(np.cumsum(shares)[:2], share, side="right")


def enough(symbols: int, length: int) -> bool:
    """Whether strings of one length are at least FEWEST."""
    return symbols > 1 and length > 0 and symbols ** min(length, 10) >= FEWEST


def sample(
    draw: Callable[[int], Rows], n: int, split: str, seed: int, key: Callable[[Rows], Rows], what: str
) -> Rows:
    """`n` rows of one split: rows are drawn, and those that belong elsewhere are thrown away.

    Args:
        draw: makes the given number of rows; called until there are enough.
        key: the content of rows that decides their split, where that is not the whole row.
        what: the task, for the message.

    Raises:
        ValueError: hardly any row belongs to the split, because there are too few different examples.
    """
    wanted, kept, have = SPLITS.index(split), [], 0
    for _ in range(ROUNDS):
        rows = draw(int((n - have) / SHARES[wanted] * 1.1) + 16)
        kept.append(rows[split_of(key(rows), seed) == wanted])
        have += len(kept[-1])
        if have >= n:
            return np.concatenate(kept)[:n]
    raise ValueError(
        f"{what} has too few different examples for a {split} split of its own (seed {seed}); "
        "make its examples longer or its vocabulary larger"
    )


@lru_cache(maxsize=64)
def _factors(width: int) -> NDArray[np.uint64]:
    """One odd 64-bit number a column."""
    return _mix(np.arange(1, width + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser: every bit of the input moves every bit of the output (Steele, Lea, Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
