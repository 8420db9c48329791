"""Figures of studies over their trials: history, best so far with its expectation, importance of parameters."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.style import SCREEN, Look, empty, figure, looks, robust_limits, styled
from analysis.tuning import StudyTable, Tuning
from analysis.words import metric_label

MARKS = {"diverged": "x", "pruned": "|", "failed": "1"}


def optimisation_history(tuning: Tuning, *, width: float = SCREEN) -> Figure:
    """Score of every trial, and the best so far as a line; crosses: diverged, bars: given up early."""
    look = looks([study.variant for study in tuning.studies])
    with styled(width):
        made = figure(width, 3.4 if width > 5 else 2.6)
        axes = made.subplots()
        if not _any(tuning, axes):
            return made
        for study in tuning.studies:
            _points(axes, study, look[study.variant])
            axes.plot(study.trials["number"] + 1, study.best_so_far(), color=look[study.variant].color,
                      linestyle=look[study.variant].dash, drawstyle="steps-post", label=study.variant)  # fmt: skip
        scores = [s for study in tuning.studies for s in study.trials["score"].dropna()]
        limits = robust_limits(scores, scores)
        if limits:
            axes.set_ylim(*limits)
            _outside(axes, tuning, limits)
        axes.set_xlabel("trial")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel(metric_label(tuning.studies[0].metric))
        made.legend(loc="outside right upper" if width > 5 else "outside lower center")
    return made


def best_against_budget(tuning: Tuning, *, width: float = SCREEN) -> Figure:
    """Best score after B trials: as it went (steps), and on average had the same trials come in random order (dots)."""
    look = looks([study.variant for study in tuning.studies])
    with styled(width):
        made = figure(width, 3.4 if width > 5 else 2.6)
        axes = made.subplots()
        if not _any(tuning, axes):
            return made
        for study in tuning.studies:
            reached, mean = study.best_so_far(), study.expected()
            color = look[study.variant].color
            axes.plot(np.arange(1, reached.size + 1), reached, color=color, drawstyle="steps-post", label=study.variant)
            axes.plot(np.arange(1, mean.size + 1), mean, color=color, linestyle=":", marker=look[study.variant].marker,
                      markersize=3)  # fmt: skip
        best = [v for study in tuning.studies for v in (*study.best_so_far(), *study.expected()[1:]) if np.isfinite(v)]
        limits = robust_limits(best, best)
        if limits:
            axes.set_ylim(*limits)
        axes.set_xlabel("trials; dotted: expected best of so many in random order")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel(f"best {metric_label(tuning.studies[0].metric)}")
        made.legend(loc="outside right upper" if width > 5 else "outside lower center")
    return made


def parameter_importance(tuning: Tuning, *, width: float = SCREEN) -> Figure:
    """Share of the score's variation that each parameter explains (PED-ANOVA), one bar per variant."""
    known = [study for study in tuning.studies if study.importance]
    paths = list(dict.fromkeys(path for study in known for path in study.importance))
    look = looks([study.variant for study in tuning.studies])
    with styled(width):
        made = figure(width, 1.2 + 0.22 * max(1, len(paths)) * max(1, len(known)))
        axes = made.subplots()
        if not paths:
            empty(axes, "too few trials to tell which parameter matters")
            return made
        thick = 0.8 / len(known)
        for i, study in enumerate(known):
            at = [p + (i - (len(known) - 1) / 2) * thick for p in range(len(paths))]
            shares = [study.importance.get(path, 0.0) for path in paths]
            axes.barh(at, shares, height=thick * 0.9, color=look[study.variant].color, label=study.variant)
        axes.set_yticks(range(len(paths)), paths)
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.set_xlabel("share of the differences in score that it explains")
        made.legend(loc="outside right upper" if width > 5 else "outside lower center")
    return made


def _any(tuning: Tuning, axes: Axes) -> bool:
    if any(study.trials["score"].notna().any() for study in tuning.studies):
        return True
    empty(axes, "no trial is done yet")
    return False


def _outside(axes: Axes, tuning: Tuning, limits: tuple[float, float]) -> None:
    """Says how many trials lie beyond the axis, so that none vanishes."""
    low, high = limits
    beyond = [study.trials[~study.trials["score"].between(low, high)] for study in tuning.studies]
    n = sum(int(part["score"].notna().sum()) for part in beyond)
    diverged = sum(int((part["status"] == "diverged").sum()) for part in beyond)
    words = f"{n} trial{'s' if n != 1 else ''} beyond the axis, {diverged} of them diverged"
    axes.annotate(words, (0.01, 0.98), xycoords="axes fraction", va="top", fontsize=7, color="#555555")


def _points(axes: Axes, study: StudyTable, look: Look) -> None:
    for status, part in study.trials.groupby("status"):
        mark = MARKS.get(str(status), look.marker)
        axes.scatter(part["number"] + 1, part["score"], marker=mark, color=look.color, s=18, alpha=0.6, linewidths=1.0)
