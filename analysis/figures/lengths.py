"""Score against evaluation length, the trained length marked."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from analysis.compare import Comparison
from analysis.contents import by_length, last_word
from analysis.load import Loaded
from analysis.style import SCREEN, figure, looks, styled
from analysis.words import metric_label

MOST = 30


def score_against_length(loaded: Loaded, comparison: Comparison, *, width: float = SCREEN) -> Figure | None:
    """Mean with its 95 % interval at each evaluation length, one line a variant; None where the task has no lengths."""
    found = by_length(loaded, comparison)
    if not found:
        return None
    names = [row.variant for row in comparison.best(MOST)]
    look, lengths = looks([row.variant for row in comparison.rows]), list(found)
    with styled(width):
        made = figure(width, max(3.6 if width > 5 else 2.8, 0.19 * len(names) + 0.8))
        axes = made.subplots()
        for name in names:
            rows = [(length, found[length].row(name)) for length in lengths if found[length].row(name).mean]
            means = [row.mean for _, row in rows]
            seen, x = look[name], [length for length, _ in rows]
            n = min((row.n for _, row in rows), default=0)
            label = name if n == comparison.row(name).planned else f"{name} (n={n})"
            axes.plot(
                x, [m.mean for m in means if m], color=seen.color, marker=seen.marker, linestyle=seen.dash, label=label
            )
            axes.fill_between(
                x, [m.low for m in means if m], [m.high for m in means if m], color=seen.color, alpha=0.15, linewidth=0
            )
        trained = loaded.lengths.get("")
        if trained is not None:
            axes.axvline(trained, color="#555555", linestyle="--", linewidth=1)
            axes.annotate("trained length", (trained, 1), xycoords=("data", "axes fraction"), xytext=(0, 3),
                          textcoords="offset points", va="bottom", fontsize=7.5, color="#555555")  # fmt: skip
        axes.set_xticks(lengths)
        axes.set_xlabel("evaluation length (tokens)")
        axes.set_ylabel(metric_label(f"test/{last_word(comparison.metric)}"))
        cut = f"the best {MOST} of {len(comparison.others)} variants" if len(comparison.others) > MOST else None
        place: Any = "outside right center" if width > 5 else "outside lower center"  # the stubs know no "outside"
        made.legend(title=cut, loc=place, ncols=1 if width > 5 else 2)
    return made
