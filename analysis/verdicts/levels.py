"""When seeds are added by looks: the levels that keep the promised error over all of them, and over a family of parts.

A claim is looked at with 5, 10 and 20 seeds, say, and the first look that decides stands. Each look tests at one
constant level, so that the chance of a wrong SUPPORTED, and of a wrong REFUTED, over all looks is what one test at
ALPHA would have. Several primary parts of one claim share it by Holm's step-down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.statistics import constant_level

ALPHA = 0.05


@dataclass(frozen=True)
class Level:
    """What a p must be below.

    Attributes:
        support: two-sided, for "there is an effect". refute: one-sided, for "the effect is less than matters".
        share: parts among which ALPHA is still divided (1 = none).
        looks: the seed counts at which anything may be decided.
    """

    support: float
    refute: float
    share: int
    looks: tuple[int, ...]

    @property
    def coverage(self) -> float:
        """Of the two-sided interval that belongs to `support`: 0.95 for a single look at a single part."""
        return 1 - self.support


def level(looks: Sequence[int], share: int = 1, alpha: float = ALPHA) -> Level:
    """The levels for these looks when `share` parts are still undecided.

    Raises:
        ValueError: looks that do not rise from 2 in steps of 2 or more.
    """
    counts = tuple(looks)
    one_sided = constant_level(counts, 2 * alpha / share) / 2
    return Level(constant_level(counts, alpha / share), one_sided, share, counts)
