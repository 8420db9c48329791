"""What a worker process does: runs one attempt after another, stops when asked, and ends when its launcher is gone.

Started by local.py as `python -m experiments.runner.worker FD`, where FD is one end of a socket pair, or as a fork of
the launcher (forked.py).
Messages to it: ("prepare", Setup), ("run", Task), ("cancel", run id), ("stop", reason), ("exit",).
Messages from it: ("ready",), ("broken", text), ("started", run id), ("progress", run id, {...}),
("ended", run id, Ended).
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from experiments.runner import failures
from experiments.runner.attempt import GRACE_SECONDS, Ended, Stop, Task, attempt, find

PROGRESS_SECONDS = 0.2
# a training step asks for the same large blocks again and again; glibc would give each back to the system when it is
# freed and pay for every page anew: steps are 2 to 6 % faster when a worker keeps them
MEMORY_VARIABLES = {
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(2**31), "MALLOC_TOP_PAD_": str(64 * 2**20),
}
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Setup:
    """What a worker needs before its first run: what trains, the user's files, the device, its compute threads."""

    target: str
    imports: tuple[str, ...]
    device: str
    threads: int


class Worker:
    """The two threads of a worker: one listens to the launcher, the main one trains."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.inbox: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self.stop = Stop()
        self.device = "cpu"
        self.current = ""

    def listen(self) -> None:
        """Passes messages on until the launcher is gone; then stops the run and, soon after, the process."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                message = self.connection.recv()
                if message[0] == "stop":
                    self.stop.ask(message[1])
                elif message[0] == "cancel":
                    if message[1] == self.current:  # else it has just ended
                        self.stop.ask("pruned")
                else:
                    self.inbox.put(message)
        self.inbox.put(("exit",))
        self.stop.ask("interrupted")
        time.sleep(GRACE_SECONDS)
        os._exit(1)

    def work(self) -> None:
        """Does what the launcher says until it says exit."""
        for message in iter(self.inbox.get, ("exit",)):
            if message[0] == "prepare":
                self._prepare(message[1])
            else:
                self._run(message[1])

    def _prepare(self, setup: Setup) -> None:
        self.device = setup.device
        try:
            prepare(setup)
            self._send("ready")
        except BaseException as error:
            self._send("broken", f"{failures.one_line(error)}\n{failures.trace(error)}")

    def _run(self, task: Task) -> None:
        self.current = task.id
        self._send("started", task.id)
        if self.stop():  # asked while the run was on its way here
            ended = Ended("interrupted")
        else:
            ended = attempt(task, device=self.device, stop=self.stop, report=Throttled(self._send, task.id))
        self.current = ""
        if self.stop.reason in ("timed_out", "lost", "pruned"):  # that was about one run; the worker goes on
            self.stop = Stop()
        self._send("ended", task.id, ended)

    def _send(self, *message: Any) -> None:
        with contextlib.suppress(OSError):  # the launcher is gone; the listener has seen it too
            self.connection.send(message)


class Throttled:
    """Passes progress on a few times a second at most."""

    def __init__(self, send: Any, run_id: str) -> None:
        self._send, self._run_id, self._last = send, run_id, 0.0

    def __call__(self, **progress: Any) -> None:
        now = time.monotonic()
        if now - self._last >= PROGRESS_SECONDS:
            self._last = now
            self._send("progress", self._run_id, progress)


def prepare(setup: Setup) -> None:
    """Imports what trains and the user's own parts, with the right number of compute threads."""
    for name in THREAD_VARIABLES:
        os.environ[name] = str(setup.threads)
    find(setup.target)
    if setup.imports:
        from experiments.files import import_file

        for path in setup.imports:
            import_file(Path(path))
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(setup.threads)
        if setup.device.startswith("cuda"):
            torch.cuda.set_device(setup.device)


def main(descriptor: int) -> None:
    """The worker process, from start to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the launcher decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    faulthandler.enable()
    worker = Worker(Connection(descriptor))
    signal.signal(signal.SIGTERM, lambda *_: worker.stop.ask("interrupted"))
    _end_with_parent()
    threading.Thread(target=worker.listen, daemon=True, name="listen").start()
    worker.work()
    if "wandb" not in sys.modules:  # which has to say goodbye to a process of its own
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # every run is on disk; taking torch apart would keep the launcher waiting for 0.4 s


def _end_with_parent() -> None:
    """On Linux the kernel also tells us that the launcher died, should its end of the pipe live on elsewhere."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # 1 = PR_SET_PDEATHSIG


@contextlib.contextmanager
def signals_held_back() -> Iterator[None]:
    """While a child starts, Ctrl-C waits: it must reach neither the half-started child nor get lost here."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


if __name__ == "__main__":
    main(int(sys.argv[1]))
