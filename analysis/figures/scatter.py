"""Score against what it costs: parameters, FLOPs per token, training time."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from analysis.compare import Comparison, Row
from analysis.style import SCREEN, empty, figure, looks, robust_limits, styled
from analysis.words import metric_label

COSTS = {"parameters": "parameters", "flops_per_token": "FLOPs per token", "train_seconds": "training time (s)"}
MOST = 34
MARGIN = 1.5  # factor left free at both ends of a logarithmic axis


def score_against_cost(comparison: Comparison, *, width: float = SCREEN) -> Figure:
    """Mean score with its 95 % interval over the median cost, one panel a cost, one legend; the baseline is black.

    Marks are open and stand at their true cost, also where two cover each other.
    """
    rows = [row for row in comparison.best(MOST) if row.mean]
    with styled(width):
        columns = 3 if width > 5 else 1
        per_legend_row = 0.19 if width > 7 else 0.15
        height = (
            max(3.0 if width > 7 else 2.3, per_legend_row * len(rows) + 0.6) if columns == 3 else 4.6 + 0.08 * len(rows)
        )
        made = figure(width, height)
        grid: list[Axes] = list(made.subplots(3 // columns, columns, sharey=True, squeeze=False).ravel())
        if not rows:
            for axes in grid:
                empty(axes, "no finished run yet")
            return made
        for axes, (cost, label) in zip(grid, COSTS.items(), strict=True):
            _panel(axes, rows, comparison, cost)
            axes.set_xlabel(label)
        lows, highs = [_low(r) for r in rows], [_high(r) for r in rows]
        limits = robust_limits(lows, highs)
        if limits:
            _outside(grid, rows, limits, comparison)
        pad = 0.06 * (max(highs) - min(lows)) or 0.05 * abs(max(highs)) or 1.0
        grid[0].set_ylim(*(limits or (min(lows) - pad, max(highs) + pad)))
        made.supylabel(metric_label(comparison.metric), fontsize=9 if width > 7 else 7)
        handles, names = grid[0].get_legend_handles_labels()
        cut = f"the best {MOST} of {len(comparison.others)} variants" if len(comparison.others) > MOST else None
        place = {"loc": "outside right center"} if columns == 3 else {"loc": "outside lower center", "ncols": 2}
        made.legend(handles, names, title=cut, **place)
    return made


def _low(row: Row) -> float:
    return row.mean.low if row.mean and math.isfinite(row.mean.low) else row.mean.mean if row.mean else math.nan


def _high(row: Row) -> float:
    return row.mean.high if row.mean and math.isfinite(row.mean.high) else row.mean.mean if row.mean else math.nan


def _panel(axes: Axes, rows: list[Row], comparison: Comparison, cost: str) -> None:
    look = looks([row.variant for row in comparison.rows])
    for row in rows:
        assert row.mean is not None, row.variant
        seen, half = look[row.variant], row.mean.high - row.mean.mean
        n = f" (n={row.n})" if row.n < row.planned else ""
        axes.errorbar(
            [row.cost[cost]], [row.mean.mean], yerr=[half] if math.isfinite(half) else None, fmt=seen.marker,
            color=seen.color, elinewidth=0.8, markersize=7 if row is comparison.baseline else 5.5,
            markerfacecolor="none", markeredgewidth=1.3, label=row.variant + n,
            zorder=4 if row is comparison.baseline else 3,
        )  # fmt: skip
    costs = [row.cost[cost] for row in rows if row.cost[cost] > 0]
    if costs and max(costs) > 10 * min(costs):
        axes.set_xscale("log")
        axes.set_xlim(min(costs) / MARGIN, max(costs) * MARGIN)
        return
    axes.locator_params(axis="x", nbins=4)
    axes.xaxis.set_major_formatter(EngFormatter(sep=" " if cost != "train_seconds" else ""))
    low, high = min(costs, default=0.0), max(costs, default=1.0)
    reach = 0.2 * (high - low) or 0.1 * high
    axes.set_xlim(low - reach, high + reach)


def _outside(grid: list[Axes], rows: list[Row], limits: tuple[float, float], comparison: Comparison) -> None:
    """An arrow at the edge for each variant that lies beyond it, so that nothing vanishes."""
    look = looks([row.variant for row in comparison.rows])
    for axes, cost in zip(grid, COSTS, strict=True):
        for row in rows:
            assert row.mean is not None, row.variant
            if not limits[0] <= row.mean.mean <= limits[1]:
                up = row.mean.mean > limits[1]
                axes.plot(
                    [row.cost[cost]],
                    [limits[up]],
                    "^" if up else "v",
                    color=look[row.variant].color,
                    markersize=9,
                    clip_on=False,
                )
    grid[0].annotate(
        "arrows: beyond the axis", (0.02, 0.98 if comparison.goal == "min" else 0.02), xycoords="axes fraction",
        va="top" if comparison.goal == "min" else "bottom", fontsize=7, color="#555555",
    )  # fmt: skip
