"""Pictures of position encodings: what is added, how vectors are turned, which bias scores get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.style import PALETTE, SCREEN, empty, figure, styled

DIVERGING = "RdBu_r"


def positions(content: Mapping[str, Any], width: float = SCREEN) -> Figure:
    """One picture each of what the encoding adds, turns or biases; blue below zero, red above."""
    pictures = content["positions"]
    with styled(width):
        columns = max(1, len(pictures) if width > 5 else 1)
        lines = -(-len(pictures) // columns) if pictures else 1
        made = figure(width, 2.0 if not pictures else 3.4 * lines)
        grid = made.subplots(lines, columns, squeeze=False).ravel()
        if not pictures:
            empty(grid[0], "this model has no position encoding")
        for axes, picture in zip(grid, pictures, strict=False):
            values = np.array([[float(value) for value in row.split()] for row in picture["rows"]])
            (_lines if picture["down"] == "head" else _image)(axes, values, picture)
            axes.set_title(str(picture["what"]))
    return made


def _image(axes: Axes, values: np.ndarray[Any, Any], picture: Mapping[str, Any]) -> None:
    most = float(np.abs(values).max()) or 1.0
    image = axes.imshow(values, cmap=DIVERGING, vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02, aspect=30)
    bar.outline.set_visible(False)  # type: ignore[operator]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(str(picture["across"]))
    axes.set_ylabel(str(picture["down"]))
    axes.grid(False)


def _lines(axes: Axes, values: np.ndarray[Any, Any], picture: Mapping[str, Any]) -> None:
    """One line a head: bias against the distance of the key from the last query."""
    distance = np.arange(values.shape[1])[::-1]
    for head, row in enumerate(values[:16]):
        axes.plot(distance, row, color=PALETTE[head % len(PALETTE)], label=f"head {head + 1}")
    axes.set_xlabel("distance of the key, positions")
    axes.set_ylabel("bias on the scaled score")
    axes.legend(ncols=2)
