"""Rows of a question and its answer, as a decoder reads them."""

from __future__ import annotations

import numpy as np
import torch

from experiments.tasks.splits import Rows
from experiments.tasks.task import IGNORE, Batch
from experiments.tasks.vocabulary import BOS, EOS, SPECIALS

ANSWER = "=>"  # the symbol between question and answer
MARK = len(SPECIALS)  # its id in every vocabulary that has it


def question_and_answer(question: Rows, answer: Rows, bos: int | None = BOS, mark: int | None = MARK) -> Batch:
    """`<bos> question mark answer <eos>` shifted by one; asked are the answer and the end, padding is at the end.

    Args:
        question, answer: (n, Q) and (n, A), 0 after their ends.
        bos, mark: ids that stand before and after the question; None = nothing.
    """
    n, q = len(question), (question > 0).sum(axis=1)
    a = (answer > 0).sum(axis=1)
    lead, sep = int(bos is not None), int(mark is not None)
    width = lead + question.shape[1] + sep + answer.shape[1] + 1
    rows = np.zeros((n, width), dtype=np.int64)
    at, place = np.arange(width)[None, :], np.arange(n)[:, None]
    if bos is not None:
        rows[:, 0] = bos
    rows[:, lead : lead + question.shape[1]] = question
    if mark is not None:
        rows[place[:, 0], lead + q] = mark
    first = lead + q + sep  # where the answer begins
    rows[place, first[:, None] + np.arange(answer.shape[1])] = answer
    rows[place[:, 0], first + a] = EOS
    asked = (at >= first[:, None]) & (at <= (first + a)[:, None])
    targets = np.where(asked, rows, IGNORE)[:, 1:]
    keep = at < (first + a)[:, None]  # the end itself is never read
    inputs = np.where(keep, rows, 0)[:, :-1]
    return _batch(inputs, targets, keep[:, :-1])


def _batch(inputs: Rows, targets: Rows, keep: np.ndarray) -> Batch:
    inputs, targets, keep = (np.ascontiguousarray(x) for x in (inputs, targets, keep))
    return Batch(torch.from_numpy(inputs), torch.from_numpy(targets), None if keep.all() else torch.from_numpy(keep))
