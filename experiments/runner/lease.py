"""Who is training a run: one lease file per run, so that two launchers never train or write the same run.

A lease is created with an exclusive hard link, so it appears whole or not at all. Its owner touches it every few
seconds. It is dead when its process is gone (known at once on the same machine) or when it has not been touched for
long (another machine). A dead lease is succeeded, never deleted: whoever creates the one file that is named after the
dead lease's token is its only successor, even when several try at the same moment.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from experiments.records import LEASE

HEARTBEAT_SECONDS = 5.0
STALE_SECONDS = 90.0
SUCCESSOR = ".lease-after-"


@dataclass(frozen=True)
class Owner:
    """What a lease file says: which process, on which machine, started when; `token` tells two leases apart."""

    host: str
    pid: int
    started: str
    token: str


@dataclass
class Lease:
    """A held lease. `lost` becomes true when another owner has taken over, after which nothing may be written."""

    directory: Path
    owner: Owner
    _done: threading.Event = field(default_factory=threading.Event)
    _beaten: float = field(default_factory=time.time)
    lost: bool = False

    def keep(self, on_lost: Callable[[], None] = lambda: None) -> None:
        """Touches the file every few seconds until released, in a thread; calls `on_lost` when it was taken over."""
        threading.Thread(target=self._beat, args=(on_lost,), daemon=True, name="lease").start()

    def release(self) -> None:
        """Gives the run back; a lease that another owner has taken over stays theirs."""
        self._done.set()
        with contextlib.suppress(OSError):
            if not self.lost and time.time() - self._beaten < STALE_SECONDS and self._is_mine():
                os.unlink(self.directory / LEASE)

    def _beat(self, on_lost: Callable[[], None]) -> None:
        while not self._done.wait(HEARTBEAT_SECONDS):
            try:
                if not self._is_mine():
                    self.lost = True
                    on_lost()
                    return
                os.utime(self.directory / LEASE)
                self._beaten = time.time()
            except OSError:  # a full or absent disk for a moment: the next beat may succeed
                continue

    def _is_mine(self) -> bool:
        found = _read(self.directory / LEASE)
        return found is not None and found.token == self.owner.token


def acquire(directory: Path) -> Lease | None:
    """The lease of a run's directory, or None when a live owner holds it.

    Raises:
        OSError: the directory cannot be written.
    """
    me = Owner(host_identity(), os.getpid(), process_start(os.getpid()) or "", uuid.uuid4().hex)
    while not _create(directory / LEASE, me):
        found = _holder(directory)
        if found is None:  # released between our two looks
            continue
        if not _dead(directory, found, patiently=True):
            return None
        if _succeed(directory, found, me):
            break
    return Lease(directory, me)


def holder(directory: Path) -> Owner | None:
    """The live owner of a run's lease, or None. Never waits; a remote owner counts as live while it was seen lately."""
    found = _holder(directory)
    return None if found is None or _dead(directory, found, patiently=False) else found


def _succeed(directory: Path, dead: Owner, me: Owner) -> bool:
    claim = directory / f"{SUCCESSOR}{dead.token}.json"
    if not _create(claim, me):
        return False
    try:
        current = _holder(directory)
        if current is None or current.token != me.token:  # somebody had succeeded it before us and moved on
            return False
        _replace(directory / LEASE, me)
        for old in _claims(directory):
            _remove(old)
        return True
    finally:
        _remove(claim)


def _holder(directory: Path) -> Owner | None:
    """The owner at the end of the chain: the lease, its successor, the successor's successor, ..."""
    found = _read(directory / LEASE)
    while found is not None and (after := _read(directory / f"{SUCCESSOR}{found.token}.json")) is not None:
        found = after
    return found


def _dead(directory: Path, owner: Owner, *, patiently: bool) -> bool:
    if owner.host == host_identity():
        return process_start(owner.pid) != owner.started
    before = _touched(directory, owner)
    if time.time() - before < STALE_SECONDS:
        return False
    if patiently:  # clocks of two machines may differ: a living owner touches its lease while we watch
        time.sleep(2.5 * HEARTBEAT_SECONDS)
    return _touched(directory, owner) == before


def _touched(directory: Path, owner: Owner) -> float:
    """When the owner's file was last touched (s since the epoch); the lease itself, or a claim not yet in place."""
    for path in (directory / LEASE, *_claims(directory)):
        with contextlib.suppress(OSError):
            found = _read(path)
            if found is not None and found.token == owner.token:
                return path.stat().st_mtime
    return 0.0


def _claims(directory: Path) -> Iterator[Path]:
    return directory.glob(f"{SUCCESSOR}*.json")


def _create(path: Path, owner: Owner) -> bool:
    temporary = path.with_name(f".{owner.token}.tmp")
    temporary.write_text(json.dumps(asdict(owner)))
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        return _create_exclusively(path, owner)
    finally:
        _remove(temporary)
    return True


def _create_exclusively(path: Path, owner: Owner) -> bool:
    try:
        with open(path, "x") as file:
            file.write(json.dumps(asdict(owner)))
    except FileExistsError:
        return False
    return True


def _replace(path: Path, owner: Owner) -> None:
    temporary = path.with_name(f".{owner.token}.tmp")
    temporary.write_text(json.dumps(asdict(owner)))
    os.replace(temporary, path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _read(path: Path) -> Owner | None:
    """The owner in a lease file; None when there is no file. A torn file has an unknown owner, judged by its age."""
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        return Owner(str(content["host"]), int(content["pid"]), str(content["started"]), str(content["token"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        with contextlib.suppress(OSError):
            return Owner("", 0, "", f"unreadable-{path.stat().st_mtime_ns}")
        return None


_HOST: list[str] = []


def host_identity() -> str:
    """Name of this machine's process table: process numbers mean something only within it."""
    if not _HOST:
        parts = [socket.gethostname()]
        for path, read in (("/proc/sys/kernel/random/boot_id", _text), ("/proc/self/ns/pid", os.readlink)):
            with contextlib.suppress(OSError):
                parts.append(read(path))
        _HOST.append(" ".join(parts))
    return _HOST[0]


def process_start(pid: int) -> str | None:
    """When a process of this machine started, as opaque text; None when there is no such living process."""
    try:
        fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return None if os.path.isdir("/proc/self") else _process_start_elsewhere(pid)


def _process_start_elsewhere(pid: int) -> str | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.Error:
        return None


def _text(path: str) -> str:
    with open(path) as file:
        return file.read().strip()
