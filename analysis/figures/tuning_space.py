"""Figures of what was searched: each parameter alone, two together, all of them; and scores over learning rates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from analysis.figures.tuning import best_against_budget, optimisation_history, parameter_importance
from analysis.load import Loaded
from analysis.statistics import mean_interval
from analysis.style import SCREEN, empty, figure, looks, robust_limits, styled
from analysis.tuning import Axis, StudyTable, Tuning, sensitivity
from analysis.words import metric_label

MOST = 6  # studies that one figure shows
MAP = "viridis"


def tuning_figures(tuning: Tuning, *, width: float = SCREEN) -> dict[str, Figure | None]:
    """name -> every figure of what a tuner left, in reading order."""
    return {
        "history": optimisation_history(tuning, width=width), "budget": best_against_budget(tuning, width=width),
        "importance": parameter_importance(tuning, width=width), "slices": slices(tuning, width=width),
        "contours": contours(tuning, width=width), "parallel": parallel_coordinates(tuning, width=width),
    }


def slices(tuning: Tuning, *, width: float = SCREEN) -> Figure:
    """Score against each tuned parameter, one panel a parameter; crosses diverged."""
    axes_of = {axis.path: axis for study in tuning.studies for axis in study.axes}
    look = looks([study.variant for study in tuning.studies])
    with styled(width):
        columns = min(3, max(1, len(axes_of)))
        rows = math.ceil(len(axes_of) / columns)
        made = figure(width, 0.6 + 2.5 * rows)
        grid = made.subplots(rows, columns, sharey=True, squeeze=False)
        for panel, axis in zip(grid.ravel(), axes_of.values(), strict=False):
            labels = _categories([study.trials for study in tuning.studies], axis)
            for study in tuning.studies:
                for status, part in study.trials.groupby("status"):
                    mark = look[study.variant].marker if status == "done" else "x"
                    label = study.variant if status == "done" else None
                    panel.scatter(_positions(part, axis, labels), part["score"], marker=mark, s=18, alpha=0.7,
                                  color=look[study.variant].color, label=label)  # fmt: skip
            _scale(panel, axis, labels)
        for panel in grid.ravel()[len(axes_of) :]:
            panel.set_visible(False)
        scores = [s for study in tuning.studies for s in study.trials["score"].dropna()]
        limits = robust_limits(scores, scores)
        if limits:
            grid[0][0].set_ylim(*limits)
        for panel in grid[:, 0]:
            panel.set_ylabel(metric_label(tuning.studies[0].metric))
        handles, names = grid[0][0].get_legend_handles_labels()
        if handles:
            made.legend(handles, names, loc="outside lower center", ncols=3)
    return made


def contours(tuning: Tuning, *, width: float = SCREEN) -> Figure | None:
    """Score over the two numeric parameters that matter most, one panel a variant; None with fewer than two.

    Between trials the surface is linear over triangles in the scales of the axes.
    """
    shown = [(study, pair) for study in tuning.studies if (pair := _two(study))][:MOST]
    if not shown:
        return None
    with styled(width):
        columns = min(3, len(shown))
        made = figure(width, 0.6 + 2.7 * math.ceil(len(shown) / columns))
        grid = made.subplots(math.ceil(len(shown) / columns), columns, squeeze=False).ravel()
        for panel, (study, (x, y)) in zip(grid, shown, strict=False):
            _contour(made, panel, study, x, y)
        for panel in grid[len(shown) :]:
            panel.set_visible(False)
    return made


def parallel_coordinates(tuning: Tuning, *, width: float = SCREEN) -> Figure:
    """Every trial as a line through its parameters to its score, one panel a variant; bright = better."""
    shown = tuning.studies[:MOST]
    with styled(width):
        made = figure(width, 0.4 + 2.1 * len(shown))
        grid = made.subplots(len(shown), 1, squeeze=False).ravel()
        for panel, study in zip(grid, shown, strict=True):
            _parallel(panel, study)
    return made


def learning_rate_sensitivity(loaded: Loaded, *, width: float = SCREEN) -> Figure | None:
    """Mean validation score with its 95 % interval over the common grid of learning rates; ringed: the choice.

    A rate with a diverged seed has a cross at the mean of the seeds that did not; no choice can fall on it.
    """
    table = sensitivity(loaded)
    if table is None or loaded.choice is None:
        return None
    look = looks(loaded.variants)
    with styled(width):
        made = figure(width, 3.6 if width > 5 else 2.8)
        axes, bounds = made.subplots(), []
        for variant, part in table.groupby("variant", sort=False):
            points = [_at_rate(rate, group) for rate, group in part.groupby("learning_rate")]
            rate, mean, half, whole, chosen = (np.array(column) for column in zip(*points, strict=True))
            seen = look[str(variant)]
            axes.errorbar(rate, mean, yerr=half, color=seen.color, marker=seen.marker, linestyle=seen.dash,
                          elinewidth=0.8, label=str(variant))  # fmt: skip
            axes.scatter(rate[~whole], mean[~whole], marker="x", color=seen.color, s=50, zorder=4)
            axes.scatter(rate[chosen], mean[chosen], s=110, facecolors="none", edgecolors=seen.color, zorder=4)
            bounds += [(m - h, m + h) for m, h in zip(mean, np.nan_to_num(half), strict=True) if np.isfinite(m)]
        limits = robust_limits([low for low, _ in bounds], [high for _, high in bounds])
        if limits:
            axes.set_ylim(*limits)
        _logarithmic(axes)
        axes.set_xticks(sorted(table["learning_rate"].unique()))
        axes.set_xlabel("learning rate")
        axes.set_ylabel(metric_label(loaded.choice.metric))
        made.legend(loc="outside right upper" if width > 5 else "outside lower center")
    return made


def _at_rate(rate: Any, group: pd.DataFrame) -> tuple[float, float, float, bool, bool]:
    values = group["value"].dropna().tolist()
    found = mean_interval(values) if values else None
    half = found.high - found.mean if found and math.isfinite(found.high) else math.nan
    mean = found.mean if found else math.nan
    return float(rate), mean, half, len(values) == len(group), bool(group["chosen"].any())


def _categories(tables: list[pd.DataFrame], axis: Axis) -> list[str]:
    if axis.scale != "choice":
        return []
    return list(dict.fromkeys(str(v) for table in tables for v in table[axis.path].dropna()))


def _positions(trials: pd.DataFrame, axis: Axis, labels: list[str]) -> npt.NDArray[np.float64]:
    """x of each trial on an axis; NaN where the parameter did not exist."""
    if not labels:
        return pd.to_numeric(trials[axis.path]).to_numpy(dtype=np.float64)
    place = {label: float(i) for i, label in enumerate(labels)}
    return trials[axis.path].astype(str).map(place).to_numpy(dtype=np.float64)


def _scale(panel: Axes, axis: Axis, labels: list[str]) -> None:
    panel.set_xlabel(axis.path + (f"  (where {axis.when})" if axis.when else ""))
    if axis.scale == "log":
        _logarithmic(panel)
    if labels:
        panel.set_xticks(range(len(labels)), labels)
        panel.set_xlim(-0.5, len(labels) - 0.5)


def _logarithmic(panel: Axes) -> None:
    """A logarithmic x with plain numbers, as they are typed."""
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())


def _two(study: StudyTable) -> tuple[Axis, Axis] | None:
    numeric = [axis for axis in study.axes if axis.scale != "choice" and axis.when is None]
    numeric.sort(key=lambda axis: -study.importance.get(axis.path, 0.0))
    return (numeric[0], numeric[1]) if len(numeric) > 1 else None


def _contour(made: Figure, panel: Axes, study: StudyTable, x: Axis, y: Axis) -> None:
    done = study.trials[study.trials["status"] == "done"]
    at = [np.log10(v) if axis.scale == "log" else v for axis in (x, y) for v in [_positions(done, axis, [])]]
    score = done["score"].to_numpy(dtype=np.float64)
    panel.set_title(study.variant)
    if len(done) < 4 or np.linalg.matrix_rank(np.column_stack([*at, np.ones(len(done))])) < 3:
        empty(panel, "too few trials for a surface")
        return
    limits = robust_limits(score.tolist(), score.tolist()) or (score.min(), score.max())
    shown = np.clip(score, *limits)
    drawn = panel.tricontourf(at[0], at[1], shown, levels=12, cmap=f"{MAP}_r" if study.goal == "min" else MAP)
    made.colorbar(drawn, ax=panel, label=metric_label(study.metric))
    panel.scatter(at[0], at[1], s=9, color="white", edgecolors="black", linewidths=0.5)
    best = (done["number"] == study.best[0]).to_numpy() if study.best else np.zeros(len(done), dtype=bool)
    panel.scatter(at[0][best], at[1][best], s=90, facecolors="none", edgecolors="#D55E00", linewidths=1.6)
    for set_label, axis in ((panel.set_xlabel, x), (panel.set_ylabel, y)):
        set_label(f"log10 {axis.path}" if axis.scale == "log" else axis.path)


def _parallel(panel: Axes, study: StudyTable) -> None:
    done = study.trials[study.trials["status"] == "done"]
    if done.empty:
        empty(panel, f"{study.variant}: no trial is done yet")
        return
    columns, ticks = [], []
    for axis in study.axes:
        labels = _categories([done], axis)
        raw = _positions(done, axis, labels)
        at = np.log10(raw) if axis.scale == "log" else raw
        columns.append(_unit(at))
        ticks.append(f"{axis.path}\n{_range(done, axis, labels)}")
    score = done["score"].to_numpy(dtype=np.float64)
    columns.append(_unit(score))
    ticks.append(f"{study.metric}\n{score.min():.4g} to {score.max():.4g}")
    rank = score.argsort().argsort() / max(1, len(score) - 1)
    colors = ScalarMappable(Normalize(0, 1), f"{MAP}_r" if study.goal == "min" else MAP).to_rgba(rank)
    for line, color in zip(np.column_stack(columns), colors, strict=True):
        panel.plot(range(len(columns)), line, color=color, linewidth=1.0, alpha=0.8)
    panel.set_title(study.variant)
    panel.set_xticks(range(len(columns)), ticks)
    panel.set_yticks([])
    panel.set_xlim(-0.35, len(columns) - 0.65)


def _unit(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    low, high = np.nanmin(values), np.nanmax(values)
    return (values - low) / (high - low) if high > low else np.where(np.isnan(values), np.nan, 0.5)


def _range(done: pd.DataFrame, axis: Axis, labels: list[str]) -> str:
    if labels:
        return ", ".join(labels)
    values = pd.to_numeric(done[axis.path]).dropna()
    return f"{values.min():.3g} to {values.max():.3g}"
