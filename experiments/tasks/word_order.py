"""Who chases whom: the smallest task that a bag of words cannot do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np
import torch

from experiments.seeds import numpy_stream
from experiments.tasks.finite import Finite
from experiments.tasks.rules import at_least, require
from experiments.tasks.splits import SPLITS, Rows, split_of
from experiments.tasks.task import TASKS, Batch
from experiments.tasks.vocabulary import PAD, Vocabulary

NOUNS = ("cat", "mouse", "dog", "fox", "hen", "bear", "wolf", "goat", "horse", "duck", "frog", "snake", "owl", "crow",
         "pig", "cow", "sheep", "rabbit", "lion", "tiger", "deer", "otter", "badger", "goose")
VERBS = ("chases", "sees", "bites", "follows", "hears", "fears", "finds", "likes", "calls", "feeds", "greets", "helps")
FEWEST = 400  # sentences; with fewer, a held-out split could be empty
SHARES = (0.8, 0.1, 0.1)


@TASKS.register("word_order")
class WordOrder(Finite):
    """`cat chases mouse`: the class is the one that does it, here `cat`.

    Each sentence and the one with the nouns exchanged are in the same split, and an evaluation set has both or
    none. They are the same bag of words, so whatever ignores order gets at most one of the two right: exactly
    50 % for naming one of the nouns, and a loss of ln 2 at best.

    Args:
        n_nouns, n_verbs: how many different words; at most 24 and 12.
        eval_rows: sentences of each evaluation set, rounded down to an even number.
    """

    architectures: ClassVar[tuple[Literal["decoder", "encoder", "encoder_decoder"], ...]] = ("encoder",)
    name = "word_order"
    loss_floor = 0.0
    max_len = 3

    def __init__(self, *, n_nouns: int = 20, n_verbs: int = 10, eval_rows: int = 512) -> None:
        require(
            at_least("word_order", 2, eval_rows=eval_rows),
            (n_nouns * (n_nouns - 1) * n_verbs >= FEWEST, f"task 'word_order': n_nouns={n_nouns} and n_verbs={n_verbs} "
             f"make under {FEWEST} sentences, too few to hold some out; raise either"),
            (2 <= n_nouns <= len(NOUNS), f"task 'word_order': n_nouns={n_nouns} must be between 2 and {len(NOUNS)}"),
            (1 <= n_verbs <= len(VERBS), f"task 'word_order': n_verbs={n_verbs} must be between 1 and {len(VERBS)}"),
        )
        self.eval_rows, self.n_classes, self.class_names = eval_rows, n_nouns, NOUNS[:n_nouns]
        symbols = ("<pad>", *NOUNS[:n_nouns], *VERBS[:n_verbs])
        self.vocabulary = Vocabulary("word_order", symbols, silent=frozenset((PAD,)))
        self.vocab_size = len(symbols)
        pairs = [(a, b, v) for a, b in combinations(range(n_nouns), 2) for v in range(n_verbs)]
        self._keys = np.array(pairs) + 1
        low, high, verb = self._keys.T
        both = np.stack([low, high, high, low], axis=1).reshape(-1, 2)  # rows 2g and 2g + 1 are one pair
        self._tokens = np.stack([both[:, 0], n_nouns + np.repeat(verb, 2), both[:, 1]], axis=1)
        self.groups = np.repeat(np.arange(len(pairs)), 2)
        self.sizes = np.full(len(self.groups), self.max_len)

    def members(self, split: str, seed: int) -> Rows:
        """Both sentences of each pair of nouns and verb that a hash puts into the split."""
        pairs = np.flatnonzero(split_of(self._keys, seed, SHARES) == SPLITS.index(split))
        return (2 * pairs[:, None] + np.arange(2)).ravel()

    def chosen(self, split: str, seed: int) -> Rows:
        """Whole pairs."""
        first = self.members(split, seed)[::2]
        rng = numpy_stream(self.name, seed, split)
        taken = rng.choice(first, size=min(self.eval_rows // 2, len(first)), replace=False)
        return (taken[:, None] + np.arange(2)).ravel()

    def present(self, rows: Rows) -> Batch:
        """Three words, and the number of the first."""
        return Batch(torch.from_numpy(self._tokens[rows]), torch.from_numpy(self._tokens[rows, 0] - 1))

    def encode(self, text: str) -> list[int]:
        """Ids of words."""
        return self.vocabulary.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """The sentence."""
        return self.vocabulary.decode(tokens)
