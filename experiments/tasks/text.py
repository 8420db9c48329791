"""Character language models: predict the next character of a text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.seeds import numpy_stream
from experiments.tasks.files import DATA, read_characters
from experiments.tasks.rules import at_least, require
from experiments.tasks.task import IGNORE, TASKS, Batch, Evaluation, Task
from experiments.tasks.vocabulary import Vocabulary
from transformer.registry import unknown

BATCH_TOKENS = 4096  # tokens of one evaluation batch


@TASKS.register("text")
class Text(Task):
    """The next character of a text, given up to `context` characters before it.

    The text is cut into three ranges that never touch: train, then validation, then test. Training windows start at
    random places; evaluation windows are whole, do not overlap each other, and are drawn anew for each seed block,
    so that an interval over seeds covers the choice of test passages too.

    Args:
        corpus: a shipped text, used when `path` is None.
        path: any UTF-8 file.
        context: characters that a training window reads.
        validation_share, test_share: parts of the text that are held out.
        eval_tokens, test_tokens: characters that one validation and one test score (fewer if the range is short).
        eval_lengths: test windows longer than `context`, as sets `len_<n>`. All of them, and `len_<context>` beside
            them, score the same last characters of each window, which a longer window reads with more before them:
            a difference is due to the length alone, and no score profits from having fewer early positions.

    Raises:
        ValueError: a bad option, or a file that is missing, empty, not UTF-8 or too short.
    """

    name: ClassVar[str] = "text"
    file_options = ("path",)

    def __init__(
        self,
        *,
        corpus: str = "austen",
        path: str | None = None,
        context: int = 64,
        validation_share: float = 0.05,
        test_share: float = 0.05,
        eval_tokens: int = 16_384,
        test_tokens: int = 32_768,
        eval_lengths: Sequence[int] = (),
    ) -> None:
        task, lengths = f"task '{self.name}'", sorted(set(eval_lengths))
        held = min(validation_share, test_share)
        require(
            at_least(self.name, 1, context=context, eval_tokens=eval_tokens, test_tokens=test_tokens),
            (held > 0 and validation_share + test_share < 1,
             f"{task}: validation_share={validation_share} and test_share={test_share} must be above 0 and "
             "leave something to train on: together below 1"),
            (all(n > context for n in lengths),
             f"{task}: eval_lengths={list(eval_lengths)} must be longer than context={context}; the set "
             f"len_{context} is added by itself"),
        )
        shipped = _shipped(corpus)
        file, what = (shipped, f"{task}: corpus") if path is None else (Path(path), f"{task}: path")
        characters = read_characters(file, what)
        self.context = context
        self.lengths = [context, *lengths] if lengths else []
        self.max_len = max(context, *lengths) if lengths else context
        self.vocabulary = Vocabulary(self.name, characters.symbols, separator="")
        self.vocab_size = len(self.vocabulary)
        self.data_files = {corpus if path is None else file.name: characters.sha256}
        self._ids = characters.ids
        self._wanted = {"validation": eval_tokens, "test": test_tokens}
        self._ranges = _cut(len(self._ids), validation_share, test_share)
        _long_enough(f"{what}='{corpus if path is None else path}'", self._ranges, context, self.max_len, held)

    def train_batch(self, seed: int, step: int, batch_size: int) -> Batch:
        """Windows at random places of the training range."""
        first, last = self._ranges["train"]
        starts = numpy_stream(seed, "train", step).integers(first, last - self.context, size=batch_size)
        return self._windows(starts, self.context)

    def evaluations(self, split: Literal["validation", "test"], seed: int) -> list[Evaluation]:
        """The set "" of whole windows; for test also one set a length, where only the last characters count."""
        sets = [Evaluation("", self._chunks(self._starts(split, seed, self.context), self.context), self.context)]
        if split == "validation" or not self.lengths:
            return sets
        longest, scored = self.max_len, min(max(1, self.context // 2), self.lengths[1] - self.context)
        ends = self._starts(split, seed, longest) + longest
        return sets + [Evaluation(f"len_{n}", self._chunks(ends - n, n, scored), n) for n in self.lengths]

    def encode(self, text: str) -> list[int]:
        """Ids of characters."""
        return self.vocabulary.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Characters of ids."""
        return self.vocabulary.decode(tokens)

    def overlap(self, seed: int) -> int:
        """Held-out windows that leave their own range of the text; ranges never touch."""
        drawn = [("validation", self.context), ("test", self.context), ("test", self.max_len)]
        return sum(self._outside(split, seed, length) for split, length in drawn)

    def _outside(self, split: str, seed: int, length: int) -> int:
        starts, (first, last) = self._starts(split, seed, length), self._ranges[split]
        return int(((starts < first) | (starts + length >= last)).sum())

    def _starts(self, split: str, seed: int, length: int) -> NDArray[np.int64]:
        """Where non-overlapping windows of `length` + 1 characters begin, in order of the text."""
        first, last = self._ranges[split]
        room = (last - first - 1) // length
        n = min(room, max(1, self._wanted[split] // length))
        rng = numpy_stream(seed, split, length)
        shift = rng.integers(0, last - first - room * length)
        return first + shift + length * np.sort(rng.choice(room, size=n, replace=False))

    def _windows(self, starts: NDArray[np.int64], length: int, scored: int | None = None) -> Batch:
        window = torch.from_numpy(self._ids[starts[:, None] + np.arange(length + 1)].astype(np.int64))
        targets = window[:, 1:].contiguous()
        if scored is not None:
            targets[:, : length - scored] = IGNORE
        return Batch(window[:, :-1].contiguous(), targets)

    def _chunks(self, starts: NDArray[np.int64], length: int, scored: int | None = None) -> list[Batch]:
        rows = max(1, BATCH_TOKENS // length)
        return [self._windows(starts[i : i + rows], length, scored) for i in range(0, len(starts), rows)]


@TASKS.register("code")
class Code(Text):
    """The next character of Python source code; everything else as in `text`.

    Args:
        path: another UTF-8 file, instead of the shipped modules of the Python standard library.
        The other options are those of `text`.
    """

    name: ClassVar[str] = "code"

    def __init__(
        self,
        *,
        path: str | None = None,
        context: int = 128,
        validation_share: float = 0.05,
        test_share: float = 0.05,
        eval_tokens: int = 16_384,
        test_tokens: int = 32_768,
        eval_lengths: Sequence[int] = (),
    ) -> None:
        super().__init__(
            corpus="pycode", path=path, context=context, validation_share=validation_share, test_share=test_share,
            eval_tokens=eval_tokens, test_tokens=test_tokens, eval_lengths=eval_lengths,
        )


@lru_cache
def corpora() -> dict[str, Path]:
    """The shipped texts by name."""
    return {file.parent.name: file for file in sorted(DATA.glob("*/input.txt"))}


def _shipped(corpus: str) -> Path:
    if corpus not in corpora():
        raise ValueError(
            f"task 'text': {unknown('corpus', corpus, corpora())}. For a file of your own: path={corpus!r}"
        )
    return corpora()[corpus]


def _cut(n: int, validation_share: float, test_share: float) -> dict[str, tuple[int, int]]:
    """Half-open ranges of a text of n characters."""
    test = n - int(n * test_share)
    validation = test - int(n * validation_share)
    return {"train": (0, validation), "validation": (validation, test), "test": (test, n)}


def _long_enough(what: str, ranges: dict[str, tuple[int, int]], context: int, longest: int, held: float) -> None:
    for split, (first, last) in ranges.items():
        needed = 1 + (longest if split == "test" else context)
        if last - first < needed:
            more = "smaller validation_share and test_share" if split == "train" else f"larger {split}_share"
            raise ValueError(
                f"{what} is too short: its {split} part has {last - first} characters, but a window needs {needed} "
                f"(context={context} or the longest of eval_lengths, and the next character). Take a text of at "
                f"least {int(needed / held) + 1} characters, a smaller context, or a {more}"
            )
