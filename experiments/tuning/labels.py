"""How tuned values are written and rounded. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformer.spec import Spec

DIGITS = 6  # significant digits of a sampled number: enough for any hyper-parameter, short enough to type


def label(value: Any) -> str:
    """How a value is written in names, conditions and tables."""
    if isinstance(value, Mapping) and "name" in value:
        return str(Spec.parse(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def rounded(x: float) -> float:
    """x to DIGITS significant digits."""
    return float(f"{x:.{DIGITS}g}")
