"""How many seeds, or how small an effect? Exact power of the paired t test by our own integration.

T = (Z + d sqrt(n)) / S with S^2 = chi2_(n-1) / (n-1), so P(T > c) = E_S[Phi(d sqrt(n) - c S)]: a smooth
one-dimensional integral that holds down to n = 2, where library solvers lose their footing.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri, gammaln, ndtr, stdtrit

from analysis.statistics.samples import Floats, fraction_between

NODES = 200
MOST_SEEDS = 2**24


def power_of_t(n: int, effect: float, *, alpha: float = 0.05) -> float:
    """P(|T| > t_(n-1, 1-alpha/2)) for a true effect of `effect` standard deviations of the difference.

    Args:
        n: pairs. Below two the test cannot reject, and the power is 0.
        effect: |true D| / s_d.
        alpha: two-sided level; divide it by the number of primary hypotheses for a Bonferroni plan.

    Source: Johnson and Welch 1940 (non-central t).
    """
    fraction_between(alpha, "alpha")
    if n < 2:
        return 0.0
    critical, shift = float(stdtrit(n - 1, 1 - alpha / 2)), abs(effect) * math.sqrt(n)
    s, weight = _spread_nodes(n - 1, shift / critical)
    return min(1.0, float(weight @ (ndtr(shift - critical * s) + ndtr(-shift - critical * s))))


def power_of_tost(n: int, margin: float, *, alpha: float = 0.05) -> float:
    """P(both one-sided tests reject) where the true difference is 0: E_S[(2 Phi(m sqrt(n) - c S) - 1)+].

    Args:
        n: pairs.
        margin: equivalence margin m in standard deviations of the difference.
        alpha: level of each one-sided test.

    Source: Schuirmann 1987.
    """
    fraction_between(alpha, "alpha")
    if n < 2:
        return 0.0
    critical, reach = float(stdtrit(n - 1, 1 - alpha)), margin * math.sqrt(n)
    s, weight = _spread_nodes(n - 1, reach / critical)
    return float(weight @ np.maximum(0.0, 2 * ndtr(reach - critical * s) - 1))


def minimal_effect(n: int, *, sd: float = 1.0, alpha: float = 0.05, power: float = 0.8) -> float:
    """Smallest |true D| that n pairs find with this power, in the units of sd. Infinite under two pairs.

    Args:
        n: pairs.
        sd: standard deviation of the paired differences; at 1 the answer is in units of it.
        alpha: two-sided level of the t test.
        power: chance of p < alpha.
    """
    return _solve(lambda effect: power_of_t(n, effect, alpha=alpha), n, power, above=alpha) * sd


def minimal_margin(n: int, *, sd: float = 1.0, alpha: float = 0.05, power: float = 0.8) -> float:
    """Smallest margin inside which n pairs show equivalence with this power, the true difference being 0.

    Args:
        n: pairs.
        sd: standard deviation of the paired differences.
        alpha: level of each one-sided test.
        power: chance that both reject.
    """
    return _solve(lambda margin: power_of_tost(n, margin, alpha=alpha), n, power, above=0.0) * sd


def seeds_needed(delta: float, *, sd: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Smallest n at which the paired t test finds a true difference of delta with this power.

    Args:
        delta: difference worth finding, in the metric's units; positive.
        sd: standard deviation of the paired differences. From a pilot, take `sd_upper_bound` of it.
        alpha: two-sided level.
        power: chance of p < alpha.

    Raises:
        ValueError: delta is not positive or sd negative, or more than 2^24 seeds would be needed.
    """
    if not (delta > 0 and sd >= 0):
        raise ValueError(f"delta={delta} must be positive and sd={sd} not negative")
    if sd == 0:
        return 2
    return _smallest_n(lambda n: power_of_t(n, delta / sd, alpha=alpha) >= power, delta, sd)


def seeds_for_equivalence(margin: float, *, sd: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Smallest n at which two one-sided tests show equivalence with this power, the true difference being 0.

    Args:
        margin: largest difference that does not matter, in the metric's units; positive.
        sd: standard deviation of the paired differences.
        alpha: level of each one-sided test.
        power: chance that both reject.

    Raises:
        ValueError: the margin is not positive or sd negative, or 2^24 seeds would not do.
    """
    if not (margin > 0 and sd >= 0):
        raise ValueError(f"margin={margin} must be positive and sd={sd} not negative")
    if sd == 0:
        return 2
    return _smallest_n(lambda n: power_of_tost(n, margin / sd, alpha=alpha) >= power, margin, sd)


def sd_upper_bound(sd: float, n: int, *, confidence: float = 0.8) -> float:
    """sd sqrt((n - 1) / chi2_(n-1, 1 - confidence)): the true sd is below it with this confidence.

    A pilot of five pairs misjudges the spread easily; planning at this bound keeps the promised power
    in that share of pilots. Infinite under two pairs.

    Args:
        sd: standard deviation in the pilot.
        n: pairs in the pilot.
        confidence: one-sided.

    Source: Browne 1995.
    """
    if n < 2:
        return math.inf
    return sd * math.sqrt((n - 1) / float(chdtri(n - 1, fraction_between(confidence, "confidence"))))


@lru_cache(maxsize=1)
def _unit_nodes() -> tuple[Floats, Floats]:
    x, w = np.polynomial.legendre.leggauss(NODES)
    return (x + 1) / 2, w / 2


def _spread_nodes(df: int, bend: float) -> tuple[Floats, Floats]:
    """Points s and weights such that sum(w f(s)) = E[f(S)], S = sqrt(chi2_df / df).

    f turns sharply at `bend`, so the range is cut there. Beyond the ends S holds under 1e-16.
    """
    low, high = (math.sqrt(float(chdtri(df, q)) / df) for q in (1 - 1e-16, 1e-16))
    cuts = [low, min(max(bend, low), high), high]
    x, w = _unit_nodes()
    s = np.concatenate([a + (b - a) * x for a, b in pairwise(cuts)])
    weight = np.concatenate([(b - a) * w for a, b in pairwise(cuts)])
    log_density = (
        math.log(2) + df / 2 * math.log(df / 2) - float(gammaln(df / 2)) + (df - 1) * np.log(s) - df * s**2 / 2
    )
    return s, weight * np.exp(log_density)


def _solve(power_at: Callable[[float], float], n: int, power: float, *, above: float) -> float:
    """The effect at which the rising `power_at` reaches `power`."""
    if not above < power < 1:
        raise ValueError(f"power={power} must lie above {above}, what chance alone gives, and below 1")
    if n < 2:
        return math.inf
    high = 1.0
    while power_at(high) < power:
        high *= 2
    return float(brentq(lambda effect: power_at(effect) - power, 0.0, high, xtol=1e-10))


def _smallest_n(enough: Callable[[int], bool], delta: float, sd: float) -> int:
    """Doubling, then halving: `enough` is false up to some n and true from there on."""
    high = 2
    while not enough(high):
        if high >= MOST_SEEDS:
            raise ValueError(f"delta={delta} at sd={sd} needs more than {high:,} seeds; choose a larger delta")
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
