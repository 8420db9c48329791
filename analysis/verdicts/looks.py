"""Every part of a claim, look by look: the first look that decides a part stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.verdicts.decision import Decision
from analysis.verdicts.evidence import Gap, Gaps
from analysis.verdicts.levels import ALPHA, Level, level
from analysis.verdicts.rules import Rule


@dataclass(frozen=True)
class Seen:
    """How far a part has come.

    Attributes:
        decision: of the look that decided, or of the last one; None = no look was possible.
        level: that it was held to.
        seeds: of that look.
        gaps: what is missing for the next look, with which it may end otherwise.
        later: what the later looks say that were made anyway, where that is something else.
    """

    decision: Decision | None
    level: Level
    seeds: tuple[int, ...] = ()
    gaps: tuple[Gap, ...] = ()
    later: str = ""


def look(rules: Mapping[str, Rule], seeds: Sequence[int], looks: Sequence[int]) -> dict[str, Seen]:
    """What each part says at the looks that these seeds make possible.

    At each look the parts that are still open share ALPHA by Holm's step-down: the clearest is held to ALPHA / m, the
    next to ALPHA / (m - 1), and the first that is not decided ends it. A look happens only when every run is there
    that any of its parts needs: so a run that is lost, or left out, can delay a verdict but not turn it.

    Args:
        rules: the parts that share the error, by name.
        seeds: that were planned, in order. looks: counts at which something may be decided.
    """
    decided: dict[str, Seen] = {}
    open_: dict[str, Seen] = {name: Seen(None, level(looks, len(rules))) for name in rules}
    for n in (n for n in looks if n <= len(seeds)):
        first = tuple(seeds[:n])
        gaps = {name: tuple(rules[name].gaps(first)) for name in open_}
        whole = [name for name in open_ if not gaps[name]]
        for name in open_:
            if gaps[name]:
                open_[name] = Seen(open_[name].decision, open_[name].level, open_[name].seeds, gaps[name])
        for name, seen in _step_down({name: rules[name] for name in whole}, first, looks, len(open_)).items():
            open_[name] = seen
        for name in [name for name in whole if open_[name].decision and open_[name].decision.decided]:  # type: ignore[union-attr]
            decided[name] = open_.pop(name)
    stand = {name: _with_later(rules[name], seen, seeds, looks) for name, seen in decided.items()}
    return {name: {**open_, **stand}[name] for name in rules}


def _step_down(rules: Mapping[str, Rule], seeds: tuple[int, ...], looks: Sequence[int], m: int) -> dict[str, Seen]:
    """Decisions of one look; `m` parts are open, those without all their runs among them."""
    first = {name: rule.decide(seeds, level(looks, m)) for name, rule in rules.items()}
    found: dict[str, Seen] = {}
    share = m
    for name in sorted(rules, key=lambda name: first[name].p_decisive):
        at = level(looks, max(1, share))
        found[name] = Seen(rules[name].decide(seeds, at), at, seeds)
        share -= found[name].decision.decided  # type: ignore[union-attr]
    return found


def _with_later(rule: Rule, seen: Seen, seeds: Sequence[int], looks: Sequence[int]) -> Seen:
    last = max((n for n in looks if n <= len(seeds)), default=0)
    if last <= len(seen.seeds):
        return seen
    try:
        now = rule.decide(seeds[:last], seen.level)
    except Gaps:
        return seen
    assert seen.decision is not None
    same = now.label == seen.decision.label
    later = "" if same else f"with {last} seeds it would be {now.label}; the look at {len(seen.seeds)} stands"
    return Seen(seen.decision, seen.level, seen.seeds, seen.gaps, later)


def once(rule: Rule) -> Seen:
    """A part that seeds cannot change: decided by what was measured."""
    at = level((5,), 1, ALPHA)
    gaps = tuple(rule.gaps(()))
    return Seen(None if gaps else rule.decide((), at), at, (), gaps)
