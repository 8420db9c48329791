"""What a run leaves on disk and how it is read back. Standard library only; never raises on a damaged file.

    results/<experiment>/experiment.json                 what was asked: variants, seeds, metric, planned run ids
    results/<experiment>/runs/<run id>/config.json       what the run is (written first)
                                       metrics.jsonl     one line per logged step, append only
                                       result.json       written last, by atomic rename: it exists = the run has ended
                                       failure.json      why the last attempt ended without a result
                                       checkpoint.pt, weights.safetensors, log.txt, lease.json
                                       inside.json       what is inside the trained model, when somebody looked
                                       inside.jsonl      sizes by layer at each validation, when asked for (--record)
    results/<experiment>/report/                         tables and figures
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

SCHEMA = 1
EXPERIMENT, CONFIG, METRICS, RESULT = "experiment.json", "config.json", "metrics.jsonl", "result.json"
FAILURE, LEASE, LOG = "failure.json", "lease.json", "log.txt"
CHECKPOINT, WEIGHTS, INSIDE, BY_STEP = "checkpoint.pt", "weights.safetensors", "inside.json", "inside.jsonl"


class Damaged(ValueError):
    """A file that is there but cannot be trusted; the message names the file and what is wrong."""


@dataclass(frozen=True)
class Stored:
    """One run directory as found.

    Attributes:
        directory: where it lies.
        config: content of config.json, or None.
        result: content of result.json when it is whole and belongs to this config, else None.
        failure: content of failure.json, or None.
        damage: one sentence for each file that is torn, altered or contradicts another.
    """

    directory: Path
    config: dict[str, Any] | None
    result: dict[str, Any] | None
    failure: dict[str, Any] | None
    damage: tuple[str, ...]


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Writes JSON so that a reader sees the old file or the new one, never half of one. Adds a `sha256` seal.

    Raises:
        OSError: the disk is full or the folder cannot be written; the old file is untouched.
    """
    sealed = {**content, "sha256": seal(content)}
    write_bytes(path, (json.dumps(sealed, indent=1, ensure_ascii=False, allow_nan=True) + "\n").encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Atomic replacement of a file: temporary neighbour, flush to disk, rename."""
    with replacing(path) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """What is written to the file given takes the place of `path` as one, or not at all when something is raised."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any]:
    """The content of a file that `write_json` wrote, without its seal.

    Raises:
        FileNotFoundError: there is no such file.
        Damaged: it is torn, not JSON, or was altered since.
    """
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise Damaged(f"{path}: unreadable ({type(error).__name__}: {str(error)[:80]})") from None
    if not isinstance(content, dict) or content.pop("sha256", None) != seal(content):
        raise Damaged(f"{path}: its content does not match its checksum")
    return content


def seal(content: dict[str, Any]) -> str:
    """sha256 of the content in canonical form."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """sha256 (hex) of a file's bytes; of nothing when there is no such file."""
    return hashlib.sha256(path.read_bytes() if path.exists() else b"").hexdigest()


def read_metrics(directory: Path, name: str = METRICS) -> list[dict[str, Any]]:
    """Every whole line of metrics.jsonl (or of inside.jsonl); a torn last line (a run that was killed) is left out."""
    rows: list[dict[str, Any]] = []
    try:
        lines = (directory / name).read_bytes().split(b"\n")
    except OSError:
        return rows
    for line in lines:
        with contextlib.suppress(ValueError):
            row = json.loads(line) if line else None
            if isinstance(row, dict):
                rows.append(row)
    return rows


def read_run(directory: Path, *, verify_metrics: bool = False) -> Stored:
    """Everything known of a run directory. With `verify_metrics`, metrics.jsonl must match the result's checksum."""
    damage: list[str] = []

    def read(name: str) -> dict[str, Any] | None:
        try:
            return read_json(directory / name)
        except FileNotFoundError:
            return None
        except Damaged as error:
            damage.append(str(error))
            return None

    config, result, failure = read(CONFIG), read(RESULT), read(FAILURE)
    if result is not None:
        problem = _mismatch(directory, config, result, verify_metrics)
        if problem:
            damage.append(problem)
            result = None
    return Stored(directory, config, result, failure, tuple(damage))


def _mismatch(
    directory: Path, config: dict[str, Any] | None, result: dict[str, Any], verify_metrics: bool
) -> str | None:
    if config is None:
        return f"{directory / CONFIG}: missing, so {RESULT} belongs to nothing known"
    if result.get("hash") != config.get("hash"):
        return f"{directory / RESULT}: belongs to another configuration than {CONFIG}"
    if verify_metrics and result.get("metrics_sha256") != file_digest(directory / METRICS):
        return f"{directory / METRICS}: does not match the checksum in {RESULT}"
    return None


def run_directory(results: Path, experiment: str, run_id: str) -> Path:
    """Where a run's files lie."""
    return results / experiment / "runs" / run_id


def run_directories(results: Path, experiment: str) -> Iterator[Path]:
    """Every run directory of an experiment, sorted by name."""
    folder = results / experiment / "runs"
    if folder.is_dir():
        yield from sorted(Path(entry.path) for entry in os.scandir(folder) if os.path.isdir(entry.path))


def experiments(results: Path) -> list[str]:
    """Names of the experiments that have anything under `results`."""
    if not results.is_dir():
        return []
    return sorted(e.name for e in os.scandir(results) if os.path.exists(os.path.join(e.path, EXPERIMENT)))
