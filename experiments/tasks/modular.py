"""Arithmetic modulo a prime: the task on which models first memorise, then understand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from experiments.tasks.finite import Finite
from experiments.tasks.rules import at_least, require
from experiments.tasks.splits import SPLITS, Rows, split_of
from experiments.tasks.task import IGNORE, TASKS, Batch
from experiments.tasks.vocabulary import PAD, Vocabulary

OPERATIONS = "+-*"
FEWEST = 30  # equations of a held-out split; with fewer, one could be empty
MOST = 2000  # numbers whose pairs fit into memory


@TASKS.register("modular", paper="arXiv:2201.02177")
class Modular(Finite):
    """`a o b = c (mod p)`, only c is asked. Every equation is either trained on or held out, for each seed anew.

    For + and * the pairs (a, b) and (b, a) are on one side: with only one of them held out, a model that knows
    nothing but the swap would look as if it had learned to calculate.

    Args:
        p: the modulus; numbers are 0 to p - 1.
        operations: one or more of +, - and *.
        train_share: part of the equations that is trained on; the rest is halved into validation and test.
        eval_rows: equations of each evaluation set.

    Source: Power et al. 2022.
    """

    name = "modular"
    loss_floor = 0.0
    sequence_metrics = True
    max_len = 4

    def __init__(
        self, *, p: int = 31, operations: str = "-", train_share: float = 0.6, eval_rows: int = 512
    ) -> None:
        held = int(p * p * len(operations) * (1 - train_share) / 2)
        strange = sorted(set(operations) - set(OPERATIONS))
        require(
            at_least("modular", 1, eval_rows=eval_rows),
            at_least("modular", 2, p=p),
            (p <= MOST, f"task 'modular': p={p} must be at most {MOST}: it makes {p * p:,} pairs"),
            (not strange and len(operations) == len(set(operations)) > 0, f"task 'modular': operations={operations!r} "
             "must be one or more of '+', '-', '*', each once, such as '+-'"),
            (0.1 <= train_share <= 0.9, f"task 'modular': train_share={train_share} must be between 0.1 and 0.9"),
            (held >= FEWEST, f"task 'modular': p={p} and train_share={train_share} hold out {held} equations a split; "
             f"{FEWEST} are needed: raise p or lower train_share"),
        )
        self.p, self.eval_rows, self.train_share = p, eval_rows, train_share
        symbols = ("<pad>", *(str(i) for i in range(p)), *operations, "=")
        self.vocabulary = Vocabulary("modular", symbols, silent=frozenset((PAD,)))
        self.vocab_size = len(symbols)
        a, b, o = (x.ravel() for x in np.meshgrid(np.arange(p), np.arange(p), np.arange(len(operations))))
        results = np.stack([{"+": a + b, "-": a - b, "*": a * b}[operation] % p for operation in operations])
        self._tokens = np.stack([a, p + o, b, np.full_like(a, p + len(operations))], axis=1) + 1
        self._answers = results[o, np.arange(len(o))] + 1
        swaps = np.array([operation in "+*" for operation in operations])[o]
        first, second = np.where(swaps, np.minimum(a, b), a), np.where(swaps, np.maximum(a, b), b)
        self._keys = np.stack([first, second, o], axis=1) + 1
        self.groups = (o * p + first) * p + second
        self.sizes = np.full(len(o), self.max_len)

    def members(self, split: str, seed: int) -> Rows:
        """Rows of a split, by a hash of the equation."""
        held = (1 - self.train_share) / 2
        return np.flatnonzero(split_of(self._keys, seed, (self.train_share, held, held)) == SPLITS.index(split))

    def present(self, rows: Rows) -> Batch:
        """`a o b =` and the number to come."""
        targets = np.full((len(rows), self.max_len), IGNORE)
        targets[:, -1] = self._answers[rows]
        return Batch(torch.from_numpy(self._tokens[rows]), torch.from_numpy(targets))

    def encode(self, text: str) -> list[int]:
        """`3 - 5` as the prompt `3 - 5 =`; the equals sign may be written or not."""
        return self.vocabulary.encode(text.rstrip().removesuffix("=") + " =")

    def decode(self, tokens: Sequence[int]) -> str:
        """Numbers and signs, blanks between them."""
        return self.vocabulary.decode(tokens)
