"""inside.jsonl: what the layers look like at each validation, on one fixed batch. Nothing of it can change a number.

The batch is the beginning of the first validation set. The model is in eval mode meanwhile, so that no random stream
moves, and gradients are taken beside those of training. A kill costs at most the rows since the last checkpoint, which
a resumed run writes again, bit for bit.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

from torch import nn

from experiments.records import BY_STEP
from experiments.tasks import Evaluation
from experiments.training.forward import moved
from experiments.training.looking.by_step import layers_row, probe
from experiments.training.step import Recipe
from experiments.training.trackers import MetricsFile


class Recorder:
    """The recorder of one run.

    Args:
        directory: the run's. validation: its sets. recipe: device and precision of its passes.
        done: steps that the checkpoint has seen; rows after them are cut off.
    """

    def __init__(self, directory: Path, validation: list[Evaluation], recipe: Recipe, *, done: int) -> None:
        self.rows = MetricsFile(directory, keep=kept_bytes(directory / BY_STEP, done), name=BY_STEP)
        self.batch, self.recipe, self.given_up = moved(probe(validation[0].batches[0]), recipe.device), recipe, False

    def note(self, step: int, model: nn.Module) -> None:
        """Writes the row of a step; what a component raises under it costs one warning, and recording ends.

        Raises:
            OSError: the disk is full or the folder cannot be written.
        """
        if self.given_up:
            return
        try:
            row = layers_row(model, self.batch, precision=self.recipe.precision, device=self.recipe.device)
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
            self.given_up = True
            line = (str(error).splitlines() or [""])[0][:200]
            _tell(f"{BY_STEP} ends before step {step} ({type(error).__name__}: {line}); the run itself goes on")
            return
        self.rows.log({"step": step, **{name: float(f"{value:.6g}") for name, value in row.items()}})
        self.rows.flush()


def kept_bytes(path: Path, done: int) -> int:
    """Length of the whole lines in front that a run which has done so many steps wrote; 0 where it begins anew."""
    size = 0
    for line in path.read_bytes().splitlines(keepends=True) if done and path.exists() else ():
        try:
            step = json.loads(line)["step"]
        except (ValueError, KeyError, TypeError):
            break
        if not line.endswith(b"\n") or step > done:
            break
        size += len(line)
    return size


def _tell(text: str) -> None:
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    except RuntimeWarning:  # warnings turned into errors: looking must not stop a run even then
        print(f"warning: {text}", flush=True)
