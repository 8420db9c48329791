"""Numbers and names as a reader meets them: rounding by the uncertainty, units, short names, p values."""

from __future__ import annotations

import math
from typing import Any

NOTHING = "-"
UNITS = {
    "loss": "nats per token", "bits_per_token": "bits per token", "accuracy": "share of tokens",
    "exact_match": "share of rows", "perplexity": "",
}  # fmt: skip
TOKENS = {
    "text": "a character", "code": "a character", "copy": "a symbol", "reverse": "a symbol", "sort": "a symbol",
    "selective_copy": "a symbol", "induction": "a symbol", "addition": "a digit or sign", "dyck": "a bracket",
}  # fmt: skip
TERMS = {
    "rope": "rotary positions: queries and keys are turned by an angle that grows with the position",
    "alibi": "linear biases: attention falls off linearly with distance; nothing is added to the tokens",
    "sinusoidal": "fixed sine waves added to the tokens", "relative": "a learned bias for each distance",
    "learned": "a learned vector for each position", "gelu": "a smooth step as activation",
    "relu": "negative values become zero", "silu": "x times its sigmoid", "swiglu": "gated, with silu",
    "geglu": "gated, with gelu", "layernorm": "mean and spread of each token are normalised",
    "rmsnorm": "only the size of each token is normalised", "pre": "norm before each layer",
    "post": "norm after each sum", "sqrt_d_head": "scores divided by the root of the head's width",
}  # fmt: skip
IN_SENTENCES = {"share of tokens": "of all tokens", "share of rows": "of all rows"}
COST_NAMES = {
    "parameters": "parameters", "parameters_non_embedding": "parameters without embeddings",
    "flops_per_token": "FLOPs per token", "tokens": "training tokens", "steps": "steps", "seconds": "seconds",
    "train_seconds": "training seconds", "peak_memory_bytes": "peak memory (bytes)",
}  # fmt: skip
PARTS = {
    "model.positional": "position encoding", "model.attention": "attention", "model.scaling": "scaling of scores",
    "model.feedforward": "feed-forward layer", "model.norm": "norm", "model.placement": "place of the norm",
    "model.init": "initial weights", "model.n_heads": "heads", "model.n_layers": "layers", "model.d_model": "width",
    "model.d_ff": "width of the feed-forward layer", "model.dropout": "dropout", "train.lr": "learning rate",
    "train.batch_size": "batch size", "train.schedule": "schedule", "train.warmup": "warm-up",
    "train.weight_decay": "weight decay", "train.precision": "precision", "train.clip": "gradient clipping",
}  # fmt: skip


def part_name(path: str) -> str:
    """`model.positional` -> `position encoding`; the last word of a path that has no other name."""
    return PARTS.get(path) or path.rsplit(".", 1)[-1].replace("_", " ")


def metric_name(metric: str) -> str:
    """`test/len_32/exact_match` -> `test exact match, len 32`."""
    parts = metric.split("/")
    name = " ".join([parts[0], *parts[-1:]]) if len(parts) > 1 else metric
    return ", ".join([name, *parts[1:-1]]).replace("_", " ")


def unit(metric: str) -> str:
    """`nats per token` for a loss; empty where the number has no unit."""
    return UNITS.get(metric.rsplit("/", 1)[-1], "")


def metric_label(metric: str) -> str:
    """Name and unit, for an axis."""
    return f"{metric_name(metric)} ({unit(metric)})" if unit(metric) else metric_name(metric)


def decimals(uncertainty: float, *, digits: int = 2, most: int = 6) -> int:
    """Decimals that show `digits` significant digits of the uncertainty: .0123 -> 3, 12.3 -> 0."""
    if not math.isfinite(uncertainty) or uncertainty <= 0:
        return 4
    rounded = float(f"{uncertainty:.{digits - 1}e}")
    return max(0, min(most, digits - 1 - math.floor(math.log10(rounded))))


def number(value: float, places: int, *, sign: bool = False) -> str:
    """Fixed decimals with a true minus; `-` where there is no number; no negative zero."""
    if not math.isfinite(value):
        return NOTHING
    text = f"{value:{'+' if sign else ''}.{places}f}"
    if float(text) == 0:
        text = f"{'±' if sign else ''}{0:.{places}f}"
    return text.replace("-", "−")


def plus_minus(mean: float, half: float) -> str:
    """`2.135 ± 0.012`; the mean alone where there is no interval."""
    if not math.isfinite(mean):
        return NOTHING
    if not math.isfinite(half):
        return number(mean, 4)
    places = decimals(half)
    return f"{number(mean, places)} ± {number(half, places)}"


def interval(low: float, high: float) -> str:
    """`−0.032 to −0.011`, as many decimals as its half width deserves."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return NOTHING
    places = decimals((high - low) / 2)
    return f"{number(low, places, sign=True)} to {number(high, places, sign=True)}"


def p_value(p: float) -> str:
    """`0.012`, `<0.001`, `1`; `-` where there was no test."""
    if not math.isfinite(p):
        return NOTHING
    if p < 0.001:
        return "<0.001"
    return "1" if p > 0.995 else f"{p:.2g}" if p >= 0.1 else f"{p:.3f}"


def p_phrase(p: float) -> str:
    """`p = 0.012` or `p < 0.001`."""
    text = p_value(p)
    return f"p < {text[1:]}" if text.startswith("<") else f"p = {text}"


def count(value: float) -> str:
    """`101,400`, `1.23 M`, `-`."""
    if not math.isfinite(value):
        return NOTHING
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:,.0f}"


def seconds(value: float) -> str:
    """`3.4 s`, `12.5 min`, `2.1 h`."""
    if not math.isfinite(value):
        return NOTHING
    if value < 120:
        return f"{value:.3g} s"
    return f"{value / 60:.3g} min" if value < 7200 else f"{value / 3600:.3g} h"


def memory(value: float) -> str:
    """`412 MB`, `1.2 GB` (powers of 1000)."""
    if not math.isfinite(value):
        return NOTHING
    return f"{value / 1e9:.3g} GB" if value >= 1e9 else f"{value / 1e6:.3g} MB"


def percent(ratio: float) -> str:
    """A ratio to the baseline as a change: 1.034 -> `+3.4 %`; `same` where equal."""
    if not math.isfinite(ratio):
        return NOTHING
    if abs(ratio - 1) < 5e-4:
        return "same"
    change = 100 * (ratio - 1)
    return number(change, 1 if abs(change) < 10 else 0, sign=True) + " %"


def setting(value: Any) -> str:
    """A config value in one short line: a component as `name(option=value)`."""
    if isinstance(value, dict) and "name" in value:
        options = value.get("options") or {k: v for k, v in value.items() if k not in ("name", "options")}
        inner = ", ".join(f"{k}={setting(v)}" for k, v in options.items())
        return f"{value['name']}({inner})" if inner else str(value["name"])
    return f"{value:g}" if isinstance(value, float) else str(value)


def listed(names: list[str], most: int = 8) -> str:
    """`a, b and c`; long lists end in `and 12 more`."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "none"
