"""No run trains on what it is tested on: asked once for each task and seed block, before the first step."""

from __future__ import annotations

import functools

from experiments.tasks import Task


class Overlap(ValueError):
    """An evaluation example occurs in training, or validation and test share one."""


@functools.lru_cache(maxsize=256)
def check_overlap(task: Task, seed: int) -> None:
    """Fails the run when its splits are not independent; says nothing where the task cannot tell.

    Raises:
        Overlap: with the number of shared examples.
    """
    shared = task.overlap(seed)
    if shared:
        raise Overlap(
            f"{type(task).__name__}: {shared} evaluation example{'s' if shared > 1 else ''} of seed {seed} also occur "
            "in training or in the other evaluation split; scores would measure memory"
        )
