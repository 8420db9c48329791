"""The engine of tasks with a table of examples: read from files, or every example there is."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np

from experiments.seeds import numpy_stream
from experiments.tasks.splits import SPLITS, Rows
from experiments.tasks.task import Batch, Evaluation, Task

BATCH_TOKENS = 4096  # tokens of one evaluation batch, at most


class Finite(Task):
    """A task that gives `members` (which examples a split has) and `present` (how a model sees some of them).

    Training goes through its examples in epochs, each in a fresh order of the seed; evaluation takes `eval_rows`
    held-out examples, drawn for each seed block.

    Attributes:
        name: the registered name; used in messages.
        groups: int64 (N,), equal for examples that count as the same one; the overlap check compares these.
        sizes: int64 (N,), tokens of each example, so that evaluation batches hold rows of like length.
        eval_rows: examples of each evaluation set, fewer where a split has fewer.
        train_rows: how many training examples are used, drawn for each seed block; None = all.
    """

    name: str
    groups: Rows
    sizes: Rows
    eval_rows: int
    train_rows: int | None = None

    def members(self, split: str, seed: int) -> Rows:
        """Rows of the table that belong to a split."""
        raise NotImplementedError(type(self).__name__)

    def present(self, rows: Rows) -> Batch:
        """The batch of these rows of the table."""
        raise NotImplementedError(type(self).__name__)

    def chosen(self, split: str, seed: int) -> Rows:
        """The rows that an evaluation asks."""
        members, rng = self.members(split, seed), numpy_stream(self.name, seed, split)
        return rng.choice(members, size=min(self.eval_rows, len(members)), replace=False)

    def train_batch(self, seed: int, step: int, batch_size: int) -> Batch:
        """The next rows of an endless chain of shuffled epochs."""
        rows = self._training(seed)
        return self.present(rows[positions(len(rows), seed, step * batch_size, batch_size)])

    def evaluations(self, split: Literal["validation", "test"], seed: int) -> list[Evaluation]:
        """The set "" alone."""
        rows = self.chosen(split, seed)
        rows = rows[np.argsort(self.sizes[rows], kind="stable")]
        return [Evaluation("", [self.present(part) for part in self._parts(rows)])]

    def overlap(self, seed: int) -> int:
        """Examples that are in two splits, counted over the whole table."""
        train, validation, test = (np.unique(self.groups[self._split(split, seed)]) for split in SPLITS)
        return sum(len(np.intersect1d(a, b)) for a, b in ((train, validation), (train, test), (validation, test)))

    def _split(self, split: str, seed: int) -> Rows:
        return self._training(seed) if split == "train" else self.members(split, seed)

    def _training(self, seed: int) -> Rows:
        if self.__dict__.get("_trained_seed") != seed:
            rows = self.members("train", seed)
            if self.train_rows is not None and self.train_rows < len(rows):
                rows = np.sort(numpy_stream(self.name, seed, "train_rows").choice(rows, self.train_rows, replace=False))
            self._trained, self._trained_seed = rows, seed
        return self._trained

    def _parts(self, rows: Rows) -> list[Rows]:
        """Consecutive rows, as many at a time as BATCH_TOKENS holds when padded to the longest."""
        parts, start = [], 0
        for end in range(1, len(rows) + 1):
            if end == len(rows) or (end + 1 - start) * self.sizes[rows[end]] > BATCH_TOKENS:
                parts.append(rows[start:end])
                start = end
        return parts


def positions(n: int, seed: int, first: int, count: int) -> Rows:
    """`count` places from the `first` on in a chain of epochs, each a shuffle of 0..n-1."""
    epochs = range(first // n, (first + count - 1) // n + 1)
    chain = np.concatenate([_shuffle(n, seed, epoch) for epoch in epochs])
    start = first - epochs[0] * n
    return chain[start : start + count]


@lru_cache(maxsize=8)
def _shuffle(n: int, seed: int, epoch: int) -> Rows:
    return numpy_stream(seed, "epoch", epoch).permutation(n)
