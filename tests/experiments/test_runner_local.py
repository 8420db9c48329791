"""The local engine: what goes wrong in one run stays in that run."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from experiments.records import FAILURE, LEASE, read_json, read_run, run_directory
from experiments.runner import engine, plan
from experiments.runner.events import FAILURES, Event
from experiments.runner.local import LocalEngine
from experiments.runner.plan import State
from tests.experiments.runner_kit import TARGET, completions, expected, jobs, launch, make_runs, scores


def failure(results: Path, run_id: str) -> dict:
    return read_json(run_directory(results, "x", run_id) / FAILURE)


def test_every_run_ends_with_the_numbers_of_its_configuration(tmp_path):
    runs = make_runs(3, 2)
    outcome = launch(tmp_path, runs)
    assert (set(outcome.done), outcome.exit_code) == ({run.id for run in runs}, 0)
    assert scores(tmp_path, runs) == expected(runs)
    assert not list(tmp_path.rglob(LEASE)), "a lease was left behind"
    assert not list(tmp_path.rglob("*.tmp"))


def test_rerunning_does_only_what_is_missing(tmp_path):
    launch(tmp_path, make_runs(2, 1))
    seen: list[Event] = []
    outcome = launch(tmp_path, make_runs(2, 2), seen=seen)
    assert {event.run_id for event in seen} == set(outcome.done)
    assert len(outcome.done) == 2
    assert set(completions(tmp_path, make_runs(2, 2)).values()) == {1}


def test_nothing_to_do_is_a_success(tmp_path):
    launch(tmp_path, make_runs(1, 1))
    outcome = launch(tmp_path, make_runs(1, 1))
    assert (outcome.done, outcome.exit_code) == ((), 0)


@pytest.mark.parametrize(
    "behaviour, kind, text",
    [
        ("raise", "failed", "ValueError: d_model is odd"),
        ("memory", "out_of_memory", "MemoryError"),
        ("cuda memory", "out_of_memory", "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"),
        ("kill", "crashed", "its worker was killed from outside (SIGKILL), 3 times"),
        ("segfault", "crashed", "its worker died of SIGSEGV (Segmentation fault)"),
        ("exit", "crashed", "its worker ended by itself with status 3"),
    ],
)
def test_a_failing_run_is_recorded_and_stops_nothing(tmp_path, behaviour, kind, text):
    runs, seen = make_runs(2, 2), []
    outcome = launch(
        tmp_path, runs, seen=seen, only="v0", job={"behaviour": behaviour}, repeat="python run_all.py run x --only {run}"
    )
    bad = [run.id for run in runs if run.variant == "v0"]
    assert (sorted(outcome.failed), len(outcome.done), outcome.exit_code) == (sorted(bad), 2, 1)
    told = [event for event in seen if event.kind in FAILURES]
    assert {(event.kind, event.error) for event in told} == {(kind, text)}
    assert {event.repeat for event in told} == {f"python run_all.py run x --only {run_id}" for run_id in bad}
    for run_id in bad:
        recorded = failure(tmp_path, run_id)
        assert (recorded["kind"], recorded["error"], recorded["attempt"]) == (kind, text, 1)
        assert Path(recorded["log"]).is_file()
    assert {p.id: p.state for p in plan.plan("x", runs, tmp_path).runs if p.wanted.variant == "v0"} == dict.fromkeys(
        bad, State(kind)
    )


def test_the_log_holds_what_the_run_printed_and_its_traceback(tmp_path):
    launch(tmp_path, make_runs(1, 1), job={"behaviour": "raise"})
    (log,) = tmp_path.rglob("log.txt")
    assert "started at step 0" in log.read_text()
    assert "ValueError: d_model is odd" in log.read_text()
    assert "_misbehave" in failure(tmp_path, log.parent.name)["traceback"]


def test_failed_runs_are_tried_again_only_on_request(tmp_path):
    runs = make_runs(1, 1)
    launch(tmp_path, runs, job={"behaviour": "raise"})
    outcome = launch(tmp_path, runs)
    assert (outcome.done, outcome.left, outcome.exit_code) == ((), (runs[0].id,), 1)
    launch(tmp_path, runs, job={"behaviour": "raise"}, retry_failed=True)
    assert failure(tmp_path, runs[0].id)["attempt"] == 2
    outcome = launch(tmp_path, runs, retry_failed=True)
    assert (outcome.done, outcome.exit_code) == ((runs[0].id,), 0)
    assert read_run(run_directory(tmp_path, "x", runs[0].id)).failure is None


def test_a_diverged_run_is_a_result_and_is_not_run_again(tmp_path):
    runs = make_runs(1, 1)
    outcome = launch(tmp_path, runs, job={"behaviour": "diverge"})
    assert (outcome.diverged, outcome.exit_code) == ((runs[0].id,), 0)
    assert plan.plan("x", runs, tmp_path).counts() == {State.DIVERGED: 1}
    assert launch(tmp_path, runs).diverged == ()


def test_a_run_whose_worker_is_killed_goes_on_from_its_checkpoint(tmp_path):
    runs, seen = make_runs(1, 3), []
    outcome = launch(tmp_path, runs, seen=seen, job={"behaviour": "kill once"})
    assert len(outcome.done) == 3
    assert sum(event.kind == "requeued" for event in seen) == 3
    assert scores(tmp_path, runs) == expected(runs)


def test_fail_fast_stops_at_the_first_failure_and_keeps_what_the_others_have_done(tmp_path):
    runs = make_runs(6, 1)
    outcome = launch(tmp_path, runs, only="v0", job={"behaviour": "raise", "step_seconds": 0.1}, max_failures=1)
    assert outcome.failed == (runs[0].id,)
    assert outcome.problem == "stopped after 1 failed run"
    assert len(outcome.not_started) >= 3
    assert launch(tmp_path, runs, retry_failed=True).exit_code == 0
    assert scores(tmp_path, runs) == expected(runs)


def test_a_run_over_its_time_limit_is_stopped_with_a_checkpoint(tmp_path):
    runs = make_runs(1, 2)
    started = time.monotonic()
    outcome = launch(tmp_path, runs, job={"steps": 200, "step_seconds": 0.5}, time_limit=0.5)
    assert time.monotonic() - started < 60  # instead of 100 s each
    assert len(outcome.failed) == 2
    recorded = failure(tmp_path, runs[0].id)
    assert recorded["kind"] == "timed_out"
    assert recorded["error"] == "stopped at its time limit of 0.5 s; its checkpoint is kept for a longer limit"
    assert (run_directory(tmp_path, "x", runs[0].id) / "checkpoint.pt").exists()


@pytest.mark.slow
def test_a_run_that_never_looks_at_its_time_limit_is_ended(tmp_path):
    runs = make_runs(2, 1)
    outcome = launch(tmp_path, runs, workers=1, only="v0", job={"behaviour": "stubborn"}, time_limit=0.5)
    assert (outcome.failed, outcome.done) == ((runs[0].id,), (runs[1].id,))
    assert failure(tmp_path, runs[0].id)["kind"] == "timed_out"


@pytest.mark.parametrize(
    "behaviour, text", [("full", "the disk that holds {} is full"),
                        ("read-only", "the folder {} cannot be written (Read-only file system)")],
)
def test_a_folder_that_cannot_be_written_stops_the_launch_with_one_sentence(tmp_path, behaviour, text):
    runs = make_runs(6, 1)
    launch(tmp_path, runs[5:])
    outcome = launch(tmp_path, runs, only="v0", job={"behaviour": behaviour, "step_seconds": 0.05})
    assert outcome.problem == text.format(run_directory(tmp_path, "x", runs[0].id))
    assert (outcome.exit_code, outcome.failed) == (1, ())
    assert len(outcome.not_started) >= 3
    assert launch(tmp_path, runs).exit_code == 0
    assert scores(tmp_path, runs) == expected(runs)


def test_a_results_folder_that_cannot_be_made_stops_the_launch_with_one_sentence(tmp_path):
    (tmp_path / "x").write_text("a file where a folder should be")
    outcome = launch(tmp_path, make_runs(2, 1))
    assert (outcome.exit_code, outcome.done) == (1, ())
    assert all("Traceback" not in text for text in (outcome.problem,))


def test_a_target_that_cannot_be_imported_stops_the_launch_at_once(tmp_path):
    runs, target = make_runs(3, 1), "tests.experiments.no_such_module:execute"
    outcome = engine.run(
        plan.plan("x", runs, tmp_path), LocalEngine(["cpu"], target=target),
        engine.Options(jobs(tmp_path), target=target),
    )
    assert outcome.problem == (
        "no worker can start: ModuleNotFoundError: No module named 'tests.experiments.no_such_module'"
    )
    assert len(outcome.not_started) == 3


def test_eight_workers_lose_none_of_200_short_runs_and_cost_little(tmp_path):
    runs, seen = make_runs(40, 5), []
    started = time.monotonic()
    outcome = launch(tmp_path, runs, workers=8, seen=seen, job={"steps": 1})
    seconds = time.monotonic() - started
    assert len(outcome.done) == 200
    assert scores(tmp_path, runs) == expected(runs, steps=1)
    assert not list(tmp_path.rglob(FAILURE))
    in_jobs = sum(event.seconds for event in seen if event.kind == "done")
    assert seconds / 200 < 0.06, f"{1000 * seconds / 200:.1f} ms per run, of which {in_jobs} s in jobs"


def test_workers_use_one_compute_thread(tmp_path):
    local = LocalEngine(["cpu"], target=TARGET)
    variables = local._environment()
    local.close()
    assert {variables[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")} == {"1"}


def test_no_worker_and_no_descriptor_outlives_a_launch(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    launch(tmp_path, make_runs(2, 2))
    assert len(os.listdir("/proc/self/fd")) == before
