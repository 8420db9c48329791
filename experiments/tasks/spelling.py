"""How an English word is spoken: letters to phonemes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from experiments.tasks.files import DATA, read_text
from experiments.tasks.pairs import Pairs, Table
from experiments.tasks.rules import at_least, require
from experiments.tasks.splits import SPLITS, Rows
from experiments.tasks.tables import numbered, read_columns
from experiments.tasks.task import TASKS
from experiments.tasks.vocabulary import BOS, EOS, PAD, SPECIALS, Vocabulary

FILES = {"train": "train.tsv", "validation": "valid.tsv", "test": "test.tsv"}


@TASKS.register("spelling")
class Spelling(Pairs):
    """Letters of a word to its phonemes (ARPAbet without stress), from the CMU Pronouncing Dictionary.

    36,000 / 2,000 / 2,000 words of 3 to 11 letters, no word in two splits. `exact_match` is 1 - word error rate.

    Args:
        train_rows: how many training words are used; None = all.
        eval_rows: words of each evaluation set.
    """

    name = "spelling"
    text_metrics = ("phoneme_error_rate",)

    def __init__(self, *, train_rows: int | None = None, eval_rows: int = 512) -> None:
        require(at_least("spelling", 1, eval_rows=eval_rows, train_rows=1 if train_rows is None else train_rows))
        self.train_rows, self.eval_rows = train_rows, eval_rows
        table = _load()
        self.sources, self.answers, self.groups, self._first = table.sources, table.answers, table.groups, table.first
        self.source_vocabulary, self.vocabulary = table.letters, table.phonemes
        self.data_files = table.sha256
        self.measure()

    def members(self, split: str, seed: int) -> Rows:
        """The rows of the split's own file."""
        at = SPLITS.index(split)
        return np.arange(self._first[at], self._first[at + 1])

    def score_text(self, references: Sequence[str], hypotheses: Sequence[str]) -> dict[str, float]:
        """Phoneme error rate: edits (insert, delete, replace) to reach the references over their phonemes."""
        pairs = [(r.split(), h.split()) for r, h in zip(references, hypotheses, strict=True)]
        asked = sum(len(reference) for reference, _ in pairs)
        return {"phoneme_error_rate": sum(edits(r, h) for r, h in pairs) / max(1, asked)}


class _Words:
    def __init__(self) -> None:
        files = {split: DATA / "g2p" / name for split, name in FILES.items()}
        rows = {split: read_columns(path, "task 'spelling': file", 2) for split, path in files.items()}
        self.first = np.cumsum([0, *(len(rows[split]) for split in SPLITS)])
        every = [row for split in SPLITS for row in rows[split]]
        letters = sorted({letter for word, _ in rows["train"] for letter in word})
        phonemes = sorted({phoneme for _, spoken in rows["train"] for phoneme in spoken.split()})
        self.letters = Vocabulary("spelling", ("<pad>", *letters), separator="", silent=frozenset((PAD,)))
        self.phonemes = Vocabulary("spelling", (*SPECIALS, *phonemes), silent=frozenset((PAD, BOS, EOS)))
        self.sources = Table([self.letters.encode(word) for word, _ in every])
        self.answers = Table([self.phonemes.encode(spoken) for _, spoken in every])
        self.groups = np.array(numbered(word for word, _ in every))
        self.sha256 = {f"g2p/{path.name}": read_text(path, "file").sha256 for path in files.values()}


@lru_cache(maxsize=1)
def _load() -> _Words:
    return _Words()


def edits(a: Sequence[str], b: Sequence[str]) -> int:
    """Fewest insertions, deletions and replacements that turn one sequence into the other (Levenshtein 1966)."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]
