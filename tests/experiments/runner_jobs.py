"""Jobs that stand in for training: fast, deterministic, with checkpoints; some go wrong on purpose.

Light on purpose: every worker imports this module when it starts.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.records import CHECKPOINT, CONFIG, METRICS, RESULT, file_digest, write_bytes, write_json


class Interrupted(Exception):
    """Raised by a job that was asked to stop and has written its checkpoint."""


@dataclass(frozen=True)
class FakeJob:
    """`behaviour` says what goes wrong: nothing, raise, memory, kill, segfault, exit, stubborn, full, diverge."""

    directory: str
    run_id: str
    experiment: str
    variant: str
    seed: int
    hash: str
    identity: dict[str, Any]
    steps: int = 5
    step_seconds: float = 0.0
    behaviour: str = ""


def number(hash_: str, step: int) -> float:
    """The loss of a run after a step: any deterministic function of its identity."""
    return int(hashlib.sha256(f"{hash_}/{step}".encode()).hexdigest()[:8], 16) / 2**32


def execute(job: FakeJob, *, device: str, stop: Any, report: Any) -> None:
    """Walks through the steps, with a checkpoint after each; writes what training writes."""
    directory = Path(job.directory)
    names = {"run_id": job.run_id, "experiment": job.experiment, "variant": job.variant, "seed": job.seed}
    write_json(directory / CONFIG, {"schema": 1, **names, "hash": job.hash, "changes": {}, "identity": job.identity})
    rows = _resume(directory)
    print("started at step", len(rows))
    for step in range(len(rows) + 1, job.steps + 1):
        _misbehave(job, step)
        time.sleep(job.step_seconds)
        rows.append({"step": step, "seconds": 0.0, "train/loss": number(job.hash, step)})
        write_bytes(directory / CHECKPOINT, json.dumps(rows).encode())
        report(step=step, steps=job.steps, loss=rows[-1]["train/loss"])
        if stop() and job.behaviour != "stubborn":
            raise Interrupted
    write_bytes(directory / METRICS, b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    write_json(directory / RESULT, {
        "schema": 1, **names, "hash": job.hash, "status": "diverged" if job.behaviour == "diverge" else "done",
        "metrics": {"test/loss": number(job.hash, job.steps)}, "environment": {"device": device},
        "metrics_sha256": file_digest(directory / METRICS),
    })
    with open(directory / "completions", "a") as file:
        file.write("x")


def _resume(directory: Path) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = json.loads((directory / CHECKPOINT).read_bytes())
        return rows
    except (OSError, ValueError):
        return []


def _misbehave(job: FakeJob, step: int) -> None:
    first_time = Path(job.directory, "misbehaved")
    match job.behaviour:
        case "raise":
            raise ValueError("d_model is odd")
        case "memory":
            raise MemoryError
        case "cuda memory":
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "kill once" if not first_time.exists():
            first_time.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "stubborn":
            time.sleep(3600)
        case "full":
            raise OSError(28, "No space left on device", str(Path(job.directory, CHECKPOINT)))
        case "read-only":
            raise OSError(30, "Read-only file system", str(Path(job.directory, CHECKPOINT)))
