"""What enters a table: planned runs, each once, and nothing that cannot be trusted."""

import json

import pytest

from analysis.load import ReportError, load
from experiments import records
from tests.analysis.fabricated import COMPONENTS, fabricate

FEW = COMPONENTS[:3]


def rewrite(path, **changes):
    content = {**records.read_json(path), **changes}
    records.write_json(path, content)


def folder(results, run):
    return records.run_directory(results, "components", run["id"])


def planned(runs, variant, seed):
    return next(run for run in runs if (run["variant"], run["seed"]) == (variant, seed))


def status(results, run):
    table = load(results, "components").runs.set_index("run_id")
    return table.loc[run["id"], "status"], table.loc[run["id"], "note"]


def test_every_planned_run_has_one_row_in_planned_order_and_a_status(tmp_path):
    runs = fabricate(
        tmp_path, variants=FEW, seeds=3, diverged={("positional=none", 1)}, failed={("positional=learned", 2)},
        missing={("baseline", 0)},
    )  # fmt: skip
    table = load(tmp_path, "components").runs
    assert table["run_id"].tolist() == [run["id"] for run in runs]
    assert table["status"].value_counts().to_dict() == {"done": 9, "diverged": 1, "failed": 1, "missing": 1}
    notes = table.set_index(["variant", "seed"])["note"]
    assert notes["positional=none", 1] == "diverged at step 50: the loss is not finite"
    assert notes["positional=learned", 2] == "out_of_memory: needs 9.1 GB, has 2.0 GB"
    assert notes["baseline", 0] == "not started"


def test_scores_are_long_and_keep_their_run_id(tmp_path):
    runs = fabricate(tmp_path, variants=FEW, seeds=2)
    scores = load(tmp_path, "components").scores
    assert set(scores["run_id"]) == {run["id"] for run in runs}
    one = scores[(scores["run_id"] == runs[0]["id"]) & (scores["metric"] == "test/loss")]
    result = records.read_json(folder(tmp_path, runs[0]) / records.RESULT)
    assert one["value"].tolist() == [result["metrics"]["test/loss"]]


def test_directories_that_are_not_planned_never_enter(tmp_path):
    runs = fabricate(tmp_path, variants=FEW, seeds=2)
    source = folder(tmp_path, runs[0])
    copy = source.with_name("baseline-s0-deadbeef")
    copy.mkdir()
    for name in (records.CONFIG, records.RESULT, records.METRICS):
        (copy / name).write_bytes((source / name).read_bytes())
    loaded = load(tmp_path, "components")
    assert len(loaded.runs) == len(runs)
    assert loaded.foreign == ("baseline-s0-deadbeef",)
    assert copy.name not in set(loaded.scores["run_id"])


@pytest.mark.parametrize("name", [records.RESULT, records.CONFIG])
@pytest.mark.parametrize("damage", ["torn", "altered", "not json", "empty"])
def test_a_damaged_file_makes_its_run_damaged_and_gives_no_number(tmp_path, name, damage):
    runs = fabricate(tmp_path, variants=FEW, seeds=2)
    path = folder(tmp_path, runs[1]) / name
    content = path.read_bytes()
    spoiled = {
        "torn": content[: len(content) // 2], "altered": content.replace(b'"seed": 0', b'"seed": 1'), "not json": b"\xff\x00", "empty": b"",
    }  # fmt: skip
    path.write_bytes(spoiled[damage])
    found, note = status(tmp_path, runs[1])
    assert found == "damaged"
    assert name in note
    assert runs[1]["id"] not in set(load(tmp_path, "components").scores["run_id"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"run_id": "another"}, "run_id is 'another'"),
        ({"seed": 7}, "seed is 7, planned 0"),
        ({"variant": "baseline"}, "variant is 'baseline'"),
        ({"status": "finished"}, "neither 'done' nor 'diverged'"),
        ({"metrics": None}, "it has no metrics"),
        ({"metrics": {"test/loss": float("nan")}}, "test/loss=nan is not a finite number"),
        ({"metrics": {"test/loss": True}}, "test/loss=True is not a finite number"),
        ({"metrics": {"test/loss": "2.1"}}, "test/loss='2.1' is not a finite number"),
    ],
)
def test_a_whole_result_that_contradicts_the_plan_is_damaged(tmp_path, changes, words):
    runs = fabricate(tmp_path, variants=FEW, seeds=1)
    rewrite(folder(tmp_path, runs[1]) / records.RESULT, **changes)
    found, note = status(tmp_path, runs[1])
    assert found == "damaged"
    assert words in note


def test_a_result_of_another_configuration_than_planned_is_damaged(tmp_path):
    runs = fabricate(tmp_path, variants=FEW, seeds=1)
    for name in (records.RESULT, records.CONFIG):
        rewrite(folder(tmp_path, runs[1]) / name, hash="0" * 64)
    assert status(tmp_path, runs[1])[0] == "damaged"


def test_an_interrupted_run_is_missing_and_not_failed(tmp_path):
    runs = fabricate(tmp_path, variants=FEW, seeds=1, failed={("positional=none", 0)})
    run = planned(runs, "positional=none", 0)
    rewrite(folder(tmp_path, run) / records.FAILURE, kind="interrupted", error="")
    assert status(tmp_path, run) == ("missing", "interrupted; the next run of the experiment goes on with it")


def test_curves_are_read_on_demand_and_only_finite_values_enter(tmp_path):
    fabricate(tmp_path, variants=FEW, seeds=2, diverged={("positional=none", 1)})
    curves = load(tmp_path, "components").curves({"train/loss", "validation/loss"})
    assert set(curves["metric"]) == {"train/loss", "validation/loss"}
    assert curves["value"].notna().all()
    diverged = curves[(curves["variant"] == "positional=none") & (curves["seed"] == 1)]
    assert diverged["step"].max() == 50
    assert set(diverged["status"]) == {"diverged"}


def test_a_curve_that_was_altered_after_the_run_is_left_out_and_named(tmp_path):
    runs = fabricate(tmp_path, variants=FEW, seeds=2)
    path = folder(tmp_path, runs[0]) / records.METRICS
    path.write_text(path.read_text().replace('"validation/loss": 2', '"validation/loss": 1', 1))
    loaded = load(tmp_path, "components")
    assert loaded.curve(runs[0]["id"]) is None
    assert runs[0]["id"] not in set(loaded.curves()["run_id"])


def test_a_torn_last_line_and_a_step_logged_twice_do_no_harm(tmp_path):
    runs = fabricate(tmp_path, variants=FEW, seeds=1, missing={("positional=none", 0)})
    run = planned(runs, "positional=none", 0)
    folder(tmp_path, run).mkdir()
    lines = [{"step": 1, "train/loss": 3.0}, {"step": 2, "train/loss": 2.5}, {"step": 2, "train/loss": 2.4}]
    text = "".join(json.dumps(line) + "\n" for line in lines) + '{"step": 3, "train/lo'
    (folder(tmp_path, run) / records.METRICS).write_text(text)
    assert load(tmp_path, "components").curve(run["id"]) == {"train/loss": {1: 3.0, 2: 2.4}}


def test_an_unknown_experiment_lists_those_there_are(tmp_path):
    fabricate(tmp_path, variants=FEW, seeds=1)
    with pytest.raises(ReportError, match="no experiment 'componets' under .* Known there: components"):
        load(tmp_path, "componets")


def test_a_damaged_experiment_file_is_one_clear_message(tmp_path):
    fabricate(tmp_path, variants=FEW, seeds=1)
    path = tmp_path / "components" / records.EXPERIMENT
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ReportError, match="experiment.json: unreadable .* run the experiment's command again"):
        load(tmp_path, "components")


def test_an_unknown_metric_lists_those_there_are(tmp_path):
    fabricate(tmp_path, variants=FEW, seeds=1)
    with pytest.raises(ReportError, match=r"no run has the metric 'test/los'. Did you mean 'test/loss'\? Known: test/acc"):
        load(tmp_path, "components").check_metric("test/los")


@pytest.mark.slow
def test_ten_thousand_runs_load(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    many = tuple((f"lr={k}", "train.lr", k, 0.0005 * (k - 500), 101_000) for k in range(999))
    fabricate(tmp_path, "huge", variants=many, seeds=10)
    loaded = load(tmp_path, "huge")
    assert len(loaded.runs) == 10_000
