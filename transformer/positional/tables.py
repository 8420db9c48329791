"""Tables that are pure functions of their length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn


class FixedTable(nn.Module):
    """Rows 0, 1, 2, ... of a formula. Moves with the model, is never saved, and stays at least float32.

    A bf16 model keeps it in float32 (bf16 holds no integer above 256 exactly); a float64 model in float64.

    Args:
        make: gives the first n rows as float64.
        length: rows to hold from the start.
    """

    values: Tensor

    def __init__(self, make: Callable[[int], Tensor], length: int) -> None:
        super().__init__()
        self.make = make
        self.register_buffer("values", computed(lambda: make(length).float()), persistent=False)

    def reach(self, length: int) -> None:
        """Makes sure that there are at least `length` rows."""
        if length > self.values.shape[0]:
            self.values = self.make(max(length, 2 * self.values.shape[0])).to(self.values)

    def forward(self, at: Tensor) -> Tensor:
        """The rows at int64 `at`."""
        return self.values[at]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before: Any = (self.values.dtype, self.values.is_meta)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if (self.values.dtype, self.values.is_meta) != before:  # made anew: a cast or an empty table is no formula
            precise = torch.promote_types(self.values.dtype, torch.float32)
            self.values = self.make(self.values.shape[0]).to(self.values.device, precise)
        return self


def computed(formula: Callable[[], Tensor]) -> Tensor:
    """The value of a formula, computed on the CPU, on the device where new tensors go.

    On the meta device the formula itself would load torch's compiler, which takes a second or more.
    """
    target = torch.get_default_device()
    with torch.device("cpu"):
        value = formula()
    return value.to(target)


def positions(n: int) -> Tensor:
    """0 ... n - 1 as a float64 column."""
    return torch.arange(n, dtype=torch.float64)[:, None]
