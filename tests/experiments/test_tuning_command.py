"""`tune` from end to end with real training, and what it refuses before anything is trained."""

import json

import pytest

from experiments.commands.choices import Launch
from experiments.commands.tune import command
from experiments.config import ConfigError, RunConfig, Spec, TrainConfig
from experiments.experiment import Experiment
from experiments.files import Declared, load
from experiments.records import read_json, read_run, run_directory
from experiments.tuning.request import Request

TINY = RunConfig(
    task=Spec("recall"), train=TrainConfig(steps=6, batch_size=4, eval_every=3),
).replace({"model.d_model": 16, "model.n_layers": 1, "model.n_heads": 2})


def declare(**fields):
    return Declared(Experiment(**{"name": "tiny", "question": "Which?", "baseline": TINY, "seeds": 2, **fields}), "tiny")


def test_tune_finds_a_winner_and_says_how_to_use_it(tmp_path, capsys):
    declared, request = declare(vary={"model.norm": ["rmsnorm"]}), Request(trials=2)
    launch = Launch(tmp_path, workers=1, wandb="off", device="cpu")
    assert command(declared, launch, request) == 0
    out = capsys.readouterr().out
    assert "tiny-tune: 2 studies x 2 trials x 1 seed: 0 told, 4 to go" in out
    assert "use it: --set 'model.norm={\"name\": \"rmsnorm\"}' --set train.lr=" in out
    assert f"browse the trials: optuna-dashboard sqlite:///{tmp_path}/tiny-tune/study.db" in out
    winner = load(str(tmp_path / "tiny-tune" / "winner-norm=rmsnorm.yaml")).experiment
    (best,) = read_json(tmp_path / "tiny-tune" / "tuning.json")["studies"][1]["best"]
    assert winner.baseline.train.lr == best["values"]["train.lr"]
    assert winner.baseline.model.norm == Spec("rmsnorm")
    stored = read_json(tmp_path / "tiny-tune" / "experiment.json")
    assert len(stored["runs"]) == 4
    for run in stored["runs"]:
        assert read_run(run_directory(tmp_path, "tiny-tune", run["id"])).result["hash"] == run["hash"]
    assert command(declared, Launch(tmp_path, workers=1, wandb="off", as_json=True), request) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["final"]
    assert again["studies"][0]["trials"] == 2


@pytest.mark.parametrize("request_, text", [
    (Request(sampler=Spec("tpee")), "--sampler: unknown sampler 'tpee'. Did you mean 'tpe'? Known: cmaes, gp, grid, qmc, random, tpe"),
    (Request(sampler=Spec("tpe", start=3)), "unknown option of sampler 'tpe': 'start'. Did you mean 'startup'?"),
    (Request(pruner=Spec("medium")), "--pruner: unknown pruner 'medium'. Did you mean 'median'? Known: hyperband, median, none, wilcoxon"),
    (Request(sampler=Spec("grid")), "--sampler: 'grid' needs finitely many values of train.lr; say how many"),
    pytest.param(
        Request(sampler=Spec("cmaes")), "--sampler: 'cmaes' needs at least 2 numeric parameters without conditions", marks=pytest.mark.slow,  # cmaes: an extra
    ),
    (Request(cost="parameters", pruner=Spec("median")), "--pruner: with two objectives no trial can be given up early"),
    (Request(cost="money"), "--cost: unknown cost 'money'. Known: flops_per_token, parameters, peak_memory_bytes"),
    (Request(seeds=3), "--trial-seeds: 3 is not between 1 and the experiment's 2 seeds"),
    (Request(trials=0), "--trials: 0 must be at least 1"),
    (Request(variants=("base",)), "--variant: unknown variant 'base'. Did you mean 'baseline'? Known: baseline"),
    (Request(study="a/b"), "--study: 'a/b' must be 1 to 30 of A-Z a-z 0-9 . _ -"),
    (Request(sampler=Spec("tpe", startup=-1)), "--sampler: sampler 'tpe': startup=-1 must be greater than or equal to 0"),
    (Request(sampler=Spec("gp", startup=0)), "--sampler: sampler 'gp': startup=0 must be greater than or equal to 1"),
    (Request(pruner=Spec("median", startup=-3)), "--pruner: pruner 'median': startup=-3 must be greater than or equal to 0"),
    (Request(pruner=Spec("hyperband", reduction=0)), "--pruner: pruner 'hyperband': reduction=0 must be greater than or equal to 2"),
    (Request(pruner=Spec("wilcoxon", p=2.0)), "--pruner: pruner 'wilcoxon': p=2.0 must be less than 1"),
    (Request(storage=""), "--storage: '': write sqlite:///FILE"),
    (Request(storage="mysql://host/db"), "--storage: 'mysql://host/db': write sqlite:///FILE"),
])  # fmt: skip
def test_a_wrong_request_is_refused_before_anything_is_trained(tmp_path, request_, text):
    with pytest.raises(ConfigError) as error:
        command(declare(), Launch(tmp_path, wandb="off"), request_)
    assert text in str(error.value)
    assert not (tmp_path / "tiny-tune").exists()


def test_a_metric_that_is_not_measured_on_validation_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="unknown validation metric 'validation/blue'"):
        command(declare(metric="test/blue"), Launch(tmp_path, wandb="off"), Request())
