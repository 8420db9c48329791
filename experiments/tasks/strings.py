"""Copy, reverse and sort a string of symbols, with test strings longer than any that was trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.tasks.answers import ANSWER, question_and_answer
from experiments.tasks.generated import Generated
from experiments.tasks.rules import at_least, require
from experiments.tasks.splits import FEWEST, Rows, enough
from experiments.tasks.task import TASKS, Batch
from experiments.tasks.vocabulary import BOS, EOS, PAD, SPECIALS, Vocabulary

FIRST = len(SPECIALS) + 1  # the id of the first symbol, after the specials and the answer mark


class Strings(Generated):
    """`<bos> x1 .. xn => y1 .. yn <eos>`, the part after the arrow is asked; y is what `answer` makes of x.

    Args:
        max_length: training strings have 1 to so many symbols, each length equally often.
        n_symbols: how many symbols there are.
        eval_lengths: test strings of exactly so many symbols, as sets `len_<n>`; None = 1, 1.5 and 2 times max_length.
        eval_rows: examples of each evaluation set.
    """

    loss_floor = 0.0
    sequence_metrics = True
    bos_id, eos_id = BOS, EOS

    def __init__(
        self,
        *,
        max_length: int = 10,
        n_symbols: int = 26,
        eval_lengths: Sequence[int] | None = None,
        eval_rows: int = 512,
    ) -> None:
        lengths = [max_length, max_length * 3 // 2, max_length * 2] if eval_lengths is None else list(eval_lengths)
        require(
            at_least(self.name, 1, max_length=max_length, eval_rows=eval_rows),
            at_least(self.name, 2, n_symbols=n_symbols),
            (all(enough(n_symbols, n) for n in lengths), f"task '{self.name}': eval_lengths={lengths} with "
             f"n_symbols={n_symbols} make under {FEWEST} different strings of one length, too few to hold some out; "
             "raise either"),
            (enough(n_symbols, max_length), f"task '{self.name}': n_symbols={n_symbols} and max_length={max_length} "
             f"make under {FEWEST} different strings, too few to hold some out; raise either"),
        )
        self.max_length, self.n_symbols = max_length, n_symbols
        self.eval_lengths = tuple(sorted(set(lengths)))
        self.eval_rows, self.train_length = eval_rows, max_length
        self.max_len = 2 * max(max_length, *lengths, 1) + 2
        letters = [chr(ord("a") + i) if n_symbols <= 26 else f"s{i}" for i in range(n_symbols)]
        self.vocabulary = Vocabulary(self.name, (*SPECIALS, ANSWER, *letters), silent=frozenset((PAD, BOS, EOS)))
        self.vocab_size = len(self.vocabulary)

    def answer(self, strings: Rows, lengths: Rows) -> Rows:
        """y from x, both (n, W) padded with 0; lengths (n,)."""
        raise NotImplementedError(type(self).__name__)

    def draw(self, rng: np.random.Generator, n: int, length: int | None) -> Rows:
        """Strings (n, W), 0 after their end."""
        width = length or self.max_length
        lengths = rng.integers(1, width + 1, size=n) if length is None else np.full(n, width)
        strings = rng.integers(FIRST, FIRST + self.n_symbols, size=(n, width))
        return np.where(np.arange(width) < lengths[:, None], strings, 0)

    def present(self, rows: Rows) -> Batch:
        """Question and answer, the answer as target."""
        return question_and_answer(rows, self.answer(rows, (rows > 0).sum(axis=1)))

    def encode(self, text: str) -> list[int]:
        """`a b c` as the prompt `<bos> a b c =>`; the arrow may be written or not."""
        return [BOS, *self.vocabulary.encode(text.removesuffix(ANSWER)), FIRST - 1]


@TASKS.register("copy", paper="arXiv:2305.19466")
class Copy(Strings):
    """y = x. The strings are random, so only looking back can help.

    Source: Kazemnejad et al. 2023, section 3; trained to 1-10, tested to 11-20.
    """

    name = "copy"

    def answer(self, strings: Rows, lengths: Rows) -> Rows:
        """x itself."""
        return strings


@TASKS.register("reverse", paper="arXiv:2305.19466")
class Reverse(Strings):
    """y = x from the last symbol to the first."""

    name = "reverse"

    def answer(self, strings: Rows, lengths: Rows) -> Rows:
        """x backwards, padding still at the end."""
        at = lengths[:, None] - 1 - np.arange(strings.shape[1])
        return np.where(at >= 0, np.take_along_axis(strings, np.maximum(at, 0), axis=1), 0)


@TASKS.register("sort", paper="arXiv:2305.19466")
class Sort(Strings):
    """y = the symbols of x in alphabetical order, as often as they occur."""

    name = "sort"

    def answer(self, strings: Rows, lengths: Rows) -> Rows:
        """x in order, padding still at the end."""
        last = np.iinfo(np.int64).max
        ordered = np.sort(np.where(strings == 0, last, strings), axis=1)
        return np.where(ordered == last, 0, ordered)
