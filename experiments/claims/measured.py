"""What an exact check measures: values with the bounds that the claim puts on them, and repeated costs."""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Value:
    """A number without chance in it, and where the claim says that it lies.

    Attributes:
        part: of the claim. what: in words. low, high: bounds, both included; None = open.
    """

    part: str
    what: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Repeats:
    """Two costs measured in turn, again and again; what counts is a / b.

    Attributes:
        part, what: as in Value. a, b: one number a repeat, positive, both of one length.
    """

    part: str
    what: str
    a: tuple[float, ...]
    b: tuple[float, ...]


Check = Callable[[], Sequence[Value | Repeats]]


def measure(check: str) -> dict[str, Any]:
    """What a check found, as measured.json keeps it: values, repeats, and the error that stopped it, if one did."""
    found: Sequence[Value | Repeats] = ()
    error = None
    try:
        with one_thread():
            found = function(check)()
    except Exception as problem:  # a check of broken code may break; that is an answer too
        error = f"{check} ended with {type(problem).__name__}: {problem}"
    values = [one for one in found if isinstance(one, Value)]
    return {
        "check": check, "error": error, "values": [_value(one) for one in values],
        "repeats": [
            {"part": one.part, "what": one.what, "a": list(one.a), "b": list(one.b)}
            for one in found if isinstance(one, Repeats)
        ],
    }


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread, as in training: small tensors gain nothing from more, and timings would depend on them."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def function(path: str) -> Any:
    """What `module:function` names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _value(one: Value) -> dict[str, Any]:
    # JSON has no infinity; a number that is none cannot lie within bounds, and the largest float says so
    plain = one.value if math.isfinite(one.value) else math.copysign(1.7e308, one.value)
    return {"part": one.part, "what": one.what, "value": plain, "low": one.low, "high": one.high}
