"""`slurm`: an sbatch array script over a plan."""

from __future__ import annotations

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
    words = [sys.executable, str(front_door), "worker", *asked(sys.argv[2:]), "--results", str(results.resolve())]
    write_script(output, prepared.plan, cluster, words, setup=[f"cd {front_door.parent}"])
    print(f"{len(prepared.runs)} runs in {cluster.tasks} shares; submit with: sbatch {output}")
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
