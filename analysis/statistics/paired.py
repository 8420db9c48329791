"""One variant against one baseline over shared seeds. The seed is the unit; the difference is the datum.

d_i = score(variant, seed i) - score(baseline, seed i), turned so that positive means "variant better".
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, stdtr, stdtrit

from analysis.statistics.samples import ROUNDING, Floats, Goal, direction, fraction_between, pair, vector

NAN = math.nan


@dataclass(frozen=True)
class Paired:
    """A paired comparison. Effects are oriented (positive = variant better); means are as scored."""

    goal: Goal
    n: int
    variant_mean: float
    baseline_mean: float
    raw_difference: float  # variant_mean - baseline_mean, whatever the goal
    difference: float  # D, oriented
    sd: float  # of the differences, n - 1 in the denominator
    low: float
    high: float
    level: float
    p: float  # two-sided
    d_z: float  # D / sd
    hedges_g: float  # J * d_z
    rho: float  # correlation of the two sides over seeds: pairing pays only if positive
    wins: int
    ties: int
    p_improvement: float  # Phi(d_z): chance that the variant wins on one new seed

    @property
    def se(self) -> float:
        """sd / sqrt(n), the standard error of D."""
        return self.sd / math.sqrt(self.n) if self.n else NAN

    @property
    def constant(self) -> bool:
        """Every seed gave the same difference, so the data hold no measure of their own spread."""
        return self.n > 1 and self.sd == 0.0


@dataclass(frozen=True)
class MeanInterval:
    """A mean over seeds with its Student t interval."""

    n: int
    mean: float
    sd: float
    low: float
    high: float
    level: float


def paired(variant: npt.ArrayLike, baseline: npt.ArrayLike, *, goal: Goal = "min", level: float = 0.95) -> Paired:
    """D = mean(d); interval D -+ t_(n-1) s_d / sqrt(n); t = D sqrt(n) / s_d on n - 1 degrees of freedom.

    d_z = D / s_d, g = J d_z with J = 1 - 3 / (4 (n - 1) - 1), P(improvement) = Phi(d_z).
    Under two seeds there is no interval: low, high, p, sd and the standardised effects are NaN.
    Where all differences are equal (sd 0, up to rounding) t is infinite and would claim certainty that
    a few seeds cannot give. Then `constant` is true, the interval is the point D, p is that of
    the exact sign-flip test (2 / 2^n, or 1 where D = 0) and the standardised effects are NaN.

    Args:
        variant: one score a seed, shape (n,).
        baseline: the same seeds in the same order, shape (n,).
        goal: 'min' for losses, 'max' for accuracies.
        level: coverage of the interval.

    Raises:
        ValueError: lengths differ, a score is not finite, or an unknown goal or level.

    Source: Student 1908; Hedges 1981 (J); Lakens 2013 (d_z); Bouthillier et al. 2021 (P of improvement).
    """
    a, b = pair(variant, baseline)
    fraction_between(level, "level")
    mean, sd, d = _spread(direction(goal) * (a - b), scale=_largest(a, b))
    half = half_width(sd, d.size, level)
    effect = mean / sd if sd > 0 else NAN
    return Paired(
        goal=goal, n=d.size, variant_mean=_mean(a), baseline_mean=_mean(b),
        raw_difference=direction(goal) * mean, difference=mean, sd=sd,
        low=mean - half, high=mean + half, level=level,
        p=_two_sided_p(mean, sd, d.size), d_z=effect, hedges_g=_small_sample(d.size) * effect,
        rho=_correlation(a, b), wins=int((d > 0).sum()), ties=int((d == 0).sum()),
        p_improvement=float(ndtr(effect)),
    )  # fmt: skip


def mean_interval(values: npt.ArrayLike, *, level: float = 0.95) -> MeanInterval:
    """mean -+ t_(n-1) s / sqrt(n). NaN bounds under two values; a point where all values are equal.

    Args:
        values: one score a seed, shape (n,).
        level: coverage of the interval.

    Raises:
        ValueError: a score is not finite, or an impossible level.

    Source: Student 1908.
    """
    x = vector(values, "values")
    fraction_between(level, "level")
    mean, sd, x = _spread(x, scale=_largest(x))
    half = half_width(sd, x.size, level)
    return MeanInterval(x.size, mean, sd, mean - half, mean + half, level)


def p_above(comparison: Paired, bound: float) -> float:
    """One-sided p of "the true D is at most `bound`" against "it is more": P(T >= (D - bound) / se).

    With constant differences: 2^-n if D is past the bound, else 1. NaN under two seeds.
    """
    return _one_sided_p(comparison.difference - bound, comparison.sd, comparison.n)


def p_below(comparison: Paired, bound: float) -> float:
    """One-sided p of "the true D is at least `bound`" against "it is less"; the mirror of `p_above`."""
    return _one_sided_p(bound - comparison.difference, comparison.sd, comparison.n)


def upper_bound(comparison: Paired, *, level: float = 0.95) -> float:
    """D + t_(n-1, level) se: the true D is below it with this one-sided confidence."""
    half = half_width(comparison.sd, comparison.n, 2 * fraction_between(level, "level") - 1)
    return comparison.difference + half


def lower_bound(comparison: Paired, *, level: float = 0.95) -> float:
    """D - t_(n-1, level) se: the true D is above it with this one-sided confidence."""
    return 2 * comparison.difference - upper_bound(comparison, level=level)


def half_width(sd: float, n: int, level: float = 0.95) -> float:
    """t_(n-1, (1 + level) / 2) sd / sqrt(n): half of a two-sided interval. NaN under two seeds."""
    if n < 2:
        return NAN
    return float(stdtrit(n - 1, (1 + level) / 2)) * sd / math.sqrt(n)


def _mean(x: Floats) -> float:
    return float(x.mean()) if x.size else NAN


def _largest(*samples: Floats) -> float:
    return max((float(np.abs(x).max()) for x in samples if x.size), default=0.0)


def _spread(x: Floats, *, scale: float) -> tuple[float, float, Floats]:
    """Mean, standard deviation and values; what only rounding separates (or lifts off 0) is made equal."""
    tolerance = ROUNDING * scale
    x = np.where(np.abs(x) <= tolerance, 0.0, x)
    if x.size < 2:
        return _mean(x), NAN, x
    if np.ptp(x) <= tolerance:
        return _mean(x), 0.0, x
    return _mean(x), float(x.std(ddof=1)), x


def _two_sided_p(mean: float, sd: float, n: int) -> float:
    return min(1.0, 2 * _one_sided_p(abs(mean), sd, n)) if n > 1 else NAN


def _one_sided_p(excess: float, sd: float, n: int) -> float:
    if n < 2:
        return NAN
    if sd == 0.0:
        return 0.5**n if excess > 0 else 1.0
    return float(stdtr(n - 1, -excess * math.sqrt(n) / sd))


def _small_sample(n: int) -> float:
    return 1 - 3 / (4 * (n - 1) - 1) if n > 1 else NAN


def _correlation(a: Floats, b: Floats) -> float:
    if a.size < 2 or min(_spread(x, scale=_largest(x))[1] for x in (a, b)) == 0.0:
        return NAN
    return float(np.corrcoef(a, b)[0, 1])
