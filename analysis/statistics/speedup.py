"""The same question in compute: how long would the baseline have to train to be as good as the variant?

The best so far of a noisy curve is early: against an identical variant the ratio comes out below 1 by
that noise. Score both sides on the same, large evaluation set.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from analysis.statistics.paired import mean_interval
from analysis.statistics.samples import Floats, Goal, direction, fraction_between


@dataclass(frozen=True)
class SpeedUp:
    """Compute the baseline needs for the variant's score, over the compute the variant spent on it.

    2 means the variant is worth twice the training; under 1 it costs training. A seed on which
    the baseline never gets there gives only "at least", one on which it was there at its first
    evaluation only "at most", and with any of these so does the whole.
    """

    n: int
    ratio: float  # geometric mean over seeds, each bound taken at its value
    low: float
    high: float
    level: float
    per_seed: tuple[float, ...]
    n_at_least: int  # seeds on which the baseline never reached the variant's score
    n_at_most: int  # seeds on which the baseline was there at its first evaluation

    def __str__(self) -> str:
        if self.n_at_least and self.n_at_most:
            return f"between {min(self.per_seed):.2f}x and more than {max(self.per_seed):.2f}x, seed by seed"
        sign = ">= " if self.n_at_least else "<= " if self.n_at_most else ""
        return f"{sign}{self.ratio:.2f}x"


def speed_up(
    steps: npt.ArrayLike,
    baseline: npt.ArrayLike,
    variant: npt.ArrayLike,
    *,
    variant_steps: float | None = None,
    cost_ratio: float = 1.0,
    goal: Goal = "min",
    level: float = 0.95,
) -> SpeedUp:
    """r_i = s_i / (variant_steps * cost_ratio), s_i the step at which baseline seed i first matches variant seed i.

    s_i is read off the best score so far, linear in log step between evaluations. Seeds give
    a t interval of mean log r. With bounds among them that would be a guess, so the interval is then the
    one-sided one of the median by order statistics: (low, inf) or (0, high), NaN under five seeds at 95 %.

    Args:
        steps: where the baseline was evaluated, rising and positive, shape (S,).
        baseline: its scores, shape (n, S). A NaN (it diverged) counts as the worst score, here and below.
        variant: final scores on the same seeds, shape (n,).
        variant_steps: steps that the variant trained; the baseline's last step where not given.
        cost_ratio: compute of one variant step over one baseline step, 1.2 for a variant 20 % dearer.
        goal, level: which way is better; coverage of the interval.

    Raises:
        ValueError: shapes do not fit, steps do not rise from above 0, or no seed is given.

    Source: the ratio of compute at equal loss, as in Kaplan et al. 2020.
    """
    at, curves, finals = _checked(steps, baseline, variant, direction(goal))
    fraction_between(level, "level")
    spent = (float(at[-1]) if variant_steps is None else variant_steps) * cost_ratio
    if not spent > 0:
        raise ValueError(f"variant_steps={variant_steps} and cost_ratio={cost_ratio} must be positive")
    best = np.maximum.accumulate(curves, axis=1)
    log_ratio = np.array([_log_step(np.log(at), c, f) for c, f in zip(best, finals, strict=True)]) - math.log(spent)
    least = best[:, -1] < finals
    most = best[:, 0] >= finals
    ratio, low, high = _interval(log_ratio, least, most, level)
    per_seed = tuple(float(r) for r in np.exp(log_ratio))
    return SpeedUp(finals.size, ratio, low, high, level, per_seed, int(least.sum()), int(most.sum()))


def _checked(
    steps: npt.ArrayLike, baseline: npt.ArrayLike, variant: npt.ArrayLike, sign: float
) -> tuple[Floats, Floats, Floats]:
    """Steps, and scores turned so that more is better and the missing are worst."""
    at, curves, finals = (np.asarray(x, dtype=np.float64) for x in (steps, baseline, variant))
    if curves.ndim != 2 or curves.shape != (finals.size, at.size) or finals.ndim != 1 or not curves.size:
        raise ValueError(
            f"steps {at.shape}, baseline {curves.shape} and variant {finals.shape} do not fit: they are "
            "(S,), (n, S) and (n,), the same seeds in the same order"
        )
    if not (at[0] > 0 and (np.diff(at) > 0).all()):
        raise ValueError("steps must rise from above 0, since the curve is read in log step; leave step 0 out")
    curves, finals = (np.where(np.isnan(x), -np.inf, sign * x) for x in (curves, finals))
    return at, curves, finals


def _log_step(log_at: Floats, best: Floats, target: float) -> float:
    """Log of the step at which the rising `best` first reaches the target; the last step where it never does."""
    reached = np.flatnonzero(best >= target)
    if not reached.size:
        return float(log_at[-1])
    i = int(reached[0])
    if i == 0 or not np.isfinite(best[i - 1]):
        return float(log_at[i])
    share = (target - best[i - 1]) / (best[i] - best[i - 1])
    return float(log_at[i - 1] + share * (log_at[i] - log_at[i - 1]))


def _interval(
    log_ratio: Floats, least: npt.NDArray[np.bool_], most: npt.NDArray[np.bool_], level: float
) -> tuple[float, float, float]:
    ratio = math.exp(float(log_ratio.mean()))
    if not (least.any() or most.any()):
        t = mean_interval(log_ratio, level=level)
        return ratio, math.exp(t.low), math.exp(t.high)
    if least.any() and most.any():
        return ratio, 0.0, math.inf
    ordered = np.sort(log_ratio)
    # The r-th smallest is below the median with probability 1 - P(Binomial(n, 1/2) < r).
    r = int(np.sum(binom.cdf(np.arange(ordered.size), ordered.size, 0.5) <= 1 - level))
    if least.any():
        return ratio, math.exp(ordered[r - 1]) if r else math.nan, math.inf
    return ratio, 0.0, math.exp(ordered[-r]) if r else math.nan
