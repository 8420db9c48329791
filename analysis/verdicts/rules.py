"""One rule for each way of being right: an exact check, a difference, an equivalence, failure rates, a ratio of costs.

    exact        every measured value lies where it must                        kind: exact
    difference   a weighted sum of scores is at least delta                     kinds: quality, stability, generation
    equivalence  a weighted sum of scores lies within -delta and delta          kind: quality
    harmless     a weighted sum of scores, positive = harm, is below delta      kind: quality
    rates        some arms fail more often than others, by delta                kind: stability
    ratio        a cost is below a share of another, over repeats               kind: cost
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from analysis.statistics import fisher, mean_interval, rate_interval
from analysis.verdicts.contrast import Contrast, Term, gaps_of, terms_of
from analysis.verdicts.decision import Decision, Label, decide_difference, decide_equivalence
from analysis.verdicts.evidence import Evidence, Gap, Gaps
from analysis.verdicts.levels import Level

NAN = math.nan


class Rule(Protocol):
    """What decides a part of a claim.

    Attributes:
        by_seeds: whether more seeds can decide it.
    """

    @property
    def by_seeds(self) -> bool: ...

    def decide(self, seeds: Sequence[int], level: Level) -> Decision:
        """What these seeds say.

        Raises:
            Gaps: what is needed is not there.
        """
        ...

    def gaps(self, seeds: Sequence[int]) -> list[Gap]:
        """What it needs for these seeds that is not there."""
        ...

    def arms(self) -> tuple[str, ...]:
        """The arms that it looks at."""
        ...


@dataclass(frozen=True)
class Difference:
    """D >= delta."""

    contrast: Contrast
    delta: float
    by_seeds: bool = True

    def decide(self, seeds: Sequence[int], level: Level) -> Decision:
        return decide_difference(self.contrast.values(seeds), delta=self.delta, level=level)

    def gaps(self, seeds: Sequence[int]) -> list[Gap]:
        return gaps_of(self.contrast, seeds)

    def arms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(term.arm for term in self.contrast.terms))

    def agrees(self, label: Label, value: float) -> bool:
        """Whether a mean difference found elsewhere points the way that the label does."""
        return value > 0 if label == "SUPPORTED" else value < self.delta


@dataclass(frozen=True)
class Equivalence(Difference):
    """|D| < delta."""

    def decide(self, seeds: Sequence[int], level: Level) -> Decision:
        return decide_equivalence(self.contrast.values(seeds), delta=self.delta, level=level)

    def agrees(self, label: Label, value: float) -> bool:
        return (abs(value) < self.delta) == (label == "SUPPORTED")


@dataclass(frozen=True)
class Harmless(Difference):
    """D < delta, D the harm: what refutes a difference supports this, and the other way round."""

    def decide(self, seeds: Sequence[int], level: Level) -> Decision:
        found = decide_difference(self.contrast.values(seeds), delta=self.delta, level=level)
        turned: dict[Label, Label] = {"SUPPORTED": "REFUTED", "REFUTED": "SUPPORTED", "INCONCLUSIVE": "INCONCLUSIVE"}
        return replace(found, label=turned[found.label], detail="", p=found.p_refute, p_refute=found.p)

    def agrees(self, label: Label, value: float) -> bool:
        return (value < self.delta) == (label == "SUPPORTED")


@dataclass(frozen=True)
class Rates:
    """share of runs that fail in `more` - share that fail in `fewer` >= delta, by Fisher's exact test over all runs.

    A run fails when it diverges or ends no better than it began.
    """

    evidence: Evidence
    more: tuple[str, ...]
    fewer: tuple[str, ...]
    delta: float
    by_seeds: bool = True

    def decide(self, seeds: Sequence[int], level: Level) -> Decision:
        (k, n), (base_k, base_n) = self._count(self.more, seeds), self._count(self.fewer, seeds)
        test = fisher(k, n, base_k, base_n, level=level.coverage)
        low, high = test.variant.low - test.baseline.high, test.variant.high - test.baseline.low
        label: Label = "INCONCLUSIVE"
        if test.p < level.support and test.difference >= self.delta:
            label = "SUPPORTED"
        elif self._bound(k, n, base_k, base_n, level) < self.delta:
            label = "REFUTED"
        detail = f"{k}/{n} runs fail against {base_k}/{base_n}"
        more = None if label != "INCONCLUSIVE" else self._more((k, n), (base_k, base_n), len(seeds), level)
        p = NAN if label == "REFUTED" else test.p
        return Decision(label, detail, len(seeds), test.difference, low, high, level.coverage, p, NAN, NAN, NAN, more)

    def _count(self, arms: Sequence[str], seeds: Sequence[int]) -> tuple[int, int]:
        failed = [
            self.evidence.score(variant, seed, "failed")
            for arm in arms for variant in self.evidence.variants[arm, ""].values() for seed in seeds
        ]
        return int(sum(failed)), len(failed)

    def _more(self, one: tuple[int, int], other: tuple[int, int], seeds: int, level: Level) -> int | None:
        """Seeds at which the shares seen so far would decide; None where that is beyond reach."""
        for factor in range(2, 101):
            k, n, base_k, base_n = (factor * x for x in (*one, *other))
            if k / n - base_k / base_n >= self.delta:
                enough = fisher(k, n, base_k, base_n).p < level.support
            else:
                enough = self._bound(k, n, base_k, base_n, level) < self.delta
            if enough:
                return seeds * (factor - 1)
        return None

    def _bound(self, k: int, n: int, base_k: int, base_n: int, level: Level) -> float:
        """The difference of rates is below it with more confidence than refuting takes."""
        coverage = 1 - 2 * level.refute
        return rate_interval(k, n, level=coverage).high - rate_interval(base_k, base_n, level=coverage).low

    def gaps(self, seeds: Sequence[int]) -> list[Gap]:
        terms = tuple(Term(arm, "failed", 1.0) for arm in self.arms())
        return gaps_of(Contrast(self.evidence, terms), seeds)

    def arms(self) -> tuple[str, ...]:
        return (*self.more, *self.fewer)


@dataclass(frozen=True)
class Exact:
    """Every measured value of this part lies between its bounds. One that does not refutes; there is no chance."""

    evidence: Evidence
    part: str
    by_seeds: bool = False

    def values(self) -> list[Mapping[str, Any]]:
        """What was measured for this part."""
        measured = (self.evidence.measured or {}).get("values", [])
        return [value for value in measured if value["part"] == self.part]

    def decide(self, seeds: Sequence[int], level: Level) -> Decision:
        values = self.values()
        if not values:
            raise Gaps(self.gaps(seeds))
        wrong = [value for value in values if not _holds(value)]
        shown = wrong or values
        detail = "; ".join(_measured(value) for value in shown[:4])
        label: Label = "REFUTED" if wrong else "SUPPORTED"
        return Decision(label, detail, len(values), NAN, NAN, NAN, 1.0, NAN, NAN, NAN, NAN, None)

    def gaps(self, seeds: Sequence[int]) -> list[Gap]:
        return [] if self.values() else [Gap("check", "left nothing measured")]

    def arms(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class Ratio:
    """ratio <= at_most, with ratio = exp(mean log(a_i / b_i)) over interleaved repeats and its t interval."""

    evidence: Evidence
    part: str
    at_most: float
    by_seeds: bool = False

    def repeats(self) -> Mapping[str, Any] | None:
        """What was timed for this part."""
        found = (self.evidence.measured or {}).get("repeats", [])
        return next((one for one in found if one["part"] == self.part), None)

    def decide(self, seeds: Sequence[int], level: Level) -> Decision:
        found = self.repeats()
        if found is None:
            raise Gaps(self.gaps(seeds))
        logs = [math.log(a / b) for a, b in zip(found["a"], found["b"], strict=True)]
        interval = mean_interval(logs, level=0.95)
        ratio, low, high = (math.exp(x) for x in (interval.mean, interval.low, interval.high))
        label: Label = "SUPPORTED" if high < self.at_most else "REFUTED" if low > self.at_most else "INCONCLUSIVE"
        return Decision(label, found["what"], interval.n, ratio, low, high, 0.95, NAN, NAN, NAN, interval.sd, None)

    def gaps(self, seeds: Sequence[int]) -> list[Gap]:
        return [Gap("check", "left nothing timed")] if self.repeats() is None else []

    def arms(self) -> tuple[str, ...]:
        return ()


def _about_difference(kind: type[Difference]) -> Callable[[Evidence, Mapping[str, Any]], Rule]:
    def make(evidence: Evidence, part: Mapping[str, Any]) -> Rule:
        return kind(Contrast(evidence, terms_of(part["rule"]["terms"])), float(part["rule"]["delta"]))

    return make


def _rates(evidence: Evidence, part: Mapping[str, Any]) -> Rule:
    rule = part["rule"]
    return Rates(evidence, tuple(rule["more"]), tuple(rule["fewer"]), float(rule["delta"]))


RULES: dict[str, Callable[[Evidence, Mapping[str, Any]], Rule]] = {
    "difference": _about_difference(Difference),
    "equivalence": _about_difference(Equivalence),
    "harmless": _about_difference(Harmless),
    "rates": _rates,
    "exact": lambda evidence, part: Exact(evidence, part["name"]),
    "ratio": lambda evidence, part: Ratio(evidence, part["name"], float(part["rule"]["at_most"])),
}


def rule_of(evidence: Evidence, part: Mapping[str, Any]) -> Rule:
    """The rule of a part of a claim, as claim.json writes it."""
    return RULES[part["rule"]["name"]](evidence, part)


def _holds(value: Mapping[str, Any]) -> bool:
    low, high = value["low"], value["high"]
    return (low is None or value["value"] >= low) and (high is None or value["value"] <= high)


def _measured(value: Mapping[str, Any]) -> str:
    low, high = value["low"], value["high"]
    if low is None:
        bound = f"at most {high:.3g}"
    else:
        bound = f"at least {low:.3g}" if high is None else f"{low:.3g} to {high:.3g}"
    return f"{value['what']} {value['value']:.3g} ({'' if _holds(value) else 'not '}{bound})"
