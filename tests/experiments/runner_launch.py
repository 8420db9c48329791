"""A launcher with fake jobs in a process of its own, so that tests can kill it. Prints one line per event."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.runner import plan
from experiments.runner.events import Event
from tests.experiments.runner_kit import launch, make_runs


def main() -> int:
    """`python -m tests.experiments.runner_launch RESULTS --variants 4 --seeds 3 --step-seconds 0.05`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=Path)
    parser.add_argument("--variants", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--step-seconds", type=float, default=0.0)
    parser.add_argument("--behaviour", default="")
    parser.add_argument("--time-limit", type=float)
    parser.add_argument("--shard")
    parser.add_argument("--torch", type=int, default=0, help="1 = torch is in use here, so that workers are forks")
    asked = parser.parse_args()
    if asked.torch:
        use_torch()
    runs = make_runs(asked.variants, asked.seeds)
    if asked.shard:
        index, count = (int(part) for part in asked.shard.split("/"))
        runs = runs[index::count]
    outcome = launch(
        asked.results, runs, workers=asked.workers, on_event=say, time_limit=asked.time_limit,
        job={"steps": asked.steps, "step_seconds": asked.step_seconds, "behaviour": asked.behaviour},
    )
    print("outcome", outcome.exit_code, len(outcome.done), outcome.problem, flush=True)
    print(plan.plan("x", runs, asked.results).counts(), flush=True)
    return outcome.exit_code


def use_torch() -> None:
    """Threads of torch, and a backward pass, as a launcher that has rehearsed something leaves them behind."""
    import torch

    torch.set_num_threads(2)
    weights = torch.ones(300, 300, requires_grad=True)
    (weights @ weights).sum().backward()


def say(event: Event) -> None:
    """One line: kind, run id, error."""
    print(event.kind, event.run_id, event.error.splitlines()[0] if event.error else "", flush=True)


if __name__ == "__main__":
    sys.exit(main())
