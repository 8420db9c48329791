"""How far a verdict reaches: sizes, tokens, data and learning rates, read from the runs and not from intentions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from analysis.verdicts.evidence import WHOLE, Evidence
from analysis.verdicts.rules import Rule
from analysis.verdicts.verdict import Cost
from analysis.words import count, setting


def scope_of(evidence: Evidence, rule: Rule) -> str:
    """`at 0.1 M parameters, 0.3 M tokens, lr 0.001 to 0.01, on text(corpus=austen): <the claim's own words>`."""
    words = str(evidence.claim["scope"])
    if evidence.loaded is None or not rule.arms():
        return words
    runs = _runs(evidence, rule)
    config = evidence.loaded.meta.get("baseline_config") or {}
    facts = [
        _span(runs["parameters"], "parameters"), _span(runs["tokens"], "tokens"),
        f"lr {_rates(evidence, rule, config)}", f"on {setting(config.get('task') or {})}",
    ]
    return f"at {', '.join(fact for fact in facts if fact)}{f': {words}' if words else ''}"


def cost_of(evidence: Evidence, rule: Rule) -> Cost:
    """What the runs of a part's arms took, all seeds and learning rates."""
    if evidence.loaded is None or not rule.arms():
        return Cost()
    runs = _runs(evidence, rule)
    return Cost(len(runs), float(runs["tokens"].sum()), float(runs["train_seconds"].sum()))


def run_ids(evidence: Evidence, rule: Rule, seeds: Sequence[int]) -> tuple[str, ...]:
    """Planned runs of the part's arms with these seeds."""
    if evidence.loaded is None or not rule.arms():
        return ()
    runs = evidence.loaded.runs
    wanted = runs["variant"].isin(_variants(evidence, rule)) & runs["seed"].isin(list(seeds))
    return tuple(runs.loc[wanted, "run_id"])


def _runs(evidence: Evidence, rule: Rule) -> pd.DataFrame:
    assert evidence.loaded is not None
    runs = evidence.loaded.runs
    return runs[runs["variant"].isin(_variants(evidence, rule)) & runs["status"].isin(WHOLE)]


def _variants(evidence: Evidence, rule: Rule) -> set[str]:
    arms = set(rule.arms())
    return {v for (arm, _), rates in evidence.variants.items() if arm in arms for v in rates.values()}


def _rates(evidence: Evidence, rule: Rule, config: dict[str, Any]) -> str:
    grid = {rate for (arm, _), rates in evidence.variants.items() if arm in rule.arms() for rate in rates if rate}
    return _range(grid or {float((config.get("train") or {}).get("lr") or 0.0)}, lambda x: f"{x:g}")


def _span(values: pd.Series, word: str) -> str:
    known = values.dropna()
    return f"{_range(set(known), count)} {word}" if len(known) else ""


def _range(values: Iterable[float], show: Any) -> str:
    low, high = min(values), max(values)
    return show(low) if low == high else f"{show(low)} to {show(high)}"
