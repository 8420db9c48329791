"""Addition of whole numbers, digit by digit, with more digits at the test than in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from experiments.tasks.answers import ANSWER, question_and_answer
from experiments.tasks.generated import Generated
from experiments.tasks.rules import at_least, require
from experiments.tasks.splits import Rows
from experiments.tasks.task import TASKS, Batch
from experiments.tasks.vocabulary import BOS, EOS, PAD, SPECIALS, Vocabulary

ZERO = len(SPECIALS) + 1  # the id of the digit 0, after the specials and the answer mark
PLUS = ZERO + 10
MOST_DIGITS = 17  # a sum of larger numbers would not fit into 64 bits


@TASKS.register("addition", paper="arXiv:2307.03381")
class Addition(Generated):
    """`<bos> 4 7 + 8 5 => 2 3 1 <eos>`: the digits of the sum are asked, the last one first.

    Each number has 1 to max_digits digits, each count equally often. a + b and b + a are in the same split.

    Args:
        max_digits: most digits of a number in training.
        order: `reversed` writes the sum from its last digit, so that carries go the way the model writes;
            `plain` from its first.
        eval_lengths: test numbers of exactly so many digits, as sets `len_<n>`; None = max_digits and the two after it.
        eval_rows: examples of each evaluation set.

    Source: Lee et al. 2023, section 3 (plain and reverse formats).
    """

    name = "addition"
    loss_floor = 0.0
    sequence_metrics = True
    bos_id, eos_id = BOS, EOS

    def __init__(
        self,
        *,
        max_digits: int = 3,
        order: Literal["reversed", "plain"] = "reversed",
        eval_lengths: Sequence[int] | None = None,
        eval_rows: int = 512,
    ) -> None:
        lengths = [max_digits, max_digits + 1, max_digits + 2] if eval_lengths is None else list(eval_lengths)
        require(
            at_least("addition", 1, eval_rows=eval_rows),
            (2 <= max_digits <= MOST_DIGITS - 2,
             f"task 'addition': max_digits={max_digits} must be between 2 and {MOST_DIGITS - 2}"),
            (all(2 <= n <= MOST_DIGITS for n in lengths),
             f"task 'addition': eval_lengths={lengths} must be between 2 and {MOST_DIGITS}"),
        )
        self.max_digits, self.order, self.eval_rows, self.train_length = max_digits, order, eval_rows, max_digits
        self.eval_lengths = tuple(sorted(set(lengths)))
        self.max_len = 3 * max(max_digits, *lengths, 2) + 4
        symbols = (*SPECIALS, ANSWER, *(str(digit) for digit in range(10)), "+")
        self.vocabulary = Vocabulary("addition", symbols, silent=frozenset((PAD, BOS, EOS)))
        self.vocab_size = len(symbols)

    def draw(self, rng: np.random.Generator, n: int, length: int | None) -> Rows:
        """Rows (n, 3): the two numbers, and how many digits there is room for."""
        width = length or self.max_digits
        count = rng.integers(1, width + 1, size=(n, 2)) if length is None else np.full((n, 2), width)
        least = np.where(count == 1, 0, 10 ** (count - 1))
        numbers = rng.integers(least, 10**count)
        return np.concatenate([numbers, np.full((n, 1), width)], axis=1)

    def key(self, rows: Rows) -> Rows:
        """The two numbers in order of size."""
        return np.sort(rows[:, :2], axis=1)

    def present(self, rows: Rows) -> Batch:
        """Digits of the question and of the sum."""
        width = int(rows[0, 2])
        first, second, total = rows[:, 0], rows[:, 1], rows[:, 0] + rows[:, 1]
        a, b = digits(first, width), digits(second, width)
        question = np.zeros((len(rows), 2 * width + 1), dtype=np.int64)
        question[:, :width] = a
        every, n = np.arange(len(rows)), (a > 0).sum(axis=1)
        question[every, n] = PLUS
        question[every[:, None], n[:, None] + 1 + np.arange(width)] = b
        answer = digits(total, width + 1, backwards=self.order == "reversed")
        return question_and_answer(question, answer)

    def encode(self, text: str) -> list[int]:
        """`47+85` as the prompt `<bos> 4 7 + 8 5 =>`; blanks and the arrow may be written or not."""
        return [BOS, *self.vocabulary.lookup("".join(text.removesuffix(ANSWER).split())), ZERO - 1]


def digits(numbers: Rows, width: int, backwards: bool = False) -> Rows:
    """Ids of the decimal digits (n, width) without leading zeros, 0 after the last; numbers < 10^width."""
    from_last = numbers[:, None] // 10 ** np.arange(width) % 10 + ZERO  # column i is the digit of 10^i
    n = np.maximum(1, (numbers[:, None] >= 10 ** np.arange(width)).sum(axis=1))[:, None]
    at = np.arange(width)
    place = np.broadcast_to(at, from_last.shape) if backwards else np.maximum(n - 1 - at, 0)
    return np.where(at < n, np.take_along_axis(from_last, place, axis=1), 0)
