"""Forest plot: each variant's paired difference to the baseline with its interval, and n."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis.compare import Comparison, Row
from analysis.contents import raw_interval
from analysis.style import SCREEN, TWO_COLUMNS, Look, empty, figure, looks, robust_limits, styled
from analysis.words import decimals, interval, metric_name, number, p_value, unit

MOST = 60


def forest(comparison: Comparison, *, width: float = SCREEN) -> Figure:
    """variant − baseline in the metric's unit, 95 % t interval over shared seeds, best at the top.

    Intervals far outside the others are cut to an arrow; their numbers stand at the right.
    """
    rows = shown(comparison)
    with styled(width):
        made = figure(width, 1.0 + max(1.2, (0.25 if width > 7 else 0.19) * len(rows)))
        axes = made.subplots()
        if not rows:
            empty(axes, "no variant shares two seeds with the baseline yet")
            return made
        look = looks([row.variant for row in comparison.rows])
        bounds = [raw_interval(row) for row in rows]
        limits = robust_limits([min(b[0], 0.0) for b in bounds], [max(b[1], 0.0) for b in bounds])
        for y, row in enumerate(rows):
            _row(axes, y, row, look[row.variant], limits)
        axes.axvline(0, color="#000000", linewidth=1)
        if limits:
            axes.set_xlim(min(limits[0], 0), max(limits[1], 0))
        axes.set_yticks(range(len(rows)), [row.variant for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        _numbers(axes, rows, width)
        axes.set_xlabel(_label(comparison, width))
        if width > TWO_COLUMNS:  # in a paper the caption says it
            axes.set_title(_title(comparison, rows))
    return made


def shown(comparison: Comparison) -> list[Row]:
    """Rows with an interval, best first; of very many, the two ends."""
    rows = [row for row in comparison.others if row.n_pairs >= 2]
    rows.sort(key=lambda row: -row.paired.difference if row.paired else 0.0)
    return rows if len(rows) <= MOST else rows[: MOST // 2] + rows[-MOST // 2 :]


def _row(axes, y: int, row: Row, look: Look, limits: tuple[float, float] | None) -> None:  # type: ignore[no-untyped-def]
    assert row.paired is not None, row.variant
    low, high = raw_interval(row)
    value = row.paired.raw_difference
    if limits and not limits[0] <= value <= limits[1]:
        at, outward = (0.985, ">") if value > limits[1] else (0.015, "<")
        axes.plot([at], [y], outward, color=look.color, markersize=8, zorder=3, transform=axes.get_yaxis_transform())
        return
    axes.plot(
        [low, high], [y, y], color=look.color, linewidth=1.8, solid_capstyle="butt", gid=f"interval {row.variant}"
    )
    hollow = row.verdict not in ("better", "worse")
    axes.plot([value], [y], look.marker, color=look.color, markerfacecolor="white" if hollow else look.color, zorder=3)


def _numbers(axes, rows: list[Row], width: float) -> None:  # type: ignore[no-untyped-def]
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(rows)), [_text(row, width) for row in rows])
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)


def _text(row: Row, width: float) -> str:
    assert row.paired is not None, row.variant
    low, high = raw_interval(row)
    value = number(row.paired.raw_difference, decimals((high - low) / 2), sign=True)
    n = f"n={row.n_pairs}" + (f", {row.counts['diverged']}/{row.planned} diverged" if row.counts["diverged"] else "")
    return f"{value}  n={row.n_pairs}" if width < 5 else f"{value} ({interval(low, high)})  p {p_value(row.p)}  {n}"


def _label(comparison: Comparison, width: float) -> str:
    units = f" ({unit(comparison.metric)})" if unit(comparison.metric) else ""
    better = "← better" if comparison.goal == "min" else "better →"
    gap = "\n" if width < 5 else "   "
    return f"Δ {metric_name(comparison.metric)} to the baseline{units}{gap}{better}"


def _title(comparison: Comparison, rows: list[Row]) -> str:
    sizes = sorted({row.n_pairs for row in rows})
    n = f"n = {sizes[0]}" if len(sizes) == 1 else f"n = {sizes[0]} to {sizes[-1]}"
    cut = f", {len(rows)} of {len(comparison.others)} variants" if len(rows) < len(comparison.others) else ""
    return f"Paired difference to the baseline, 95 % CI ({n}{cut}; filled: p < 0.05 after Holm)"
