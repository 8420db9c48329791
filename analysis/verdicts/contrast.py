"""A weighted sum of scores, one number a seed, at learning rates that were chosen on validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.verdicts.evidence import Evidence, Gap, Gaps

SENSITIVITY = "lr_sensitivity:"


@dataclass(frozen=True)
class Term:
    """weight * score(arm, metric)."""

    arm: str
    metric: str
    weight: float


def terms_of(options: Sequence[Mapping[str, Any]]) -> tuple[Term, ...]:
    """Terms from their plain form."""
    return tuple(Term(str(t["arm"]), str(t["metric"]), float(t["weight"])) for t in options)


@dataclass(frozen=True)
class Contrast:
    """d_i = sum of weight * score over terms, for each seed i.

    Attributes:
        terms: turned so that positive is what the claim says.
        task: "" for the claim's own task, else the name of the second one.
    """

    evidence: Evidence
    terms: tuple[Term, ...]
    task: str = ""

    def values(self, seeds: Sequence[int], shift: int = 0) -> list[float]:
        """d_i of these seeds.

        Args:
            seeds: all of which must be there.
            shift: steps on the grid away from the chosen rates, the same for all arms.

        Raises:
            Gaps: naming every run that is needed and not there.
        """
        rates = {arm: self.rate(arm, seeds, shift) for arm in dict.fromkeys(t.arm for t in self.terms)}
        return [self._at(seed, rates) for seed in seeds]

    def _at(self, seed: int, rates: Mapping[str, float]) -> float:
        return sum(term.weight * self._score(term, rates[term.arm], seed) for term in self.terms)

    def _score(self, term: Term, rate: float, seed: int) -> float:
        grid = self.evidence.variants[term.arm, self.task]
        if term.metric.startswith(SENSITIVITY):
            return self.evidence.sensitivity(grid, seed, term.metric.removeprefix(SENSITIVITY))
        return self.evidence.score(grid[rate], seed, term.metric)

    def rate(self, arm: str, seeds: Sequence[int], shift: int = 0) -> float:
        """The learning rate at which the arm has the best mean validation score, moved by `shift` within the grid.

        Raises:
            Gaps: a run is missing.
        """
        grid = self.evidence.variants.get((arm, self.task))
        if grid is None:
            raise Gaps([Gap(arm, f"was not planned{f' on {self.task}' if self.task else ''}")])
        rates = list(grid)
        if len(rates) == 1:
            return rates[0]
        best = rates.index(self._best(grid, seeds)) + shift
        return rates[min(max(best, 0), len(rates) - 1)]

    def shifts(self, seeds: Sequence[int]) -> list[int]:
        """Which of -1 and +1 move every arm by a whole step."""
        inside = []
        for shift in (-1, 1):
            moved = [self.rate(t.arm, seeds, shift) != self.rate(t.arm, seeds) for t in self.terms]
            if moved and all(moved):
                inside.append(shift)
        return inside

    def _best(self, grid: Mapping[float, str], seeds: Sequence[int]) -> float:
        choose = self.evidence.claim["choose"]
        sign = 1.0 if choose["goal"] == "min" else -1.0
        gaps: list[Gap] = []
        means: dict[float, float] = {}
        for rate, variant in grid.items():
            try:
                values = [self.evidence.score(variant, seed, choose["metric"]) for seed in seeds]
                means[rate] = sign * sum(values) / len(values)
            except Gaps as found:
                gaps += found.gaps
        if gaps:
            raise Gaps(gaps)
        return min(means, key=lambda rate: (means[rate], rate))


def gaps_of(contrast: Contrast, seeds: Sequence[int]) -> list[Gap]:
    """Every run that the contrast needs for these seeds and that has no result, at every learning rate."""
    found: list[Gap] = []
    for term in contrast.terms:
        for variant in contrast.evidence.variants.get((term.arm, contrast.task), {}).values():
            for seed in seeds:
                try:
                    contrast.evidence.score(variant, seed, term.metric.removeprefix(SENSITIVITY))
                except Gaps as gaps:
                    found += gaps.gaps
    return list(dict.fromkeys(found))
