"""What identifies a run: everything that can change a number, nothing else, and thousands of them in a moment."""

from __future__ import annotations

import subprocess
import sys

from experiments.config import RunConfig, digest
from experiments.experiment import Experiment


def experiment(**changes: object) -> Experiment:
    return Experiment(**{
        "name": "x", "question": "Q?", "vary": {"model.positional": ["rope", "none"], "train.lr": [0.001]}, "seeds": 3,
        **changes,
    })


def test_a_run_is_what_its_own_configuration_says():
    for run in experiment().runs():
        assert run.identity == run.config.identity()
        assert run.hash == digest(run.config.identity())
        assert RunConfig(**run.config.to_dict()) == run.config


def test_the_order_of_variants_and_of_seeds_changes_no_id():
    turned = {"train.lr": [0.001], "model.positional": ["none", "rope"]}
    assert {run.id for run in experiment().runs()} == {r.id for r in experiment(vary=turned, seeds=[2, 0, 1]).runs()}


def test_any_field_that_can_change_a_number_changes_every_id():
    before = {run.id for run in experiment().runs()}
    for path, value in [("train.steps", 499), ("train.beta2", 0.96), ("model.dropout", 0.1), ("model.bias", False)]:
        changed = experiment(baseline=RunConfig().replace({path: value}))
        assert not before & {run.id for run in changed.runs()}, path


def test_words_about_an_experiment_change_no_id():
    other = experiment(question="Something else?", tags=["a"], metric="test/accuracy", goal="max", smallest_effect=0.1)
    assert [run.hash for run in experiment().runs()] == [run.hash for run in other.runs()]


def test_5000_runs_are_planned_in_little_memory():
    code = """
import psutil, torch
from experiments.experiment import Experiment
import experiments.check, transformer.models, experiments.training.problems  # what they need is not the plan's
memory = lambda: psutil.Process().memory_info().rss / 2**20
before = memory()
grid = {"model.positional": ["none", "rope", "alibi", "learned"], "train.lr": [0.001 * i for i in range(1, 126)]}
runs = Experiment(name="big", question="Q?", grid=grid, seeds=10).runs()
assert len({run.id for run in runs}) == len(runs) >= 5000
print(memory() - before)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert float(out) < 100, f"{out} MB"
