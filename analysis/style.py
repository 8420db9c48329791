"""One look for every figure: a colour-blind-safe palette, a fixed colour and marker a variant, sizes, saving.

Colours are Okabe and Ito's (2008) without black and yellow (too pale on white), plus wine. Seven colours, seven markers
and a shift of the markers each round give 49 looks before one returns.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from analysis.tables import runs_json

BASELINE_COLOR = "#000000"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#882255")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
SCREEN, ONE_COLUMN, TWO_COLUMNS = 9.0, 3.35, 6.9  # widths in inches: web page, one column, two columns
RC = {
    "font.size": 9.0, "axes.titlesize": 9.5, "axes.labelsize": 9.0, "legend.fontsize": 8.0, "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0, "font.family": "DejaVu Sans", "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": "#e4e4e4", "grid.linewidth": 0.6, "axes.edgecolor": "#555555",
    "axes.axisbelow": True, "axes.titlelocation": "left", "axes.titleweight": "bold", "legend.frameon": False,
    "lines.linewidth": 1.4, "lines.markersize": 5.0, "figure.dpi": 100, "svg.hashsalt": "ablation", "pdf.fonttype": 42,
    "axes.unicode_minus": True, "text.parse_math": False,
}  # fmt: skip

SMALL = {
    "font.size": 7.0, "axes.titlesize": 7.5, "axes.labelsize": 7.5, "legend.fontsize": 6.5, "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5, "lines.markersize": 3.5, "lines.linewidth": 1.1,
}  # fmt: skip


@dataclass(frozen=True)
class Look:
    """How a variant is drawn, in every figure and page."""

    color: str
    marker: str
    dash: Any


def looks(variants: Sequence[str]) -> dict[str, Look]:
    """A look for each variant, by its place in the experiment; the first (the baseline) is black."""
    n = len(PALETTE)
    found = {
        name: Look(PALETTE[i % n], MARKERS[(i + i // n) % len(MARKERS)], DASHES[i // n % len(DASHES)])
        for i, name in enumerate(variants[1:])
    }
    return {**{name: Look(BASELINE_COLOR, "o", "-") for name in variants[:1]}, **found}


@contextmanager
def styled(width: float = SCREEN) -> Iterator[None]:
    """The style for figures of this width, in inches; small ones get smaller type."""
    with mpl.rc_context(cast(Any, {**RC, **(SMALL if width <= TWO_COLUMNS else {})})):
        yield


def figure(width: float, height: float) -> Figure:
    """An empty figure in inches that needs no pyplot, so that thousands leave nothing behind."""
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def save(made: Figure, folder: Path, name: str, provenance: Mapping[str, Any], runs: Mapping[str, Sequence[str]],
         suffixes: Sequence[str] = (".png", ".svg")) -> list[Path]:  # fmt: skip
    """Writes NAME with each suffix, and NAME.runs.json: the runs behind it. The same data give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with styled(made.get_size_inches()[0]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a name in emoji: a box is drawn for it
        made.draw_without_rendering()  # lays out, once for all formats: that takes as long as drawing
        made.set_layout_engine(None)
    for suffix in suffixes:
        paths.append(folder / f"{name}{suffix}")
        undated = {"CreationDate": None} if suffix == ".pdf" else {"Date": None} if suffix == ".svg" else None
        with styled(made.get_size_inches()[0]), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            made.savefig(paths[-1], dpi=160, metadata=undated)
    (folder / f"{name}.runs.json").write_text(runs_json(provenance, runs), encoding="utf-8")
    return paths


def robust_limits(lows: Sequence[float], highs: Sequence[float], factor: float = 4.0) -> tuple[float, float] | None:
    """Limits that keep the bulk readable where a few intervals lie far outside it; None where none do.

    The bulk is the middle half of the centres, widened by `factor` of its own extent (whiskers included).
    """
    import numpy as np

    if len(lows) < 4:
        return None
    low, high = np.asarray(lows, dtype=float), np.asarray(highs, dtype=float)
    centre = (low + high) / 2
    q1, q3 = np.quantile(centre, [0.25, 0.75])
    reach = factor * max(q3 - q1, float(np.median(high - low)))
    inside = (centre >= q1 - reach) & (centre <= q3 + reach)
    if inside.all() or not inside.any():
        return None
    pad = 0.06 * (high[inside].max() - low[inside].min())
    return float(low[inside].min() - pad), float(high[inside].max() + pad)


def empty(axes: Axes, text: str) -> None:
    """Says in the picture why there is nothing to see."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, color="#555555")
