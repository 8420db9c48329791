"""The rule for a difference, given one number a seed: supported, refuted or not decided.

D = mean(d), d_i the difference on seed i, turned so that positive is what the claim says; delta the smallest that
matters.

    SUPPORTED     p < level, D > 0 and D >= delta ("strong" when the whole interval is at or above delta)
    REFUTED       the one-sided upper bound of D is below delta ("reversed" when the interval is below 0, "smaller
                  than matters" when it is above 0, "negligible" when D is shown to lie within -delta and delta)
    INCONCLUSIVE  neither; with the effect that these seeds could have found, and how many more would settle it

An equivalence says that |D| < delta: SUPPORTED when two one-sided tests show it, REFUTED when the interval is outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.statistics import (
    Paired,
    minimal_effect,
    minimal_margin,
    p_above,
    p_below,
    paired,
    seeds_for_equivalence,
    seeds_needed,
)
from analysis.verdicts.levels import Level

Label = Literal["SUPPORTED", "REFUTED", "INCONCLUSIVE"]
POWER = 0.8
MOST_SEEDS = 10_000  # a longer way than this is no way


@dataclass(frozen=True)
class Decision:
    """What one look says.

    Attributes:
        label, detail: such as REFUTED, "negligible".
        n: seeds. effect, low, high, coverage: D and its interval (also valid over all looks).
        p: two-sided, of "no difference". p_refute: one-sided, of "the effect is at least delta".
        mde: smallest true effect that n seeds find with 80 % power. sd: of the differences.
        more_seeds: about how many more would settle it if D is what it looks like; None = decided, or beyond reach.
    """

    label: Label
    detail: str
    n: int
    effect: float
    low: float
    high: float
    coverage: float
    p: float
    p_refute: float
    mde: float
    sd: float
    more_seeds: int | None

    @property
    def decided(self) -> bool:
        """Whether this look ends the matter."""
        return self.label != "INCONCLUSIVE"

    @property
    def p_decisive(self) -> float:
        """The smaller of the two p: how close this is to being decided either way."""
        return min((p for p in (self.p, self.p_refute) if not math.isnan(p)), default=1.0)

    @property
    def p_label(self) -> float:
        """Of what the label rejects: no effect, or one that matters; NaN where no p decides."""
        if self.label == "INCONCLUSIVE":
            return math.nan if math.isnan(self.p) else self.p_decisive
        return self.p if self.label == "SUPPORTED" else self.p_refute


def decide_difference(differences: Sequence[float], *, delta: float, level: Level) -> Decision:
    """A claim that D is at least delta.

    Args:
        differences: one finite number a seed, turned so that positive is what the claim says.
        delta: smallest effect that matters, positive.
        level: for the looks and the family.

    Raises:
        ValueError: delta is not positive, or a difference is not finite.
    """
    d = _both(differences, delta, level)
    p_refute = p_below(d, delta)
    label, detail = _difference(d, delta, level, p_refute)
    more = None if label != "INCONCLUSIVE" else _more_for_difference(d, delta, level)
    mde = minimal_effect(d.n, sd=d.sd, alpha=level.support, power=POWER) if d.n > 1 else math.inf
    return _decision(label, detail, d, d.p, p_refute, mde, more)


def decide_equivalence(differences: Sequence[float], *, delta: float, level: Level) -> Decision:
    """A claim that |D| is below delta; `p` is then that of the two one-sided tests.

    Raises:
        ValueError: as `decide_difference`.
    """
    d = _both(differences, delta, level)
    p = max(p_above(d, -delta), p_below(d, delta))
    outside = min(p_below(d, -delta), p_above(d, delta))
    label: Label = "INCONCLUSIVE"
    if p < level.refute:
        label = "SUPPORTED"
    elif 2 * outside < level.support:
        label = "REFUTED"
    detail = {"SUPPORTED": "equivalent", "REFUTED": "different", "INCONCLUSIVE": ""}[label]
    more = None if label != "INCONCLUSIVE" else _more_for_equivalence(d, delta, level)
    mde = minimal_margin(d.n, sd=d.sd, alpha=level.refute, power=POWER) if d.n > 1 else math.inf
    return _decision(label, detail, d, p, outside, mde, more)


def _both(differences: Sequence[float], delta: float, level: Level) -> Paired:
    if not delta > 0:
        raise ValueError(f"delta={delta} must be positive: the smallest effect that matters")
    return paired(differences, [0.0] * len(differences), goal="max", level=level.coverage)


def _difference(d: Paired, delta: float, level: Level, p_refute: float) -> tuple[Label, str]:
    if d.p < level.support and d.difference > 0 and d.difference >= delta:
        return "SUPPORTED", "strong" if d.low >= delta else ""
    if p_refute < level.refute:
        if d.p < level.support:
            return "REFUTED", "reversed" if d.difference < 0 else "smaller than matters"
        return "REFUTED", "negligible" if p_above(d, -delta) < level.refute else ""
    return "INCONCLUSIVE", ""


def _decision(
    label: Label, detail: str, d: Paired, p: float, p_refute: float, mde: float, more: int | None
) -> Decision:
    return Decision(label, detail, d.n, d.difference, d.low, d.high, d.level, p, p_refute, mde, d.sd, more)


def _more_for_difference(d: Paired, delta: float, level: Level) -> int | None:
    """To show D > 0 where it looks large enough, else to show D < delta: whichever D is on the way to."""
    if d.n < 2:
        return None
    if d.sd == 0.0:
        return _for_constant(d.n, level)
    distance = d.difference if d.difference >= delta else delta - d.difference
    alpha = level.support if d.difference >= delta else min(0.5, 2 * level.refute)
    return _within(lambda: seeds_needed(distance, sd=d.sd, alpha=alpha, power=POWER), d.n)


def _more_for_equivalence(d: Paired, delta: float, level: Level) -> int | None:
    if d.n < 2:
        return None
    if d.sd == 0.0:
        return _for_constant(d.n, level)
    distance = delta - abs(d.difference)
    if distance <= 0:
        return _within(lambda: seeds_needed(-distance or delta, sd=d.sd, alpha=level.support, power=POWER), d.n)
    return _within(lambda: seeds_for_equivalence(distance, sd=d.sd, alpha=level.refute, power=POWER), d.n)


def _within(needed: Callable[[], int], n: int) -> int | None:
    try:
        total = needed()
    except ValueError:
        return None
    return max(1, total - n) if total <= MOST_SEEDS else None


def _for_constant(n: int, level: Level) -> int:
    """Equal differences on every seed are judged by 2^-n alone."""
    return max(1, math.ceil(-math.log2(min(level.support / 2, level.refute))) - n)

