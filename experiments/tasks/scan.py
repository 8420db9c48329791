"""SCAN: commands in a tiny language to the actions they mean. Made from the grammar, not from a file."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from experiments.tasks.pairs import Pairs, Table
from experiments.tasks.rules import at_least, require
from experiments.tasks.splits import SPLITS, Rows, split_of
from experiments.tasks.task import TASKS
from experiments.tasks.vocabulary import BOS, EOS, PAD, SPECIALS, Vocabulary

ACTS = {"walk": ["WALK"], "look": ["LOOK"], "run": ["RUN"], "jump": ["JUMP"], "turn": []}
SHORT = 22  # most actions of a training command in the length split
SHARES = {"simple": (0.80, 0.05, 0.15), "length": (0.95, 0.05, 0.0)}

Phrases = list[tuple[list[str], list[str]]]  # words and actions


@TASKS.register("scan", paper="arXiv:1711.00350")
class Scan(Pairs):
    """`jump left twice and walk` is LTURN JUMP LTURN JUMP WALK: all 20,910 commands of the grammar.

    Args:
        split: `simple` holds out commands at random (80 % train, 5 % validation, 15 % test, anew for each seed
            block); `length` tests on the 3,920 commands of more than 22 actions, and takes validation (5 %)
            from the 16,990 others, so that choices are made without a look at long ones.
        train_rows: how many training commands are used; None = all.
        eval_rows: commands of each evaluation set.

    Source: Lake & Baroni 2018, grammar and interpretation in the supplement.
    """

    name = "scan"
    loss_floor = 0.0

    def __init__(
        self, *, split: Literal["simple", "length"] = "simple", train_rows: int | None = None, eval_rows: int = 512
    ) -> None:
        require(at_least("scan", 1, eval_rows=eval_rows, train_rows=1 if train_rows is None else train_rows))
        self.split, self.train_rows, self.eval_rows = split, train_rows, eval_rows
        made = _all()
        self.source_vocabulary, self.vocabulary, self.sources, self.answers = made
        self.groups = np.arange(len(self.sources.lengths))
        self.measure()

    def members(self, split: str, seed: int) -> Rows:
        """Rows of a split, by a hash of the command and, for the length split, the number of actions."""
        belongs = split_of(self.sources.ids.astype(np.int64), seed, SHARES[self.split])
        if self.split == "length":
            belongs = np.where(self.answers.lengths > SHORT, SPLITS.index("test"), belongs)
        return np.flatnonzero(belongs == SPLITS.index(split))


class _Made(NamedTuple):
    source_vocabulary: Vocabulary
    vocabulary: Vocabulary
    sources: Table
    answers: Table


@lru_cache(maxsize=1)
def _all() -> _Made:
    every = commands()
    words = sorted({word for said, _ in every for word in said})
    actions = sorted({action for _, done in every for action in done})
    source_vocabulary = Vocabulary("scan", ("<pad>", *words), silent=frozenset((PAD,)))
    vocabulary = Vocabulary("scan", (*SPECIALS, *actions), silent=frozenset((PAD, BOS, EOS)))
    return _Made(
        source_vocabulary, vocabulary,
        Table([source_vocabulary.lookup(said) for said, _ in every]),
        Table([vocabulary.lookup(done) for _, done in every]),
    )


def commands() -> Phrases:
    """Every command with its actions: C -> S | S and S | S after S; S -> V | V twice | V thrice."""
    once = _verbs()
    single = [
        ([*said, *times], done * n)
        for said, done in once for times, n in (([], 1), (["twice"], 2), (["thrice"], 3))
    ]
    double = [
        ([*x, joint, *y], done)
        for x, first in single for y, second in single
        for joint, done in (("and", first + second), ("after", second + first))
    ]
    return single + double


def _verbs() -> Phrases:
    """V -> U | D | U opposite side | U around side, with D -> U side; `turn` alone means nothing."""
    found: Phrases = [([verb], act) for verb, act in ACTS.items() if act]
    for verb, act in ACTS.items():
        for side, turn in (("left", "LTURN"), ("right", "RTURN")):
            found += [
                ([verb, side], [turn, *act]),
                ([verb, "opposite", side], [turn, turn, *act]),
                ([verb, "around", side], [turn, *act] * 4),
            ]
    return found
