"""The Ray engine: refuses clearly what cannot work, and loses nothing when a node dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.config import ConfigError
from experiments.runner import plan, ray_engine
from experiments.runner.plan import State
from tests.experiments.runner_kit import completions, expected, launch, make_runs, scores

ROOT = Path(__file__).parents[2]


def start(module: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.experiments.{module}", *arguments], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "RAY_TMPDIR": "/tmp"},
    )


def test_without_ray_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError) as caught:
        ray_engine.RayEngine(target="unused:unused")
    assert str(caught.value) == (
        "--engine ray: needs Ray, which is not installed: pip install 'ray>=2.60,<3'  (or use --engine local)"
    )


def test_a_cluster_without_what_the_runs_need_is_refused():
    with pytest.raises(ConfigError, match="the Ray cluster has no GPU \\(it has 8 CPUs\\); use --device cpu"):
        ray_engine._room({"CPU": 8.0}, "cuda", 1, 1)
    with pytest.raises(ConfigError, match="one run needs 4 CPUs, the cluster has 2 in all"):
        ray_engine._room({"CPU": 2.0}, "cpu", 1, 4)
    with pytest.raises(ConfigError, match="'mps' cannot be asked of a Ray cluster"):
        ray_engine._room({"CPU": 2.0}, "mps", 1, 1)


def test_gpus_are_shared_as_asked_and_used_when_there_are_any():
    assert ray_engine._room({"CPU": 8.0}, "auto", 1, 1) == (False, 8)
    assert ray_engine._room({"CPU": 8.0, "GPU": 2.0}, "auto", 1, 1) == (True, 2)
    assert ray_engine._room({"CPU": 8.0, "GPU": 2.0}, "cuda", 3, 1) == (True, 6)
    assert ray_engine._room({"CPU": 4.0, "GPU": 2.0}, "cuda", 3, 1) == (True, 4)
    assert ray_engine._room({"CPU": 8.0, "GPU": 2.0}, "cpu", 1, 2) == (False, 4)


@pytest.mark.slow
def test_a_node_that_dies_in_mid_run_costs_no_run_and_changes_no_number(tmp_path):
    process = start("runner_ray_cluster", str(tmp_path))
    out, _ = process.communicate(timeout=240)
    assert process.returncode == 0, out
    assert "requeued" in out
    runs = make_runs(4, 3)
    ends = [line.split()[1] for line in out.splitlines() if line.startswith("done ")]
    assert sorted(ends) == sorted(run.id for run in runs)
    assert plan.plan("x", runs, tmp_path, verify=True).counts() == {State.DONE: 12}
    assert max(completions(tmp_path, runs).values()) == 1
    launch(tmp_path / "local", runs, job={"steps": 30})
    assert scores(tmp_path, runs) == scores(tmp_path / "local", runs) == expected(runs, steps=30)


@pytest.mark.slow
def test_failures_of_every_kind_end_like_on_the_local_engine(tmp_path):
    process = start("runner_ray_launch", str(tmp_path))
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 1, out
    ends = {line.split()[1][:2]: line.split()[0] for line in out.splitlines()
            if line.split()[0] in ("done", "failed", "crashed", "out_of_memory")}
    assert ends == {"v0": "failed", "v1": "crashed", "v2": "out_of_memory", "v3": "done"}, out


@pytest.mark.slow
def test_ctrl_c_lets_runs_on_a_cluster_write_their_checkpoint(tmp_path):
    process = start("runner_ray_launch", str(tmp_path), "1000")
    end = time.monotonic() + 60
    while len(list(tmp_path.rglob("checkpoint.pt"))) < 2:
        assert time.monotonic() < end
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert plan.plan("x", make_runs(4, 1), tmp_path).counts()[State.INTERRUPTED] == 2


def test_an_address_where_no_cluster_is_gets_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", object())
    with pytest.raises(ConfigError) as caught:
        ray_engine.RayEngine(target="unused:unused", address="127.0.0.1:1")
    assert str(caught.value).startswith("--ray-address 127.0.0.1:1: no Ray cluster could be reached: ")
    assert "\n" not in str(caught.value)
