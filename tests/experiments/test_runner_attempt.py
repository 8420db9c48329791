"""One try at one run, in this process; devices; what experiment.json holds."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from experiments.config import ConfigError
from experiments.experiment import Experiment
from experiments.records import FAILURE, LEASE, RESULT, read_json, run_directory
from experiments.runner import devices, failures, lease, plan, store
from experiments.runner.attempt import Stop, Task, attempt
from tests.experiments.runner_jobs import FakeJob
from tests.experiments.runner_kit import TARGET, jobs, make_runs


def task(results: Path, **job: object) -> Task:
    (planned,) = plan.plan("x", make_runs(1, 1), results).runs
    made: FakeJob = jobs(results, **job)(planned)
    return Task(planned.id, "v0", 0, planned.wanted.hash, run_directory(results, "x", planned.id), made, TARGET)


def nothing(**progress: object) -> None:
    """Nobody watches."""


def test_a_run_that_somebody_trains_is_left_alone(tmp_path):
    one = task(tmp_path)
    one.directory.mkdir(parents=True)
    held = lease.acquire(one.directory)
    assert held is not None
    assert attempt(one, device="cpu", stop=Stop(), report=nothing).kind == "elsewhere"
    assert os.listdir(one.directory) == [LEASE]


def test_a_run_that_was_finished_meanwhile_is_not_trained_again(tmp_path):
    one = task(tmp_path)
    assert attempt(one, device="cpu", stop=Stop(), report=nothing).kind == "done"
    before = (one.directory / RESULT).stat().st_mtime_ns
    assert attempt(task(tmp_path, behaviour="raise"), device="cpu", stop=Stop(), report=nothing).kind == "done"
    assert (one.directory / RESULT).stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "number, text", [(errno.ENOSPC, "the disk that holds {} is full"), (errno.EDQUOT, "the disk that holds {} is full"),
                     (errno.EROFS, "the folder {} cannot be written (Read-only file system)")],
)
def test_a_folder_that_refuses_the_very_first_file_is_told_in_one_sentence(tmp_path, monkeypatch, number, text):
    def refuse(*args: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lease, "_create", refuse)
    one = task(tmp_path)
    ended = attempt(one, device="cpu", stop=Stop(), report=nothing)
    assert (ended.kind, ended.error) == ("storage", text.format(one.directory))


def test_a_file_of_the_users_that_cannot_be_read_is_a_failed_run_not_a_storage_problem(tmp_path):
    error = PermissionError(errno.EACCES, "Permission denied", "/data/corpus.txt")
    assert failures.classify(error, tmp_path / "runs" / "a") == "failed"
    error = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "runs" / "a" / "config.json"))
    assert failures.classify(error, tmp_path / "runs" / "a") == "storage"


def test_the_full_disk_of_a_checkpoint_writer_is_recognised_by_its_words(tmp_path):
    for text in ("[enforce fail] PytorchStreamWriter failed writing file data/0", "I/O error: No space left on device"):
        assert failures.classify(RuntimeError(text), tmp_path) == "storage"


def test_a_run_that_is_stopped_keeps_its_checkpoint_and_says_interrupted(tmp_path):
    stop, one = Stop(), task(tmp_path, steps=100)
    ended = attempt(one, device="cpu", stop=stop, report=lambda step, **rest: step == 3 and stop.ask("interrupted"))
    assert ended.kind == "interrupted"
    assert read_json(one.directory / FAILURE)["kind"] == "interrupted"
    assert attempt(one, device="cpu", stop=Stop(), report=nothing).kind == "done"
    assert not (one.directory / FAILURE).exists()


def test_an_attempt_that_is_killed_counts_as_interrupted_whatever_ended_the_one_before(tmp_path):
    one = task(tmp_path, behaviour="raise")
    attempt(one, device="cpu", stop=Stop(), report=nothing)
    failures.forgive(one.directory)
    recorded = read_json(one.directory / FAILURE)
    assert (recorded["kind"], recorded["attempt"]) == ("interrupted", 1)


def test_every_worker_gets_a_device():
    assert devices.slots("cpu", 3) == ["cpu", "cpu", "cpu"]
    assert set(devices.slots("cpu")) == {"cpu"}


def test_gpus_are_dealt_out_in_turn(monkeypatch):
    monkeypatch.setattr(devices, "_found", lambda kind, index: ["cuda:0", "cuda:1"])
    assert devices.slots("cuda") == ["cuda:0", "cuda:1"]
    assert sorted(devices.slots("cuda", per_gpu=2)) == ["cuda:0", "cuda:0", "cuda:1", "cuda:1"]
    assert devices.slots("cuda", 3) == ["cuda:0", "cuda:1", "cuda:0"]
    assert devices.slots("cuda", 1, per_gpu=2) == ["cuda:0"]


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match=r"--device: unknown device 'quantum'. Known: auto, cpu, cuda, cuda:0, mps"):
        devices.slots("quantum")
    with pytest.raises(ConfigError, match=r"--device: cuda:99 is not here; this machine has "):
        devices.slots("cuda:99")
    with pytest.raises(ConfigError, match=r"--workers: 0 is fewer than 1 worker"):
        devices.slots("cpu", 0)


def test_experiment_json_holds_what_was_asked(tmp_path):
    asked = Experiment(name="x", question="Q?", vary={"model.positional": ["rope"]}, seeds=[3, 1], tags=["t"])
    runs = asked.runs()
    content = store.description(asked, runs, source="x.yaml", imports=["/mine.py"], command="run_all.py run x.yaml")
    store.write(tmp_path, content)
    stored = store.stored(tmp_path, "x")
    assert stored == content
    assert stored["variants"][1] == {"name": "positional=rope", "changes": {"model.positional": {"name": "rope"}}}
    assert [(run["variant"], run["seed"]) for run in stored["runs"]] == [
        ("baseline", 3), ("positional=rope", 3), ("baseline", 1), ("positional=rope", 1),
    ]
    assert (stored["seeds"], stored["baseline"], stored["source"], stored["imports"]) == (
        [3, 1], "baseline", "x.yaml", ["/mine.py"]
    )
    assert store.difference(stored, content) == []
    more = asked.replace({"seeds": [3, 1, 0]})
    changed = store.description(more, more.runs(), source="x.yaml")
    assert store.difference(stored, changed) == ["seeds: [3, 1] -> [3, 1, 0]", "4 of 6 runs are unchanged"]
