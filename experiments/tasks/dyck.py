"""Brackets of several kinds, nested: which one closes next?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from experiments.tasks.generated import Generated
from experiments.tasks.rules import at_least, require
from experiments.tasks.splits import FEWEST, Rows, enough
from experiments.tasks.task import IGNORE, TASKS, Batch
from experiments.tasks.vocabulary import PAD, Vocabulary

OPENING, CLOSING = "([{<", ")]}>"


@TASKS.register("dyck", paper="arXiv:2105.11115")
class Dyck(Generated):
    """Balanced strings of `n_kinds` brackets, nested at most `depth` deep; asked is the kind of every closing one.

    Only places before a closing bracket are asked, so the kind follows from the string: chance is 1 / n_kinds.

    Args:
        length: brackets of a string, an even number.
        n_kinds: kinds of brackets, 2 to 4.
        depth: most open brackets at a time.
        eval_lengths: longer test strings, as sets `len_<n>`; even numbers.
        eval_rows: strings of each evaluation set.

    Source: Yao et al. 2021, Dyck-(k, D).
    """

    name = "dyck"
    loss_floor = 0.0
    sequence_metrics = True

    def __init__(
        self,
        *,
        length: int = 64,
        n_kinds: int = 2,
        depth: int = 8,
        eval_lengths: Sequence[int] = (),
        eval_rows: int = 512,
    ) -> None:
        lengths = (length, *eval_lengths)
        odd = [n for n in lengths if n % 2 or not enough(n_kinds, n // 2)]
        require(
            at_least("dyck", 1, depth=depth, eval_rows=eval_rows),
            (2 <= n_kinds <= len(OPENING), f"task 'dyck': n_kinds={n_kinds} must be between 2 and {len(OPENING)}"),
            (not odd, f"task 'dyck': length or eval_lengths={odd} must be even, so that all brackets can close, and "
             f"n_kinds={n_kinds} ** (length / 2) at least {FEWEST}, so that there are enough strings to hold some out"),
        )
        self.length, self.n_kinds, self.depth, self.eval_rows = length, n_kinds, depth, eval_rows
        self.eval_lengths, self.train_length = tuple(sorted(set(eval_lengths))), length
        self.max_len = max(lengths) - 1
        symbols = ("<pad>", *OPENING[:n_kinds], *CLOSING[:n_kinds])
        self.vocabulary = Vocabulary("dyck", symbols, silent=frozenset((PAD,)))
        self.vocab_size = len(symbols)

    def draw(self, rng: np.random.Generator, n: int, length: int | None) -> Rows:
        """Rows (n, T): a fair coin says open or close wherever both are possible."""
        size = length or self.length
        rows, stack = np.zeros((n, size), dtype=np.int64), np.zeros((n, self.depth + 1), dtype=np.int64)
        coins, kinds = rng.random((size, n)) < 0.5, rng.integers(1, self.n_kinds + 1, size=(size, n))
        depth, every = np.zeros(n, dtype=np.int64), np.arange(n)
        for t in range(size):
            opens = (depth == 0) | (coins[t] & (depth < min(self.depth, size - t)))
            rows[:, t] = np.where(opens, kinds[t], stack[every, depth] + self.n_kinds)
            depth += np.where(opens, 1, -1)
            stack[every[opens], depth[opens]] = kinds[t][opens]
        return rows

    def present(self, rows: Rows) -> Batch:
        """The string without its last bracket, and the closing ones that come next."""
        following = rows[:, 1:]
        targets = np.where(following > self.n_kinds, following, IGNORE)
        return Batch(torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(targets))
