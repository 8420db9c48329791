"""A launcher that really trains: 12 tiny runs. `python -m tests.experiments.runner_training RESULTS`."""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.config import RunConfig, TrainConfig
from experiments.experiment import Experiment
from experiments.runner import engine, plan
from experiments.runner.local import LocalEngine
from experiments.runner.options import TARGET, Options, training_jobs
from tests.experiments.runner_launch import say
from transformer.config import ModelConfig
from transformer.spec import Spec

EXPERIMENT = Experiment(
    name="tiny", question="Does the runner lose anything?", seeds=3,
    baseline=RunConfig(
        model=ModelConfig(d_model=16, n_layers=1, n_heads=2, dropout=0.1), task=Spec("copy"),
        train=TrainConfig(steps=60, batch_size=8, eval_every=20),
    ),
    vary={"model.positional": ["none", "rope", "alibi"]},
)


def main(results: Path) -> int:
    """Runs what is missing with two workers."""
    planned = plan.plan("tiny", EXPERIMENT.runs(), results)
    options = Options(training_jobs(results, checkpoint_steps=10))
    return engine.run(planned, LocalEngine(["cpu"] * 2, target=TARGET), options, say).exit_code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
