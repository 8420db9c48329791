"""Where the numbers of a run go: metrics.jsonl always, and mirrors that may fail without harm."""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from experiments.records import METRICS

FLUSH_SECONDS = 5.0
Row = Mapping[str, Any]


@dataclass(frozen=True)
class About:
    """What a tracker may say of a run beside its numbers."""

    run_id: str
    experiment: str
    variant: str
    seed: int
    config: Mapping[str, Any]
    tags: tuple[str, ...] = ()


class Tracker(Protocol):
    """A mirror of a run. Whatever it raises costs one warning and nothing else."""

    def start(self, about: About) -> None:
        """The run begins, or goes on after an interruption."""

    def log(self, row: Row) -> None:
        """One line of metrics: `step` (from 1), `seconds` and finite numbers by name."""

    def flush(self) -> None:
        """A good moment to write what is buffered."""

    def summary(self, scores: Row) -> None:
        """The final scores."""

    def finish(self, status: str) -> None:
        """The run is over: done, diverged, interrupted or failed."""


class MetricsFile:
    """metrics.jsonl, or another file of rows: one JSON object a line, append only, buffered. Here an error is an
    error: this is the record.

    Args:
        directory: the run's directory.
        keep: bytes to keep of a file that is there (what the checkpoint had seen); lines after them are cut off, so
            that a resumed run writes none twice. 0 starts anew.
        name: of the file.
    """

    def __init__(self, directory: Path, *, keep: int = 0, name: str = METRICS) -> None:
        self.path = directory / name
        self.buffer: list[str] = []
        self.flushed = time.monotonic()
        with open(self.path, "ab") as file:
            file.truncate(keep)
        self.size = keep

    def log(self, row: Row) -> None:
        """Adds a line; writes the buffer when the last write is FLUSH_SECONDS ago. Numbers that are not finite are
        left out: a file that strict readers refuse helps nobody."""
        self.buffer.append(json.dumps({k: v for k, v in row.items() if _finite(v)}, allow_nan=False) + "\n")
        if time.monotonic() - self.flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self, *, sync: bool = False) -> None:
        """Writes the buffer; with `sync`, waits until it has reached the disk.

        Raises:
            OSError: the disk is full or the folder cannot be written.
        """
        self.flushed = time.monotonic()
        content = "".join(self.buffer).encode()
        with open(self.path, "ab") as file:
            file.write(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        self.buffer.clear()
        self.size += len(content)


@dataclass
class Guarded:
    """Runs mirrors; the first exception of one costs a warning, and that mirror is not asked again."""

    trackers: list[Tracker]
    dropped: list[str] = field(default_factory=list)

    def start(self, about: About) -> None:
        self._each(lambda tracker: tracker.start(about))

    def log(self, row: Row) -> None:
        if self.trackers:
            self._each(lambda tracker: tracker.log(row))

    def flush(self) -> None:
        self._each(lambda tracker: tracker.flush())

    def summary(self, scores: Row) -> None:
        self._each(lambda tracker: tracker.summary(scores))

    def finish(self, status: str) -> None:
        self._each(lambda tracker: tracker.finish(status))

    def _each(self, call: Callable[[Tracker], None]) -> None:
        for tracker in list(self.trackers):
            try:
                call(tracker)
            except Exception as error:
                self.trackers.remove(tracker)
                self._warn(type(tracker).__name__, error)

    def _warn(self, name: str, error: Exception) -> None:
        self.dropped.append(name)
        lines = str(error).splitlines() or [""]
        text = f"{name} failed and is left out of this run ({type(error).__name__}: {lines[0][:200]}); nothing is lost"
        try:
            warnings.warn(text, RuntimeWarning, stacklevel=5)
        except RuntimeWarning:  # warnings turned into errors: a mirror must not stop a run even then
            print(f"warning: {text}", flush=True)


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
