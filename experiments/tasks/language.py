"""Which language is it? Short phrases in sixteen languages, for an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
import torch

from experiments.tasks.files import DATA, read_text
from experiments.tasks.finite import Finite
from experiments.tasks.pairs import Table, real
from experiments.tasks.rules import at_least, require
from experiments.tasks.splits import Rows
from experiments.tasks.tables import hashed_split, members, numbered, read_columns
from experiments.tasks.task import TASKS, Batch
from experiments.tasks.vocabulary import PAD, Vocabulary

LANGUAGES = 16
UNKNOWN = "\N{REPLACEMENT CHARACTER}"


@TASKS.register("language_id")
class LanguageId(Finite):
    """The language of a phrase, character by character, from the Unicode names of symbols.

    1,966 names in 16 languages. All languages of one name are in one split, and held-out phrases that training
    has under another name are left out. The order of the characters matters little here, which makes it a
    control: positions should not matter much either. Some phrases are the same in several languages.

    Args:
        max_length: phrases of more characters are left out.
        train_rows: how many training phrases are used; None = all.
        eval_rows: phrases of each evaluation set.
    """

    architectures: ClassVar[tuple[Literal["decoder", "encoder", "encoder_decoder"], ...]] = ("encoder",)
    name = "language_id"
    n_classes = LANGUAGES

    def __init__(self, *, max_length: int = 32, train_rows: int | None = None, eval_rows: int = 1024) -> None:
        require(
            at_least("language_id", 1, eval_rows=eval_rows, train_rows=1 if train_rows is None else train_rows),
            at_least("language_id", 8, max_length=max_length),
        )
        self.train_rows, self.eval_rows = train_rows, eval_rows
        self._table = table = _load(max_length)
        self.vocabulary, self.class_names, self.groups = table.vocabulary, table.languages, table.groups
        self.sizes, self.vocab_size = table.phrases.lengths, len(table.vocabulary)
        self.max_len = int(self.sizes.max())
        self.data_files = {"cldr_names/base.tsv": table.sha256}

    def members(self, split: str, seed: int) -> Rows:
        """Rows of a split, which goes by the name's id."""
        return self._table.members[split]

    def present(self, rows: Rows) -> Batch:
        """Phrases padded to the longest, and the number of the language."""
        ids, lengths = self._table.phrases.take(rows)
        labels = torch.from_numpy(self._table.labels[rows])
        return Batch(torch.from_numpy(ids), labels, real(lengths, ids.shape[1]))

    def encode(self, text: str) -> list[int]:
        """Ids of characters; what training never saw is one unknown character."""
        return self.vocabulary.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """The phrase."""
        return self.vocabulary.decode(tokens)


class _Phrases:
    def __init__(self, max_length: int) -> None:
        path = DATA / "cldr_names" / "base.tsv"
        head, *rows = read_columns(path, "task 'language_id': file", LANGUAGES + 1)
        self.sha256, self.languages = read_text(path, "file").sha256, tuple(head[1:])
        every = [
            (hashed_split(row[0]), phrase, label)
            for row in rows for label, phrase in enumerate(row[1:]) if len(phrase) <= max_length
        ]
        splits = [split for split, _, _ in every]
        characters = sorted({c for split, phrase, _ in every if split == "train" for c in phrase})
        self.vocabulary = Vocabulary("language_id", ("<pad>", UNKNOWN, *characters), "", frozenset((PAD,)), 1)
        phrases = [tuple(self.vocabulary.encode(phrase)) for _, phrase, _ in every]
        self.phrases, self.labels = Table(phrases), np.array([label for _, _, label in every])
        self.members, self.groups = members(splits, phrases), np.array(numbered(phrases))


@lru_cache(maxsize=4)
def _load(max_length: int) -> _Phrases:
    return _Phrases(max_length)
