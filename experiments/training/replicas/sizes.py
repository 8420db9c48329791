"""How many replicas train together: what fits on a GPU, and whether it pays on a CPU; both by trying."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from experiments.config import RunConfig, digest
from experiments.training.replicas.assemble import assembled
from experiments.training.replicas.group import Group, advance
from experiments.training.session import Session, Watchers, prepare
from experiments.training.train import one_step

HEADROOM = 0.8  # share of a GPU's free memory that a group may plan with; evaluation needs some
PAIRS = 5
_gains: dict[str, float] = {}


def fitting(config: RunConfig, device: str, most: int) -> int:
    """How many replicas of this shape fit in a GPU's free memory, at least 1 and at most `most`."""
    free, _ = torch.cuda.mem_get_info(device)
    one, two = (_peak_bytes(config, device, n) for n in (1, 2))
    return max(1, min(most, 1 + int((HEADROOM * free - one) / max(1, two - one))))


def gain(config: RunConfig, replicas: int) -> float:
    """(seconds of separate steps / seconds of one step together) of this many replicas on the CPU, one thread.

    The median of a few pairs of training steps in turn, in this process; measured once for a shape.
    """
    model, train = config.model, config.train  # components do not count: a sweep over twelve would measure twelve times
    sizes = [model.architecture, model.d_model, model.n_layers, model.n_heads, model.head_width(), model.d_ff, replicas]
    key = digest([*sizes, config.task.to_dict(), train.batch_size, train.accumulate, train.precision])
    if key not in _gains:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            _gains[key] = _measured(config, replicas)
        finally:
            torch.set_num_threads(threads)
    return _gains[key]


def _measured(config: RunConfig, replicas: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        alone, *rest = _sessions(config, "cpu", replicas + 1, Path(folder))
        group = Group(rest, assembled(rest), time.perf_counter())
        pairs = [(_seconds(lambda: one_step(alone)), _seconds(lambda: advance(group))) for _ in range(PAIRS + 1)]
    return statistics.median(replicas * separate / together for separate, together in pairs[1:])


def _peak_bytes(config: RunConfig, device: str, replicas: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        runs = _sessions(config, device, replicas, Path(folder))
        advance(Group(runs, assembled(runs), time.perf_counter()))
        return torch.cuda.max_memory_allocated(device)


def _sessions(config: RunConfig, device: str, n: int, folder: Path) -> list[Session]:
    """Sessions that look at validation and write rows only into a folder that is thrown away."""
    trial = config.replace({"train.eval_every": 10**6, "train.steps": max(1000, config.train.steps)})
    places = [folder / str(number) for number in range(n)]
    for place in places:
        place.mkdir()
    return [prepare(trial, place, "trial", device, Watchers()) for place in places]


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
