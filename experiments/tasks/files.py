"""Reading data files: clear errors, one read and one encoding a process."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Source:
    """The text of a file and the sha256 of its bytes."""

    text: str
    sha256: str


@dataclass(frozen=True)
class Characters:
    """A text as ids: `symbols[ids[i]]` is character i."""

    ids: NDArray[np.uint32]
    symbols: tuple[str, ...]
    sha256: str


def read_text(path: Path, what: str) -> Source:
    """The UTF-8 text of a file, read once a process while the file stays as it is.

    Args:
        what: how messages call the option, such as "task 'text': path".

    Raises:
        ValueError: the file is missing, a directory, a pipe or device, unreadable, empty or not UTF-8.
    """
    return _read(path, what, *_stamp(path, what))


def read_characters(path: Path, what: str) -> Characters:
    """The characters of a UTF-8 file as ids, encoded once a process; the alphabet is that of the whole file."""
    return _encode(path, what, *_stamp(path, what))


def _stamp(path: Path, what: str) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise ValueError(
            f"{what}='{path}' cannot be opened ({error.strerror}); name an existing UTF-8 text file, "
            f"relative to {Path.cwd()}"
        ) from error
    if stat.S_ISDIR(found.st_mode):
        raise ValueError(f"{what}='{path}' is a directory; name one UTF-8 text file")
    if not stat.S_ISREG(found.st_mode):  # a pipe would wait for a writer, and /dev/zero never ends
        raise ValueError(f"{what}='{path}' is a pipe or a device; name one UTF-8 text file")
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=16)
def _read(path: Path, what: str, modified: int, size: int) -> Source:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{what}='{path}' cannot be read ({error.strerror}); name a readable file") from error
    if not raw.strip():
        raise ValueError(f"{what}='{path}' is empty; it needs text to learn from")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{what}='{path}' is not UTF-8 (byte {error.start}: {raw[error.start:error.start + 1]!r}); "
            "convert it, for example: iconv -f latin1 -t utf-8"
        ) from error
    return Source(text.replace("\r\n", "\n"), hashlib.sha256(raw).hexdigest())


@lru_cache(maxsize=8)
def _encode(path: Path, what: str, modified: int, size: int) -> Characters:
    source = _read(path, what, modified, size)
    points = np.frombuffer(source.text.encode("utf-32-le"), dtype=np.uint32)
    used = np.flatnonzero(np.bincount(points))
    table = np.zeros(int(used[-1]) + 1, dtype=np.uint32)
    table[used] = np.arange(len(used))
    return Characters(table[points], tuple(chr(point) for point in used), source.sha256)
