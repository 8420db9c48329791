"""Nested lists of digits under MIN, MAX, MEDIAN and SUM MODULO: what comes out? For an encoder."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch

from experiments.tasks.generated import Generated
from experiments.tasks.pairs import real
from experiments.tasks.rules import at_least, require
from experiments.tasks.splits import Rows
from experiments.tasks.task import TASKS, Batch
from experiments.tasks.vocabulary import PAD, Vocabulary

OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
ZERO = 1  # the id of the digit 0
CLOSE = ZERO + 10
FIRST_OPERATOR = CLOSE + 1


class Expressions(NamedTuple):
    """n expressions: ids (n, W) padded with 0, their lengths (n,) and their values (n,)."""

    ids: Rows
    lengths: Rows
    values: Rows


@TASKS.register("listops", paper="arXiv:1804.06028")
class ListOps(Generated):
    """`[MAX 2 9 [MIN 4 7 ] 0 ]` is 9: ten classes, the digits.

    MED is the median rounded down, SM the sum modulo 10.

    Args:
        depth: levels of brackets, 1 to 4.
        max_args: most arguments of an operator; the least is 2.
        nested: chance that an argument is a list, where depth allows.
        eval_rows: expressions of each evaluation set.

    Source: Nangia & Bowman 2018; sizes far below those of Long Range Arena (arXiv:2011.04006).
    """

    architectures: ClassVar[tuple[Literal["decoder", "encoder", "encoder_decoder"], ...]] = ("encoder",)
    name = "listops"
    loss_floor = 0.0
    n_classes = 10
    class_names = tuple("0123456789")

    def __init__(
        self, *, depth: int = 2, max_args: int = 4, nested: float = 0.25, eval_rows: int = 512
    ) -> None:
        require(
            at_least("listops", 1, eval_rows=eval_rows),
            (1 <= depth <= 4, f"task 'listops': depth={depth} must be between 1 and 4"),
            (3 <= max_args <= 10, f"task 'listops': max_args={max_args} must be between 3 and 10"),
            (0 <= nested <= 1, f"task 'listops': nested={nested} must be between 0 and 1"),
        )
        self.depth, self.max_args, self.nested, self.eval_rows = depth, max_args, nested, eval_rows
        width = 1
        for _ in range(depth):
            width = 2 + max_args * width
        self.max_len = self.train_length = width
        symbols = ("<pad>", *(str(digit) for digit in range(10)), "]", *OPERATORS)
        self.vocabulary = Vocabulary("listops", symbols, silent=frozenset((PAD,)))
        self.vocab_size = len(symbols)

    def draw(self, rng: np.random.Generator, n: int, length: int | None) -> Rows:
        """Rows (n, W + 1): the expression, and its value + 1 in the last column."""
        made = self._lists(rng, n, self.depth)
        return np.concatenate([made.ids, made.values[:, None] + 1], axis=1)

    def present(self, rows: Rows) -> Batch:
        """Expressions padded to the longest, and their values."""
        lengths = (rows[:, :-1] > 0).sum(axis=1)
        ids = rows[:, : int(lengths.max())].copy()
        return Batch(torch.from_numpy(ids), torch.from_numpy(rows[:, -1] - 1), real(lengths, ids.shape[1]))

    def _arguments(self, rng: np.random.Generator, n: int, depth: int) -> Expressions:
        """A digit each, or a list where `depth` and chance allow."""
        values = rng.integers(0, 10, size=n)
        if depth == 0:
            return Expressions(ZERO + values[:, None], np.ones(n, dtype=np.int64), values)
        lists, is_list = self._lists(rng, n, depth), rng.random(n) < self.nested
        ids = np.where(is_list[:, None], lists.ids, 0)
        ids[:, 0] = np.where(is_list, ids[:, 0], ZERO + values)
        return Expressions(ids, np.where(is_list, lists.lengths, 1), np.where(is_list, lists.values, values))

    def _lists(self, rng: np.random.Generator, n: int, depth: int) -> Expressions:
        """An operator, 2 to max_args arguments and the closing bracket."""
        operator, count = rng.integers(0, len(OPERATORS), size=n), rng.integers(2, self.max_args + 1, size=n)
        arguments = [self._arguments(rng, n, depth - 1) for _ in range(self.max_args)]
        there = np.arange(self.max_args) < count[:, None]
        lengths = np.stack([a.lengths for a in arguments], axis=1) * there
        ids = np.zeros((n, 2 + sum(a.ids.shape[1] for a in arguments)), dtype=np.int64)
        ids[:, 0] = FIRST_OPERATOR + operator
        ends = 1 + lengths.cumsum(axis=1)
        for i, argument in enumerate(arguments):
            row, column = np.nonzero((argument.ids > 0) & there[:, i : i + 1])
            ids[row, ends[row, i] - lengths[row, i] + column] = argument.ids[row, column]
        ids[np.arange(n), ends[:, -1]] = CLOSE
        values = np.stack([a.values for a in arguments], axis=1)
        return Expressions(ids, ends[:, -1] + 1, _results(operator, values, there))


def _results(operator: Rows, values: Rows, there: np.ndarray) -> Rows:
    """Value of each operator on the values (n, A) that are there."""
    n, count = np.arange(len(values)), there.sum(axis=1)
    ordered = np.sort(np.where(there, values, 10), axis=1)
    median = (ordered[n, (count - 1) // 2] + ordered[n, count // 2]) // 2
    total = (values * there).sum(axis=1) % 10
    return np.stack([ordered[:, 0], ordered[n, count - 1], median, total], axis=1)[n, operator]
