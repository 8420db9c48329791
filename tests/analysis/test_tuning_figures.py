"""Tables, sentences and figures of studies and of learning-rate grids."""

import math

import numpy as np
import pytest

from analysis.figures.tuning import best_against_budget, optimisation_history, parameter_importance
from analysis.figures.tuning_space import contours, learning_rate_sensitivity, parallel_coordinates, slices
from analysis.load import ReportError, load
from analysis.report.content import CAPTIONS, gather
from analysis.tuning import answers, read_tuning, sensitivity
from experiments.config import Spec
from experiments.tuning.request import Request
from tests.experiments.tuning_kit import LR, experiment, launch_protocol, tune

SPACE = {**LR, "train.weight_decay": {"log": [1e-3, 1.0]}, "train.schedule": ["cosine", "linear"]}


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    results = tmp_path_factory.mktemp("studied")
    tune(
        results, experiment(space=SPACE, vary={"model.norm": ["rmsnorm"]}), Request(trials=16, sampler=Spec("tpe", startup=5)),
        diverges=1.5e-2,
    )
    return results


@pytest.fixture(scope="module")
def tuned(studied):
    return read_tuning(studied, "valley-tune")


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    results = tmp_path_factory.mktemp("grid")
    declared = experiment(vary={"model.norm": ["rmsnorm"]}, seeds=4, protocol=Spec("lr_grid"))
    launch_protocol(results, declared, best=2e-3, diverges=2e-2)
    return load(results, "valley")


def test_a_table_has_every_trial_of_every_variant(tuned):
    assert [study.variant for study in tuned.studies] == ["baseline", "norm=rmsnorm"]
    assert tuned.final
    for study in tuned.studies:
        assert study.trials["number"].tolist() == list(range(16))
        assert set(study.trials["status"]) <= {"done", "diverged"}
        assert study.trials["train.lr"].between(3e-4, 3e-2).all()


def test_nothing_tuned_is_none_and_a_damaged_file_is_told(tmp_path, studied):
    assert read_tuning(tmp_path, "nothing") is None
    folder = tmp_path / "valley-tune"
    folder.mkdir()
    content = (studied / "valley-tune" / "tuning.json").read_text()
    (folder / "tuning.json").write_text(content.replace("baseline", "basement"))
    with pytest.raises(ReportError, match="does not match its checksum; run the tune command again"):
        read_tuning(tmp_path, "valley-tune")


def test_best_so_far_is_over_done_trials_only(tuned):
    for study in tuned.studies:
        best, reached = math.inf, []
        for _, row in study.trials.iterrows():
            best = min(best, row["score"]) if row["status"] == "done" else best
            reached.append(best if math.isfinite(best) else math.nan)
        np.testing.assert_array_equal(study.best_so_far(), reached)


def test_the_expected_best_falls_from_the_mean_to_the_best(tuned):
    study = tuned.studies[0]
    expected, scores = study.expected(), study.trials["score"].dropna()
    assert expected[0] == pytest.approx(scores.mean())
    assert expected[-1] == pytest.approx(scores.min())
    assert (np.diff(expected) <= 1e-12).all()


def test_answers_name_the_winner_of_each_variant(tuned):
    first, second = answers(tuned)
    assert first.startswith("baseline: validation loss ")
    assert "best of 16." in first
    assert second.startswith("norm=rmsnorm: ")


def test_the_history_shows_every_trial_and_the_best_so_far(tuned):
    (axes,) = optimisation_history(tuned).axes
    assert axes.get_ylabel() == "validation loss (nats per token)"
    assert sum(len(points.get_offsets()) for points in axes.collections) == 32
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), tuned.studies[0].best_so_far())


def test_best_against_budget_shows_the_expectation_too(tuned):
    (axes,) = best_against_budget(tuned).axes
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), tuned.studies[0].expected())
    assert [line.get_linestyle() for line in axes.lines] == ["-", ":", "-", ":"]


def test_importance_has_a_bar_per_parameter_and_variant(tuned):
    (axes,) = parameter_importance(tuned).axes
    assert {label.get_text() for label in axes.get_yticklabels()} == set(SPACE)
    assert len(axes.patches) == 2 * len(SPACE)


def test_slices_have_a_panel_per_parameter_on_its_scale(tuned):
    made = slices(tuned)
    panels = {axes.get_xlabel(): axes for axes in made.axes}
    assert set(panels) == set(SPACE)
    assert panels["train.lr"].get_xscale() == "log"
    assert [label.get_text() for label in panels["train.schedule"].get_xticklabels()] == ["cosine", "linear"] or {
        label.get_text() for label in panels["train.schedule"].get_xticklabels()
    } == {"cosine", "linear"}


def test_contours_show_the_two_numeric_parameters(tuned):
    made = contours(tuned)
    titles = [axes.get_title(loc="left") for axes in made.axes if axes.get_title(loc="left")]
    assert titles == ["baseline", "norm=rmsnorm"]
    assert {made.axes[0].get_xlabel(), made.axes[0].get_ylabel()} == {"log10 train.lr", "log10 train.weight_decay"}


def test_parallel_coordinates_have_a_line_per_done_trial(tuned):
    made = parallel_coordinates(tuned)
    done = (tuned.studies[0].trials["status"] == "done").sum()
    assert len(made.axes[0].lines) == done
    assert made.axes[0].get_xticklabels()[-1].get_text().startswith("validation/loss\n")


def test_a_study_without_a_result_says_so_in_every_figure(tmp_path):
    tune(tmp_path, experiment(), Request(trials=2), fails=0.0)
    empty = read_tuning(tmp_path, "valley-tune")
    assert answers(empty) == ["baseline: none of 2 trials is done."]
    for draw in (optimisation_history, best_against_budget):
        assert draw(empty).axes[0].texts[0].get_text() == "no trial is done yet"
    assert parameter_importance(empty).axes[0].texts[0].get_text() == "too few trials to tell which parameter matters"
    assert contours(empty) is None
    assert slices(empty).axes
    assert parallel_coordinates(empty).axes


def test_sensitivity_has_a_row_per_run_of_the_grid(grid):
    table = sensitivity(grid)
    assert len(table) == 2 * 5 * 4
    assert table.groupby("learning_rate").size().tolist() == [8] * 5
    assert table.loc[table["learning_rate"] == 3e-2, "value"].isna().all()
    chosen = table[table["chosen"]]
    assert set(chosen["variant"]) == {"baseline", "norm=rmsnorm"}
    assert len(chosen) == 8


def test_the_sensitivity_curve_of_every_variant_is_the_mean_over_its_seeds(grid):
    table = sensitivity(grid)
    (axes,) = learning_rate_sensitivity(grid).axes
    assert axes.get_xscale() == "log"
    assert axes.get_xlabel() == "learning rate"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.0003", "0.000949", "0.003", "0.00949", "0.03"]
    means = table[table["variant"] == "baseline"].groupby("learning_rate")["value"].mean()
    np.testing.assert_allclose(axes.lines[0].get_ydata(), means.to_numpy())


def test_an_experiment_without_a_grid_has_no_sensitivity(studied):
    assert learning_rate_sensitivity(load(studied, "valley-tune")) is None


def test_the_report_compares_the_chosen_runs_only(grid):
    assert len(grid.compared) == 8
    assert set(grid.compared["run_id"]) == set(grid.choice.runs)


def test_the_report_of_a_grid_shows_the_curve_over_its_rates(grid):
    content = gather(grid.results, "valley")
    assert "rates" in content.figures()
    assert set(content.figures()) <= set(CAPTIONS)
    assert dict(content.protocol)["held equal"] == "optimiser steps"


def test_the_report_of_studies_shows_their_figures_answers_and_a_caution(studied):
    content = gather(studied, "valley-tune")
    wanted = {"history", "budget", "importance", "slices", "contours", "parallel"}
    assert wanted <= set(content.figures())
    assert any("on the seeds that they were chosen on, which flatters them" in line for line in content.missing)
    assert [value for name, value in content.protocol if name == "tuned"] == answers(content.tuning)
