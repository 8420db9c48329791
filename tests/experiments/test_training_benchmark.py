"""The benchmark of a step compares like with like."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.step import BareLoop, BareModel, our_run, step_ratios
from experiments.training.session import Watchers, prepare


def test_the_bare_model_of_the_benchmark_has_the_parameters_of_ours() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours = prepare(our_run(3).config, Path(folder), "x", "cpu", Watchers())
    bare = BareModel(ours.task.vocab_size)
    assert sum(p.numel() for p in bare.parameters()) == sum(p.numel() for p in ours.model.parameters())
    BareLoop(ours.task.train_batch(0, 0, 64).inputs.flatten(), ours.task.vocab_size).step()


def test_the_benchmark_times_as_many_pairs_as_it_is_asked_for() -> None:
    assert len(step_ratios(2, warmup=1)) == 2
