"""A verdict may depend on a condition: that clipping did clip, or that less repetition was not bought with noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.statistics import mean_interval
from analysis.verdicts.contrast import Contrast, terms_of
from analysis.verdicts.decision import Label
from analysis.verdicts.evidence import Evidence, Gaps
from analysis.verdicts.looks import Seen


def guarded(evidence: Evidence, part: Mapping[str, Any], label: Label, detail: str, seen: Seen) -> tuple[Label, str]:
    """The label, or INCONCLUSIVE where the part's condition is not shown to hold: its 95 % interval must lie inside."""
    guard = part["rule"].get("guard")
    if guard is None or label == "INCONCLUSIVE":
        return label, detail
    try:
        values = Contrast(evidence, terms_of(guard["terms"])).values(seen.seeds)
    except Gaps as gaps:
        return "INCONCLUSIVE", f"its condition could not be checked: {gaps}"
    found = mean_interval(values)
    low, high = guard.get("at_least"), guard.get("at_most")
    if (low is None or found.low >= low) and (high is None or found.high <= high):
        return label, detail
    return "INCONCLUSIVE", f"{guard['says']}: {found.mean:.3g} ({found.low:.3g} to {found.high:.3g})"
