"""What inside.jsonl holds, as curves: a quantity, a line a layer, points over steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

QUANTITIES = {  # of a path, in reading order
    "rms": "residual stream, root mean square",
    "largest": "residual stream, largest size",
    "score_rms": "scores before softmax, root mean square",
    "score_largest": "scores before softmax, largest size",
    "entropy": "attention entropy (1 = looks everywhere alike)",
    "saturated": "share of attention rows with a weight > 0.99",
    "dead": "share of hidden units that are always 0",
    "gradient": "gradient norm on the recorded batch",
}
OF_LOGITS = {"rms": "logits, root mean square", "largest": "logits, largest size",
             "sure": "mean probability of the likeliest token"}  # fmt: skip
Curves = dict[str, dict[str, list[tuple[int, float]]]]


def layer_curves(rows: Sequence[Mapping[str, Any]]) -> Curves:
    """Label of a quantity -> name of a layer -> (step, value); quantities and layers in reading order."""
    found: Curves = {label: {} for label in (*QUANTITIES.values(), *OF_LOGITS.values())}
    for row in rows:
        for name, value in row.items():
            path, _, quantity = name.rpartition("/")
            label = (OF_LOGITS if path == "logits" else QUANTITIES).get(quantity)
            if path and label and isinstance(row.get("step"), int):
                found[label].setdefault(place(path), []).append((row["step"], float(value)))
    return {label: lines for label, lines in found.items() if lines}


def place(path: str) -> str:
    """`decoder.layers.0.self_attention` -> `layer 1`; encoders, cross-attention and what is no layer are named."""
    parts = path.split(".")
    if "layers" not in parts:
        return parts[-1].replace("_", " ") if parts[0] == "decoder" else " ".join(parts).replace("_", " ")
    kind = "cross " if "cross" in parts[-1] else "encoder " if parts[0] == "encoder" else ""
    return f"{kind}layer {int(parts[parts.index('layers') + 1]) + 1}"
