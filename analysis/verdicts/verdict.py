"""A verdict: what it says, on what evidence, how far it reaches, and how to get it again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from analysis.verdicts.decision import Label
from analysis.verdicts.gates import Gate
from analysis.words import count, decimals, number, p_phrase
from analysis.words import seconds as seconds_words

LABELS: tuple[Label, ...] = ("SUPPORTED", "REFUTED", "INCONCLUSIVE")


@dataclass(frozen=True)
class Cost:
    """What the verdict took: runs with a result, training tokens, seconds of training."""

    runs: int = 0
    tokens: float = 0.0
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{count(self.runs)} runs, {count(self.tokens)} tokens, {seconds_words(self.seconds)} of training"


@dataclass(frozen=True)
class Verdict:
    """The answer to one part of a claim.

    Attributes:
        claim, part, kind, says: which sentence. primary: decided within the claim's family (else explored).
        label, detail: SUPPORTED, REFUTED or INCONCLUSIVE, and of which sort, such as "negligible" or "fragile".
        effect, low, high, coverage: positive is what the claim says; in `unit`. For a ratio: the ratio itself.
        delta: smallest effect that matters. n: seeds (values, or repeats).
        p: of what the label rejects, no effect or one that matters; p_release: after Holm over all primary parts that
            were shown together, filled in by `released`.
        mde: smallest effect that n seeds would find; more_seeds: about how many more would settle it; None = unknown.
        by_seeds: whether more seeds can settle it. settled: no further look will change it.
        gates: the checks of robustness. notes: everything that a reader must know, one sentence each.
        scope: for which sizes, data and rates it holds. rerun: the command. runs: ids of the runs it rests on.
    """

    claim: str
    part: str
    kind: str
    says: str
    label: Label
    detail: str = ""
    primary: bool = True
    effect: float = math.nan
    low: float = math.nan
    high: float = math.nan
    coverage: float = 0.95
    unit: str = ""
    delta: float = math.nan
    n: int = 0
    p: float = math.nan
    p_release: float = math.nan
    mde: float = math.nan
    more_seeds: int | None = None
    by_seeds: bool = False
    settled: bool = True
    cost: Cost = Cost()
    gates: tuple[Gate, ...] = ()
    notes: tuple[str, ...] = ()
    scope: str = ""
    rerun: str = ""
    hash: str = ""
    runs: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`claim: part`."""
        return f"{self.claim}: {self.part}"

    @property
    def short(self) -> str:
        """`REFUTED (negligible)`."""
        word = self.label if self.label != "INCONCLUSIVE" or not self.detail.startswith("fragile") else "inconclusive"
        return f"{word} ({self.detail})" if self.detail else word

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not a number is None."""
        content: dict[str, Any] = plain(asdict(self))
        return {**content, "verdict": self.short}

    def __str__(self) -> str:
        """The whole verdict in a few lines: label, effect, scope, notes, command."""
        lines = [f"{self.name}: {self.short}{self._effect()}", f"  claim: {self.says}"]
        lines += [f"  scope: {self.scope}"] if self.scope else []
        lines += [f"  {gate.name}: {gate.state} ({gate.why})" for gate in self.gates]
        lines += [f"  note: {note}" for note in self.notes]
        lines += [f"  cost: {self.cost}"] if self.cost.runs else []
        return "\n".join([*lines, f"  again: {self.rerun}"] if self.rerun else lines)

    def _effect(self) -> str:
        if math.isnan(self.effect):
            return f" [n = {self.n}]" if self.n else ""
        places = decimals((self.high - self.low) / 2) if self.high > self.low else 4
        low, high = (number(x, places, sign=self.unit != "ratio") for x in (self.low, self.high))
        text = f" {number(self.effect, places, sign=self.unit != 'ratio')} {self.unit}".rstrip()
        text += f" [{100 * self.coverage:.3g} % CI {low} to {high}, n = {self.n}"
        against = " of an effect that matters" if self.label == "REFUTED" else ""
        text += f", {p_phrase(self.p)}{against}" if not math.isnan(self.p) else ""
        text += f", matters from {self.delta:g}" if not math.isnan(self.delta) else ""
        return f"{text}]{self._way()}"

    def _way(self) -> str:
        if self.settled or not self.by_seeds:
            return ""
        found = f"; these seeds would find {self.mde:.2g}" if 0 < self.mde < math.inf else ""
        more = f"about {self.more_seeds}" if self.more_seeds else "not even thousands of"
        more += " more seeds would settle it"
        return f"{found}; {more}" if self.n > 1 else ""


def plain(value: Any) -> Any:
    """Lists, dicts and scalars for JSON; what is not a finite number is None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value
