"""A language model that nobody trains: counts of n-grams. It says how like its task's data a text is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.tasks import Task

Ids = NDArray[np.int64]
ORDER, BATCHES, ROWS = 5, 64, 64


@dataclass(frozen=True)
class Grams:
    """Counts of the n-grams of one length, sorted by code (its tokens as a number in base V)."""

    codes: Ids
    counts: Ids

    @classmethod
    def of(cls, codes: Ids) -> Grams:
        """Counts of codes."""
        return cls(*np.unique(codes, return_counts=True))

    def contexts(self, vocab: int) -> Grams:
        """How often each of their beginnings was followed by anything."""
        codes, at = np.unique(self.codes // vocab, return_inverse=True)
        return Grams(codes, np.bincount(at, weights=self.counts).astype(np.int64))

    def count(self, codes: Ids) -> NDArray[np.float64]:
        """How often each code was seen."""
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[at] == codes, self.counts[at], 0).astype(np.float64)


@dataclass(frozen=True)
class Reference:
    """p_k(x | c) = (count(c x) + p_{k-1}(x | c) a) / (count(c) + a) from k = 0, uniform, up to n - 1 tokens of context.

    Attributes:
        grams, contexts: counts by length, from 1, and of what stands before their last token.
        vocab: V. prior: a, how many sightings the shorter context is worth.
    """

    grams: tuple[Grams, ...]
    contexts: tuple[Grams, ...]
    vocab: int
    prior: float = 2.0

    def loss(self, texts: Sequence[Sequence[int]]) -> float:
        """Mean -ln p over the tokens of all texts from the n-th on, nats per token."""
        rows = [_windows(np.asarray(text, dtype=np.int64), len(self.grams)) for text in texts]
        windows = np.concatenate(rows)
        p = np.full(len(windows), 1 / self.vocab)
        for k in range(1, len(self.grams) + 1):
            joint = self.grams[k - 1].count(_codes(windows[:, -k:], self.vocab))
            context = self.contexts[k - 1].count(_codes(windows[:, -k:-1], self.vocab))
            p = (joint + self.prior * p) / (context + self.prior)
        return float(-np.log(p).mean())


def reference(task: Task) -> Reference:
    """Counts over training windows of seed block 0."""
    rows = np.concatenate([task.train_batch(0, step, ROWS).inputs.numpy() for step in range(BATCHES)])
    grams = tuple(
        Grams.of(np.concatenate([_codes(_windows(row, k), task.vocab_size) for row in rows]))
        for k in range(1, ORDER + 1)
    )
    return Reference(grams, tuple(g.contexts(task.vocab_size) for g in grams), task.vocab_size)


def _windows(text: Ids, k: int) -> Ids:
    return np.lib.stride_tricks.sliding_window_view(text, k) if len(text) >= k else np.zeros((0, k), dtype=np.int64)


def _codes(windows: Ids, vocab: int) -> Ids:
    powers = vocab ** np.arange(windows.shape[1] - 1, -1, -1, dtype=np.int64)
    return np.asarray(windows @ powers, dtype=np.int64)
