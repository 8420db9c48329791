"""From an experiment in memory to its runs, through the normal runner, and from there back to a command line."""

from __future__ import annotations

from pathlib import Path

import yaml

from experiments.claims.sequence import Train
from experiments.commands.choices import Launch
from experiments.commands.run import launch_experiment
from experiments.experiment import Experiment
from experiments.files import Declared
from experiments.records import write_bytes
from experiments.runner.events import Outcome

DECLARATION = "experiment.yaml"


def trainer(launch: Launch, imports: tuple[str, ...] = ()) -> Train:
    """What trains an experiment's missing runs as `run` would."""

    def train(experiment: Experiment) -> Outcome:
        source = declare(experiment, launch.results)
        outcome, _ = launch_experiment(Declared(experiment, str(source), imports), launch)
        return outcome

    return train


def declare(experiment: Experiment, results: Path) -> Path:
    """Writes the experiment as a file that `run`, `plan` and `status` take, so that any one run can be repeated."""
    path = results / experiment.name / DECLARATION
    path.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(experiment.to_dict(), sort_keys=False, allow_unicode=True, width=120)
    write_bytes(path, text.encode())
    return path
