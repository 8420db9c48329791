"""Experiments that tune: several runs a seed, of which choice.json names the ones that stand for a variant."""

import pytest

from analysis.answer import answer
from analysis.compare import compare
from analysis.load import load
from analysis.report import write_report
from experiments import records
from tests.analysis.fabricated import COMPONENTS, choose, fabricate

TWO = tuple(v for v in COMPONENTS if v[1] == "model.feedforward")
RATES = {0.003: 0.0, 0.01: 0.2, 0.0003: 0.5}  # rate -> harm


def tuned(results, **picked):
    runs = fabricate(results, variants=TWO, seeds=4, rates=RATES)
    choose(results, "components", runs, list(RATES), **picked)
    return runs


def test_only_the_chosen_runs_are_compared(tmp_path):
    tuned(tmp_path)
    loaded = load(tmp_path, "components")
    assert len(loaded.runs) == 3 * 4 * 3
    assert len(loaded.compared) == 3 * 4
    row = compare(loaded).row("feedforward=swiglu")
    assert (row.n, row.planned, len(row.run_ids)) == (4, 4, 4)
    assert row.mean.mean < 2.2


def test_each_variant_is_scored_at_its_own_choice(tmp_path):
    tuned(tmp_path, feedforward_swiglu=0.01)
    comparison = compare(load(tmp_path, "components"))
    difference = comparison.row("feedforward=swiglu").paired.raw_difference
    assert difference == pytest.approx(0.2 - 0.021, abs=0.01)


def test_without_a_choice_runs_of_several_rates_are_never_mixed(tmp_path):
    fabricate(tmp_path, variants=TWO, seeds=4, rates=RATES)
    loaded = load(tmp_path, "components")
    comparison = compare(loaded)
    assert not loaded.runs["chosen"].any()
    assert [row.n for row in comparison.rows] == [0, 0, 0]
    assert comparison.row("baseline").counts["missing"] == 4
    assert not comparison.complete
    assert answer(comparison).sentence.startswith("No answer yet")
    text = (write_report(tmp_path, "components").parent / "report.md").read_text()
    assert "36 runs at several tuned values, none chosen yet; nothing is compared before." in text


def test_a_damaged_choice_is_no_choice(tmp_path):
    tuned(tmp_path)
    path = tmp_path / "components" / "choice.json"
    path.write_text(path.read_text().replace('"final": true', '"final": false'))
    assert load(tmp_path, "components").choice is None
    assert len(load(tmp_path, "components").compared) == 0


def test_a_variant_without_a_choice_has_no_result_and_says_why(tmp_path):
    tuned(tmp_path, feedforward_swiglu=None)
    comparison = compare(load(tmp_path, "components"))
    assert comparison.row("feedforward=swiglu").verdict == "no result"
    text = (write_report(tmp_path, "components").parent / "report.md").read_text()
    assert "feedforward=swiglu: no learning rate with a score for every seed." in text


def test_the_report_says_what_was_tuned_and_lists_what_was_tried(tmp_path):
    runs = tuned(tmp_path, feedforward_swiglu=0.01)
    text = (write_report(tmp_path, "components").parent / "report.md").read_text()
    assert "learning rate: tuned for every variant over the same 3 rates 0.0003 to 0.01 on validation/loss (36 runs)" in text
    assert "chosen: baseline 0.003, feedforward=relu 0.003 and feedforward=swiglu 0.01, cosine schedule" in text
    assert "not tuned" not in text
    assert text.count("chosen: train.lr=0.003") == 8
    assert text.count("tried, not compared: train.lr=") == 24
    assert all(run["id"] in text for run in runs)


def test_a_search_is_not_called_fixed(tmp_path):
    fabricate(tmp_path, variants=TWO, seeds=3)
    path = tmp_path / "components" / records.EXPERIMENT
    search = {"protocol": {"name": "search", "options": {"trials": 20}}, "held_equal": "training tokens", "match": "parameters"}
    records.write_json(path, {**records.read_json(path), **search})
    text = (write_report(tmp_path, "components").parent / "report.md").read_text()
    assert "learning rate: tuned for every variant: search(trials=20)" in text
    assert "held equal: training tokens; parameters matched to the baseline's" in text
