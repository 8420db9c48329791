"""The engine of tasks with a source and an answer, as an encoder-decoder learns them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.tasks.finite import Finite
from experiments.tasks.splits import Rows
from experiments.tasks.task import IGNORE, Batch
from experiments.tasks.vocabulary import BOS, EOS, Vocabulary


class Table:
    """Ragged rows of ids in one array, padded with 0.

    Attributes:
        ids: (N, W), the longest row is W long.
        lengths: int64 (N,).
    """

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.lengths = np.array([len(row) for row in rows], dtype=np.int64)
        flat = np.array([i for row in rows for i in row], dtype=np.uint16)
        self.ids: NDArray[np.uint16] = np.zeros((len(rows), int(self.lengths.max())), dtype=np.uint16)
        self.ids[np.arange(self.ids.shape[1]) < self.lengths[:, None]] = flat

    def take(self, rows: Rows) -> tuple[Rows, Rows]:
        """Ids (n, longest of these rows) and lengths (n,)."""
        lengths = self.lengths[rows]
        return self.ids[rows, : int(lengths.max())].astype(np.int64), lengths


class Pairs(Finite):
    """A source and its answer. The decoder starts from `<bos>` and ends with `<eos>`; padding is a token of its own.

    Attributes:
        sources, answers: what the encoder reads and what is asked, without start and end.
        source_vocabulary, vocabulary: their symbols.
    """

    architectures: ClassVar[tuple[Literal["decoder", "encoder", "encoder_decoder"], ...]] = ("encoder_decoder",)
    sequence_metrics = True
    bos_id, eos_id = BOS, EOS
    sources: Table
    answers: Table
    source_vocabulary: Vocabulary
    vocabulary: Vocabulary

    def present(self, rows: Rows) -> Batch:
        """Sources, and answers shifted by one."""
        source, source_lengths = self.sources.take(rows)
        answer, lengths = self.answers.take(rows)
        inputs = np.concatenate([np.full((len(rows), 1), BOS), answer], axis=1)
        targets = np.where(np.arange(inputs.shape[1]) < lengths[:, None], np.roll(inputs, -1, axis=1), IGNORE)
        targets[np.arange(len(rows)), lengths] = EOS
        return Batch(
            torch.from_numpy(inputs), torch.from_numpy(targets), real(lengths + 1, inputs.shape[1]),
            torch.from_numpy(source), real(source_lengths, source.shape[1]),
        )

    def encode(self, text: str) -> list[int]:
        """Ids of a source."""
        return self.source_vocabulary.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of an answer."""
        return self.vocabulary.decode(tokens)

    def decode_source(self, tokens: Sequence[int]) -> str:
        """Text of a source."""
        return self.source_vocabulary.decode(tokens)

    def measure(self) -> None:
        """Set what follows from the tables and vocabularies: sizes and the positions that a model needs."""
        self.vocab_size, self.source_vocab_size = len(self.vocabulary), len(self.source_vocabulary)
        self.max_len = int(max(self.sources.lengths.max(), self.answers.lengths.max() + 1))
        self.sizes = self.sources.lengths + self.answers.lengths + 1


def real(lengths: Rows, width: int) -> Tensor | None:
    """True for the first `lengths` of `width` positions; None if that is all of them."""
    keep = np.arange(width) < lengths[:, None]
    return None if keep.all() else torch.from_numpy(keep)
