"""The engine for this machine: one process per slot, kept over many runs, replaced when it dies.

A pool of the standard library loses every pending run, or hangs, when one of its processes is killed; here a death
costs one attempt at one run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import experiments
from experiments.records import LOG
from experiments.runner.attempt import GRACE_SECONDS, TIMED_OUT_EXIT, Ended, Task, time_limit_line
from experiments.runner.events import FAILURES, Event
from experiments.runner.forked import Forked, fork, may_fork
from experiments.runner.worker import MEMORY_VARIABLES, THREAD_VARIABLES, Setup, main, signals_held_back


@dataclass
class _Slot:
    """One place for a worker; `process` is None before its first run and after a death."""

    number: int
    device: str
    process: subprocess.Popen[bytes] | Forked | None = None
    connection: Connection | None = None
    task: Task | None = None
    ready: bool = False
    started: float | None = None  # when the current attempt began (monotonic s)
    overdue: bool = False
    oom_kills: int = 0


class LocalEngine:
    """Trains runs in processes on this machine.

    Args:
        devices: the device of every worker, see `devices.slots`.
        target: `module:function` that trains one run. imports: the user's files that workers import first.
        threads: compute threads per worker.
    """

    name = "local"

    def __init__(
        self, devices: list[str], *, target: str, imports: tuple[str, ...] = (), threads: int = 1
    ) -> None:
        self.target, self.imports, self.threads = target, imports, threads
        self._slots = [_Slot(number, device) for number, device in enumerate(devices)]
        self._stopping = False
        self._scratch = tempfile.TemporaryDirectory(prefix="runner-")
        for slot in self._slots:  # now, since a progress display has a thread, with which there is no fork
            if self._may_fork(slot):
                self._start(slot)

    @property
    def free(self) -> int:
        """How many more runs can be given out now."""
        return sum(slot.task is None for slot in self._slots)

    def submit(self, task: Task) -> None:
        """Gives a run to a free slot; prefers a worker that is already up."""
        slot = min((s for s in self._slots if s.task is None), key=lambda s: s.process is None)
        slot.task, slot.started, slot.overdue, slot.oom_kills = task, None, False, _oom_kills()
        if slot.process is not None and slot.process.poll() is None and self._send(slot, "run", task):
            return
        self._start(slot)
        self._send(slot, "run", task)

    def wait(self, seconds: float) -> list[Event]:
        """What has happened; returns at once when something has, or empty after `seconds`."""
        connections = {slot.connection: slot for slot in self._slots if slot.connection is not None}
        events: list[Event] = []
        for connection in wait(list(connections), seconds):
            events += self._receive(connections[connection])  # type: ignore[index]
        for slot in self._slots:
            if slot.process is not None and slot.process.poll() is not None:
                events += self._receive(slot)
            self._check_limit(slot)
        return events

    def stop(self) -> None:
        """Asks every run to write its checkpoint and stop; workers that are still starting end at once."""
        self._stopping = True
        for slot in self._slots:
            if slot.task is not None and not slot.ready and slot.process is not None:
                slot.process.kill()
            elif slot.task is not None:
                self._send(slot, "stop", "interrupted")

    def cancel(self, run_id: str) -> None:
        """Asks one run to write its checkpoint and stop."""
        for slot in self._slots:
            if slot.task is not None and slot.task.id == run_id and slot.process is not None:
                self._send(slot, "cancel", run_id)

    def close(self, *, now: bool = False) -> None:
        """Ends every worker: after its run when it has none, at once with `now`."""
        for slot in self._slots:
            if slot.process is not None:
                if now:
                    slot.process.kill()
                else:
                    self._send(slot, "exit")
        for slot in self._slots:
            self._reap(slot, patience=5.0)
        self._scratch.cleanup()

    def _start(self, slot: _Slot) -> None:
        self._reap(slot, patience=1.0)
        ours, theirs = Pipe()
        console, pipe, variables = self._console(slot), theirs.fileno(), self._environment()
        console.write_bytes(b"")
        with signals_held_back():
            if self._may_fork(slot):
                slot.process = fork(lambda: main(pipe), pipe=pipe, console=console, variables=variables)
            else:
                slot.process = _new_process(pipe, console, variables)
        theirs.close()
        slot.connection, slot.ready = ours, False
        self._send(slot, "prepare", Setup(self.target, self.imports, slot.device, self.threads))

    def _may_fork(self, slot: _Slot) -> bool:
        return self.threads == 1 and may_fork(self.target, slot.device)

    def _environment(self) -> dict[str, str]:
        root = str(Path(experiments.__file__).resolve().parent.parent)
        path = os.pathsep.join(dict.fromkeys([root, *(os.path.abspath(entry) for entry in sys.path)]))
        threads = {name: str(self.threads) for name in THREAD_VARIABLES}
        return {**MEMORY_VARIABLES, **os.environ, **threads, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}

    def _send(self, slot: _Slot, *message: Any) -> bool:
        assert slot.connection is not None
        try:
            slot.connection.send(message)
        except OSError:  # it has just died; `wait` will notice
            return False
        return True

    def _receive(self, slot: _Slot) -> list[Event]:
        events: list[Event] = []
        try:
            while slot.connection is not None and slot.connection.poll():
                events += self._understand(slot, slot.connection.recv())
        except (EOFError, OSError):
            return [*events, *self._died(slot)]
        if slot.process is not None and slot.process.poll() is not None:
            events += self._died(slot)
        return events

    def _understand(self, slot: _Slot, message: tuple[Any, ...]) -> Iterator[Event]:
        task = slot.task
        if message[0] == "ready":
            slot.ready = True
        elif message[0] == "broken" and task is not None:
            slot.task = None
            yield event_of(task, "broken", slot.number, error=message[1])
        elif task is None or message[1] != task.id:
            return
        elif message[0] == "started":
            slot.started = time.monotonic()
            yield event_of(task, "started", slot.number)
        elif message[0] == "progress":
            yield event_of(task, "progress", slot.number, seconds=self._age(slot), **message[2])
        elif message[0] == "ended":
            ended: Ended = message[2]
            slot.task = None
            if self._spoilt(slot, ended):
                self._send(slot, "exit")
                self._reap(slot, patience=5.0)
            yield event_of(task, ended.kind, slot.number, error=ended.error, seconds=ended.seconds,
                           metrics=ended.metrics)

    def _spoilt(self, slot: _Slot, ended: Ended) -> bool:
        """Whether a worker is not to be used again: its allocator or device context may be broken, or somebody other
        than us has asked it to stop."""
        broken = ended.kind == "out_of_memory" or (ended.kind in FAILURES and slot.device != "cpu")
        return broken or (ended.kind == "interrupted" and not self._stopping)

    def _died(self, slot: _Slot) -> list[Event]:
        task, age, was_ready = slot.task, self._age(slot), slot.ready
        code = self._reap(slot, patience=1.0)
        slot.task = None
        if task is None:
            return []
        kind, error = _cause(slot, task, code)
        if kind == "crashed" and not was_ready:
            kind, error = "broken", f"{error} while starting:\n{_tail(self._console(slot))}"
        return [event_of(task, kind, slot.number, error=error, seconds=age)]

    def _check_limit(self, slot: _Slot) -> None:
        """The backstop: a worker that ends its run neither by itself nor by its own timer is killed."""
        limit = slot.task.time_limit if slot.task else None
        if limit is not None and slot.process and self._age(slot) > limit + 2 * GRACE_SECONDS and not slot.overdue:
            slot.overdue = True
            slot.process.kill()

    def _reap(self, slot: _Slot, *, patience: float) -> int:
        """Makes sure that the slot's process has ended; its exit status, negative for a signal."""
        process, connection = slot.process, slot.connection
        slot.process, slot.connection, slot.ready = None, None, False
        if process is None:
            return 0
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        if process.returncode is None:
            process.kill()
        if connection is not None:
            connection.close()
        return process.wait()

    def _age(self, slot: _Slot) -> float:
        return 0.0 if slot.started is None else time.monotonic() - slot.started

    def _console(self, slot: _Slot) -> Path:
        return Path(self._scratch.name) / f"worker-{slot.number}.txt"


def _new_process(pipe: int, console: Path, variables: dict[str, str]) -> subprocess.Popen[bytes]:
    with open(console, "wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "experiments.runner.worker", str(pipe)],
            env=variables, pass_fds=[pipe], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
        )


def event_of(task: Task, kind: str, slot: int, **details: Any) -> Event:
    """An event about a task, with its log."""
    known = {key: value for key, value in details.items() if key in Event.__dataclass_fields__}
    return Event(kind, task.id, task.variant, task.seed, slot, log=str(task.directory / LOG), **known)


def _cause(slot: _Slot, task: Task, code: int) -> tuple[str, str]:
    if slot.overdue or code == TIMED_OUT_EXIT:
        return "timed_out", time_limit_line(task)
    if code == -signal.SIGKILL and _oom_kills() > slot.oom_kills:
        return "out_of_memory", "the kernel killed its worker because the machine ran out of memory"
    if code in (-signal.SIGKILL, -signal.SIGTERM):
        return "killed", f"its worker was killed from outside ({signal.Signals(-code).name})"
    if code < 0:
        return "crashed", f"its worker died of {signal.Signals(-code).name} ({signal.strsignal(-code)})"
    return "crashed", f"its worker ended by itself with status {code}"


def _oom_kills() -> int:
    """How many processes the kernel has killed for memory since it started (0 where it does not say)."""
    with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/vmstat") as file:
        return int(next(line for line in file if line.startswith("oom_kill ")).split()[1])
    return 0


def _tail(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace")[-2000:].strip()
    return ""
