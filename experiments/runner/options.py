"""What a person may choose about a launch, and what its workers are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.runner.plan import FAILED, TO_RUN, Planned, State
from experiments.runner.riders import Groups

TARGET = "experiments.training.execute:execute"


@dataclass(frozen=True)
class Options:
    """What a person may choose about a launch; none of it can change a number.

    Attributes:
        job: makes what `target` is called with from a run, see `Task`.
        target: `module:function` that trains one run; must be the engine's.
        retry_failed: try runs again that failed in an earlier launch.
        redo: run ids to train again from nothing, whatever is stored. redo_damaged: likewise every damaged run.
        max_failures: stop after this many failures; 1 = at the first; None = never.
        time_limit: seconds for one attempt at one run; None = no limit.
        repeat: the command that repeats one run, with `{run}` where its id belongs.
        groups: which runs train together in one worker; None = each by itself.
    """

    job: Callable[[Planned], Any]
    target: str = TARGET
    retry_failed: bool = False
    redo: frozenset[str] = frozenset()
    redo_damaged: bool = False
    max_failures: int | None = None
    time_limit: float | None = None
    repeat: str = ""
    groups: Groups | None = None

    def wants(self, planned: Planned) -> bool:
        """Whether this launch trains the run."""
        if planned.id in self.redo or planned.state in TO_RUN:
            return True
        return (self.retry_failed and planned.state in FAILED) or (self.redo_damaged and self.redoes(planned))

    def redoes(self, planned: Planned) -> bool:
        """Whether what is stored of the run is removed first."""
        return planned.id in self.redo or planned.state is State.DAMAGED


def training_jobs(results: Path, **settings: Any) -> Callable[[Planned], Any]:
    """What `Options.job` is for real training: `settings` are fields of `experiments.training.execute.Job`, such as
    wandb, tags, imports, threads, checkpoint_seconds."""
    from experiments.training.execute import Job

    def job(planned: Planned) -> Job:
        assert planned.wanted.run is not None
        return Job.of(planned.wanted.run, results.absolute(), **settings)

    return job
