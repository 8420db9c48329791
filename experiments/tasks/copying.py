"""Two tasks of finding and repeating: symbols scattered among blanks, and a string that comes twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from experiments.tasks.answers import ANSWER, question_and_answer
from experiments.tasks.generated import Generated
from experiments.tasks.rules import at_least, require
from experiments.tasks.splits import FEWEST, Rows, enough
from experiments.tasks.task import IGNORE, TASKS, Batch
from experiments.tasks.vocabulary import BOS, EOS, PAD, SPECIALS, Vocabulary

BLANK = len(SPECIALS) + 1  # after the specials and the answer mark


@TASKS.register("selective_copy", paper="arXiv:2403.17844")
class SelectiveCopy(Generated):
    """`<bos> . c . . a . b => c a b <eos>`: the symbols are asked in order, without the blanks.

    Where the symbols stand is random, so that a fixed distance does not help.

    Args:
        length: places before the arrow.
        n_copy: symbols among them.
        n_symbols: different symbols.
        eval_lengths: test examples with more places and as many symbols, as sets `len_<n>`.
        eval_rows: examples of each evaluation set.

    Source: Poli et al. 2024 (MAD), selective copying; ours marks the end of the input once.
    """

    name = "selective_copy"
    loss_floor = 0.0
    sequence_metrics = True
    bos_id, eos_id = BOS, EOS

    def __init__(
        self,
        *,
        length: int = 32,
        n_copy: int = 4,
        n_symbols: int = 16,
        eval_lengths: Sequence[int] = (),
        eval_rows: int = 512,
    ) -> None:
        shortest = min((length, *eval_lengths))
        require(
            at_least("selective_copy", 1, n_copy=n_copy, eval_rows=eval_rows),
            at_least("selective_copy", 2, n_symbols=n_symbols),
            (n_copy < shortest, f"task 'selective_copy': n_copy={n_copy} symbols need more than as many places, but "
             f"length={length} or eval_lengths={list(eval_lengths)} has {shortest}"),
            (n_symbols**n_copy * shortest >= FEWEST, f"task 'selective_copy': n_symbols={n_symbols} and n_copy={n_copy}"
             " make too few different examples to hold some out; raise either"),
        )
        self.length, self.n_copy, self.n_symbols, self.eval_rows = length, n_copy, n_symbols, eval_rows
        self.eval_lengths, self.train_length = tuple(sorted(set(eval_lengths))), length
        self.max_len = max((length, *eval_lengths)) + n_copy + 2
        names = [chr(ord("a") + i) if n_symbols <= 26 else f"s{i}" for i in range(n_symbols)]
        self.vocabulary = Vocabulary(
            self.name, (*SPECIALS, ANSWER, ".", *names), silent=frozenset((PAD, BOS, EOS))
        )
        self.vocab_size = len(self.vocabulary)

    def draw(self, rng: np.random.Generator, n: int, length: int | None) -> Rows:
        """Rows (n, places) of blanks and n_copy symbols."""
        width = length or self.length
        rows = np.full((n, width), BLANK)
        at = np.argpartition(rng.random((n, width)), self.n_copy, axis=1)[:, : self.n_copy]
        rows[np.arange(n)[:, None], at] = rng.integers(BLANK + 1, BLANK + 1 + self.n_symbols, size=at.shape)
        return rows

    def present(self, rows: Rows) -> Batch:
        """The row, and its symbols in order as the answer."""
        return question_and_answer(rows, rows[rows > BLANK].reshape(len(rows), self.n_copy))

    def encode(self, text: str) -> list[int]:
        """`. c . a` as the prompt `<bos> . c . a =>`; the arrow may be written or not."""
        return [BOS, *self.vocabulary.encode(text.removesuffix(ANSWER)), BLANK - 1]


@TASKS.register("induction", paper="arXiv:2209.11895")
class Induction(Generated):
    """`q r c a b c a b`: some symbols, then a string twice. Its second copy is asked, all but its first symbol.

    Length and place of the string are random: with both fixed, a model could copy by position alone. No symbol
    occurs twice before the second copy, so the one that follows is certain.

    Args:
        min_length, max_length: symbols of the string.
        max_offset: most symbols before it.
        n_symbols: different symbols; at least max_length + max_offset.
        eval_lengths: test strings of exactly so many symbols, as sets `len_<n>`.
        eval_rows: examples of each evaluation set.

    Source: Olsson et al. 2022, section on repeated random sequences.
    """

    name = "induction"
    loss_floor = 0.0
    sequence_metrics = True

    def __init__(
        self,
        *,
        min_length: int = 6,
        max_length: int = 20,
        max_offset: int = 8,
        n_symbols: int = 64,
        eval_lengths: Sequence[int] = (),
        eval_rows: int = 512,
    ) -> None:
        longest = max((max_length, *eval_lengths))
        require(
            at_least("induction", 1, eval_rows=eval_rows),
            at_least("induction", 0, max_offset=max_offset),
            (2 <= min_length <= max_length, f"task 'induction': min_length={min_length} must be between 2 and "
             f"max_length={max_length}"),
            (all(n >= min_length for n in eval_lengths),
             f"task 'induction': eval_lengths={list(eval_lengths)} must be at least min_length={min_length}"),
            (longest + max_offset <= n_symbols, f"task 'induction': n_symbols={n_symbols} must be at least {longest} "
             f"(the longest string) + {max_offset} (max_offset) = {longest + max_offset}"),
            (enough(n_symbols, min_length), f"task 'induction': n_symbols={n_symbols} and min_length={min_length} make "
             "too few different strings to hold some out; raise either"),
        )
        self.min_length, self.max_length, self.max_offset = min_length, max_length, max_offset
        self.n_symbols, self.eval_rows, self.train_length = n_symbols, eval_rows, max_length
        self.eval_lengths = tuple(sorted(set(eval_lengths)))
        self.max_len = max_offset + 2 * longest - 1
        names = [f"s{i}" for i in range(n_symbols)]
        self.vocabulary = Vocabulary(self.name, ("<pad>", *names), silent=frozenset((PAD,)))
        self.vocab_size = n_symbols + 1

    def draw(self, rng: np.random.Generator, n: int, length: int | None) -> Rows:
        """Rows (n, offset + 2 length at most): symbols, 0 after the second copy."""
        longest = length or self.max_length
        size = rng.integers(self.min_length, longest + 1, size=(n, 1)) if length is None else np.full((n, 1), longest)
        offset = rng.integers(0, self.max_offset + 1, size=(n, 1))
        symbols = 1 + rng.random((n, self.n_symbols)).argsort(axis=1)
        at = np.arange(self.max_offset + 2 * longest)
        place = np.where(at < offset + size, at, at - size)
        return np.where(at < offset + 2 * size, np.take_along_axis(symbols, place, axis=1), 0)

    def present(self, rows: Rows) -> Batch:
        """Next-symbol prediction, asked wherever the symbol read has occurred before."""
        again = (rows[:, :, None] == rows[:, None, :]) & np.tri(rows.shape[1], k=-1, dtype=bool)
        asked = again.any(axis=2)[:, :-1] & (rows[:, 1:] > 0)
        keep = rows[:, :-1] > 0
        return Batch(
            torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(np.where(asked, rows[:, 1:], IGNORE)),
            None if keep.all() else torch.from_numpy(keep),
        )
