"""Numbers inside a model: sizes of activations, logits and scores; why scores are scaled; what attention remembers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from analysis.style import PALETTE, SCREEN, empty, figure, styled

Content = Mapping[str, Any]
START, END = "#8a8a8a", PALETTE[0]
WRITTEN_OUT, FUSED = PALETTE[1], PALETTE[0]
PLAIN = FuncFormatter(lambda value, _: f"{value:g}")


def activations(content: Content, width: float = SCREEN) -> Figure:
    """Root mean square of what every sublayer and layer gives, before and after training, in the order of the pass."""
    rows = content["activations"]
    with styled(width):
        made = figure(width, max(2.2, 0.24 * len(rows) + 0.9))
        axes = made.subplots()
        y = np.arange(len(rows))
        before, after = [row["start_rms"] for row in rows], [row["rms"] for row in rows]
        axes.hlines(y, before, after, color="#c9c9c9", linewidth=1.2)
        axes.plot(before, y, "o", color=START, markerfacecolor="white", label="before training")
        axes.plot(after, y, "o", color=END, label="after training")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(PLAIN)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_yticks(y, labels=[_where(row["where"]) for row in rows])
        axes.invert_yaxis()
        axes.set_xlabel("root mean square of the output")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return made


def _where(path: str) -> str:
    """`decoder.layers.0.self_attention` -> `decoder 1: self attention`; a layer itself is the stream after it."""
    stack, _, rest = path.partition(".layers.")
    number, _, part = rest.partition(".")
    return f"{stack} {int(number) + 1}: {part.replace('_', ' ') or 'stream after it'}" if number else path


def logits(content: Content, width: float = SCREEN) -> Figure:
    """Distribution of logits, and how sure the model is of its likeliest token, before and after training."""
    found = content["logits"]
    with styled(width):
        made = figure(width, 3.0 if width > 5 else 4.6)
        left, right = made.subplots(1, 2) if width > 5 else made.subplots(2, 1)
        for when, color, label in (("start", START, "before training"), ("end", END, "after training")):
            steps(left, found[when]["logits"], color, f"{label}: std {found[when]['std']:.3g}")
            steps(right, found[when]["sure"], color, f"{label}: mean {found[when]['mean_sure']:.2f}")
        left.set_xlabel("logit")
        right.set_xlabel("probability of the likeliest token")
        right.set_xlim(0, 1)
        for axes, title in ((left, "Logits"), (right, "How sure the model is")):
            axes.set_title(title)
            axes.set_ylabel("density")
            axes.legend()
    return made


def steps(axes: Axes, histogram: Mapping[str, Sequence[float]], color: str, label: str, **options: Any) -> None:
    """A histogram as an outline with a light fill, as a density."""
    edges, share = np.array(histogram["edges"]), np.array(histogram["share"])
    density = share / np.maximum(np.diff(edges), 1e-12)
    axes.stairs(density, edges, color=color, label=label, linewidth=1.4, **options)
    axes.stairs(density, edges, color=color, fill=True, alpha=0.12)


def scores(content: Content, width: float = SCREEN) -> Figure:
    """Scaled q.k over visible keys by attention, before and after training, with the unit normal for comparison."""
    rows = content["scores"]
    with styled(width):
        columns = min(max(1, len(rows)), 4 if width > 5 else 2)
        lines = max(1, math.ceil(len(rows) / columns))
        made = figure(width, 2.5 * lines + 0.3)
        grid = made.subplots(lines, columns, squeeze=False).ravel()
        for axes, row in zip(grid, rows, strict=False):
            steps(axes, row["start"], START, f"before: std {row['start_std']:.2g}")
            steps(axes, row["end"], END, f"after: std {row['std']:.2g}")
            low, high = axes.get_xlim()
            x = np.linspace(low, high, 200)
            axes.plot(x, np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi), color="#222222", linestyle=":", linewidth=1.1,
                      label="unit normal")  # fmt: skip
            axes.set_ylim(0, max(0.5, 1.25 * _peak(row["end"])))
            axes.set_title(_where(row["attention"]), fontweight="normal")
            axes.legend(fontsize=6.5, handlelength=1.2, loc="upper right", borderaxespad=0)
        for axes in grid[len(rows):]:
            axes.set_axis_off()
        if not rows:
            empty(grid[0], "this attention has no scores to show")
        else:
            made.supxlabel("scaled score of a query on a key that it may see", fontsize=9 if width > 7 else 7.5)
    return made


def _peak(histogram: Mapping[str, Sequence[float]]) -> float:
    return float((np.array(histogram["share"]) / np.maximum(np.diff(histogram["edges"]), 1e-12)).max())


def random_vectors(content: Content, width: float = SCREEN) -> Figure:
    """Why scores are divided by sqrt(d): their spread, and the softmax rows that are one-hot without it."""
    found = content["random_vectors"]
    d = [row["d"] for row in found["widths"]]
    with styled(width):
        made = figure(width, 3.1 if width > 5 else 7.2)
        first, second, third = made.subplots(1, 3) if width > 5 else made.subplots(3, 1)
        steps(first, found["products"], PALETTE[1], "q·k")
        steps(first, found["scaled"], PALETTE[0], f"q·k / √{found['widest']}")
        first.set_title(f"{found['widest']} dimensions")
        first.set_xlabel("score of two random vectors")
        first.set_ylabel("density")
        second.plot(d, np.sqrt(d), color="#222222", linestyle=":", label="√d")
        lines = (("", PALETTE[1], "o", "q·k"), ("scaled_", PALETTE[0], "s", "q·k / √d"))
        for axes, name, factor, line in ((second, "std", 1, "none"), (third, "saturated", 100, "-")):
            for prefix, color, marker, label in lines:
                values = [factor * row[prefix + name] for row in found["widths"]]
                axes.plot(d, values, color=color, marker=marker, linestyle=line, label=label)
        second.set_xscale("log", base=2)
        second.set_yscale("log", base=2)
        second.set_title("Spread")
        second.set_ylabel("standard deviation of the score")
        third.set_xscale("log", base=2)
        third.set_title(f"One weight above {found['limit']:g}")
        third.set_ylabel(f"softmax rows of {found['keys']} keys, %")
        for axes in (second, third):
            axes.set_xlabel("d, dimensions of a head")
            axes.xaxis.set_major_formatter(PLAIN)
        second.yaxis.set_major_formatter(PLAIN)
        for axes in (first, second, third):
            axes.legend()
    return made


def memory(content: Content, width: float = SCREEN) -> Figure:
    """Bytes that attention keeps for the backward pass, measured against length and heads, with fitted slopes."""
    found = content["attention_memory"]
    at = found["at"]
    with styled(width):
        made = figure(width, 3.3 if width > 5 else 5.4)
        left, right = made.subplots(1, 2) if width > 5 else made.subplots(2, 1)
        _slopes(left, found["lengths"], found["by_length"], found["slope_length"])
        _slopes(right, found["heads"], found["by_heads"], found["slope_heads"])
        left.set_xlabel(f"length, tokens ({at['heads']} heads)")
        right.set_xlabel(f"heads, at the same width of {at['width']} ({at['length']} tokens)")
        left.set_title("Against length")
        right.set_title("Against heads")
        for axes in (left, right):
            axes.set_ylabel("kept for the backward pass, MB")
    return made


def _slopes(
    axes: Axes, sizes: Sequence[float], ways: Mapping[str, Sequence[float]], slopes: Mapping[str, float]
) -> None:
    looks = {"written out": (WRITTEN_OUT, "o"), "fused": (FUSED, "s")}
    for way, measured in ways.items():
        color, marker = looks[way]
        mega = [size / 2**20 for size in measured]
        fitted = np.exp(np.mean(np.log(mega)) + slopes[way] * (np.log(sizes) - np.mean(np.log(sizes))))
        axes.plot(sizes, fitted, color=color, linewidth=1.1)
        axes.plot(sizes, mega, marker, color=color, linestyle="none", label=f"{way}: slope {slopes[way]:.2f}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(list(sizes), labels=[f"{size:g}" for size in sizes])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(PLAIN)
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.legend(loc="upper left")
