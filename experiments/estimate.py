"""How long runs will take: from finished runs of the same experiment, else from a few timed steps of the first."""

from __future__ import annotations

import contextlib
import math
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from experiments import records
from experiments.check import build_task, model_arguments, parameters
from experiments.config import RunConfig
from experiments.experiment import Run

AROUND = 1.1  # evaluation, logging and start-up, as a multiple of the steps themselves
TIMED_STEPS = 4


def seconds_of(runs: Sequence[Run], results: Path) -> list[float]:
    """Estimated seconds of each run on one worker. A rough figure: +-50 % on a shared machine.

    NaN = unknown: nothing has finished yet, and the model or the batch is too large to be timed here.
    """
    if not runs:
        return []
    reference = runs[0]
    rate = _stored_rate(results, reference.experiment)
    if rate is None:
        with contextlib.redirect_stdout(sys.stderr):  # a user's own part may print, which is no part of our answer
            rate = _timed_rate(reference.config) if _fits(reference.config) else math.nan
    return [rate * _work(run.config) for run in runs]


def _fits(config: RunConfig) -> bool:
    """Whether a few steps need less than half of the memory that is free: weights, gradients, activations; float32."""
    import psutil

    task, model = build_task(config.task), config.model
    per_token = model.n_layers * (12 * model.d_model + 2 * model.hidden_width() + 2 * model.n_heads * task.max_len)
    tokens = config.train.batch_size * task.max_len
    numbers = 2 * parameters(config)["total"] + tokens * (per_token + 3 * task.vocab_size)
    return bool(4 * numbers < psutil.virtual_memory().available / 2)


def _work(config: RunConfig) -> float:
    """Something proportional to a run's arithmetic: steps x tokens x parameters (with a floor for fixed costs)."""
    tokens = config.train.batch_size * build_task(config.task).max_len
    return config.train.steps * tokens * (parameters(config)["total"] + 50_000)


def _stored_rate(results: Path, experiment: str) -> float | None:
    """Median seconds per unit of work over the experiment's finished runs."""
    rates = []
    for directory in records.run_directories(results, experiment):
        stored = records.read_run(directory)
        if stored.result and stored.config and stored.result.get("status") == "done":
            seconds = stored.result.get("cost", {}).get("seconds")
            if isinstance(seconds, int | float) and seconds > 0:
                rates.append(seconds / _work(RunConfig(**stored.config["config"])))
        if len(rates) == 20:
            break
    return statistics.median(rates) if rates else None


def _timed_rate(config: RunConfig) -> float:
    import torch

    from experiments.training.forward import logits_of
    from experiments.training.loss import summed_loss
    from transformer.models import build

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        task = build_task(config.task)
        model = build(config.model, seed=config.seed, **model_arguments(task))
        spent = []
        for step in range(TIMED_STEPS):
            began = time.perf_counter()
            batch = task.train_batch(config.seed, step, config.train.batch_size)
            summed_loss(logits_of(model, batch), batch.targets).backward()
            spent.append(time.perf_counter() - began)
    finally:
        torch.set_num_threads(threads)
    return min(spent) * AROUND * config.train.steps / _work(config)
