"""Does an evaluation example also occur in training? Found by looking at what batches contain."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from experiments.tasks.task import Batch, Task

TRAINING_BATCHES, ROWS = 16, 64  # how many training examples the row by row comparison looks at


def shared_rows(task: Task, seed: int) -> int:
    """Rows of validation or test that occur among the first training rows, plus rows that the two share.

    It compares what batches contain, not how they were split, so a mistake in the splitting shows too.
    """
    train = _rows(task.train_batch(seed, step, ROWS) for step in range(TRAINING_BATCHES))
    validation, test = _held_out(task, "validation", seed), _held_out(task, "test", seed)
    return len(validation & train) + len(test & train) + len(validation & test)


def _held_out(task: Task, split: Literal["validation", "test"], seed: int) -> set[tuple[int, ...]]:
    return _rows(chain.from_iterable(evaluation.batches for evaluation in task.evaluations(split, seed)))


def _rows(batches: Iterable[Batch]) -> set[tuple[int, ...]]:
    found: set[tuple[int, ...]] = set()
    for batch in batches:
        tokens = batch.inputs if batch.source is None else batch.source
        keep = batch.keep if batch.source is None else batch.source_keep
        rows = tokens.tolist() if keep is None else tokens.masked_fill(~keep, -1).tolist()
        found.update(tuple(t for t in row if t >= 0) for row in rows)
    return found
