"""What every statistic asks of its input: which way is better, and scores that are all there."""

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Goal: TypeAlias = Literal["min", "max"]
Floats: TypeAlias = npt.NDArray[np.float64]

# Scores near 1 carry rounding errors near 1e-16; a spread of a few of those is no spread at all.
ROUNDING = 16.0 * float(np.finfo(np.float64).eps)


def direction(goal: Goal) -> float:
    """+1 where more is better, -1 where less is: direction * difference > 0 means "better".

    Raises:
        ValueError: the goal is neither 'min' nor 'max'.
    """
    if goal not in ("min", "max"):
        raise ValueError(f"goal={goal!r} is not known; it is 'min' for losses or 'max' for accuracies")
    return 1.0 if goal == "max" else -1.0


def vector(values: npt.ArrayLike, name: str) -> Floats:
    """The values as a float64 vector, all finite.

    A run that diverged has no place here as NaN: leaving it out flatters the variant, averaging it
    hides it. The caller scores it first (for a loss: the loss at the start) and reports the count.

    Raises:
        ValueError: not one-dimensional, or a value is NaN or infinite.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it must be one score a seed, shape (n,)")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise ValueError(
            f"{name} has {bad.size} of {array.size} scores that are not finite, the first at index "
            f"{bad[0]}; score a diverged run min(loss, loss at the start), and report it beside the table"
        )
    return array


def pair(variant: npt.ArrayLike, baseline: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Both sides as finite vectors in the same seed order.

    Raises:
        ValueError: the lengths differ, or `vector` refuses one of them.
    """
    a, b = vector(variant, "variant"), vector(baseline, "baseline")
    if a.size != b.size:
        raise ValueError(
            f"variant has {a.size} scores and baseline {b.size}; pairs need the same seeds in the same order"
        )
    return a, b


def fraction_between(value: float, name: str) -> float:
    """The value, once it is known to lie strictly between 0 and 1.

    Raises:
        ValueError: it does not.
    """
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name}={value} must lie strictly between 0 and 1, such as 0.05 or 0.95")
    return float(value)
