"""A made-up language whose entropy is known exactly: how near does a model come to the floor?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.seeds import numpy_stream
from experiments.tasks.generated import Generated
from experiments.tasks.rules import at_least, require
from experiments.tasks.splits import Rows
from experiments.tasks.task import IGNORE, TASKS, Batch
from experiments.tasks.vocabulary import Vocabulary

Floats = NDArray[np.float64]
SMOOTH = 0.02  # share of uniform noise in each next-symbol distribution: every text is possible, and mixing is fast
MOST_CONTEXTS = 100_000
LEAST_VARIETY = 20  # nats a text; with less, the split by content would bend the language


@dataclass(frozen=True)
class Language:
    """A Markov chain of order k over V symbols; a context is its k symbols read as a number in base V.

    Attributes:
        chances: (V^k, V), the next symbol given the context.
        contexts: (V^k,), how often each context occurs in the long run.
        entropy: nats per symbol given its context: the least loss that a model can reach in the long run.
    """

    chances: Floats
    contexts: Floats
    entropy: float


@TASKS.register("markov")
class Markov(Generated):
    """Text in which each symbol depends on the `order` symbols before it; `loss_floor` is the exact entropy rate.

    H = - sum_c p(c) sum_x p(x | c) ln p(x | c), with p(c) the stationary distribution of contexts. Texts start in
    it, and the first order - 1 symbols are not asked, so every asked symbol has its whole context in sight. On a
    finite evaluation set the loss of the true language scatters around H by chance.

    Args:
        order: symbols that the next one depends on.
        vocab: different symbols.
        language: number of the language; separate from the run's seed, so that all seeds learn the same one.
        concentration: of the Dirichlet distribution of next symbols; small = predictable.
        length: symbols that a model reads.
        eval_rows: texts of each evaluation set.
    """

    name = "markov"

    def __init__(
        self,
        *,
        order: int = 2,
        vocab: int = 8,
        language: int = 0,
        concentration: float = 0.3,
        length: int = 64,
        eval_rows: int = 512,
    ) -> None:
        require(
            at_least("markov", 1, order=order, eval_rows=eval_rows),
            at_least("markov", 2, vocab=vocab),
            at_least("markov", 0, language=language),
            (order < 1 or vocab**order <= MOST_CONTEXTS, f"task 'markov': vocab={vocab} ** order={order} contexts are "
             f"too many; the most is {MOST_CONTEXTS}"),
            (0.05 <= concentration <= 100, f"task 'markov': concentration={concentration} must be 0.05 to 100"),
            (length >= max(16, order), f"task 'markov': length={length} must be at least {max(16, order)}"),
        )
        self.order, self.vocab_size, self.length, self.eval_rows = order, vocab, length, eval_rows
        self.max_len = self.train_length = length
        self.language = make_language(order, vocab, language, concentration)
        variety = self.language.entropy * length
        require((variety >= LEAST_VARIETY, f"task 'markov': length={length} with concentration={concentration} and "
                 f"vocab={vocab} gives {variety:.0f} nats a text, too few different texts to hold some out "
                 f"({LEAST_VARIETY} are needed); raise one of them"))
        self.loss_floor = self.language.entropy
        names = [chr(ord("a") + i) if vocab <= 26 else f"s{i}" for i in range(vocab)]
        self.vocabulary = Vocabulary("markov", tuple(names))

    def draw(self, rng: np.random.Generator, n: int, length: int | None) -> Rows:
        """Rows (n, T + 1) of symbol + 1."""
        chances, v, k = self.language.chances.cumsum(axis=1), self.vocab_size, self.order
        last = len(self.language.contexts) - 1
        context = np.minimum(np.searchsorted(self.language.contexts.cumsum(), rng.random(n)), last)
        rows = np.zeros((n, self.length + 1), dtype=np.int64)
        rows[:, :k] = context[:, None] // v ** np.arange(k - 1, -1, -1) % v
        for t in range(k, self.length + 1):
            rows[:, t] = np.minimum((rng.random((n, 1)) > chances[context]).sum(axis=1), v - 1)
            context = (context * v + rows[:, t]) % (last + 1)
        return rows + 1

    def present(self, rows: Rows) -> Batch:
        """Next-symbol prediction from the first whole context on."""
        targets = rows[:, 1:] - 1
        targets[:, : self.order - 1] = IGNORE
        return Batch(torch.from_numpy(rows[:, :-1] - 1), torch.from_numpy(targets))


@lru_cache(maxsize=8)
def make_language(order: int, vocab: int, language: int, concentration: float) -> Language:
    """The language of a number, with its stationary distribution and entropy rate."""
    n = vocab**order
    drawn = numpy_stream("markov language", language, order, vocab, concentration)
    chances = (1 - SMOOTH) * drawn.dirichlet(np.full(vocab, concentration), size=n) + SMOOTH / vocab
    contexts = stationary(chances)
    entropy = -float((contexts[:, None] * chances * np.log(chances)).sum())
    return Language(chances, contexts, entropy)


def stationary(chances: Floats, tolerance: float = 1e-14) -> Floats:
    """The distribution of contexts that one more symbol leaves as it is, by repeated steps from the uniform one."""
    n, vocab = chances.shape
    contexts = np.full(n, 1 / n)
    for _ in range(100_000):
        joint = contexts[:, None] * chances  # (oldest symbol, the others | next symbol)
        following: Floats = joint.reshape(vocab, n).sum(axis=0)
        following = following / following.sum()
        if np.abs(following - contexts).sum() < tolerance * max(1, n**0.5):
            return following
        contexts = following
    raise AssertionError("a chain with only positive chances settles")
