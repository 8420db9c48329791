"""The exact test that needs no normal differences: flip the sign of each and count."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.statistics.samples import ROUNDING, Floats, fraction_between, pair

MOST_SEEDS = 40  # two halves of 2^20 sums each


@dataclass(frozen=True)
class SignFlip:
    """Outcome of the exact sign-flip test."""

    n: int
    p: float
    smallest_p: float  # 2 / 2^n, what the test could give at best


def sign_flip(variant: npt.ArrayLike, baseline: npt.ArrayLike, *, alpha: float = 0.05) -> SignFlip:
    """p = #{s in {-1, +1}^n : |sum s_i d_i| >= |sum d_i|} / 2^n, two-sided and exact.

    It checks the t test where differences look far from normal; a disagreement is a flag, not a verdict.
    It trusts that differences are symmetric about their mean, so it does not cure skew.

    Args:
        variant: one score a seed, shape (n,).
        baseline: the same seeds in the same order, shape (n,).
        alpha: the level at which p will be read.

    Raises:
        ValueError: n is too small for any data to reach alpha (2 / 2^n > alpha), or above 40.

    Source: Fisher 1935, The Design of Experiments, section 21.
    """
    a, b = pair(variant, baseline)
    fraction_between(alpha, "alpha")
    n = a.size
    smallest = min(1.0, 2.0 * 0.5**n)
    if smallest > alpha:
        needed = int(np.ceil(np.log2(2 / alpha)))
        raise ValueError(
            f"a sign-flip test with n={n} pairs cannot give p below {smallest:.4g}, so it cannot reach "
            f"alpha={alpha:.4g}; it needs n >= {needed} (or use the paired t test)"
        )
    if n > MOST_SEEDS:
        raise ValueError(f"a sign-flip test with n={n} pairs is too large to enumerate; up to {MOST_SEEDS}")
    return SignFlip(n, _exact_p(a - b), smallest)


def _exact_p(d: Floats) -> float:
    """Counts signed sums without listing all 2^n: for each sum of one half, a search in the other."""
    target = abs(float(d.sum())) - ROUNDING * float(np.abs(d).sum())
    if target <= 0:
        return 1.0
    left, right = _signed_sums(d[: d.size // 2]), np.sort(_signed_sums(d[d.size // 2 :]))
    reaching = right.size - np.searchsorted(right, target - left, side="left")
    # The sums are symmetric about 0, so the other tail holds as many.
    return min(1.0, 2.0 * float(reaching.sum(dtype=np.int64)) / 2.0**d.size)


def _signed_sums(d: Floats) -> Floats:
    sums = np.zeros(1)
    for value in d:
        sums = np.concatenate([sums + value, sums - value])
    return sums
