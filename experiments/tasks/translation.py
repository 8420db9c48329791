"""Translation of sentences, by words, characters or pieces of words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.tasks.files import DATA, read_text
from experiments.tasks.pairs import Pairs, Table
from experiments.tasks.rules import at_least, require
from experiments.tasks.splits import SPLITS, Rows
from experiments.tasks.tables import hashed_split, members, numbered, read_columns
from experiments.tasks.task import IGNORE, TASKS, Batch
from experiments.tasks.tokens import Level, cutter
from experiments.tasks.vocabulary import BOS, EOS, PAD, SPECIALS, Vocabulary

UNKNOWN = "<unk>"
FILES = {"train": "train.tsv", "validation": "valid.tsv", "test": "test.tsv"}


@TASKS.register("translation")
class Translation(Pairs):
    """English to Spanish Bible verses of 10 to 100 characters, or pairs of your own.

    9,572 training pairs, 533 for validation and 543 for test, less those whose English is already in training. The
    vocabularies are those of the training pairs; what they lack is `<unk>`. References are the sentences as written.
    `copy_bleu` and `copy_chrf` are the scores of no translation at all, the source sentences as written.

    Args:
        pairs_file: a UTF-8 file of your own with `source<TAB>target` lines, split 90/5/5 by a hash of the source.
        level: words (and punctuation marks), characters, or pieces of words (`subword`, byte-pair encoding) as tokens.
        max_vocab: the most frequent tokens of each language that are kept.
        max_tokens: pairs with a longer side are left out; None = all pairs.
        train_rows: how many training pairs are used; None = all.
        eval_rows: pairs of each evaluation set.
    """

    name = "translation"
    text_metrics = ("bleu", "chrf")
    yardsticks = ("copy_bleu", "copy_chrf")
    file_options = ("pairs_file",)

    def __init__(
        self,
        *,
        pairs_file: str | None = None,
        level: Level = "word",
        max_vocab: int = 4000,
        max_tokens: int | None = None,
        train_rows: int | None = None,
        eval_rows: int = 512,
    ) -> None:
        require(
            at_least("translation", 1, max_tokens=1 if max_tokens is None else max_tokens, eval_rows=eval_rows,
                     train_rows=1 if train_rows is None else train_rows),
            (10 <= max_vocab <= 60_000, f"task 'translation': max_vocab={max_vocab} must be between 10 and 60000"),
        )
        self.train_rows, self.eval_rows = train_rows, eval_rows
        files = tuple(DATA / "bible_en_es" / name for name in FILES.values())
        files = files if pairs_file is None else (Path(pairs_file),)
        stamps = tuple(read_text(path, "task 'translation': pairs_file").sha256 for path in files)
        table = _load(files, stamps, level, max_vocab, max_tokens)
        self.sources, self.answers, self.groups, self._table = table.sources, table.answers, table.groups, table
        self.source_vocabulary, self.vocabulary = table.vocabularies
        self.data_files = {f"{path.parent.name}/{path.name}": sha for path, sha in zip(files, stamps, strict=True)}
        self.measure()

    def members(self, split: str, seed: int) -> Rows:
        """The rows of a split; which they are does not depend on the seed, for the vocabulary must not."""
        return self._table.members[split]

    def encode(self, text: str) -> list[int]:
        """Ids of a source sentence."""
        return self.source_vocabulary.lookup(self._table.cutters[0].apart(text))

    def decode(self, tokens: Sequence[int]) -> str:
        """A target sentence, with the usual blanks around punctuation."""
        return self._table.cutters[1].together(self.vocabulary.decode(tokens))

    def decode_source(self, tokens: Sequence[int]) -> str:
        """A source sentence, with the usual blanks around punctuation."""
        return self._table.cutters[0].together(self.source_vocabulary.decode(tokens))

    def references(self, batch: Batch) -> list[str]:
        """The target sentences as written in the file, not as far as the vocabulary knows them."""
        return [pair.target for pair in self._written(batch)]

    def yardstick_scores(self, batches: Sequence[Batch]) -> dict[str, float]:
        """Scores of the source sentences as written."""
        pairs = [pair for batch in batches for pair in self._written(batch)]
        found = self.score_text([pair.target for pair in pairs], [pair.source for pair in pairs])
        return {f"copy_{name}": value for name, value in found.items()}

    def _written(self, batch: Batch) -> list[_Pair]:
        assert batch.source is not None, "translation batches have a source"
        asked = [[t for t in row if t not in (IGNORE, EOS)] for row in batch.targets.tolist()]
        given = [[t for t in row if t != PAD] for row in batch.source.tolist()]
        return [self._table.written[tuple(s), tuple(t)] for s, t in zip(given, asked, strict=True)]

    def score_text(self, references: Sequence[str], hypotheses: Sequence[str]) -> dict[str, float]:
        """Corpus BLEU and chrF2 of sacrebleu, 0 to 100.

        Raises:
            ModuleNotFoundError: sacrebleu is not installed.
        """
        try:
            from sacrebleu.metrics.bleu import BLEU
            from sacrebleu.metrics.chrf import CHRF
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "BLEU and chrF need the package sacrebleu; install it with: pip install -r requirements-extras.txt"
            ) from error
        said, right = list(hypotheses), [list(references)]
        return {"bleu": float(BLEU().corpus_score(said, right).score),
                "chrf": float(CHRF().corpus_score(said, right).score)}


class _Sentences:
    """Every pair as ids, and which split it belongs to."""

    def __init__(self, files: tuple[Path, ...], level: Level, max_vocab: int, max_tokens: int | None) -> None:
        pairs, most = _own(files[0]) if len(files) == 1 else _shipped(files), max_tokens or float("inf")
        learn = [pair for pair in pairs if pair.split == "train"]
        self.cutters = (
            cutter(level, (pair.source for pair in learn), max_vocab),
            cutter(level, (pair.target for pair in learn), max_vocab),
        )
        cut = [(pair, self.cutters[0].apart(pair.source), self.cutters[1].apart(pair.target)) for pair in pairs]
        cut = [(pair, source, target) for pair, source, target in cut if max(len(source), len(target)) <= most]
        train = [row for row in cut if row[0].split == "train"]
        known = [self.cutters[i].known((row[i + 1] for row in train), max_vocab) for i in (0, 1)]
        join, quiet = self.cutters[0].separator, frozenset((PAD, BOS, EOS))
        self.vocabularies = (
            Vocabulary("translation", ("<pad>", UNKNOWN, *known[0]), join, frozenset((PAD,)), 1),
            Vocabulary("translation", (*SPECIALS, UNKNOWN, *known[1]), join, quiet, len(SPECIALS)),
        )
        sources = [tuple(self.vocabularies[0].lookup(source)) for _, source, _ in cut]
        answers = [tuple(self.vocabularies[1].lookup(target)) for _, _, target in cut]
        self.members, self.groups = members([pair.split for pair, _, _ in cut], sources), np.array(numbered(sources))
        _all_there(files[0], self.members, max_tokens)
        self.sources, self.answers = Table(sources), Table(answers)
        self.written = {(s, t): row[0] for s, t, row in zip(sources, answers, cut, strict=True)}


@lru_cache(maxsize=4)
def _load(
    files: tuple[Path, ...], stamps: tuple[str, ...], level: Level, max_vocab: int, max_tokens: int | None
) -> _Sentences:
    return _Sentences(files, level, max_vocab, max_tokens)


class _Pair(NamedTuple):
    split: str
    source: str
    target: str


def _shipped(files: tuple[Path, ...]) -> list[_Pair]:
    return [
        _Pair(split, source, target)
        for split, path in zip(FILES, files, strict=True)
        for _, source, target in read_columns(path, "task 'translation': file", 3)
    ]


def _own(path: Path) -> list[_Pair]:
    rows = read_columns(path, "task 'translation': pairs_file", 2)
    return [_Pair(hashed_split(source), source, target) for source, target in rows]


def _all_there(path: Path, rows: dict[str, Rows], max_tokens: int | None) -> None:
    lacking = [split for split in SPLITS if not len(rows[split])]
    if lacking:
        raise ValueError(
            f"task 'translation': '{path}' leaves no pairs for {' and '.join(lacking)} (max_tokens={max_tokens}); one "
            "source sentence in twenty goes to validation and to test, unless its known words are those of a training "
            "sentence: give some hundred different sentences"
        )
