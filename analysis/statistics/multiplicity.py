"""Many tests at once: p values that stay honest over a family, and levels for planned looks."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.special import betaincinv, roots_jacobi, stdtr, stdtrit

from analysis.statistics.samples import Floats, fraction_between

NODES = 64


def holm(pvalues: npt.ArrayLike) -> Floats:
    """p~_(i) = max over j <= i of min(1, (m - j + 1) p_(j)): the chance of any false claim stays below alpha.

    For the primary hypotheses of a report, whatever their dependence.

    Args:
        pvalues: shape (m,). A NaN (no test was possible) stays NaN and is not counted in m.

    Returns:
        Adjusted p values in the order given.

    Raises:
        ValueError: not one-dimensional, or a value outside 0..1.

    Source: Holm 1979.
    """
    p, known, order = _family(pvalues)
    m = order.size
    steps = np.maximum.accumulate(p[order] * np.arange(m, 0, -1)) if m else p[order]
    return _put_back(p, known, order, steps)


def benjamini_hochberg(pvalues: npt.ArrayLike) -> Floats:
    """p~_(i) = min over j >= i of min(1, m p_(j) / j): the expected share of false finds stays below alpha.

    For tables that explore; it wants tests that are independent or positively dependent.

    Args:
        pvalues: shape (m,). A NaN stays NaN and is not counted in m.

    Returns:
        Adjusted p values in the order given.

    Raises:
        ValueError: not one-dimensional, or a value outside 0..1.

    Source: Benjamini and Hochberg 1995.
    """
    p, known, order = _family(pvalues)
    m = order.size
    scaled = p[order] * m / np.arange(1, m + 1)
    steps = np.minimum.accumulate(scaled[::-1])[::-1] if m else scaled
    return _put_back(p, known, order, steps)


def _family(pvalues: npt.ArrayLike) -> tuple[Floats, npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The p values, where they are known, and the indices of the known ones in rising order of p."""
    p = np.asarray(pvalues, dtype=np.float64)
    if p.ndim != 1:
        raise ValueError(f"pvalues has shape {p.shape}; it must be (m,)")
    known = np.flatnonzero(~np.isnan(p))
    outside = p[known][(p[known] < 0) | (p[known] > 1)]
    if outside.size:
        raise ValueError(f"p value {outside[0]} lies outside 0..1")
    return p, known, known[np.argsort(p[known], kind="stable")]


def _put_back(p: Floats, known: npt.NDArray[np.intp], order: npt.NDArray[np.intp], steps: Floats) -> Floats:
    adjusted = np.full_like(p, np.nan)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def constant_level(looks: Sequence[int] = (5, 10, 20), alpha: float = 0.05) -> float:
    """The level c with P(p_n < c at any look n) = alpha for paired t tests of no difference.

    Looking at 5, 10 and 20 seeds with p < .05 each time errs in 12 % of null comparisons; with
    p < c = .0195 in 5 %. Pocock's own table assumes a known variance; this is exact for Student's t.

    Args:
        looks: seed counts fixed beforehand, rising, the first at least 2 and steps of at least 2.
        alpha: chance of a false claim over all looks, two-sided.

    Raises:
        ValueError: such looks or such an alpha are not possible.

    Source: Pocock 1977, for t instead of z.
    """
    counts = tuple(int(n) for n in looks)
    if not counts or min(np.diff((0, *counts))) < 2:
        raise ValueError(f"looks={tuple(looks)} must rise from 2 or more in steps of 2 seeds or more")
    return _constant_level(counts, fraction_between(alpha, "alpha"))


def crossing_probability(looks: Sequence[int], level: float) -> float:
    """P(p_n < level at any look n) where there is no difference.

    w_n = sum(x) / (sqrt(n) |x|), the cosine of the data with the constant vector, decides t_n. From n to
    n + m it moves by w' = sqrt(n / (n + m)) w sqrt(B) + sqrt(m / (n + m)) v sqrt(1 - B), with
    B ~ Beta(n/2, m/2) and v the cosine of the m new values, all independent under no difference.
    So survival is computed backwards over the looks by quadrature in B and v.
    """
    bounds = [_cosine_at(n, level) for n in looks]
    survive = None
    for k in range(len(looks) - 2, -1, -1):
        survive = _step_back(looks[k], looks[k + 1], bounds[k], bounds[k + 1], survive)
    x, weight = np.polynomial.legendre.leggauss(NODES)
    # u runs evenly over the probability mass of w at the first look that does not reject.
    first = _cosine_quantile(0.5 + x * (1 - level) / 2, looks[0])
    return 1.0 - (1 - level) * float(weight / 2 @ (survive(first) if survive else np.ones(NODES)))


@lru_cache(maxsize=64)
def _constant_level(looks: tuple[int, ...], alpha: float) -> float:
    if len(looks) == 1:
        return alpha
    # Bonferroni is too strict and no correction too lax, so the level lies between.
    return float(brentq(lambda c: crossing_probability(looks, c) - alpha, alpha / len(looks), alpha, xtol=1e-9))


def _step_back(n: int, later: int, bound: float, next_bound: float, survive: CubicSpline | None) -> CubicSpline:
    """P(no rejection at `later` and after | w at n), as a curve in w over [-bound, bound]."""
    m = later - n
    x, weight = roots_jacobi(NODES, m / 2 - 1, n / 2 - 1)
    b, weight = (x + 1) / 2, weight / weight.sum()
    w = bound * np.sin(np.pi / 2 * np.linspace(-1, 1, NODES + 1))
    old = np.sqrt(n / later) * w[:, None] * np.sqrt(b)
    new = np.broadcast_to(np.sqrt(m / later) * np.sqrt(1 - b), old.shape)
    low, high = (_cosine_cdf(np.clip((edge - old) / new, -1, 1), m) for edge in (-next_bound, next_bound))
    inside = high - low
    if survive is not None:
        x, node_weight = np.polynomial.legendre.leggauss(NODES)
        v = _cosine_quantile(low[..., None] + (x + 1) / 2 * inside[..., None], m)
        landed = np.clip(old[..., None] + new[..., None] * v, -next_bound, next_bound)
        inside = inside * (survive(landed) @ (node_weight / 2))
    return CubicSpline(w, inside @ weight)


def _cosine_at(n: int, level: float) -> float:
    """|w| at which the two-sided p of n values equals the level: w = t / sqrt(t^2 + n - 1)."""
    t = float(stdtrit(n - 1, 1 - level / 2))
    return t / float(np.sqrt(t * t + n - 1))


def _cosine_cdf(w: Floats, m: int) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(stdtr(m - 1, w * np.sqrt(m - 1) / np.sqrt(1 - w * w)), dtype=np.float64)


def _cosine_quantile(u: Floats, m: int) -> Floats:
    """w^2 ~ Beta(1/2, (m - 1)/2), with either sign."""
    size = np.sqrt(betaincinv(0.5, (m - 1) / 2, np.clip(np.abs(2 * u - 1), 0.0, 1.0)))
    return np.asarray(np.copysign(size, u - 0.5), dtype=np.float64)
