"""One try at one run: take its lease, send what it prints to its log, train it, record how that ended."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.records import (
    BY_STEP,
    CHECKPOINT,
    CONFIG,
    FAILURE,
    INSIDE,
    LOG,
    METRICS,
    RESULT,
    WEIGHTS,
    read_run,
)
from experiments.runner import failures, lease

GRACE_SECONDS = 15.0  # what a run may take to write its checkpoint once it was asked to stop
TIMED_OUT_EXIT = 75


@dataclass(frozen=True)
class Task:
    """One run to train, as it travels to a worker.

    Attributes:
        id, variant, seed, hash: which run.
        directory: absolute path of its files.
        job: what the target is called with; must be picklable.
        target: `module:function` that trains it: `function(job, device=..., stop=..., report=...)`.
        time_limit: seconds after which the attempt ends as timed_out; None = none.
    """

    id: str
    variant: str
    seed: int
    hash: str
    directory: Path
    job: Any
    target: str
    time_limit: float | None = None


@dataclass(frozen=True)
class Ended:
    """How an attempt ended; `kind` is one of the ends listed at `Event`."""

    kind: str
    error: str = ""
    seconds: float = 0.0
    metrics: dict[str, Any] = field(default_factory=dict)


class Stop:
    """A request to stop; call it to learn whether it was made. The first reason stays."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self.reason = ""

    def __call__(self) -> bool:
        return self._asked.is_set()

    def ask(self, reason: str) -> None:
        """Asks the run to write its checkpoint and stop. Reasons: interrupted, timed_out, lost, pruned."""
        if not self._asked.is_set():
            self.reason = reason
            self._asked.set()


Report = Callable[..., None]


def find(target: str) -> Callable[..., Any]:
    """The function that `module:function` names."""
    module, _, name = target.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def attempt(task: Task, *, device: str, stop: Stop, report: Report) -> Ended:
    """Trains a run that nobody else is training. Never raises; a failure is recorded and returned."""
    started = time.monotonic()
    held = None
    try:
        task.directory.mkdir(parents=True, exist_ok=True)
        held = lease.acquire(task.directory)
        if held is None:
            return Ended("elsewhere")
        held.keep(on_lost=lambda: stop.ask("lost"))
        kind, error, metrics = _under_lease(task, device, stop, report)
    except Exception as problem:
        kind, metrics = failures.classify(problem, task.directory), {}
        error = failures.storage_problem(problem, task.directory) or failures.one_line(problem)
    finally:
        if held is not None:
            held.release()
    return Ended(kind, error, time.monotonic() - started, metrics)


def _under_lease(task: Task, device: str, stop: Stop, report: Report) -> tuple[str, str, dict[str, Any]]:
    ended = _ended(task)
    if ended is not None:  # another launcher has finished it since we planned
        return ended
    _tidy(task.directory)
    failures.forgive(task.directory)
    with _time_limit(task, stop), redirected(task.directory / LOG):
        try:
            find(task.target)(task.job, device=device, stop=stop, report=report)
        except BaseException as error:
            return _failed(task, stop, error)
    (task.directory / FAILURE).unlink(missing_ok=True)
    return _ended(task) or _failed(task, stop, RuntimeError(f"training returned, but left no whole {RESULT}"))


def _ended(task: Task) -> tuple[str, str, dict[str, Any]] | None:
    result = read_run(task.directory).result
    if result is None or result.get("hash") != task.hash:
        return None
    return str(result.get("status", "done")), "", dict(result.get("metrics") or {})


def _failed(task: Task, stop: Stop, error: BaseException) -> tuple[str, str, dict[str, Any]]:
    asked_to = stop() and type(error).__name__ == "Interrupted"
    kind = stop.reason if asked_to else failures.classify(error, task.directory)
    if kind == "lost":  # its files now belong to another owner
        return "elsewhere", "", {}
    line, text = failures.one_line(error), "" if asked_to else failures.trace(error)
    if kind == "timed_out":
        line = time_limit_line(task)
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
    try:
        recorded = "interrupted" if kind in ("storage", "pruned") else kind  # a pruned run could go on
        failures.record(task.directory, task.id, task.hash, recorded, line, text)
    except OSError as problem:
        if kind != "storage":
            raise
        line = line or failures.one_line(problem)
    if kind == "storage":
        line = failures.storage_problem(error, task.directory)
    return kind, "" if kind in ("interrupted", "pruned") else line, {}


def clear(directory: Path) -> None:
    """Removes everything a run left but its log and its lease; the result first, so that half of it is never done."""
    for name in (RESULT, CHECKPOINT, METRICS, WEIGHTS, INSIDE, BY_STEP, FAILURE, CONFIG):
        path = directory / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def time_limit_line(task: Task) -> str:
    """The sentence for a run that took too long."""
    return f"stopped at its time limit of {task.time_limit:g} s; its checkpoint is kept for a longer limit"


@contextlib.contextmanager
def _time_limit(task: Task, stop: Stop) -> Iterator[None]:
    if task.time_limit is None:
        yield
        return

    def give_up() -> None:  # the run does not look at `stop`: end the process that it lives in
        try:
            failures.record(task.directory, task.id, task.hash, "timed_out", time_limit_line(task))
        finally:
            os._exit(TIMED_OUT_EXIT)

    timers = [
        threading.Timer(task.time_limit, stop.ask, ["timed_out"]),
        threading.Timer(task.time_limit + GRACE_SECONDS, give_up),
    ]
    for timer in timers:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


@contextlib.contextmanager
def redirected(log: Path) -> Iterator[None]:
    """Sends what this process prints, from Python or below, to the end of a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    kept = os.dup(1), os.dup(2)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        print(f"--- {time.strftime('%Y-%m-%dT%H:%M:%S')} process {os.getpid()}", flush=True)
        yield
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
            os.close(old)
        os.close(target)


def _tidy(directory: Path) -> None:
    """Removes temporary files that a killed process left behind."""
    for path in directory.glob(".*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > 60:
                path.unlink()
