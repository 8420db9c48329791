"""Workers that begin as copies of the launcher, which has already imported what they would import.

Importing torch takes more than a second of processor time in every new process; a fork takes milliseconds. The copy
puts itself into the state of a new process: its own streams, no descriptor but its pipe, no exit handlers, and glibc's
memory settings. What cannot be put right forbids a fork (see `may_fork`), and the worker is a new process instead.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

POLL_SECONDS = 0.01
MALLOPT = {"MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_TOP_PAD_": -2, "MALLOC_MMAP_THRESHOLD_": -3}  # see malloc.h
LARGEST = 2**31 - 1  # mallopt takes an int


def may_fork(target: str, device: str) -> bool:
    """Whether a copy of this process can train on a device as a new process would, and saves an import.

    Not with a second thread of Python, whose locks would stay locked in the copy for ever; not where torch drives a
    GPU, since neither its driver nor the threads of its backward pass outlive a fork; not with wandb, which talks to a
    process of its own.
    """
    loaded = "torch" in sys.modules and target.partition(":")[0] in sys.modules and "wandb" not in sys.modules
    if not (loaded and device == "cpu" and sys.platform == "linux" and threading.active_count() == 1):
        return False
    import torch

    return not torch.accelerator.is_available()


class Forked:
    """A forked child, with what the engine uses of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it lives."""
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else has waited for it, so nobody knows
                self.returncode = 0
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end.

        Raises:
            subprocess.TimeoutExpired: it lives on after `timeout` seconds.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(f"worker {self.pid}", timeout or 0.0)
            time.sleep(POLL_SECONDS)
        return status

    def kill(self) -> None:
        """Ends it at once; nothing happens when it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def fork(body: Callable[[], None], *, pipe: int, console: Path, variables: Mapping[str, str]) -> Forked:
    """Runs `body` in a copy of this process, which ends with it.

    Args:
        pipe: the one descriptor that the copy keeps. console: where it prints.
        variables: its environment.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of native threads; theirs sleep
        pid = os.fork()
    if pid:
        return Forked(pid)
    status = 1
    try:
        _start_anew(pipe, console, variables)
        body()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:  # never into what the launcher was doing
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _start_anew(pipe: int, console: Path, variables: Mapping[str, str]) -> None:
    gc.freeze()  # the launcher's objects are not ours to collect
    atexit._clear()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # until the worker has a handler of its own
    for number, path in enumerate([Path(os.devnull), console, console]):
        opened = os.open(path, os.O_RDWR | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    os.closerange(3, pipe)
    os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0, closefd=False), _printing(1), _printing(2)
    _keep_memory(variables)
    os.environ.clear()
    os.environ.update(variables)


def _keep_memory(variables: Mapping[str, str]) -> None:
    """What glibc reads from the environment when a process starts."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        libc = ctypes.CDLL(None)
        for name, parameter in MALLOPT.items():
            if name in variables and name not in os.environ:
                libc.mallopt(parameter, min(int(variables[name]), LARGEST))


def _printing(descriptor: int) -> TextIO:
    return os.fdopen(descriptor, "w", buffering=1, errors="backslashreplace", closefd=False)
