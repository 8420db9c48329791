"""Learning curves: the mean over seeds with interval bands, one panel a setting so that many variants stay readable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import stdtrit

from analysis.compare import Comparison, Row
from analysis.load import Loaded
from analysis.style import SCREEN, Look, empty, figure, looks, styled
from analysis.words import metric_label

IN_ONE_PANEL = 6
MOST_VARIANTS = 48


@dataclass(frozen=True)
class Panel:
    """Variants drawn together with the baseline, under the setting that they change."""

    title: str
    variants: tuple[str, ...]


def curve_metric(loaded: Loaded, metric: str, known: Sequence[str]) -> str:
    """What to draw for a test metric: the same on validation, else the validation loss, else the train loss."""
    last = metric.rsplit("/", 1)[-1]
    wanted = (metric.replace("test/", "validation/", 1), f"validation/{last}", "validation/loss", "train/loss")
    return next((name for name in wanted if name in known), wanted[0])


def bands(curves: pd.DataFrame) -> pd.DataFrame:
    """variant, step, mean, low, high, n: 95 % t intervals over the seeds that are done and logged the step."""
    done = curves[curves["status"] == "done"]
    found = done.groupby(["variant", "step"], observed=True)["value"].agg(["mean", "std", "count"]).reset_index()
    n = found["count"].to_numpy()
    half = np.where(n > 1, stdtrit(np.maximum(n - 1, 1), 0.975) * found["std"].fillna(0) / np.sqrt(n), math.nan)
    return found.assign(low=found["mean"] - half, high=found["mean"] + half).rename(columns={"count": "n"})


def panels(comparison: Comparison, *, most: int = IN_ONE_PANEL) -> list[Panel]:
    """All in one panel if few, else one panel a setting that changes; settings of one variant together."""
    if len(comparison.others) <= most:
        return [Panel("", tuple(row.variant for row in comparison.others))]
    grouped: dict[str, list[Row]] = {}
    for row in comparison.best(MOST_VARIANTS)[1:]:
        grouped.setdefault(next(iter(row.changes)) if len(row.changes) == 1 else "several changes", []).append(row)
    alone = [row for rows in grouped.values() if len(rows) == 1 for row in rows]
    if len(alone) > 1:  # a panel for one line each would be mostly paper
        grouped = {title: rows for title, rows in grouped.items() if len(rows) > 1} | {"one variant each": alone}
    found = []
    for title, rows in grouped.items():
        for start in range(0, len(rows), most):
            found.append(Panel(title, tuple(row.variant for row in rows[start : start + most])))
    return found


def learning_curves(
    loaded: Loaded, comparison: Comparison, *, curves: pd.DataFrame | None = None, width: float = SCREEN
) -> Figure:
    """Metric over optimiser steps. A run that diverged is drawn on its own, dotted, with a cross where it ended.

    Args:
        loaded, comparison: the experiment; its metric chooses what is drawn, see `curve_metric`.
        curves: long table of that metric; read from disk if not given.
        width: inches.
    """
    table = loaded.curves() if curves is None else curves
    metric = curve_metric(loaded, comparison.metric, table["metric"].unique().tolist())
    table = table[table["metric"] == metric]
    shown = panels(comparison)
    n_shown = sum(len(panel.variants) for panel in shown)
    columns = min(len(shown), 2 if width > 5 else 1)  # each with its legend beside it
    lines = math.ceil(len(shown) / columns)
    with styled(width):
        high = (2.6 if width > 7 else 1.9 if width > 5 else 1.55) if lines > 1 else 3.6 if width > 5 else 2.6
        made = figure(width, high * lines + 0.2)
        grid = made.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
        if table.empty:
            for axes in grid:
                empty(axes, "no curve has been logged yet")
            return made
        summary, look = bands(table), looks([row.variant for row in comparison.rows])
        limits = _limits(summary, comparison.goal)
        for axes, panel in zip(grid, shown, strict=False):
            _panel(axes, panel, comparison, summary, table, look)
            _note_unseen(axes, panel, summary, limits)
        for axes in grid[len(shown) :]:
            axes.set_axis_off()
        for axes in grid[: len(shown)]:
            axes.tick_params(labelbottom=True, labelleft=True)
        if limits:
            grid[0].set_ylim(*limits)
        cut = f" (the best {n_shown} of {len(comparison.others)} variants)" if n_shown < len(comparison.others) else ""
        made.supxlabel(f"optimiser steps{cut}", fontsize=9 if width > 7 else 7.5)
        made.supylabel(metric_label(metric), fontsize=9 if width > 7 else 7.5)
    return made


def _panel(
    axes: Axes, panel: Panel, comparison: Comparison, summary: pd.DataFrame, table: pd.DataFrame, look: dict[str, Look]
) -> None:
    for name in (comparison.baseline.variant, *panel.variants):
        label = _short(name, panel).replace(", ", ",\n")
        part, seen = summary[summary["variant"] == name], look[name]
        n = f" (n={comparison.row(name).n})" if comparison.row(name).n < comparison.row(name).planned else ""
        axes.plot(part["step"], part["mean"], color=seen.color, linestyle=seen.dash, marker=seen.marker,
                  markevery=max(1, len(part) // 6), markersize=4, label=label + n)  # fmt: skip
        axes.fill_between(part["step"], part["low"], part["high"], color=seen.color, alpha=0.15, linewidth=0)
        _diverged(axes, table[(table["variant"] == name) & (table["status"] == "diverged")], seen)
    axes.set_title(panel.title)
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.01, 1.0), handlelength=2.2, borderaxespad=0.2, labelspacing=0.25,
        fontsize=5.5 if made_small(axes) else None,
    )  # fmt: skip


def made_small(axes: Axes) -> bool:
    """Whether the panel sits in a one-column figure."""
    made = axes.get_figure()
    return made is not None and float(made.get_figure(root=True).get_figwidth()) < 5  # type: ignore[union-attr]


def _note_unseen(axes: Axes, panel: Panel, summary: pd.DataFrame, limits: tuple[float, float] | None) -> None:
    """Names the variants whose whole curve lies beyond the limits, so that nothing vanishes."""
    if limits is None:
        return
    ends = summary.groupby("variant", observed=True)["mean"].agg(["min", "max"])
    out = [name for name in panel.variants if name in ends.index
           and (ends.loc[name, "min"] > limits[1] or ends.loc[name, "max"] < limits[0])]  # fmt: skip
    if out:
        text = f"off the axis: {', '.join(repr(_short(name, panel)) for name in out)}"
        axes.annotate(text, (0.02, 0.02), xycoords="axes fraction", fontsize=7, color="#555555")


def _short(name: str, panel: Panel) -> str:
    """Under a panel's title the setting need not be repeated: `positional=rope` -> `rope`."""
    key = panel.title.rsplit(".", 1)[-1]
    return name[len(key) + 1 :] if key and name.startswith(f"{key}=") else name


def _diverged(axes: Axes, table: pd.DataFrame, look: Look) -> None:
    for _, run in table.groupby("run_id", observed=True):
        axes.plot(run["step"], run["value"], color=look.color, linestyle=":", linewidth=1)
        axes.plot(run["step"].iloc[-1:], run["value"].iloc[-1:], "x", color=look.color, markersize=7)


def _limits(summary: pd.DataFrame, goal: str) -> tuple[float, float] | None:
    """Twice the usual range from the best value, where one bad variant would squeeze the rest; else None."""
    if summary["step"].nunique() < 2:  # no curve yet: the spread of single points says nothing about a usual range
        return None
    per = summary.groupby("variant", observed=True)["mean"].agg(["first", "last", "min", "max"])
    best, worst = ("min", "max") if goal == "min" else ("max", "min")
    edge, usual = float(getattr(per[best], best)()), float(per[worst].median())
    far = float(getattr(per[worst], worst)())
    if not abs(far - edge) > 2 * abs(usual - edge):  # nor where there is no number: nothing is done, all diverged
        return None
    reach = 1.15 * (usual - edge)
    return tuple(sorted((edge - 0.06 * reach, edge + reach)))  # type: ignore[return-value]
