"""results/ledger.jsonl: every verdict on a change, one line each, so that nobody tries the same thing twice.

Lines are only ever added, each in one write that is on disk before it returns. A torn last line, of a machine that
died, costs that line alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LEDGER = "ledger.jsonl"
VERDICTS = ("SUPPORTED", "REFUTED", "INCONCLUSIVE")


@dataclass(frozen=True)
class Ledger:
    """The lines, oldest first, and how many could not be read."""

    lines: tuple[Mapping[str, Any], ...]
    torn: int

    def earlier(self, key: str) -> Mapping[str, Any] | None:
        """The latest line on the same question, a decided one if there is any."""
        found = [line for line in self.lines if line.get("key") == key and line.get("verdict") in VERDICTS]
        decided = [line for line in found if line.get("verdict") != "INCONCLUSIVE"]
        return next(reversed(decided or found), None)


def append(results: Path, content: Mapping[str, Any]) -> None:
    """Adds a line, with the time.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
    results.mkdir(parents=True, exist_ok=True)
    path = results / LEDGER
    line = {"when": datetime.now(UTC).isoformat(timespec="seconds"), **content}
    text = json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, (b"\n" if _ends_torn(file) else b"") + text.encode())
        os.fsync(file)
    finally:
        os.close(file)


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON, and no line of ours has it")


def _ends_torn(file: int) -> bool:
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"


def read(results: Path) -> Ledger:
    """Every whole line; empty where there is no ledger."""
    try:
        raw = (results / LEDGER).read_bytes().split(b"\n")
    except FileNotFoundError:
        return Ledger((), 0)
    lines, torn = [], 0
    for text in filter(None, raw):
        try:
            line = json.loads(text, parse_constant=_refused)
        except ValueError:
            line = None
        if isinstance(line, dict):
            lines.append(line)
        else:
            torn += 1
    return Ledger(tuple(lines), torn)
