"""A worker that is a copy of the launcher is in the state of a new process, and is one only where that is safe."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from experiments.runner import forked

ROOT = Path(__file__).parents[2]
TARGET = "tests.experiments.runner_jobs:execute"
ALONE = """
import os, sys, time, warnings
from multiprocessing import Pipe
from pathlib import Path
import torch
from experiments.runner.forked import fork, may_fork
import tests.experiments.runner_jobs
"""


def alone(code: str, *arguments: object) -> str:
    """Runs a piece of code in a process with one thread; what it prints."""
    command = [sys.executable, "-c", ALONE + code, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_copy_has_streams_descriptors_and_variables_of_its_own(tmp_path):
    out = alone("""
ours, theirs = Pipe()
held = open(sys.argv[1] + "/held", "w")
console = Path(sys.argv[1], "console"); console.touch()
print("before", end="")
def body():
    print("from Python", os.environ["GREETING"], "HOME" in os.environ, sys.stdin.read() == "")
    os.write(2, b"from below\\n")
    theirs.send([int(fd) for fd in os.listdir("/proc/self/fd")])
child = fork(body, pipe=theirs.fileno(), console=console, variables={"GREETING": "hello", "PATH": os.environ["PATH"]})
assert child.wait(20) == 0 and child.poll() == 0
child.kill()
descriptors = set(ours.recv()) - {0, 1, 2, theirs.fileno()}
print("", len(descriptors), "GREETING" in os.environ)  # the one of listdir
""", tmp_path)
    assert out == "before 1 False\n"
    assert (tmp_path / "console").read_text() == "from Python hello False True\nfrom below\n"


def test_a_copy_that_fails_never_returns_into_the_launcher(tmp_path):
    out = alone("""
import atexit
atexit.register(print, "launcher ends")
console = Path(sys.argv[1], "console"); console.touch()
def body(): raise SystemError("gone wrong")
print(fork(body, pipe=Pipe()[1].fileno(), console=console, variables={}).wait())
""", tmp_path)
    assert out == "1\nlauncher ends\n"
    assert "SystemError: gone wrong" in (tmp_path / "console").read_text()


def test_the_end_of_a_copy_is_told_as_a_process_tells_it(tmp_path):
    out = alone("""
console = Path(sys.argv[1], "console"); console.touch()
def started(body): return fork(body, pipe=Pipe()[1].fileno(), console=console, variables={})
sleeper = started(lambda: time.sleep(60))
try:
    sleeper.wait(0.1)
except __import__("subprocess").TimeoutExpired:
    print("alive", sleeper.poll())
sleeper.kill()
print(sleeper.wait(), started(lambda: os._exit(7)).wait())
""", tmp_path)
    assert out == "alive None\n-9 7\n"


def test_forks_only_where_nothing_is_lost(monkeypatch):
    assert alone(f"print(may_fork({TARGET!r}, 'cpu'))") == "True\n"
    assert alone(f"print(may_fork({TARGET!r}, 'cuda:0'))") == "False\n"
    assert alone("print(may_fork('tests.never:seen', 'cpu'))") == "False\n"
    second = f"import threading; threading.Thread(target=time.sleep, args=[1]).start(); print(may_fork({TARGET!r}, 'cpu'))"
    assert alone(second) == "False\n"


@pytest.mark.parametrize("what", ["accelerator", "wandb", "no torch"])
def test_no_fork_with_a_gpu_or_wandb_or_without_torch(what, monkeypatch):
    import torch

    import tests.experiments.runner_jobs  # noqa: F401

    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: what == "accelerator")
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    assert forked.may_fork(TARGET, "cpu") is (what != "accelerator")
    if what == "wandb":
        monkeypatch.setitem(sys.modules, "wandb", os)
    if what == "no torch":
        monkeypatch.delitem(sys.modules, "torch")
    assert not forked.may_fork(TARGET, "cpu")
