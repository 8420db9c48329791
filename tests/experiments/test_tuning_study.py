"""What a study asks, what it is told, and how it goes on after its driver died."""

import itertools
import math

import pytest

from experiments.config import ConfigError, Spec
from experiments.tuning.request import Request
from tests.experiments.tuning_jobs import UNTRAINED
from tests.experiments.tuning_kit import (
    LR,
    InstantEngine,
    completions,
    experiment,
    rates,
    results_of,
    tune,
    tune_until_killed,
)

TWELVE = {"train.lr": [1e-3, 3e-3, 1e-2, 3e-2], "model.norm": ["layernorm", "rmsnorm", "none"]}


def test_twenty_trials_are_twenty_different_configurations(tmp_path):
    outcome, trials = tune(tmp_path, experiment(), Request(trials=20))
    assert outcome.exit_code == 0
    assert [trial.status for trial in trials] == ["done"] * 20
    assert len(set(rates(trials))) == 20
    assert set(completions(tmp_path, "valley-tune").values()) == {1}


SLOW_GP = pytest.param(Spec("gp", startup=4), marks=pytest.mark.slow)


CONTINUOUS = [
    Spec("tpe", startup=3), SLOW_GP, pytest.param(Spec("cmaes"), marks=pytest.mark.slow), Spec("qmc"),  # cmaes: an extra
]


@pytest.mark.parametrize("sampler", [Spec("tpe"), SLOW_GP, Spec("qmc"), Spec("grid")])
def test_a_finite_space_is_searched_without_repeats_and_then_is_exhausted(tmp_path, sampler):
    request = Request(trials=20, sampler=sampler)
    outcome, trials = tune(tmp_path, experiment(space=TWELVE), request)
    assert outcome.exit_code == 0
    assert len(trials) == 12
    assert len({tuple(sorted(map(str, trial.values.items()))) for trial in trials}) == 12
    assert set(completions(tmp_path, "valley-tune").values()) == {1}
    outcome, trials = tune(tmp_path, experiment(space=TWELVE), request, InstantEngine(most=0))
    assert outcome.exit_code == 0
    assert len(trials) == 12


@pytest.mark.parametrize("sampler", CONTINUOUS)
def test_a_resumed_study_is_the_uninterrupted_one(tmp_path, sampler):
    space = {**LR, "train.weight_decay": {"log": [1e-3, 1.0]}}
    request = Request(trials=9, sampler=sampler)
    _, straight = tune(tmp_path / "a", experiment(space=space), request)
    for runs in (3, 2):
        assert tune_until_killed(tmp_path / "b", experiment(space=space), request, runs)
    outcome, resumed = tune(tmp_path / "b", experiment(space=space), request)
    assert outcome.exit_code == 0
    assert [trial.values for trial in resumed] == [trial.values for trial in straight]
    assert results_of(tmp_path / "a", "valley-tune") == results_of(tmp_path / "b", "valley-tune")


def test_two_workers_in_any_order_ask_for_the_same_trials(tmp_path):
    request = Request(trials=10, sampler=Spec("tpe", startup=3))
    _, forwards = tune(tmp_path / "a", experiment(), request, InstantEngine(2))
    _, backwards = tune(tmp_path / "b", experiment(), request, InstantEngine(2, pick=lambda n: n - 1))
    assert tune_until_killed(tmp_path / "c", experiment(), request, 5, slots=2)
    _, resumed = tune(tmp_path / "c", experiment(), request, InstantEngine(2, pick=lambda n: n - 1))
    assert rates(forwards) == rates(backwards) == rates(resumed)


def test_more_trials_go_on_where_fewer_ended(tmp_path):
    _, seven = tune(tmp_path, experiment(), Request(trials=7))
    _, twenty = tune(tmp_path, experiment(), Request(trials=20))
    assert rates(twenty)[:7] == rates(seven)
    assert len(set(rates(twenty))) == 20


def test_the_score_is_the_mean_over_the_seeds(tmp_path):
    _, trials = tune(tmp_path, experiment(seeds=3), Request(trials=3, seeds=3))
    scores = results_of(tmp_path, "valley-tune")
    for trial in trials:
        each = [scores[run["id"]]["validation/loss"] for run in trial.runs]
        assert len(each) == 3
        assert trial.scores[0] == pytest.approx(sum(each) / 3)


def test_what_diverges_is_never_best_and_teaches_a_finite_cap(tmp_path):
    told = []
    _, trials = tune(tmp_path, experiment(), Request(trials=12), told=told, diverges=3e-3, best=2e-2)
    diverged = [trial for trial in trials if trial.status == "diverged"]
    assert diverged
    assert all(math.isfinite(trial.scores[0]) and trial.scores[0] >= UNTRAINED for trial in diverged)
    from experiments.records import read_json

    (study,) = read_json(tmp_path / "valley-tune" / "tuning.json")["studies"]
    assert study["best"][0]["values"]["train.lr"] <= 3e-3


def test_nothing_is_best_when_everything_diverges(tmp_path):
    outcome, trials = tune(tmp_path, experiment(), Request(trials=3), diverges=0.0)
    assert outcome.exit_code == 0
    assert [trial.status for trial in trials] == ["diverged"] * 3
    from experiments.records import read_json

    assert read_json(tmp_path / "valley-tune" / "tuning.json")["studies"][0]["best"] == []


def test_failed_trials_are_told_and_tried_again_on_request(tmp_path):
    outcome, trials = tune(tmp_path, experiment(), Request(trials=8), fails=3e-3)
    failed = [trial for trial in trials if trial.status == "failed"]
    assert outcome.exit_code == 1
    assert failed
    assert "lr=" in failed[0].error
    assert all(trial.scores is None for trial in failed)
    outcome, again = tune(tmp_path, experiment(), Request(trials=8), InstantEngine(most=0))
    assert len(again) == 8
    outcome, again = tune(tmp_path, experiment(), Request(trials=8), retry_failed=True)
    assert outcome.exit_code == 0
    assert len(again) == 8 + len(failed)
    assert {trial.values["train.lr"] for trial in again if trial.status == "done"} == set(rates(trials))


def test_a_changed_question_under_the_same_name_is_refused_with_the_difference(tmp_path):
    tune(tmp_path, experiment(), Request(trials=2))
    changed = {
        "space": (experiment(space={"train.lr": {"log": [3e-4, 1e-1]}}), "space.train.lr.log: [0.0003, 0.03] -> [0.0003, 0.1]"),
        "metric": (experiment(metric="test/accuracy"), "objectives.validation/loss: min -> -"),
        "direction": (experiment(goal="max"), "objectives.validation/loss: min -> max"),
        "model": (experiment(baseline=experiment().baseline.replace({"train.steps": 5})), "configuration.train.steps: 4 -> 5"),
    }
    for other, difference in changed.values():
        with pytest.raises(ConfigError) as error:
            tune(tmp_path, other, Request(trials=2))
        assert difference in str(error.value)
        assert "study 'valley-tune/baseline'" in str(error.value)
        assert "--study NAME" in str(error.value)
    _, trials = tune(tmp_path, experiment(space=changed["space"][0].space), Request(trials=2, study="wide"))
    assert len(trials) == 2


def test_a_second_tuner_of_the_same_study_is_refused(tmp_path):
    def another(task):
        with pytest.raises(ConfigError, match="is being tuned by process"):
            tune(tmp_path, experiment(), Request(trials=1))

    outcome, _ = tune(tmp_path, experiment(), Request(trials=1), InstantEngine(on_run=another))
    assert outcome.exit_code == 0


def test_two_objectives_give_a_front(tmp_path):
    space = {**LR, "model.n_layers": {"int": [1, 4]}}
    _, trials = tune(tmp_path, experiment(space=space), Request(trials=12, cost="parameters"))
    assert all(len(trial.scores) == 2 for trial in trials)
    from experiments.records import read_json

    (study,) = read_json(tmp_path / "valley-tune" / "tuning.json")["studies"]
    front = [tuple(one["scores"]) for one in study["best"]]
    assert front == sorted(front)
    assert all(a[1] > b[1] for a, b in itertools.pairwise(front))


def test_a_seed_that_looks_bad_ends_a_trial_early_with_the_wilcoxon_pruner(tmp_path):
    pruner = Spec("wilcoxon", p=0.3)
    _, trials = tune(tmp_path, experiment(seeds=6), Request(trials=10, seeds=6, pruner=pruner), width=5.0)
    pruned = [trial for trial in trials if trial.status == "pruned"]
    assert pruned
    assert sum(completions(tmp_path, "valley-tune").values()) < 60
    best = min((trial for trial in trials if trial.status == "done"), key=lambda trial: trial.scores[0])
    assert best.status == "done"


def test_results_of_an_earlier_sweep_are_taken_over(tmp_path):
    swept = experiment(space={"train.lr": [1e-3, 3e-3]})
    tune(tmp_path, swept, Request(trials=2, study="first"))
    engine = InstantEngine(most=0)
    outcome, trials = tune(tmp_path, swept, Request(trials=2, study="second"), engine)
    assert outcome.exit_code == 0
    assert [trial.status for trial in trials] == ["done"] * 2
    assert engine.trained == []


def test_conditional_parameters_exist_only_where_their_condition_holds(tmp_path):
    space = {
        "model.positional": ["learned", "rope"],
        "model.positional.base": {"log": [10.0, 1e5], "when": "model.positional=rope"},
        **LR,
    }
    _, trials = tune(tmp_path, experiment(space=space), Request(trials=14, sampler=Spec("tpe", startup=4)))
    for trial in trials:
        assert ("model.positional.base" in trial.values) == (trial.values["model.positional"] == "rope")
    assert {trial.values["model.positional"] for trial in trials} == {"learned", "rope"}


def test_every_variant_gets_its_own_study_with_equal_trials(tmp_path):
    _, trials = tune(tmp_path, experiment(vary={"model.norm": ["rmsnorm"]}), Request(trials=5), InstantEngine(2))
    assert len(trials) == 10
    assert rates(trials[:5])[:1] == rates(trials[5:])[:1]
