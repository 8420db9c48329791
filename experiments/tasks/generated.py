"""The engine of tasks whose examples are made up: independent streams, disjoint splits, fixed evaluation sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from torch import Tensor

from experiments.seeds import numpy_stream
from experiments.tasks.splits import Rows, sample
from experiments.tasks.task import Batch, Evaluation, Task
from experiments.tasks.vocabulary import Vocabulary

BLOCK_ROWS = 4096  # training examples made at a time: numpy costs per call, hardly per row
BATCH_TOKENS = 4096  # tokens of one evaluation batch


class Generated(Task):
    """A task that gives `draw` (what the examples are) and `present` (how a model sees them).

    Each example belongs to the split that a hash of its content says (90 % train, 5 % validation, 5 % test, redrawn
    for each seed block), so no example is both trained on and asked. Sets `len_<n>` are scored on test only.

    Attributes:
        name: the registered name; used in messages.
        vocabulary: the symbol of each token.
        eval_rows: examples of each evaluation set.
        train_length: what `length` of the set "" is; None where lengths mean nothing.
        eval_lengths: lengths of the further test sets.
    """

    name: str
    vocabulary: Vocabulary
    eval_rows: int
    train_length: int | None = None
    eval_lengths: Sequence[int] = ()
    _made: dict[str, list[Evaluation]]

    def draw(self, rng: np.random.Generator, n: int, length: int | None) -> Rows:
        """`n` examples, int64 (n, W), 0 = nothing here. length None = as in training, otherwise exactly so long."""
        raise NotImplementedError(type(self).__name__)

    def present(self, rows: Rows) -> Batch:
        """The batch of these examples."""
        raise NotImplementedError(type(self).__name__)

    def key(self, rows: Rows) -> Rows:
        """What makes two examples the same for the split; the whole row unless a task knows better."""
        return rows

    def train_batch(self, seed: int, step: int, batch_size: int) -> Batch:
        """Examples `step * batch_size` and on of an endless stream, which is made block by block."""
        steps = max(1, BLOCK_ROWS // batch_size)
        block, at = divmod(step, steps)
        rows = self._block(seed, block, steps * batch_size)
        return self.present(rows[at * batch_size : (at + 1) * batch_size])

    def evaluations(self, split: Literal["validation", "test"], seed: int) -> list[Evaluation]:
        """The set "" like training; for test also one set a length."""
        if self.__dict__.get("_made_for") != seed:  # asked for by the overlap check and by training: made once
            self._made, self._made_for = {}, seed
        if split not in self._made:
            self._made[split] = self._make(split, seed)
        return self._made[split]

    def _make(self, split: str, seed: int) -> list[Evaluation]:
        sets = [self._evaluation("", split, seed, None)]
        if split == "test":
            sets += [self._evaluation(f"len_{n}", split, seed, n) for n in self.eval_lengths]
        return sets

    def encode(self, text: str) -> list[int]:
        """Ids of symbols apart by spaces."""
        return self.vocabulary.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Symbols of ids."""
        return self.vocabulary.decode(tokens)

    def _evaluation(self, name: str, split: str, seed: int, length: int | None) -> Evaluation:
        rows = self._rows(split, seed, self.eval_rows, length)
        width = max(1, _width(self.present(rows[:1])))
        size = max(1, BATCH_TOKENS // width)
        batches = [self.present(rows[i : i + size]) for i in range(0, len(rows), size)]
        return Evaluation(name, batches, self.train_length if length is None else length)

    def _rows(self, split: str, seed: int, n: int, length: int | None, *address: object) -> Rows:
        rng = numpy_stream(self.name, seed, split, length, *address)
        return sample(lambda k: self.draw(rng, k, length), n, split, seed, self.key, f"task '{self.name}'")

    def _block(self, seed: int, index: int, n: int) -> Rows:
        address = (seed, index, n)
        if self.__dict__.get("_latest_at") != address:  # batches come in order, so one block is enough
            self._latest = self._rows("train", seed, n, None, index)
            self._latest_at = address
        return self._latest


def _width(batch: Batch) -> int:
    tokens: Tensor = batch.inputs
    return int(tokens.shape[1]) + (0 if batch.source is None else int(batch.source.shape[1]))
