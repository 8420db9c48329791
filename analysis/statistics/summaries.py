"""Summaries over many tasks, for a dashboard. For one task and a few seeds, `paired` is the tool.

Scores come as one row a run (a seed) and one column a task, shape (n_runs, n_tasks), on a common scale.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.statistics.samples import Floats, Goal, direction, fraction_between, vector

# Resampling a handful of seeds gives intervals that are far too narrow; pooling over tasks mends that.
FEWEST_TASKS = 5


@dataclass(frozen=True)
class Bootstrap:
    """An estimate and its percentile interval."""

    estimate: float
    low: float
    high: float
    level: float
    n_runs: int
    n_tasks: int


def iqm(values: npt.ArrayLike) -> float:
    """Interquartile mean: the mean of what is left once floor(n / 4) values are cut off at each end.

    Up to three values nothing is cut, and it is the plain mean.

    Args:
        values: scores of any shape, pooled.

    Raises:
        ValueError: no value, or one that is not finite.

    Source: Agarwal et al. 2021.
    """
    x = np.sort(vector(np.ravel(np.asarray(values, dtype=np.float64)), "values"))
    if not x.size:
        raise ValueError("the interquartile mean of no values does not exist")
    cut = x.size // 4
    return float(x[cut : x.size - cut].mean())


def performance_profile(scores: npt.ArrayLike, thresholds: npt.ArrayLike, *, goal: Goal = "max") -> Floats:
    """F(tau) = mean over tasks of the share of runs whose score is better than tau.

    Args:
        scores: shape (n_runs, n_tasks).
        thresholds: tau, shape (n_thresholds,).
        goal: 'max' counts scores above tau, 'min' below.

    Returns:
        Shares, shape (n_thresholds,).

    Raises:
        ValueError: the scores are not a finite, non-empty table.

    Source: Agarwal et al. 2021, after Dolan and Moré 2002.
    """
    table, sign = _table(scores, "scores"), direction(goal)
    tau = vector(thresholds, "thresholds")
    better = sign * table[None] > sign * tau[:, None, None]
    return np.asarray(better.mean(axis=(1, 2)), dtype=np.float64)


def probability_of_improvement(variant: npt.ArrayLike, baseline: npt.ArrayLike, *, goal: Goal = "max") -> float:
    """Mean over tasks of P(X > Y) + P(X = Y) / 2, over all pairs of a variant's run X and a baseline's Y.

    It compares every run with every other, so shared seeds do not help here as they do in `paired`.

    Args:
        variant: shape (n_runs, n_tasks).
        baseline: shape (m_runs, n_tasks), the same tasks.
        goal: which way is better.

    Raises:
        ValueError: the tables are not finite, or differ in tasks.

    Source: Agarwal et al. 2021; Mann and Whitney 1947.
    """
    a, b = _table(variant, "variant"), _table(baseline, "baseline")
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"variant has {a.shape[1]} tasks and baseline {b.shape[1]}; both need the same tasks")
    gap = direction(goal) * (a[:, None] - b[None])
    return float(((gap > 0) + 0.5 * (gap == 0)).mean())


def stratified_bootstrap(
    statistic: Callable[..., float],
    *tables: npt.ArrayLike,
    rng: np.random.Generator,
    n_resamples: int = 2000,
    level: float = 0.95,
) -> Bootstrap:
    """Percentile interval of statistic(*tables): runs are drawn anew, with replacement, within each task.

    Several tables share each draw, so the seeds that pair a variant with its baseline stay together.

    Args:
        statistic: takes as many tables as are given and returns a number.
        tables: each of shape (n_runs, n_tasks).
        rng: where the draws come from.
        n_resamples: draws.
        level: coverage of the interval.

    Raises:
        ValueError: fewer than five tasks, or tables that differ in shape.

    Source: Agarwal et al. 2021; Efron 1979.
    """
    arrays = [_table(table, "scores") for table in tables]
    shapes = {array.shape for array in arrays}
    if len(shapes) != 1:
        raise ValueError(f"tables of shapes {sorted(shapes)} cannot share draws; give one or more of one shape")
    n_runs, n_tasks = arrays[0].shape
    if n_tasks < FEWEST_TASKS:
        raise ValueError(
            f"a bootstrap over {n_tasks} tasks is too narrow to trust; it needs {FEWEST_TASKS} or more "
            "(with fewer, use paired() on each task)"
        )
    tail = (1 - fraction_between(level, "level")) / 2
    draws = (rng.integers(n_runs, size=(n_runs, n_tasks)) for _ in range(n_resamples))
    values = [statistic(*(np.take_along_axis(array, draw, axis=0) for array in arrays)) for draw in draws]
    low, high = np.quantile(values, [tail, 1 - tail])
    return Bootstrap(float(statistic(*arrays)), float(low), float(high), level, n_runs, n_tasks)


def _table(scores: npt.ArrayLike, name: str) -> Floats:
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or not table.size:
        raise ValueError(f"{name} has shape {table.shape}; it must be (n_runs, n_tasks), none of them 0")
    vector(table.ravel(), name)
    return table
