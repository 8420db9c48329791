"""Twelve runs (four learning rates, three seeds) as one would do them without the suite; a process for each way.

    python -m benchmarks.contestants sequential|one_thread|optuna|ray --steps 150 --width 64

All train the suite's own model on its own batches with the same optimiser, schedule, clipping and evaluation, so that
only the way of running them differs. None writes, resumes, logs or checks anything.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

LRS, SEEDS = (1e-3, 3e-3, 1e-2, 3e-2), (0, 1, 2)
GRID = [(lr, seed) for lr in LRS for seed in SEEDS]


def train(lr: float, seed: int, steps: int, width: int = 64) -> dict[str, float]:
    """One run: the plainest loop."""
    from torch import nn

    from experiments.check import build_task, model_arguments
    from experiments.config import RunConfig
    from experiments.training.evaluate import evaluate
    from experiments.training.forward import logits_of
    from experiments.training.loss import summed_loss
    from experiments.training.optimisers import adamw, set_rate
    from experiments.training.schedules import SCHEDULES, Horizon
    from transformer.models import build

    config = RunConfig().replace({"train.lr": lr, "train.steps": steps, "model.d_model": width, "seed": seed})
    task = build_task(config.task)
    model = build(config.model, seed=seed, **model_arguments(task)).train()
    optimiser = adamw(model, config.train)
    schedule = SCHEDULES.build(config.train.schedule, Horizon(lr, config.train.warmup_steps(), steps, width))
    for step in range(steps):
        batch = task.train_batch(seed, step, config.train.batch_size)
        loss = summed_loss(logits_of(model, batch), batch.targets) / batch.targets.numel()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        set_rate(optimiser, schedule.lr(step + 1))
        optimiser.step()
        if (step + 1) % config.train.eval_every == 0 or step + 1 == steps:
            scores = evaluate(model, task.evaluations("validation", seed), "validation")
    return scores | evaluate(model, task.evaluations("test", seed), "test")


def sequential(steps: int, width: int) -> list[float]:
    """One after another in one process, with torch's default threads."""
    return [train(lr, seed, steps, width)["test/loss"] for lr, seed in GRID]


def one_thread(steps: int, width: int) -> list[float]:
    """The same with one thread: on a busy machine two threads that wait for each other are slower than one."""
    import torch

    torch.set_num_threads(1)
    return sequential(steps, width)


def optuna(steps: int, width: int) -> list[float]:
    """A grid study with n_jobs=2: two Python threads."""
    import optuna

    from experiments.check import run_problems
    from experiments.config import RunConfig

    assert not run_problems(RunConfig())  # loads what is loaded once before two threads ask for it
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.GridSampler({"lr": list(LRS), "seed": list(SEEDS)}, seed=0))

    def objective(trial: Any) -> float:
        lr, seed = trial.suggest_categorical("lr", list(LRS)), trial.suggest_categorical("seed", list(SEEDS))
        return train(lr, seed, steps, width)["test/loss"]

    study.optimize(objective, n_trials=len(GRID), n_jobs=2)
    return [trial.value for trial in study.trials]


def ray(steps: int, width: int) -> list[float]:
    """Ray Tune's grid search, one CPU a trial."""
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    import ray as cluster
    from ray import tune

    cluster.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
                 runtime_env={"env_vars": {"PYTHONPATH": os.getcwd()}})

    def trial(config: dict[str, Any]) -> None:
        tune.report({"loss": train(config["lr"], config["seed"], steps, width)["test/loss"]})

    space = {"lr": tune.grid_search(list(LRS)), "seed": tune.grid_search(list(SEEDS))}
    found = tune.Tuner(
        tune.with_resources(trial, {"cpu": 1}), param_space=space,
        run_config=tune.RunConfig(verbose=0, storage_path=os.environ["BENCHMARK_SCRATCH"]),
    ).fit()
    return [one.metrics["loss"] for one in found]


WAYS = {"sequential": sequential, "one_thread": one_thread, "optuna": optuna, "ray": ray}


def main() -> int:
    """Runs one way and prints its best loss."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--width", type=int, default=64)
    asked = parser.parse_args()
    losses = WAYS[asked.way](asked.steps, asked.width)
    assert len(losses) == len(GRID), f"{len(losses)} of {len(GRID)} runs ended"
    print(min(losses))
    return 0


if __name__ == "__main__":
    sys.exit(main())
