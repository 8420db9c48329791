"""A launcher on a local Ray cluster: four variants, three of which go wrong, or many steps to be interrupted.

`python -m tests.experiments.runner_ray_launch RESULTS [STEPS]`
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from experiments.runner import engine, plan
from experiments.runner.ray_engine import RayEngine
from tests.experiments.runner_jobs import FakeJob
from tests.experiments.runner_kit import TARGET, jobs, make_runs
from tests.experiments.runner_launch import say

WRONG = {"v0": "raise", "v1": "kill", "v2": "memory", "v3": ""}


def main(results: Path, steps: int) -> int:
    """With a number of steps nothing goes wrong."""
    plain = jobs(results, steps=steps or 5, step_seconds=0.02 if steps else 0.0)

    def job(planned: plan.Planned) -> FakeJob:
        return replace(plain(planned), behaviour="" if steps else WRONG[planned.wanted.variant])

    ray = RayEngine(target=TARGET, workers=2)
    planned = plan.plan("x", make_runs(4, 1), results)
    return engine.run(planned, ray, engine.Options(job, target=TARGET), say).exit_code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
