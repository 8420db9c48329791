"""Would it still be so elsewhere? Neighbouring learning rates, a test without normal differences, a second task.

A verdict that fails any of them is at most "inconclusive (fragile)". One that could not be tried is named as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from analysis.statistics import sign_flip
from analysis.verdicts.decision import Decision, Label
from analysis.verdicts.evidence import Gaps
from analysis.verdicts.levels import Level
from analysis.verdicts.rules import Difference, Equivalence, Harmless, Rule

State = Literal["passed", "failed", "not tried"]
SECOND = "second"  # the name of the second task in claim.json's cells


@dataclass(frozen=True)
class Gate:
    """One check of robustness: its name, how it came out, and why."""

    name: str
    state: State
    why: str


def gates(rule: Rule, decision: Decision, seeds: Sequence[int], level: Level) -> tuple[Gate, ...]:
    """The gates of a decided part whose rule is about differences; none for other rules."""
    if not (decision.decided and isinstance(rule, Difference)):
        return ()
    label = decision.label
    return _neighbours(rule, label, seeds), _sign_flip(rule, decision, seeds, level), _second(rule, label, seeds)


def _neighbours(rule: Difference, label: Label, seeds: Sequence[int]) -> Gate:
    name = "neighbouring learning rates"
    try:
        shifts = rule.contrast.shifts(seeds)
        means = {shift: _mean(rule.contrast.values(seeds, shift)) for shift in shifts}
    except Gaps as gaps:
        return Gate(name, "not tried", str(gaps))
    if not means:
        return Gate(name, "not tried", "there is no rate beside the chosen one on this grid")
    wrong = {shift: mean for shift, mean in means.items() if not rule.agrees(label, mean)}
    found = ", ".join(f"{mean:+.3g} at {shift:+d} step" for shift, mean in means.items())
    return Gate(name, "failed" if wrong else "passed", found)


def _sign_flip(rule: Difference, decision: Decision, seeds: Sequence[int], level: Level) -> Gate:
    name = "sign-flip test"
    if not _claims_difference(rule, decision):
        return Gate(name, "not tried", "it tests for a difference, and none is claimed")
    values = rule.contrast.values(seeds)
    try:
        found = sign_flip(values, [0.0] * len(values), alpha=level.support)
    except ValueError:
        return Gate(name, "not tried", f"no {len(values)} seeds can reach p < {level.support:.3g} with it")
    return Gate(name, "passed" if found.p < level.support else "failed", f"p = {found.p:.2g}")


def _claims_difference(rule: Difference, decision: Decision) -> bool:
    if isinstance(rule, Harmless):
        return decision.label == "REFUTED"
    return not isinstance(rule, Equivalence) and (decision.label == "SUPPORTED" or decision.detail == "reversed")


def _second(rule: Difference, label: Label, seeds: Sequence[int]) -> Gate:
    name = "second task"
    contrast = replace(rule.contrast, task=SECOND)
    if not all((arm, SECOND) in rule.contrast.evidence.variants for arm in rule.arms()):
        return Gate(name, "not tried", "none is declared at this preset")
    try:
        mean = _mean(contrast.values(seeds))
    except Gaps as gaps:
        return Gate(name, "not tried", str(gaps))
    return Gate(name, "passed" if rule.agrees(label, mean) else "failed", f"{mean:+.3g}")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
