"""Counts of runs: how many diverged, and is that a difference? All exact, for a handful of seeds."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import beta, binomtest, fisher_exact

from analysis.statistics.samples import fraction_between


@dataclass(frozen=True)
class Rate:
    """k of n with its exact interval."""

    k: int
    n: int
    rate: float
    low: float
    high: float
    level: float


@dataclass(frozen=True)
class RateTest:
    """Two counts and the two-sided p of "the rates are the same"."""

    variant: Rate
    baseline: Rate
    difference: float  # variant rate - baseline rate
    p: float


@dataclass(frozen=True)
class McNemar:
    """Seeds on which exactly one side failed, and the two-sided p of "either side is as likely"."""

    n: int
    variant_only: int
    baseline_only: int
    p: float


def rate_interval(k: int, n: int, *, level: float = 0.95) -> Rate:
    """[Beta^-1(a/2; k, n-k+1), Beta^-1(1-a/2; k+1, n-k)], a = 1 - level; never covers less than `level`.

    Args:
        k: runs that did it, say diverged.
        n: runs in all. With none the rate is NaN and the interval [0, 1].
        level: coverage of the interval.

    Raises:
        ValueError: k is not between 0 and n.

    Source: Clopper and Pearson 1934.
    """
    if not 0 <= k <= n:
        raise ValueError(f"k={k} of n={n} is no count; k lies between 0 and n")
    tail = (1 - fraction_between(level, "level")) / 2
    low = float(beta.ppf(tail, k, n - k + 1)) if k > 0 else 0.0
    high = float(beta.ppf(1 - tail, k + 1, n - k)) if k < n else 1.0
    return Rate(k, n, k / n if n else np.nan, low, high, level)


def fisher(variant_k: int, variant_n: int, baseline_k: int, baseline_n: int, *, level: float = 0.95) -> RateTest:
    """Exact two-sided p of the 2 x 2 table [k, n - k], given its margins.

    Four of four against none of four gives .029 and three of three .10: divergence needs several seeds.
    It ignores the pairing; `mcnemar` uses it, but needs six discordant seeds to reach .05.

    Args:
        variant_k, variant_n: runs of the variant that did it, and in all.
        baseline_k, baseline_n: the same for the baseline.
        level: coverage of the interval of each rate.

    Raises:
        ValueError: a count outside its total.

    Source: Fisher 1935, The Logic of Inductive Inference.
    """
    a, b = rate_interval(variant_k, variant_n, level=level), rate_interval(baseline_k, baseline_n, level=level)
    table = np.array([[a.k, a.n - a.k], [b.k, b.n - b.k]])
    return RateTest(a, b, a.rate - b.rate, float(fisher_exact(table).pvalue))


def mcnemar(variant: npt.ArrayLike, baseline: npt.ArrayLike) -> McNemar:
    """p = P(|K - m/2| >= |k - m/2|), K ~ Binomial(m, 1/2), over the m seeds where exactly one side failed.

    Args:
        variant: whether the variant's run failed, one truth value a seed, shape (n,).
        baseline: the same seeds in the same order, shape (n,).

    Returns:
        The counts and p; p = 1 where no seed tells the sides apart.

    Raises:
        ValueError: the shapes differ or are not (n,), or a value is not a truth value.

    Source: McNemar 1947, in the exact binomial form.
    """
    a, b = np.asarray(variant), np.asarray(baseline)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"variant has shape {a.shape} and baseline {b.shape}; both are (n,), seed by seed")
    if not (np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all()):
        raise ValueError("mcnemar takes truth values: did this seed fail? Count scores with `paired` instead")
    only_a, only_b = int(((a == 1) & (b == 0)).sum()), int(((a == 0) & (b == 1)).sum())
    m = only_a + only_b
    return McNemar(a.size, only_a, only_b, float(binomtest(only_a, m).pvalue) if m else 1.0)
