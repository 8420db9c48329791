"""What is held equal: steps, tokens, FLOPs, seconds, parameters."""

import pytest

from experiments.check import parameters
from experiments.config import ConfigError, RunConfig, Spec, TrainConfig
from experiments.experiment import Experiment
from experiments.files import Declared
from experiments.tuning import calibration
from experiments.tuning.budget import flops_per_token, held_equal, tokens_per_step

BASE = RunConfig(task=Spec("recall"), train=TrainConfig(steps=400, batch_size=32))


def make(**fields):
    return Experiment(**{"name": "e", "question": "Which?", "baseline": BASE, "seeds": 1, **fields})


def configs(experiment):
    return {run.variant: run.config for run in experiment.runs()}


def test_steps_are_equal_by_default_and_a_variant_may_set_its_own():
    found = configs(make(vary={"train.batch_size": [64], "train.steps": [100]}))
    assert {name: config.train.steps for name, config in found.items()} == {"baseline": 400, "batch_size=64": 400, "steps=100": 100}


def test_equal_tokens_give_a_doubled_batch_half_the_steps():
    found = configs(make(budget="tokens", vary={"train.batch_size": [64], "model.n_layers": [4]}))
    assert {name: config.train.steps for name, config in found.items()} == {"baseline": 400, "batch_size=64": 200, "n_layers=4": 400}


def test_equal_flops_are_equal_within_a_step():
    found = configs(make(budget="flops", vary={"model.n_layers": [1, 4], "train.batch_size": [8]}))
    cost = {name: tokens_per_step(c) * flops_per_token(c) for name, c in found.items()}
    target = 400 * cost["baseline"]
    assert found["n_layers=1"].train.steps > 400 > found["n_layers=4"].train.steps
    for name, config in found.items():
        assert abs(config.train.steps * cost[name] - target) <= cost[name] / 2


def test_parameters_are_matched_by_the_feed_forward_width():
    experiment = make(match="parameters", vary={"model.n_layers": [1, 3], "model.feedforward": ["swiglu"]})
    found = configs(experiment)
    target = parameters(BASE)["total"]
    for name, config in found.items():
        assert parameters(config)["total"] == pytest.approx(target, rel=0.005), name
    assert found["baseline"].model.d_ff == "matched"


def test_what_was_held_equal_is_recorded_with_what_follows_from_it():
    experiment = make(budget="tokens", match="parameters", vary={"train.batch_size": [64]})
    record = held_equal(experiment, experiment.runs())
    assert record["budget"] == {"name": "tokens"}
    assert record["held_equal"] == "training tokens"
    assert record["match"] == "parameters"
    assert record["protocol"] == {"name": "fixed"}
    assert record["derived"]["batch_size=64"] == {"train.steps": 200, "model.d_ff": 256}
    assert held_equal(make(), make().runs())["derived"] == {}


@pytest.mark.parametrize("fields, text", [
    ({"budget": "tokens", "vary": {"train.steps": [100]}}, "variant 'steps=100': sets train.steps, but budget 'tokens' derives it"),
    ({"match": "parameters", "vary": {"model.d_ff": [64]}}, "sets model.d_ff, but `match: parameters` derives it"),
    ({"match": "parameters", "vary": {"model.n_layers": [40]}}, "variant 'n_layers=40'"),
    ({"budget": "seconds"}, "no rate was measured for variant 'baseline'; `run` measures every variant before it plans"),
])  # fmt: skip
def test_what_cannot_be_made_equal_is_refused(fields, text):
    with pytest.raises(ConfigError) as error:
        make(**fields).runs()
    assert text in str(error.value)


def test_equal_seconds_follow_the_measured_rates():
    found = configs(make(budget=Spec("seconds", rates={"baseline": 0.01, "n_layers=4": 0.016}), vary={"model.n_layers": [4]}))
    assert {name: config.train.steps for name, config in found.items()} == {"baseline": 400, "n_layers=4": 250}


def test_rates_are_measured_once_and_recorded(tmp_path, monkeypatch):
    asked = []

    def measured(configs):
        asked.append(sorted(configs))
        return {name: 0.01 if name == "baseline" else 0.02 for name in configs}

    monkeypatch.setattr(calibration, "measured", measured)
    declared = Declared(make(budget="seconds", vary={"model.n_layers": [4]}), "e")
    first, again = (calibration.calibrated(declared, tmp_path).experiment for _ in range(2))
    assert asked == [["baseline", "n_layers=4"]]
    assert first == again
    assert {name: config.train.steps for name, config in configs(first).items()} == {"baseline": 400, "n_layers=4": 200}
    assert calibration.calibrated(declared, tmp_path, measure=False).experiment == first
    assert calibration.calibrated(declared, tmp_path / "elsewhere", measure=False) is declared
    longer = Declared(declared.experiment.replace({"baseline": BASE.replace({"train.steps": 800}).to_dict()}), "e")
    calibration.calibrated(longer, tmp_path)
    assert len(asked) == 1
    assert calibration.calibrated(Declared(make(), "e"), tmp_path).experiment == make()


def test_a_deeper_model_measures_slower():
    small = RunConfig(task=Spec("recall"), train=TrainConfig(batch_size=8))
    rates = calibration.measured({"one": small.replace({"model.n_layers": 1}), "six": small.replace({"model.n_layers": 6})})
    assert 0 < rates["one"] < rates["six"]
