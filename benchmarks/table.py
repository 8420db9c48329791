"""What a benchmark found: a table with a sentence, as Markdown. Times in ms or s, ratios without a unit."""

from __future__ import annotations

import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("torch", "numpy", "x-transformers", "transformers", "optuna", "ray")

# what getrusage knows of a child includes its parent before exec, so the child reads its own peak
WATCHED = """
import atexit, runpy, sys
atexit.register(lambda: print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))))
sys.argv, module = sys.argv[1:], sys.argv[1] == "-m"
sys.argv, name = (sys.argv[1:], sys.argv[1]) if module else (sys.argv, sys.argv[0])
sys.path.insert(0, ".")
runpy.run_module(name, run_name="__main__", alter_sys=True) if module else runpy.run_path(name, run_name="__main__")
"""


@dataclass(frozen=True)
class Table:
    """One question and its answer.

    Attributes:
        title, says: what was measured, and how.
        header, rows: the numbers, as text.
        notes: what was not measured, and why; other remarks.
    """

    title: str
    says: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default_factory=tuple)

    def markdown(self) -> str:
        """A section of RESULTS.md."""
        lines = [f"## {self.title}", "", self.says, ""]
        if self.rows:
            lines += [_row(self.header), _row(["---"] * len(self.header)), *map(_row, self.rows), ""]
        lines += [f"- {note}" for note in self.notes]
        return "\n".join(lines).rstrip() + "\n"


def machine() -> str:
    """Where, with what and when: a paragraph."""
    versions = ", ".join(f"{name} {found}" for name in PACKAGES if (found := _version(name)))
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{_processor()}, {os.cpu_count()} cores, {_device()}; Python {platform.python_version()}; "
        f"{versions}; commit {_commit()}; {time.strftime('%Y-%m-%d %H:%M')}; load average at the start {load}."
    )


@dataclass(frozen=True)
class Ran:
    """A process that has ended: wall and processor seconds (its children's included), peak resident bytes."""

    seconds: float
    processor: float
    peak: int


def in_process(*arguments: str, results: Path | None = None) -> Ran:
    """Runs `python ARGUMENTS` from the repository's root.

    Args:
        arguments: a script, or `-m` and a module, and what they are given.

    Raises:
        RuntimeError: it failed; with the end of what it printed.
    """
    command = [sys.executable, "-c", WATCHED, *arguments, *(["--results", str(results)] if results else [])]
    began, before = time.perf_counter(), _processor_seconds()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    seconds = time.perf_counter() - began
    peak = re.findall(r"VmHWM:\s+(\d+) kB", done.stdout)
    if done.returncode or not peak:
        raise RuntimeError(f"{' '.join(arguments)} failed with {done.returncode}: {done.stdout[-2000:]}")
    return Ran(seconds, _processor_seconds() - before, int(peak[-1]) * 1024)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _device() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "no CUDA device"
