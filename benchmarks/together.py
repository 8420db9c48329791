"""Replicas: several runs trained as one, against the same runs one after another."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import torch

from benchmarks.pairs import interleaved, median_of, spread
from benchmarks.table import Table
from experiments.config import RunConfig, Spec, TrainConfig
from experiments.training.replicas.assemble import assembled
from experiments.training.replicas.group import Group, advance
from experiments.training.session import Session, Watchers, prepare
from experiments.training.train import one_step

ON_CPU = [(16, 64, 32), (32, 64, 32), (64, 64, 32), (16, 32, 8), (64, 32, 8)]  # d_model, context, batch
ON_GPU = (1, 8, 32, 128)


def measure(quick: bool) -> list[Table]:
    """Whole training steps, with data, schedule, clipping, divergence watch and metrics rows."""
    torch.set_num_threads(1)
    return [_on_cpu(quick), _on_gpu(quick)]


def _on_cpu(quick: bool) -> Table:
    rows = []
    for d_model, context, batch in ON_CPU[:2] if quick else ON_CPU:
        for n in (8,) if quick else (4, 8):
            with tempfile.TemporaryDirectory() as folder:
                alone, group = _contestants(d_model, context, batch, n, "cpu", Path(folder))
                seconds = interleaved(
                    {"alone": lambda run=alone: one_step(run), "together": lambda these=group: advance(these)},
                    rounds=5 if quick else 15,
                )
            pairs = zip(seconds["alone"], seconds["together"], strict=True)
            gains = [n * separate / together for separate, together in pairs]
            shape = f"2 x {d_model}, {batch} x {context} tokens"
            rows.append([shape, str(n), f"{median_of(seconds, 'alone') * 1e3:.1f}", spread(gains)])
    return Table(
        "Replicas on a CPU", "(n separate steps / one step of n replicas) in interleaved pairs, one thread, whole "
        "training steps: above 1 the group is faster.", ["shape", "n", "separate step, ms", "gain"], rows,
    )


def _on_gpu(quick: bool) -> Table:
    title = "Replicas on a GPU"
    says = "One step of n replicas of the default model (2 x 64, 32 x 64 tokens) over a step of one."
    if not torch.cuda.is_available():
        return Table(title, says, [], [], ["not measured: there is no CUDA device here"])
    with tempfile.TemporaryDirectory() as folder:
        work = {}
        for n in ON_GPU:
            place = Path(folder) / str(n)
            place.mkdir()
            _, group = _contestants(64, 64, 32, n, "cuda", place)
            work[str(n)] = lambda these=group: advance(these)
        seconds = interleaved(work, rounds=3 if quick else 10)  # a window of steps each
    rows = [[n, f"{median_of(seconds, n) / median_of(seconds, '1'):.2f}"] for n in work]
    return Table(title, says, ["n", "time of a step"], rows)


def _contestants(
    d_model: int, context: int, batch: int, n: int, device: str, folder: Path
) -> tuple[Session, Group]:
    config = RunConfig(
        task=Spec("text", context=context), train=TrainConfig(steps=10**5, eval_every=10**5, batch_size=batch)
    ).replace({"model.d_model": d_model})
    runs = []
    for number in range(n + 1):
        (folder / str(number)).mkdir()
        runs.append(prepare(config, folder / str(number), "benchmark", device, Watchers()))
    alone, *rest = runs
    return alone, Group(rest, assembled(rest), time.perf_counter())
