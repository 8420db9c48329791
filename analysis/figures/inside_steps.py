"""Layers over steps: how sizes, attention, dead units and gradients of every layer change while a model trains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from analysis.figures.inside_numbers import PLAIN
from analysis.layers import layer_curves
from analysis.style import SCREEN, empty, figure, looks, styled

LOGARITHMIC = 30.0  # ratio of largest to least value from which a panel is easier to read so
BOUNDED = ("entropy", "share", "probability")


def by_step(content: Mapping[str, Any], width: float = SCREEN) -> Figure:
    """A panel a quantity, a line a layer; says so where the run was trained without a record of its layers."""
    curves = layer_curves(content.get("by_step") or [])
    with styled(width):
        if not curves:
            made = figure(width, 1.2)
            empty(made.subplots(), "the layers were not recorded while it trained; run with --record for that")
            return made
        columns = 2 if width > 5 else 1
        lines = math.ceil(len(curves) / columns)
        made = figure(width, 2.0 * lines + 0.5)
        grid = made.subplots(lines, columns, sharex=True, squeeze=False).ravel()
        names = list(dict.fromkeys(name for found in curves.values() for name in found))
        look = looks(["", *names])  # black is the baseline's
        for axes, (label, found) in zip(grid, curves.items(), strict=False):
            for name, points in found.items():
                steps, values = zip(*points, strict=True)
                axes.plot(steps, values, color=look[name].color, marker=look[name].marker, linestyle=look[name].dash,
                          markersize=3, label=name)  # fmt: skip
            every = [abs(value) for points in found.values() for _, value in points]
            if not any(word in label for word in BOUNDED) and min(every) > 0 and max(every) / min(every) > LOGARITHMIC:
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter(PLAIN)
                axes.yaxis.set_minor_formatter(NullFormatter())
            elif "share" in label:
                axes.set_ylim(0, max(0.05, 1.08 * max(every)))
            axes.set_title(label, fontweight="normal")
            axes.tick_params(labelbottom=True)
        for axes in grid[len(curves):]:
            axes.set_axis_off()
        shown = [pair for axes in grid for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
        handles = {text: handle for handle, text in shown}
        made.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=max(1, int(width / 1.5)))
        made.supxlabel("optimiser steps", fontsize=9 if width > 7 else 7.5)
    return made
