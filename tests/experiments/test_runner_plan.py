"""Where every run stands, from files alone, however they were treated."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import records
from experiments.experiment import Run
from experiments.records import CONFIG, FAILURE, METRICS, RESULT, run_directory, write_json
from experiments.runner import failures, lease, plan, store
from experiments.runner.plan import State
from tests.experiments.runner_kit import completions, expected, launch, make_runs, scores


def states(results: Path, runs: list[Run], **options: bool) -> list[State]:
    return [planned.state for planned in plan.plan("x", runs, results, **options).runs]


def test_nothing_stored_is_all_new_and_planning_writes_nothing(tmp_path):
    planned = plan.plan("x", make_runs(2, 2), tmp_path / "results")
    assert planned.counts() == {State.NEW: 4}
    assert planned.matrix() == {f"v{i}": {0: State.NEW, 1: State.NEW} for i in range(2)}
    assert os.listdir(tmp_path) == []


def test_each_way_to_end_has_its_state(tmp_path):
    runs = make_runs(5, 1)
    kinds = ["interrupted", "failed", "crashed", "timed_out", "out_of_memory"]
    for run, kind in zip(runs, kinds, strict=True):
        directory = run_directory(tmp_path, "x", run.id)
        directory.mkdir(parents=True)
        failures.record(directory, run.id, run.hash, kind, "because")
    assert states(tmp_path, runs) == [State(kind) for kind in kinds]
    assert plan.plan("x", runs, tmp_path).runs[1].why == ("because",)


def test_a_run_under_a_live_lease_is_running_and_under_a_dead_one_interrupted(tmp_path):
    (run,) = make_runs(1, 1)
    directory = run_directory(tmp_path, "x", run.id)
    directory.mkdir(parents=True)
    held = lease.acquire(directory)
    write_json(directory / CONFIG, {"hash": run.hash})
    assert states(tmp_path, [run]) == [State.RUNNING]
    assert held is not None
    held.release()
    assert states(tmp_path, [run]) == [State.INTERRUPTED]


def test_a_result_of_another_definition_is_stale_and_says_what_differs(tmp_path):
    launch(tmp_path, make_runs(1, 2))
    changed = make_runs(1, 2, version=2)
    planned = plan.plan("x", changed, tmp_path)
    assert planned.counts() == {State.STALE: 2}
    assert planned.runs[0].why == ("version: 1 -> 2",)
    assert len(planned.left_over) == 2
    launch(tmp_path, changed)
    assert plan.plan("x", changed, tmp_path).counts() == {State.DONE: 2}
    assert plan.plan("x", make_runs(1, 2), tmp_path).counts() == {State.DONE: 2}


def test_reordering_variants_changes_no_state(tmp_path):
    runs = make_runs(3, 2)
    launch(tmp_path, runs)
    assert plan.plan("x", runs[::-1], tmp_path).counts() == {State.DONE: 6}


def test_a_renamed_variant_reuses_its_result_under_the_new_name(tmp_path):
    (old,) = make_runs(1, 1)
    launch(tmp_path, [old])
    new = replace(old, variant="a better name", changes={"model.norm": "none"})
    planned = plan.plan("x", [new], tmp_path).runs[0]
    assert (planned.state, planned.why) == (State.REUSABLE, (f"equal to x/{old.id}",))
    outcome = launch(tmp_path, [new])
    assert (outcome.reused, outcome.done) == ((new.id,), ())
    stored = records.read_run(run_directory(tmp_path, "x", new.id), verify_metrics=True)
    assert stored.damage == ()
    assert stored.config is not None
    assert stored.result is not None
    assert stored.config["variant"] == stored.result["variant"] == "a better name"
    assert stored.config["changes"] == {"model.norm": "none"}
    assert stored.result["metrics"] == expected([new])[new.id]
    assert stored.result["reused_from"] == f"x/{old.id}"
    assert states(tmp_path, [new]) == [State.DONE]


def test_an_equal_run_of_another_experiment_is_reused(tmp_path):
    runs = make_runs(2, 2)
    launch(tmp_path, runs, experiment="first")
    store.write(tmp_path, {"name": "first", "runs": []})
    again = [replace(run, experiment="second") for run in make_runs(3, 2)]
    outcome = launch(tmp_path, again, experiment="second")
    assert (len(outcome.reused), len(outcome.done)) == (4, 2)
    assert scores(tmp_path, again, "second") == expected(again)
    assert completions(tmp_path, again, "second") == {r.id: int(r.variant == "v2") for r in again}


def test_a_damaged_equal_run_is_not_reused(tmp_path):
    (old,) = make_runs(1, 1)
    launch(tmp_path, [old])
    (run_directory(tmp_path, "x", old.id) / METRICS).write_text("{}\n")
    assert states(tmp_path, [replace(old, variant="other")]) == [State.NEW]


def test_a_hash_that_only_begins_alike_is_not_reused(tmp_path):
    (old,) = make_runs(1, 1)
    launch(tmp_path, [old])
    assert states(tmp_path, [replace(old, variant="other", hash=old.hash[:8] + "0" * 56)]) == [State.NEW]


def test_a_result_under_a_name_that_only_begins_alike_is_never_taken_for_it(tmp_path):
    (old,) = make_runs(1, 1)
    launch(tmp_path, [old])
    twin = replace(old, hash=old.hash[:8] + "0" * 56)
    planned = plan.plan("x", [twin], tmp_path).runs[0]
    assert planned.state is State.DAMAGED
    assert planned.why == (
        f"{run_directory(tmp_path, 'x', old.id)}: holds the result of another configuration than {twin.id}",
    )


@pytest.mark.parametrize("name", [CONFIG, RESULT])
def test_a_damaged_run_is_named_and_redone_on_request_only(tmp_path, name):
    runs = make_runs(2, 1)
    launch(tmp_path, runs)
    path = run_directory(tmp_path, "x", runs[0].id) / name
    path.write_bytes(path.read_bytes()[:40])
    planned = plan.plan("x", runs, tmp_path).runs[0]
    assert planned.state is State.DAMAGED
    assert str(path) in planned.why[0]
    outcome = launch(tmp_path, runs)
    assert (outcome.left, outcome.exit_code) == ((runs[0].id,), 1)
    outcome = launch(tmp_path, runs, redo_damaged=True)
    assert (outcome.done, outcome.exit_code) == ((runs[0].id,), 0)
    assert scores(tmp_path, runs) == expected(runs)


def test_a_run_can_be_redone_by_name(tmp_path):
    runs = make_runs(2, 1)
    launch(tmp_path, runs)
    outcome = launch(tmp_path, runs, redo=frozenset({runs[1].id}))
    assert outcome.done == (runs[1].id,)
    assert completions(tmp_path, runs) == {runs[0].id: 1, runs[1].id: 2}


def spoil(path: Path, how: str, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    if how == "delete":
        path.unlink()
    elif how == "truncate":
        path.write_bytes(content[: chance.randrange(max(1, len(content)))])
    else:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)


def test_whatever_file_is_spoilt_there_is_no_crash_and_no_wrong_number(tmp_path):
    runs, chance = make_runs(2, 1), random.Random(0)
    for turn in range(60):
        results = tmp_path / str(turn)
        launch(results, runs, workers=1) if turn == 0 else _copy(tmp_path / "0", results)
        if turn == 0:
            continue
        files = sorted(path for path in results.rglob("*") if path.is_file() and path.stat().st_size)
        path, how = chance.choice(files), chance.choice(["truncate", "flip", "delete"])
        spoil(path, how, chance)
        planned = plan.plan("x", runs, results, verify=True)
        for one in planned.runs:
            touched = path.parent.name == one.id and path.name in (CONFIG, RESULT, METRICS, FAILURE)
            assert (one.state is not State.DONE) == touched, (path, how)
            assert one.state is not State.DAMAGED or any(one.id in sentence for sentence in one.why)
        wrong = {key: value for key, value in scores(results, runs).items() if value != expected(runs)[key]}
        assert wrong == {}, (path, how)


def _copy(source: Path, target: Path) -> None:
    for path in source.rglob("*"):
        if path.is_file():
            (target / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
            (target / path.relative_to(source)).write_bytes(path.read_bytes())


def test_after_any_damage_redoing_restores_every_number(tmp_path):
    runs, chance = make_runs(3, 1), random.Random(1)
    launch(tmp_path, runs)
    for run, name in zip(runs, [RESULT, CONFIG, METRICS], strict=True):
        spoil(run_directory(tmp_path, "x", run.id) / name, "truncate", chance)
    damaged = plan.plan("x", runs, tmp_path, verify=True).in_state(State.DAMAGED)
    assert [one.id for one in damaged] == [run.id for run in runs]
    launch(tmp_path, runs, redo=frozenset(one.id for one in damaged))
    assert states(tmp_path, runs, verify=True) == [State.DONE] * 3
    assert scores(tmp_path, runs) == expected(runs)


def test_status_reads_what_the_last_launch_asked_for_without_torch_or_pydantic(tmp_path):
    runs = make_runs(2, 2)
    launch(tmp_path, runs[:3])
    listed = [{"id": r.id, "variant": r.variant, "seed": r.config.seed, "hash": r.hash} for r in runs]
    store.write(tmp_path, {"name": "x", "runs": listed})
    code = (
        "import sys; from pathlib import Path; from experiments.runner.plan import status;"
        f"p = status('x', Path({str(tmp_path)!r})); print({{str(k): v for k, v in p.counts().items()}});"
        "print([name for name in ('torch', 'pydantic', 'numpy', 'pandas', 'wandb') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    assert out[:2] == ["{'done': 3, 'new': 1}", "[]"]


def test_status_of_an_experiment_that_never_ran_says_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        plan.status("x", tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "experiment.json").write_text("{")
    with pytest.raises(records.Damaged, match=r"experiment\.json: unreadable"):
        plan.status("x", tmp_path)
    write_json(tmp_path / "x" / "experiment.json", {"runs": [{"id": 1}]})
    with pytest.raises(records.Damaged, match="has no readable list of runs"):
        plan.status("x", tmp_path)


@pytest.mark.slow
def test_5000_finished_runs_are_surveyed_in_300_mb(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    runs = make_runs(1000, 5)
    for run in runs:
        directory = run_directory(tmp_path, "x", run.id)
        directory.mkdir(parents=True)
        filler = {f"test/len_{n}/accuracy": n / 7 for n in range(20)}
        write_json(directory / CONFIG, {"hash": run.hash, "identity": {"filler": filler, "more": filler}})
        write_json(directory / RESULT, {"hash": run.hash, "status": "done", "metrics": filler, "cost": filler})
    listed = [{"id": r.id, "variant": r.variant, "seed": r.config.seed, "hash": r.hash} for r in runs]
    store.write(tmp_path, {"name": "x", "runs": listed})
    assert plan.plan("x", runs, tmp_path).counts() == {State.DONE: 5000}
    code = (
        "import psutil; from pathlib import Path; from experiments.runner.plan import status;"
        f"p = status('x', Path({str(tmp_path)!r})); assert len(p.runs) == 5000;"
        "print(psutil.Process().memory_info().rss / 2**20)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert float(out) < 300, f"{out} MB"


def test_difference_tells_a_changed_experiment_in_readable_lines():
    old = {
        "question": "Q?", "seeds": [0, 1], "baseline_config": {"train": {"steps": 500}},
        "variants": [{"name": "a", "changes": {"p": 1}}, {"name": "b", "changes": {}}],
        "runs": [{"hash": "1"}, {"hash": "2"}],
    }
    new = json.loads(json.dumps(old))
    assert store.difference(old, new) == []
    new |= {"seeds": [0, 1, 2], "runs": [{"hash": "1"}, {"hash": "3"}]}
    new["baseline_config"]["train"]["steps"] = 800
    new["variants"] = [{"name": "a", "changes": {"p": 2}}, {"name": "c", "changes": {}}]
    assert store.difference(old, new) == [
        "seeds: [0, 1] -> [0, 1, 2]",
        "baseline.train.steps: 500 -> 800",
        "variant 'c' is new",
        "variant 'b' is no longer asked for",
        "variant 'a'.p: 1 -> 2",
        "1 of 2 runs are unchanged",
    ]


def test_a_changed_definition_under_the_same_words_is_told_too():
    old = {"runs": [{"hash": "1"}], "variants": []}
    assert store.difference(old, {"runs": [{"hash": "2"}], "variants": []}) == [
        "a component's definition or default has changed since the stored runs",
        "0 of 1 runs are unchanged",
    ]


def test_path_parts_stay_under_100_bytes():
    run = replace(make_runs(1, 1)[0], variant=", ".join(f"model.positional.option_{i}=0.123456789" for i in range(50)))
    assert len(run.id.encode()) < 100


def test_shards_cover_every_run_once():
    planned = plan.plan("x", make_runs(3, 4), Path("nowhere"))
    shares = [{run.id for run in planned.shard(i, 5).runs} for i in range(5)]
    assert set().union(*shares) == {run.id for run in planned.runs}
    assert sum(map(len, shares)) == 12
