"""Every score of every seed, one row a variant: the numbers behind the means."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis.compare import Comparison, Row
from analysis.style import SCREEN, TWO_COLUMNS, empty, figure, looks, robust_limits, styled
from analysis.words import metric_label

MOST = 60


def seed_strip(comparison: Comparison, *, width: float = SCREEN) -> Figure:
    """One mark a seed, a bar at the mean, the baseline's mean as a line; at the right what is not done, as k/n."""
    import seaborn as sns

    rows = _rows(comparison)
    with styled(width):
        made = figure(width, 0.9 + max(1.2, (0.25 if width > 7 else 0.19) * len(rows)))
        axes = made.subplots()
        table = marks(rows)
        if table.empty:
            empty(axes, "no finished run yet")
            return made
        look = looks([row.variant for row in comparison.rows])
        sns.scatterplot(
            table, x="score", y="place", hue="variant", style="variant", ax=axes, legend=False,
            s=34 if width > 7 else 16,
            palette={name: one.color for name, one in look.items()}, alpha=0.85, linewidth=0.3,
            markers={name: one.marker for name, one in look.items()},
        )  # fmt: skip
        for y, row in enumerate(rows):
            if row.mean:
                axes.plot([row.mean.mean] * 2, [y - 0.32, y + 0.32], color=look[row.variant].color, linewidth=2)
        if comparison.baseline.mean:
            axes.axvline(comparison.baseline.mean.mean, color="#000000", linewidth=1, linestyle="--")
        _finish(comparison, axes, rows, width)
    return made


def marks(rows: list[Row]) -> pd.DataFrame:
    """variant, seed, score and place: the row's number, each seed a little above or below it, always the same."""
    found = [
        (row.variant, seed, score, y + 0.3 * ((index + 0.5) / row.n - 0.5))
        for y, row in enumerate(rows)
        for index, (seed, score) in enumerate(row.scores.items())
    ]
    return pd.DataFrame(found, columns=["variant", "seed", "score", "place"])


def _rows(comparison: Comparison) -> list[Row]:
    sign = 1 if comparison.goal == "min" else -1
    rows = sorted(comparison.rows, key=lambda row: sign * row.mean.mean if row.mean else float("inf"))
    if len(rows) > MOST:
        kept = rows[: MOST // 2] + rows[-MOST // 2 :]
        rows = kept if comparison.baseline in kept else [comparison.baseline, *kept]
    return rows


def _finish(comparison: Comparison, axes, rows: list[Row], width: float) -> None:  # type: ignore[no-untyped-def]
    spans = [(min(r.scores.values()), max(r.scores.values())) for r in rows if r.scores]
    limits = robust_limits([s[0] for s in spans], [s[1] for s in spans])
    if limits:
        axes.set_xlim(*limits)
    notes = [_note(row, limits, short=width < 5) for row in rows]
    axes.set_yticks(range(len(rows)), [row.variant for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(rows)), notes)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    axes.set_ylabel("")
    better = "← better" if comparison.goal == "min" else "better →"
    axes.set_xlabel(f"{metric_label(comparison.metric)}{chr(10) if width < 5 else '   '}{better}")
    if width > TWO_COLUMNS:  # in a paper the caption says it
        axes.set_title("Every seed; bar: mean; dashed: the baseline's mean")


def _note(row: Row, limits: tuple[float, float] | None, *, short: bool) -> str:
    lost = [f"{k}/{row.planned} {status}" for status, k in row.counts.items() if k and status != "done"]
    beyond = limits is not None and row.mean is not None and not limits[0] <= row.mean.mean <= limits[1]
    away = [f"mean {row.mean.mean:.3g}, off the axis"] if beyond and row.mean else []
    if short:
        return f"{'→ ' if beyond else ''}{row.n}/{row.planned}"
    return f"n={row.n}" + "".join(f", {text}" for text in away + lost)
