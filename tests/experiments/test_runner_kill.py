"""Launchers and workers that die or are stopped at any moment lose nothing and leave nothing running."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from experiments import records
from experiments.records import RESULT, run_directory
from experiments.runner import plan
from experiments.runner.plan import State
from tests.experiments.runner_kit import completions, expected, launch, make_runs, scores

FORKS = pytest.mark.parametrize("torch", [0, 1], ids=["new processes", "forks"])


def start(results: Path, *, module: str = "runner_launch", **options: object) -> subprocess.Popen[str]:
    """A launcher in a process of its own."""
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.experiments.{module}", str(results), *flags],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=Path(__file__).parents[2],
    )


def children(pid: int) -> list[int]:
    """The process numbers of a process's children."""
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Waits for a condition; fails when it does not come true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never became true"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def finished(results: Path) -> dict[Path, tuple[int, bytes]]:
    """Every result with its modification time and bytes."""
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in results.rglob(RESULT)}


def lines(process: subprocess.Popen[str], count: int = 10**6) -> Iterator[str]:
    """The next lines that a launcher prints."""
    assert process.stdout is not None
    for _, line in zip(range(count), process.stdout, strict=False):
        yield line.strip()


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_kill_9_of_launcher_and_workers_five_times_over_loses_and_repeats_nothing(tmp_path, seed):
    runs, chance = make_runs(4, 3), random.Random(seed)
    for _ in range(5):
        before = finished(tmp_path)
        launcher = start(tmp_path, steps=8, step_seconds=0.03)
        until(lambda launcher=launcher: len(children(launcher.pid)) == 2 or launcher.poll() is not None, seconds=90)
        time.sleep(chance.uniform(0.1, 0.6))
        workers = children(launcher.pid)
        if workers and chance.random() < 0.5:
            os.kill(chance.choice(workers), signal.SIGKILL)
            time.sleep(chance.uniform(0.0, 0.2))
            workers += children(launcher.pid)
        launcher.kill()
        launcher.communicate()
        until(lambda workers=workers: all(gone(pid) for pid in workers))
        after = finished(tmp_path)
        assert {path: after.get(path) for path in before} == before, "a finished file was touched"
    before = finished(tmp_path)
    outcome = launch(tmp_path, runs, job={"steps": 8})
    assert {path: finished(tmp_path)[path] for path in before} == before
    assert outcome.exit_code == 0
    assert plan.plan("x", runs, tmp_path, verify=True).counts() == {State.DONE: 12}
    assert set(completions(tmp_path, runs).values()) <= {0, 1}  # 0: killed between its result and the test's count
    launch(tmp_path / "undisturbed", runs, job={"steps": 8})
    assert scores(tmp_path, runs) == scores(tmp_path / "undisturbed", runs) == expected(runs, steps=8)
    for run in runs:
        name = run_directory(Path(), "x", run.id) / "metrics.jsonl"
        assert (tmp_path / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()


@FORKS
def test_workers_of_a_killed_launcher_write_their_checkpoint_and_end(tmp_path, torch):
    launcher = start(tmp_path, steps=1000, step_seconds=0.02, torch=torch)
    until(lambda: len(list(tmp_path.rglob("checkpoint.pt"))) == 2)
    workers = children(launcher.pid)
    assert [psutil.Process(pid).cmdline() == psutil.Process(launcher.pid).cmdline() for pid in workers] == [torch] * 2
    launcher.kill()
    launcher.communicate()
    until(lambda: all(gone(pid) for pid in workers), seconds=5)
    states = plan.plan("x", make_runs(4, 3), tmp_path).counts()
    assert states == {State.NEW: 10, State.INTERRUPTED: 2}


@FORKS
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_request_to_stop_lets_runs_write_their_checkpoint(tmp_path, number, torch):
    launcher = start(tmp_path, steps=1000, step_seconds=0.02, torch=torch)
    until(lambda: len(list(tmp_path.rglob("checkpoint.pt"))) == 2)
    launcher.send_signal(number)
    out, _ = launcher.communicate(timeout=20)
    assert launcher.returncode == 130
    assert out.count("interrupted") >= 2
    assert "Traceback" not in out
    assert plan.plan("x", make_runs(4, 3), tmp_path).counts() == {State.NEW: 10, State.INTERRUPTED: 2}


@FORKS
def test_ctrl_c_of_a_whole_terminal_group_stops_just_as_well(tmp_path, torch):
    command = [sys.executable, "-m", "tests.experiments.runner_launch", str(tmp_path), "--steps=1000",
               "--step-seconds=0.02", f"--torch={torch}"]
    launcher = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=Path(__file__).parents[2],
        start_new_session=True,
    )
    until(lambda: len(list(tmp_path.rglob("checkpoint.pt"))) == 2)
    os.killpg(launcher.pid, signal.SIGINT)
    out, _ = launcher.communicate(timeout=20)
    assert launcher.returncode == 130
    assert "Traceback" not in out
    assert plan.plan("x", make_runs(4, 3), tmp_path).counts()[State.INTERRUPTED] == 2


def test_ctrl_c_while_workers_are_starting_ends_at_once(tmp_path):
    launcher = start(tmp_path, steps=1000, step_seconds=0.02)
    until(lambda: children(launcher.pid))
    launcher.send_signal(signal.SIGINT)
    out, _ = launcher.communicate(timeout=20)
    assert launcher.returncode == 130
    assert "Traceback" not in out


@FORKS
def test_the_second_request_ends_everything_now(tmp_path, torch):
    launcher = start(tmp_path, behaviour="stubborn", torch=torch)
    until(lambda: sum(line.startswith("started") for line in lines(launcher, 1)) == 1)
    workers = children(launcher.pid)
    time.sleep(0.3)
    launcher.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert launcher.poll() is None
    launcher.send_signal(signal.SIGINT)
    launcher.communicate(timeout=5)
    assert launcher.returncode == 130
    assert all(gone(pid) for pid in workers)


def test_two_launchers_share_the_work_and_neither_repeats_the_other(tmp_path):
    runs = make_runs(4, 3)
    both = [start(tmp_path, steps=5, step_seconds=0.02) for _ in range(2)]
    outs = [launcher.communicate(timeout=60)[0] for launcher in both]
    assert [launcher.returncode for launcher in both] == [0, 0], outs
    assert set(completions(tmp_path, runs).values()) == {1}
    assert scores(tmp_path, runs) == expected(runs)
    assert all(f"{State.DONE!r}: 12" in out for out in outs), outs
    assert sum(out.count("\ndone ") for out in outs) >= 12  # both may report a run that one has just finished


def test_a_launcher_takes_over_the_runs_of_another_that_was_killed(tmp_path):
    first = start(tmp_path, variants=1, seeds=2, steps=1000, step_seconds=0.02, behaviour="stubborn")
    until(lambda: sum(line.startswith("started") for line in lines(first, 1)) == 1)
    time.sleep(0.3)
    second = start(tmp_path, variants=1, seeds=2)
    time.sleep(1.0)
    workers = children(first.pid)
    first.kill()
    first.communicate()
    for pid in workers:  # they sleep for an hour in their first step, so end them as the kernel would
        os.kill(pid, signal.SIGKILL)
    out, _ = second.communicate(timeout=30)
    assert second.returncode == 0, out
    assert scores(tmp_path, make_runs(1, 2)) == expected(make_runs(1, 2))


@FORKS
@pytest.mark.slow
def test_a_worker_that_ignores_everything_does_not_outlive_a_killed_launcher(tmp_path, torch):
    launcher = start(tmp_path, behaviour="stubborn", torch=torch)
    until(lambda: sum(line.startswith("started") for line in lines(launcher, 1)) == 1)
    workers = children(launcher.pid)
    launcher.kill()
    launcher.communicate()
    until(lambda: all(gone(pid) for pid in workers), seconds=25)


@FORKS
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_killed_in_mid_run_are_replaced_and_their_runs_go_on(tmp_path, number, torch):
    launcher = start(tmp_path, variants=1, seeds=3, workers=3, steps=40, step_seconds=0.02, torch=torch)
    until(lambda: len(list(tmp_path.rglob("checkpoint.pt"))) == 3)
    for pid in children(launcher.pid):
        os.kill(pid, number)
    out, _ = launcher.communicate(timeout=30)
    assert launcher.returncode == 0, out
    assert out.count("requeued") == 3
    assert scores(tmp_path, make_runs(1, 3)) == expected(make_runs(1, 3), steps=40)


@pytest.mark.slow
def test_real_training_survives_five_kills_bit_for_bit(tmp_path):
    chance = random.Random(0)
    for _ in range(5):
        before = finished(tmp_path / "killed")
        launcher = start(tmp_path / "killed", module="runner_training")
        until(lambda launcher=launcher: len(children(launcher.pid)) == 2 or launcher.poll() is not None, seconds=90)
        time.sleep(chance.uniform(2.0, 6.0))
        workers = children(launcher.pid)
        if workers and chance.random() < 0.5:
            os.kill(chance.choice(workers), signal.SIGKILL)
            time.sleep(chance.uniform(0.0, 2.0))
            workers += children(launcher.pid)
        launcher.kill()
        launcher.communicate()
        until(lambda workers=workers: all(gone(pid) for pid in workers))
        after = finished(tmp_path / "killed")
        assert {path: after.get(path) for path in before} == before
    for results in (tmp_path / "killed", tmp_path / "undisturbed"):
        launcher = start(results, module="runner_training")
        out, _ = launcher.communicate(timeout=180)
        assert launcher.returncode == 0, out
    assert numbers(tmp_path / "killed") == numbers(tmp_path / "undisturbed")
    assert len(numbers(tmp_path / "killed")) == 12


def numbers(results: Path) -> dict[str, object]:
    """Everything that a run measured but time and memory, by run id; every weight as bytes."""
    from safetensors.numpy import load_file

    found: dict[str, object] = {}
    for directory in records.run_directories(results, "tiny"):
        stored = records.read_run(directory, verify_metrics=True)
        assert stored.damage == ()
        assert stored.result is not None
        rows = [{k: v for k, v in row.items() if k != "seconds"} for row in records.read_metrics(directory)]
        weights = {name: value.tobytes() for name, value in load_file(directory / records.WEIGHTS).items()}
        found[directory.name] = (stored.result["metrics"], stored.result["best"], rows, weights)
    return found


@pytest.mark.parametrize("name", [records.CHECKPOINT, records.METRICS, records.CONFIG])
def test_an_interrupted_run_goes_on_to_the_same_numbers_whichever_of_its_files_is_spoilt(tmp_path, name):
    from experiments.training.execute import Interrupted, Job, execute
    from tests.experiments.runner_training import EXPERIMENT

    run, found = EXPERIMENT.runs()[0], []
    for results in (tmp_path / "spoilt", tmp_path / "plain"):
        job, steps = Job.of(run, results, checkpoint_steps=10), iter(range(1000))
        if results.name == "spoilt":
            with pytest.raises(Interrupted):
                execute(job, stop=lambda steps=steps: next(steps) == 30)
            path = run_directory(results, "tiny", run.id) / name
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it starts from step 0
            execute(job)
        found.append(numbers(results))
    assert found[0] == found[1]
