"""Associative recall: pairs are shown once, then some keys come back and their values are asked."""

from __future__ import annotations

from collections.abc import Sequence
from math import perm
from typing import Literal

import numpy as np
import torch

from experiments.tasks.generated import Generated
from experiments.tasks.rules import at_least, require
from experiments.tasks.splits import FEWEST, Rows
from experiments.tasks.task import IGNORE, TASKS, Batch
from experiments.tasks.vocabulary import Vocabulary


@TASKS.register("recall", paper="arXiv:2312.04927")
class Recall(Generated):
    """Multi-query associative recall: k1 v1 .. kK vK, then each key once more, and there its value is asked.

    Key and value tokens are different halves of the vocabulary; token 0 is blank. A key comes back after a gap of g
    free slots (two positions a slot), drawn without replacement with p(g) proportional to g^(power - 1), so
    most questions come early and some come late. Everywhere else nothing is asked. Chance is 1 / n_pairs for a model
    that has found the shown values but not the match: a loss of ln(n_pairs).

    Args:
        length: positions of an example.
        n_pairs: pairs shown, and questions asked.
        vocab: tokens: half of them (less the blank) are keys, half values.
        power: see above; small = early.
        filler: what stands between the questions: blanks, or random tokens.
        eval_lengths: longer test examples with as many pairs, as sets `len_<n>`.
        eval_rows: examples of each evaluation set.

    Source: Arora et al. 2023 (Zoology), section 3 and appendix.
    """

    name = "recall"
    loss_floor = 0.0
    sequence_metrics = True

    def __init__(
        self,
        *,
        length: int = 32,
        n_pairs: int = 4,
        vocab: int = 64,
        power: float = 0.01,
        filler: Literal["blank", "random"] = "blank",
        eval_lengths: Sequence[int] = (),
        eval_rows: int = 512,
    ) -> None:
        n_keys = max(0, vocab // 2 - 1)
        slots = (min((length, *eval_lengths)) - 2 * n_pairs) // 2
        require(
            at_least("recall", 1, n_pairs=n_pairs, eval_rows=eval_rows),
            (power > 0, f"task 'recall': power={power} must be above 0"),
            (n_pairs <= n_keys, f"task 'recall': n_pairs={n_pairs} needs as many different keys, but vocab={vocab} "
             f"has {n_keys} (vocab / 2 - 1); the least vocab is {2 * n_pairs + 2}"),
            (not 1 <= n_pairs <= n_keys or perm(n_keys, n_pairs) * (vocab - n_keys - 1) ** n_pairs * slots >= FEWEST,
             f"task 'recall': n_pairs={n_pairs}, vocab={vocab} and length={length} make under {FEWEST} different "
             "examples, too few to hold some out; raise one of them"),
            *((n >= 4 * n_pairs, f"task 'recall': {option}={n} is too short for n_pairs={n_pairs}: pairs and "
               f"questions need 4 positions a pair, at least {4 * n_pairs}")
              for option, n in (("length", length), *(("eval_lengths", n) for n in eval_lengths))),
        )
        self.length, self.n_pairs, self.vocab, self.power, self.filler = length, n_pairs, vocab, power, filler
        self.eval_lengths, self.eval_rows, self.train_length = tuple(eval_lengths), eval_rows, length
        self.n_keys, self.vocab_size = n_keys, vocab
        self.max_len = max(length, *eval_lengths) if eval_lengths else length
        values = range(vocab - n_keys - 1)
        self.vocabulary = Vocabulary("recall", (".", *(f"k{i}" for i in range(n_keys)), *(f"v{i}" for i in values)))

    def draw(self, rng: np.random.Generator, n: int, length: int | None) -> Rows:
        """Rows (n, 2T): the tokens, then at the same place + T the asked value or 0."""
        size, pairs = length or self.length, self.n_pairs
        every = np.arange(n)[:, None]
        keys = 1 + rng.random((n, self.n_keys)).argsort(axis=1)[:, :pairs]
        values = rng.integers(1 + self.n_keys, self.vocab, size=(n, pairs))
        at = 2 * pairs + 2 * self._gaps(rng, n, (size - 2 * pairs) // 2)
        rows = np.zeros((n, 2 * size), dtype=np.int64)
        if self.filler == "random":
            rows[:, 2 * pairs : size] = rng.integers(0, self.vocab, size=(n, size - 2 * pairs))
        rows[:, 0 : 2 * pairs : 2], rows[:, 1 : 2 * pairs : 2] = keys, values
        rows[every, at], rows[every, size + at] = keys, values
        return rows

    def present(self, rows: Rows) -> Batch:
        """Tokens, with the value as target where its key comes back."""
        inputs, asked = np.split(rows, 2, axis=1)
        return Batch(
            torch.from_numpy(inputs.copy()), torch.from_numpy(np.where(asked == 0, IGNORE, asked))
        )

    def _gaps(self, rng: np.random.Generator, n: int, slots: int) -> Rows:
        """Different slots for the questions of each row: the first arrivals of one exponential race a row."""
        rate = np.arange(1, slots + 1) ** (self.power - 1)
        return (rng.exponential(size=(n, slots)) / rate).argsort(axis=1)[:, : self.n_pairs]
