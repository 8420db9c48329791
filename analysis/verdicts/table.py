"""The table of verdicts, for a README or a page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.verdicts.verdict import Verdict
from analysis.words import decimals, interval, number, p_value


def markdown(verdicts: Sequence[Verdict]) -> str:
    """One row a part: claim, verdict, effect with interval, n, p after Holm over all shown, cost."""
    head = "| claim | says | verdict | effect (positive: as claimed) | n | p (all shown) | runs |"
    rows = [head, "|---|---|---|---|---|---|---|"]
    for v in verdicts:
        word = v.label if v.kind == "exact" else v.short  # what was measured is too long for a cell
        cells = [v.name, v.says, word, effect(v), str(v.n or ""), p_value(v.p_release), str(v.cost.runs or "")]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def effect(v: Verdict) -> str:
    """`+0.021 (+0.010 to +0.032)`; a ratio without signs; empty for an exact check."""
    return effect_words(v.effect, v.low, v.high, v.unit)


def effect_words(value: float, low: float, high: float, unit: str) -> str:
    """The same from its numbers."""
    if math.isnan(value):
        return ""
    if unit == "ratio":
        return f"{value:.3g} ({low:.3g} to {high:.3g})"
    places = decimals((high - low) / 2) if high > low else 4
    return f"{number(value, places, sign=True)} ({interval(low, high)})"
