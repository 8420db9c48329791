"""`slurm`: an sbatch array script over a plan."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from experiments.commands.launch import prepare
from experiments.files import Declared
from experiments.runner.slurm import Cluster, write_script

OWN = ("--output", "--tasks", "--at-once", "--hours", "--memory-gb", "--gpus", "--partition", "--account", "--results")


def command(declared: Declared, results: Path, output: Path, cluster: Cluster) -> int:
    """Writes the script and says how to submit it."""
    prepared = prepare(declared, results)
    front_door = Path(sys.argv[0]).resolve()
    typed = sys.argv[sys.argv.index("slurm") + 1 :]
    words = [sys.executable, str(front_door), "worker", *asked(typed), "--results", str(results.resolve())]
    # where it was typed, since the experiment's file and its data may be named from there
    write_script(output, prepared.plan, cluster, words, setup=[f"cd {shlex.quote(str(Path.cwd()))}"])
    print(f"{len(prepared.runs)} runs in {cluster.tasks} shares; submit with: sbatch {shlex.quote(str(output))}")
    return 0


def asked(words: list[str]) -> list[str]:
    """The words that describe the experiment, without those that describe the cluster."""
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.split("=")[0] in OWN:
            skip = "=" not in word
        else:
            kept.append(word)
    return kept
