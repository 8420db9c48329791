"""What a trained model really writes, scored as text: BLEU, chrF, error rates. Greedy, so that it needs no seed.

B batch, L positions, P prompt length.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from torch import Tensor, nn

from experiments.tasks import IGNORE, Batch, Evaluation, Task
from experiments.training.forward import moved
from transformer.generation.decode import generate, left_pad
from transformer.generation.settings import Decode


def text_scores(model: nn.Module, task: Task, sets: Sequence[Evaluation], *, device: str = "cpu") -> dict[str, float]:
    """The task's text metrics on the first set, and its yardsticks, named `test/name`; empty where the task has none.

    A metric whose package is not installed is left out with a warning: the run is trained by now, and its other
    scores stand.
    """
    if not task.text_metrics or not sets:
        return {}
    references = [text for batch in sets[0].batches for text in task.references(batch)]
    written = [text for batch in sets[0].batches for text in answers(model, task, moved(batch, device))]
    try:
        found = {**task.score_text(references, written), **task.yardstick_scores(sets[0].batches)}
    except ModuleNotFoundError as error:
        warnings.warn(f"{', '.join(task.text_metrics)} left out: {error}", RuntimeWarning, stacklevel=2)
        return {}
    return {f"test/{name}": value for name, value in found.items()}


def answers(model: nn.Module, task: Task, batch: Batch) -> list[str]:
    """The text that the model puts where the batch asks for one, each row from its own prompt (and source)."""
    tokens, keep = prompts(batch)
    decode = Decode(max_new_tokens=max(1, task.max_len - tokens.shape[1]), eos_id=task.eos_id, pad_id=task.pad_id)
    found = generate(model, tokens, decode, keep=keep, source=batch.source, source_keep=batch.source_keep)
    return [task.decode(texts[0]) for texts in found.lists()]


def prompts(batch: Batch) -> tuple[Tensor, Tensor]:
    """What stands before the first asked token of each row: int64 (B, P), and bool (B, P), True = a real token."""
    first = (batch.targets != IGNORE).int().argmax(1).tolist()
    rows = batch.inputs.tolist()
    tokens, keep = left_pad([row[: at + 1] for row, at in zip(rows, first, strict=True)])
    device = batch.inputs.device
    return tokens.to(device), keep.to(device)


def computable(task: Task) -> list[str]:
    """The text metrics and yardsticks that can be computed here; none when their package is missing."""
    return [] if lacking(task) else [*task.text_metrics, *task.yardsticks]


def lacking(task: Task) -> str | None:
    """What must be installed for the task's text metrics; None = nothing."""
    try:
        task.score_text(["a"], ["a"])
    except ModuleNotFoundError as error:
        return str(error)
    return None
