"""How much does a variant need tuning? Its sensitivity to the learning rate, and what a budget of trials buys."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from analysis.statistics.samples import Floats, Goal, direction, vector


@dataclass(frozen=True)
class Sensitivity:
    """How much loss a badly chosen learning rate costs, on average over the grid."""

    sensitivity: float
    best_learning_rate: float
    best_loss: float
    n_capped: int  # points no better than the loss at the start, diverged ones among them


@dataclass(frozen=True)
class LearningRateRange:
    """The stretch of learning rates around the best that stays within delta of it."""

    best_learning_rate: float
    best_loss: float
    low: float
    high: float
    decades: float  # log10(high / low); a lower bound where the stretch runs off the grid
    open_below: bool  # still within delta at the smallest learning rate tried
    open_above: bool


def lr_sensitivity(learning_rates: npt.ArrayLike, losses: npt.ArrayLike, *, initial_loss: float) -> Sensitivity:
    """E over the grid of [min(l(eta), l_0) - l*], with l* the best loss on the grid.

    Compare variants on the same grid only, evenly spaced in log eta. Where a variant redefines what
    a learning rate means, its grid is another grid: report `lr_range` beside it.

    Args:
        learning_rates: eta, shape (n,), each once.
        losses: final loss at each, shape (n,); NaN or infinite where the run diverged.
        initial_loss: l_0, the loss before training.

    Raises:
        ValueError: shapes differ, a rate is not positive or comes twice, or no loss is finite.

    Source: Wortsman et al. 2023, section 2.2.
    """
    eta, loss = _curve(learning_rates, losses)
    capped = np.minimum(loss, initial_loss)
    best = int(np.argmin(capped))
    n_capped = int((loss >= initial_loss).sum())
    return Sensitivity(float((capped - capped[best]).mean()), float(eta[best]), float(capped[best]), n_capped)


def lr_range(learning_rates: npt.ArrayLike, losses: npt.ArrayLike, *, delta: float) -> LearningRateRange:
    """The learning rates connected to the best one with l(eta) <= l* + delta, l linear in log eta in between.

    Next to a diverged point there is no line to follow, and the stretch ends at the last finite one.

    Args:
        learning_rates: eta, shape (n,), each once.
        losses: final loss at each, shape (n,); NaN or infinite where the run diverged.
        delta: loss that does not matter, positive.

    Raises:
        ValueError: as `lr_sensitivity`, or delta is not positive.
    """
    if not delta > 0:
        raise ValueError(f"delta={delta} must be positive: the loss that does not matter")
    eta, loss = _curve(learning_rates, losses)
    x, best = np.log10(eta), int(np.argmin(loss))
    limit = float(loss[best]) + delta
    low, open_below = _reach(x[best::-1], loss[best::-1], limit)
    high, open_above = _reach(x[best:], loss[best:], limit)
    return LearningRateRange(float(eta[best]), float(loss[best]), 10**low, 10**high, high - low, open_below, open_above)


def expected_best(values: npt.ArrayLike, *, goal: Goal = "min") -> Floats:
    """E[best of B] = sum_i v_(i) [C(i, B) - C(i - 1, B)] / C(N, B), v sorted from worst to best, B = 1..N.

    The mean over all ways of drawing B of the N trials without repeats: unbiased, where the plug-in
    form (draws with repeats) is too pessimistic.

    Args:
        values: one score a trial of a random search, shape (N,). Score a diverged trial first, say with
            the loss at the start.
        goal: 'max' gives the expected maximum, 'min' the expected minimum.

    Returns:
        Expected best score of B trials at index B - 1, shape (N,).

    Raises:
        ValueError: a value is not finite.

    Source: Dodge et al. 2019; Tang et al. 2020 for the unbiased form.
    """
    v = direction(goal) * np.sort(direction(goal) * vector(values, "values"))
    n = v.size
    i, budget = np.arange(1, n + 1)[None], np.arange(1, n + 1)[:, None]
    # C(i, B) - C(i - 1, B) = C(i - 1, B - 1): value i is the best and the other B - 1 lie below it.
    log_weight = _log_choose(i - 1, budget - 1) - _log_choose(np.full_like(i, n), budget)
    return np.asarray(np.exp(log_weight) @ v, dtype=np.float64)


def _log_choose(n: npt.NDArray[np.int_], k: npt.NDArray[np.int_]) -> Floats:
    possible = k <= n
    rest = np.where(possible, n - k, 0)
    return np.where(possible, gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(rest + 1.0), -np.inf)


def _curve(learning_rates: npt.ArrayLike, losses: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Both sorted by learning rate, a diverged loss as +inf."""
    eta, loss = vector(learning_rates, "learning_rates"), np.asarray(losses, dtype=np.float64)
    if eta.shape != loss.shape:
        raise ValueError(f"learning_rates has shape {eta.shape} and losses {loss.shape}; both are (n,)")
    if (eta <= 0).any() or np.unique(eta).size < eta.size:
        raise ValueError("learning_rates must be positive, each of them once; average over seeds first")
    if not np.isfinite(loss).any():
        raise ValueError("no loss is finite, so there is no best learning rate; extend the grid downwards")
    order = np.argsort(eta)
    return eta[order], np.where(np.isfinite(loss), loss, np.inf)[order]


def _reach(x: Floats, loss: Floats, limit: float) -> tuple[float, bool]:
    """How far from x[0] the loss stays within the limit, and whether the grid ended before it did not."""
    beyond = np.flatnonzero(loss > limit)
    if not beyond.size:
        return float(x[-1]), True
    i = int(beyond[0])
    if not np.isfinite(loss[i]):
        return float(x[i - 1]), False
    share = (limit - loss[i - 1]) / (loss[i] - loss[i - 1])
    return float(x[i - 1] + share * (x[i] - x[i - 1])), False
