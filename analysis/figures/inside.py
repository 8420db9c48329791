"""What is inside a trained model, drawn from inside.json: attention maps, roles of heads; `draw` writes all figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from analysis.figures.inside_numbers import activations, logits, memory, random_vectors, scores
from analysis.figures.inside_positions import positions
from analysis.figures.inside_steps import by_step
from analysis.style import PALETTE, SCREEN, empty, figure, save, styled
from experiments.records import INSIDE, read_json

Content = Mapping[str, Any]
WEIGHT = LinearSegmentedColormap.from_list("weight", ["#ffffff", "#cfe3f2", "#5ba3cf", PALETTE[0], "#00263f"])
MOST_TICKS = 48
MOST_MAPS = 48  # panels of one figure


def draw(folder: Path, *, width: float = SCREEN, suffixes: Sequence[str] = (".png", ".svg")) -> list[Path]:
    """Writes every figure of a run to FOLDER/inside/.

    Args:
        folder: where inside.json lies.
        width: inches.

    Raises:
        FileNotFoundError: nobody has looked inside this run yet.
        experiments.records.Damaged: inside.json cannot be trusted.
        OSError: the folder cannot be written.
    """
    content = read_json(folder / INSIDE)
    run = str(content["run_id"])
    provenance = {"experiment": content["experiment"], "text": content["text"], "hashes": {run: content["hash"]}}
    runs, paths = {str(content["variant"]): [run]}, list[Path]()
    for name, make in FIGURES.items():
        paths += save(make(content, width), folder / "inside", name, provenance, runs, suffixes)
    return paths


def matrix(rows: Sequence[str]) -> NDArray[np.float64]:
    """Numbers of the lines that inside.json writes a matrix in."""
    return np.array([[float(value) for value in row.split()] for row in rows])


def attention_maps(content: Content, width: float = SCREEN) -> Figure:
    """Weights of every head on one text: a row a query, a column a key; darker = more weight, white = none."""
    maps = content["maps"]
    with styled(width):
        if not maps:
            made = figure(width, 2)
            empty(made.subplots(), "this attention has no weights to show")
            return made
        columns = max(1, min(len({one["head"] for one in maps}), _columns(content, width)))
        shown = maps[:MOST_MAPS]
        lines = math.ceil(len(shown) / columns)
        side = (width - 1.1) / columns
        made = figure(width, lines * (side + 0.32) + 0.5)
        grid = made.subplots(lines, columns, squeeze=False).ravel()
        image = None
        roles = {(head["attention"], head["head"]): head for head in content["heads"]}
        for i, (axes, one) in enumerate(zip(grid, shown, strict=False)):
            weights = matrix(one["rows"])
            image = axes.imshow(weights, cmap=WEIGHT, vmin=0, vmax=100, aspect="auto", interpolation="nearest")
            _tokens(axes, content, one["attention"], first=i % columns == 0, last=i + columns >= len(shown))
            axes.set_title(_title(one, roles.get((one["attention"], one["head"]))), fontweight="normal")
        for axes in grid[len(shown):]:
            axes.set_axis_off()
        assert image is not None
        shrink = min(1.0, 2.6 / lines)
        bar = made.colorbar(image, ax=list(grid), shrink=shrink, pad=0.01, aspect=16 * lines * shrink)
        bar.set_label("weight, %")
        bar.outline.set_visible(False)  # type: ignore[operator]
        cut = f" (the first {MOST_MAPS} of {len(maps)} heads)" if len(maps) > MOST_MAPS else ""
        made.supxlabel(f"key: the token that is looked at{cut}", fontsize=9 if width > 7 else 7.5)
        made.supylabel("query: the token that looks", fontsize=9 if width > 7 else 7.5)
    return made


def _columns(content: Content, width: float) -> int:
    """So many that every token has room for its label."""
    longest = max(len(content["tokens"]), len(content["source_tokens"]))
    return max(1, min(4, int(width / max(2.1, 0.095 * longest))))


def _title(one: Mapping[str, Any], role: Mapping[str, Any] | None) -> str:
    name = f"{short_name(one['attention'])}, head {one['head'] + 1}"
    if role is None:
        return name
    score = role["scores"].get(role["role"])
    return f"{name}\n{role['role']}" + (f" {score:.2f}" if score is not None else "")


def short_name(attention: str) -> str:
    """`decoder.layers.0.self_attention` -> `layer 1`; encoder and cross-attention are named."""
    parts = attention.split(".")
    layer = f"layer {int(parts[parts.index('layers') + 1]) + 1}" if "layers" in parts else attention
    kind = "cross" if "cross" in parts[-1] else "encoder" if parts[0] == "encoder" else ""
    return f"{kind} {layer}".strip()


def _tokens(axes: Axes, content: Content, attention: str, *, first: bool, last: bool) -> None:
    source = content["source_tokens"] or content["tokens"]
    of_encoder = attention.startswith("encoder")
    queries = source if of_encoder else content["tokens"]
    keys = source if of_encoder or "cross" in attention else content["tokens"]
    both_ways = bool(content["source_tokens"])  # panels of one figure have different texts, so each shows its own
    for axis, tokens, show in ((axes.yaxis, queries, first or both_ways), (axes.xaxis, keys, last or both_ways)):
        every = math.ceil(len(tokens) / MOST_TICKS)
        at = list(range(0, len(tokens), every))
        axis.set_ticks(at, labels=[tokens[i] for i in at] if show else [], fontsize=6, family="DejaVu Sans Mono")
    if max((len(token) for token in keys), default=1) > 1:
        axes.tick_params(axis="x", rotation=90)
    axes.tick_params(length=0, pad=2)
    axes.grid(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def head_roles(content: Content, width: float = SCREEN) -> Figure:
    """Score of every head for every role; framed = the role that it is called by, its threshold stands in the label."""
    heads, thresholds = content["heads"], content["thresholds"]
    names = list(thresholds)
    with styled(width):
        made = figure(width, max(1.8, 0.25 * len(heads) + 1.0))
        axes = made.subplots()
        if not heads:
            empty(axes, "this attention has no weights to show")
            return made
        values = np.array([[head["scores"].get(name, np.nan) for name in names] for head in heads], dtype=float)
        axes.imshow(np.ma.masked_invalid(values), cmap=WEIGHT, vmin=0, vmax=1, aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            text, dark = ("-", False) if np.isnan(value) else (f"{value:.2f}", value > 0.55)
            framed = heads[row]["role"] == names[column]
            axes.text(column, row, text, ha="center", va="center", fontsize=8 if width > 7 else 6,
                      color="white" if dark else "#222222", fontweight="bold" if framed else "normal")  # fmt: skip
            if framed:
                axes.add_patch(_frame(column, row))
        rows = [f"{short_name(head['attention'])}, head {head['head'] + 1}" for head in heads]
        axes.set_yticks(range(len(heads)), labels=rows)
        axes.set_xticks(range(len(names)), labels=[f"{name}\n≥ {thresholds[name]:g}" for name in names])
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.grid(False)
        for side in axes.spines.values():
            side.set_visible(False)
    return made


def _frame(column: int, row: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, fill=False, edgecolor=PALETTE[1], linewidth=2)


FIGURES: dict[str, Callable[[Content, float], Figure]] = {
    "attention": attention_maps, "heads": head_roles, "activations": activations, "by_step": by_step, "logits": logits,
    "scores": scores, "positions": positions, "random_vectors": random_vectors, "memory": memory,
}
