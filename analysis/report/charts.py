"""The data behind the curves that show values on hover: few enough points for a page to open at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.compare import Comparison
from analysis.figures.curves import bands
from analysis.layers import layer_curves
from analysis.style import looks
from analysis.words import metric_label, metric_name

POINTS = 80  # per line of an experiment's chart
RUN_POINTS = 300
SHOWN = 8  # lines that are on when a page opens and nobody leads


def experiment_chart(comparison: Comparison, curves: pd.DataFrame) -> dict[str, Any]:
    """Per metric and variant: [step, mean, low, high, n] over the seeds that are done."""
    names = [row.variant for row in comparison.rows]
    look = looks(names)
    metrics = {}
    for metric in _ordered(curves["metric"].unique().tolist()):
        summary = bands(curves[curves["metric"] == metric])
        metrics[metric] = {
            str(variant): _points(thin(part, POINTS)) for variant, part in summary.groupby("variant", observed=True)
        }
    ends, by = [row.variant for row in comparison.ranked], metric_name(comparison.metric)
    first = dict.fromkeys([names[0], *ends[:1], *ends[-1:]] if ends else names[:SHOWN])
    return {
        "label": {m: metric_label(m) for m in metrics}, "metrics": metrics, "on": list(first),
        "shown": f"shown at first: the baseline, the best and the worst by {by}" if ends else "",
        "looks": {n: {"color": look[n].color, "dash": _dash(look[n].dash)} for n in names},
    }  # fmt: skip


def run_chart(curve: Mapping[str, Mapping[int, float]], color: str) -> dict[str, Any]:
    """Every metric of one run: [step, value]."""
    metrics = {}
    for metric in _ordered(list(curve)):
        steps = sorted(curve[metric])
        kept = _indices(len(steps), RUN_POINTS)
        metrics[metric] = {"value": [[steps[i], _short(curve[metric][steps[i]])] for i in kept]}
    return {"label": {m: metric_label(m) for m in metrics}, "metrics": metrics, "on": ["value"],
            "looks": {"value": {"color": color, "dash": ""}}}  # fmt: skip


def layers_chart(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What inside.jsonl holds, a line a layer; None where nothing was recorded."""
    curves = layer_curves(rows)
    names = list(dict.fromkeys(name for found in curves.values() for name in found))
    look = looks(["", *names])  # black is the baseline's
    metrics = {
        label: {name: [[points[i][0], _short(points[i][1])] for i in _indices(len(points), POINTS)]
                for name, points in found.items()}
        for label, found in curves.items()
    }  # fmt: skip
    return {
        "label": {label: label for label in metrics}, "metrics": metrics, "on": names,
        "looks": {n: {"color": look[n].color, "dash": _dash(look[n].dash)} for n in names},
    } if names else None  # fmt: skip


def _points(summary: pd.DataFrame) -> list[list[Any]]:
    return [
        [int(step), _short(mean), _short(low), _short(high), int(n)]
        for step, mean, low, high, n in summary[["step", "mean", "low", "high", "n"]].itertuples(index=False)
    ]


def thin(table: pd.DataFrame, most: int) -> pd.DataFrame:
    """At most `most` rows, evenly spaced, the first and the last among them."""
    return table.iloc[_indices(len(table), most)]


def _indices(n: int, most: int) -> list[int]:
    if n <= most:
        return list(range(n))
    return sorted({round(i * (n - 1) / (most - 1)) for i in range(most)})


def _ordered(metrics: Sequence[str]) -> list[str]:
    """Validation first, then training, then the rest; loss before others."""
    return sorted(
        metrics, key=lambda m: (not m.startswith("validation/"), not m.startswith("train/"), not m.endswith("loss"), m)
    )


def _short(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None


def _dash(dash: Any) -> str:
    return "" if isinstance(dash, str) else " ".join(f"{2 * part:g}" for part in dash[1])
