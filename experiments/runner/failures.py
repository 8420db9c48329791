"""Why an attempt ended without a result: told apart, worded in one line, recorded in failure.json."""

from __future__ import annotations

import contextlib
import errno
import os
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.records import FAILURE, LOG, Damaged, read_json, write_json

FULL = (errno.ENOSPC, errno.EDQUOT)
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
FULL_TEXTS = ("No space left on device", "Disk quota exceeded", "PytorchStreamWriter failed writing")
MEMORY_TEXTS = ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc")


def classify(error: BaseException, directory: Path) -> str:
    """storage (the results folder cannot be written), out_of_memory or failed."""
    if storage_problem(error, directory):
        return "storage"
    text = str(error)
    named = type(error).__name__ == "OutOfMemoryError"
    if named or isinstance(error, MemoryError):
        return "out_of_memory"
    return "out_of_memory" if isinstance(error, RuntimeError) and any(m in text for m in MEMORY_TEXTS) else "failed"


def storage_problem(error: BaseException, directory: Path) -> str:
    """One sentence when `error` means that a results folder cannot be written, else an empty string."""
    number = error.errno if isinstance(error, OSError) else None
    if number in FULL or any(text in str(error) for text in FULL_TEXTS):
        return f"the disk that holds {directory} is full"
    if number == errno.EROFS or (number in READ_ONLY and _inside(error, directory)):
        return f"the folder {directory} cannot be written ({os.strerror(number or errno.EROFS)})"
    return ""


def _inside(error: BaseException, directory: Path) -> bool:
    name = getattr(error, "filename", None)
    if not isinstance(name, str | bytes | os.PathLike):
        return False
    path = Path(os.path.abspath(os.fsdecode(name)))
    return path == directory or directory in path.parents or path in directory.parents


def one_line(error: BaseException) -> str:
    """`ValueError: what it says`, on one line of at most 300 characters."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__


def trace(error: BaseException) -> str:
    """The traceback as text; its end when it is very long."""
    return "".join(traceback.format_exception(error))[-20_000:]


def record(directory: Path, run_id: str, hash_: str, kind: str, error: str, traceback_text: str = "") -> None:
    """Writes failure.json.

    Raises:
        OSError: the folder cannot be written.
    """
    before = _recorded(directory)
    earlier = before.get("attempt")
    content = {
        "run_id": run_id, "hash": hash_, "kind": kind, "error": error, "traceback": traceback_text,
        "attempt": (earlier if isinstance(earlier, int) else 0) + 1, "when": _now(), "log": str(directory / LOG),
    }
    write_json(directory / FAILURE, content)


def forgive(directory: Path) -> None:
    """An attempt starts: if it is killed, the run counts as interrupted, whatever ended the attempt before it."""
    before = _recorded(directory)
    if before and before.get("kind") != "interrupted":
        write_json(directory / FAILURE, {**before, "kind": "interrupted", "error": "", "traceback": "", "when": _now()})


def _recorded(directory: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, Damaged):
        return read_json(directory / FAILURE)
    return {}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
