"""From a claim's folder to its verdicts. Nothing there raises: what is missing or damaged is in the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from analysis.load import ReportError
from analysis.statistics import holm
from analysis.verdicts.decision import Label
from analysis.verdicts.evidence import Evidence, Gap, gather
from analysis.verdicts.gates import gates
from analysis.verdicts.guard import guarded
from analysis.verdicts.looks import Seen, look, once
from analysis.verdicts.rules import Difference, Exact, Ratio, Rule, rule_of
from analysis.verdicts.scope import cost_of, run_ids, scope_of
from analysis.verdicts.verdict import Verdict
from analysis.words import listed


def verdicts(results: Path | str, name: str) -> list[Verdict]:
    """The verdict on every part of a claim, from what lies under results/<name>."""
    try:
        evidence = gather(results, name)
    except ReportError as error:
        return [Verdict(name, "all", "exact", name, "INCONCLUSIVE", "no evidence", settled=False, notes=(str(error),))]
    parts = {part["name"]: part for part in evidence.claim["parts"]}
    rules = {key: rule_of(evidence, part) for key, part in parts.items()}
    looks = evidence.claim["looks"]
    family = {key: rule for key, rule in rules.items() if parts[key]["primary"] and rule.by_seeds}
    seen = look(family, evidence.seeds, looks)
    for key, rule in rules.items():
        if key not in family:
            seen |= look({key: rule}, evidence.seeds, looks) if rule.by_seeds else {key: once(rule)}
    return [_verdict(evidence, part, rules[key], seen[key]) for key, part in parts.items()]


def released(found: Iterable[Verdict]) -> list[Verdict]:
    """The same verdicts with p_release: Holm over all primary parts shown together that a p decides."""
    rows = list(found)
    at = [i for i, v in enumerate(rows) if v.primary and v.by_seeds]
    adjusted = holm(np.array([1.0 if math.isnan(rows[i].p) else rows[i].p for i in at])).tolist() if at else []
    for i, p in zip(at, adjusted, strict=True):
        rows[i] = replace(rows[i], p_release=float(p))
    return rows


def _verdict(evidence: Evidence, part: Mapping[str, Any], rule: Rule, seen: Seen) -> Verdict:
    base = Verdict(
        claim=evidence.name, part=part["name"], kind=part["kind"], says=part["says"], label="INCONCLUSIVE",
        primary=part["primary"], unit=part["rule"].get("unit", ""), delta=float(part["rule"].get("delta", math.nan)),
        by_seeds=rule.by_seeds, scope=scope_of(evidence, rule), rerun=evidence.record["command"],
        hash=evidence.record["hash"], cost=cost_of(evidence, rule), runs=run_ids(evidence, rule, seen.seeds),
        notes=_notes(evidence, rule, seen),
    )  # fmt: skip
    decision = seen.decision
    if decision is None:
        return replace(base, detail=_nothing(evidence, rule, seen), settled=False)
    found = gates(rule, decision, seen.seeds, seen.level)
    label, detail = _after_gates(decision.label, decision.detail, [g.name for g in found if g.state == "failed"])
    if decision.decided:
        label, detail = guarded(evidence, part, label, detail, seen)
    elif seen.gaps:
        detail = _incomplete(seen.gaps)
    return replace(
        base, label=label, detail=detail, effect=decision.effect, low=decision.low, high=decision.high,
        coverage=decision.coverage, n=decision.n, p=decision.p_label, mde=decision.mde, more_seeds=decision.more_seeds,
        settled=decision.decided or not rule.by_seeds, gates=found,
        unit="ratio" if isinstance(rule, Ratio) else base.unit,
    )  # fmt: skip


def _after_gates(label: Label, detail: str, failed: Sequence[str]) -> tuple[Label, str]:
    return ("INCONCLUSIVE", f"fragile: {' and '.join(failed)}") if failed else (label, detail)


def _nothing(evidence: Evidence, rule: Rule, seen: Seen) -> str:
    if seen.gaps:
        return _incomplete(seen.gaps)
    if rule.by_seeds:
        return f"nothing is decided before {evidence.claim['looks'][0]} seeds, and {len(evidence.seeds)} were planned"
    return "no evidence"


def _incomplete(gaps: Sequence[Gap]) -> str:
    return f"incomplete: {len(gaps)} of the runs that it needs {'has' if len(gaps) == 1 else 'have'} no whole result"


def _notes(evidence: Evidence, rule: Rule, seen: Seen) -> tuple[str, ...]:
    notes = list(evidence.trouble)
    for earlier in evidence.record.get("earlier", []):
        notes.append(
            f"THE CARD WAS CHANGED AFTER RUNS EXISTED: {earlier['hash'][:8]} of {earlier['recorded']} was replaced "
            f"({'; '.join(earlier['changed'][:4])})"
        )
    if evidence.record.get("late"):
        notes.append("the card was recorded after its runs, so nothing proves that its rule was fixed before them")
    if seen.gaps:
        effect = "nothing is decided until they are there" if seen.decision is None else "the next look waits for them"
        notes.append(f"missing: {listed([str(g) for g in seen.gaps], 4)}; {effect}")
    notes += [seen.later] if seen.later else []
    if evidence.loaded is not None and not isinstance(rule, Exact | Ratio):
        notes += _about_runs(evidence, rule)
    if isinstance(rule, Difference) and seen.decision is not None:
        notes += _about_edges(rule, seen.seeds)
    return tuple(notes)


def _about_edges(rule: Difference, seeds: Sequence[int]) -> list[str]:
    """Arms whose best rate ends the grid: beyond it they may do better still."""
    edge = []
    for arm in rule.arms():
        rates = list(rule.contrast.evidence.variants[arm, ""])
        rate = rule.contrast.rate(arm, seeds)
        edge += [f"{arm} ({rate:g})"] if len(rates) > 1 and rate in (rates[0], rates[-1]) else []
    return [f"the best learning rate lies on the edge of the grid for {listed(edge, 4)}"] if edge else []


def _about_runs(evidence: Evidence, rule: Rule) -> list[str]:
    assert evidence.loaded is not None
    notes = []
    grids = [evidence.variants[arm, ""] for arm in rule.arms() if (arm, "") in evidence.variants]
    if isinstance(rule, Difference) and len(grids) > 1 and all(len(grid) == 1 for grid in grids):
        notes.append("all arms have one learning rate, which was tuned for none of them")
    if evidence.loaded.foreign:
        notes.append(f"not planned, so not read: {listed(list(evidence.loaded.foreign), 4)}")
    wanted = set(run_ids(evidence, rule, tuple(evidence.seeds)))
    rows = evidence.loaded.runs[evidence.loaded.runs["run_id"].isin(wanted)]
    diverged = rows[rows["status"] == "diverged"]
    for variant, part in diverged.groupby("variant", sort=False):
        total = int((rows["variant"] == variant).sum())
        notes.append(f"{len(part)} of {total} runs of '{variant}' diverged and count with their loss before training")
    torn = [run for run in evidence.loaded.curve_damage() if run in wanted]
    if torn:
        notes.append(f"the curves of {listed(torn, 4)} do not match their checksums and are not read")
    return notes
