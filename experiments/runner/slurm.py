"""For a Slurm cluster without Ray: an sbatch array script over the plan, and the share of one array task."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.config import ConfigError
from experiments.records import write_bytes
from experiments.runner.plan import Plan
from transformer.registry import shown

LONGEST_HOURS, MOST_GB = 24 * 365, 1_000_000  # beyond these a number is a slip
FIRST_LINE = "#!/bin/bash"


@dataclass(frozen=True)
class Cluster:
    """What a script asks Slurm for.

    Attributes:
        tasks: array tasks; each works through every `tasks`-th run of the plan.
        at_once: array tasks that may run at a time; None = all.
        hours: wall-clock limit of one array task. cpus, memory_gb: for one array task, which trains one run at a time.
        gpus: GPUs of one array task, 0 or 1.
        partition, account: as the cluster calls them, or None.
        extra: further lines, without `#SBATCH`.
    """

    tasks: int
    at_once: int | None = None
    hours: float = 4.0
    cpus: int = 1
    memory_gb: int = 4
    gpus: int = 0
    partition: str | None = None
    account: str | None = None
    extra: tuple[str, ...] = ()


def script(plan: Plan, cluster: Cluster, command: Sequence[str], *, setup: Sequence[str] = ()) -> str:
    """The sbatch script.

    Args:
        plan: what is wanted; runs that are done by the time a task looks at them are skipped.
        cluster: what to ask for.
        command: the command line of one share, without `--shard`, such as
            `["/venv/bin/python", "/repo/run_all.py", "worker", "length", "--results", "/shared/results"]`.
        setup: shell lines to run before it, such as `module load python`.

    Raises:
        ConfigError: fewer than one task, more tasks than runs, a limit that cannot be meant, or a text that would break
            out of its line of the script.
    """
    _check(plan, cluster)
    logs = (plan.results.absolute() / plan.experiment / "slurm").as_posix()
    at_once = f"%{cluster.at_once}" if cluster.at_once else ""
    asked = [
        f"--job-name={re.sub(r'[^A-Za-z0-9._-]', '_', plan.experiment)}",
        f"--array=0-{cluster.tasks - 1}{at_once}",
        f"--time={max(1, round(cluster.hours * 60))}",
        f"--cpus-per-task={cluster.cpus}",
        f"--mem={cluster.memory_gb}G",
        f"--output={shlex.quote(logs.replace('%', '%%') + '/%A_%a.txt')}",
        "--open-mode=append",
        "--requeue",
        "--signal=B:TERM@60",
        *([f"--gres=gpu:{cluster.gpus}"] if cluster.gpus else []),
        *([f"--partition={cluster.partition}"] if cluster.partition else []),
        *([f"--account={cluster.account}"] if cluster.account else []),
        *cluster.extra,
    ]
    lines = [
        FIRST_LINE,
        *(f"#SBATCH {line}" for line in asked),
        f"# {len(plan.runs)} runs of '{plan.experiment}' in {cluster.tasks} shares. Submit it again to resume: only",
        "# what is missing runs. Slurm sends TERM a minute before the end; the run then writes its checkpoint.",
        "set -eu",
        *setup,
        f'exec {shlex.join(command)} --shard "$SLURM_ARRAY_TASK_ID/{cluster.tasks}"',
    ]
    return "\n".join(lines) + "\n"


def write_script(
    path: Path, plan: Plan, cluster: Cluster, command: Sequence[str], *, setup: Sequence[str] = ()
) -> Path:
    """Writes the script of `script`, and makes the folder that its output goes to; returns the path.

    Raises:
        ConfigError: see `script`; or the path is a folder, or a file that no earlier call wrote.
        OSError: a folder cannot be written.
    """
    text = script(plan, cluster, command, setup=setup)
    _check_place(path)
    (plan.results / plan.experiment / "slurm").mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, text.encode())
    path.chmod(0o755)
    return path


def shard(text: str) -> tuple[int, int]:
    """`3/16` as (3, 16): share 3, counted from 0, of 16.

    Raises:
        ConfigError: it is not two whole numbers with 0 <= share < shares.
    """
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    index, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if index >= count:
        raise ConfigError([("--shard", f"'{text}' must be SHARE/SHARES with 0 <= SHARE < SHARES, such as 0/16")])
    return index, count


def _check_place(path: Path) -> None:
    """A slip of the pen must not cost a file, such as the experiment's own."""
    if path.is_dir():
        raise ConfigError([("--output", f"'{path}' is a folder; name a file, such as {path / 'ablation.sbatch'}")])
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if not path.read_bytes().startswith(f"{FIRST_LINE}\n#SBATCH ".encode()):
            raise ConfigError([("--output", f"'{path}' is there and is no sbatch script; name another file")])


def _check(plan: Plan, cluster: Cluster) -> None:
    limits = (
        ("--hours", cluster.hours, LONGEST_HOURS), ("--cpus", cluster.cpus, 10_000),
        ("--memory-gb", cluster.memory_gb, MOST_GB),
    )
    problems = [(n, f"{v:g} must be more than 0 and at most {most:g}") for n, v, most in limits if not 0 < v <= most]
    names = (("--partition", cluster.partition), ("--account", cluster.account))
    problems += [
        (option, f"{shown(name)} must be a name as the cluster knows it, without spaces and quotes")
        for option, name in names if name is not None and not re.fullmatch(r"[\w.,@:+-]+", name)
    ]
    if not str(plan.results.absolute()).isprintable():
        problems.append(("--results", f"{shown(str(plan.results))} must be one line of printable characters"))
    most = max(1, len(plan.runs))
    if not 1 <= cluster.tasks <= most:
        problems.append(("--tasks", f"{cluster.tasks} must be between 1 and {most}, the number of runs"))
    if cluster.gpus not in (0, 1):
        problems.append(("--gpus", f"{cluster.gpus} must be 0 or 1: an array task trains one run at a time"))
    if cluster.at_once is not None and cluster.at_once < 1:
        problems.append(("--at-once", f"{cluster.at_once} must be at least 1"))
    if problems:
        raise ConfigError(problems)
