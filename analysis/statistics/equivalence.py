"""Are two variants the same for all we care? Two one-sided tests, on paired differences."""

from dataclasses import dataclass

import numpy.typing as npt

from analysis.statistics.paired import lower_bound, p_above, p_below, paired, upper_bound
from analysis.statistics.samples import Goal


@dataclass(frozen=True)
class Equivalence:
    """Outcome of two one-sided tests; `low` and `high` span the 1 - 2 alpha interval of D (oriented)."""

    n: int
    margin: float
    difference: float
    low: float
    high: float
    level: float
    p_lower: float  # of "D <= -margin"
    p_upper: float  # of "D >= +margin"
    p: float
    equivalent: bool


def tost(
    variant: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    margin: float,
    goal: Goal = "min",
    alpha: float = 0.05,
) -> Equivalence:
    """p = max(p of "D <= -margin", p of "D >= margin"); equivalent where p < alpha.

    That is the same as the 1 - 2 alpha interval lying inside (-margin, margin), but for constant
    differences (see `paired`): there each one-sided p is 2^-n, and three seeds prove nothing.

    Args:
        variant: one score a seed, shape (n,).
        baseline: the same seeds in the same order, shape (n,).
        margin: largest difference that does not matter, in the metric's units; positive.
        goal: 'min' for losses, 'max' for accuracies.
        alpha: level of each one-sided test.

    Returns:
        The outcome. Under two seeds p and the bounds are NaN and `equivalent` is false.

    Raises:
        ValueError: the margin is not positive, or `paired` refuses the scores.

    Source: Schuirmann 1987.
    """
    if not margin > 0:
        raise ValueError(f"margin={margin} must be positive: the largest difference that does not matter")
    both = paired(variant, baseline, goal=goal)
    low, high = lower_bound(both, level=1 - alpha), upper_bound(both, level=1 - alpha)
    p_lower, p_upper = p_above(both, -margin), p_below(both, margin)
    # Either is NaN only where both are.
    p = max(p_lower, p_upper)
    return Equivalence(both.n, margin, both.difference, low, high, 1 - 2 * alpha, p_lower, p_upper, p, p < alpha)
