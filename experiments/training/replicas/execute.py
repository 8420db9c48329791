"""Several runs for the runner: jobs of one shape go in, each becomes a run directory like any other.

The first job is the one that the worker was given; the others ride along under leases of their own. Whatever goes
wrong with the group as such, the first is then trained alone, and the others are left to whoever planned them.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from experiments import records
from experiments.runner import lease
from experiments.training.execute import Job, begin, end, environment, execute, mirrors_of, now, told
from experiments.training.replicas.group import train_together
from experiments.training.replicas.sizes import fitting
from experiments.training.session import Session, Watchers, prepare
from experiments.training.train import Interrupted

Stop = Callable[[], bool]
Report = Callable[..., None]


@dataclass(frozen=True)
class GroupJob:
    """Runs that train together, the one that leads first. fit: on a GPU, only as many at once as its memory takes."""

    jobs: tuple[Job, ...]
    fit: bool = True


@dataclass(frozen=True)
class Member:
    """One run of a group: its job, and what it holds while it trains."""

    job: Job
    session: Session


def execute_group(
    group: GroupJob, *, device: str = "cpu", stop: Stop = lambda: False, report: Report = lambda **progress: None,
) -> None:
    """Trains the jobs together, those that nobody else trains or has trained; writes their directories.

    Raises:
        Interrupted: `stop` said so; every run goes on from its own checkpoint, alone or in another group.
        Exception: whatever the first job raises when it is trained alone.
    """
    leader = group.jobs[0]
    with contextlib.ExitStack() as leases:
        owned = {job.run_id: _lease(job, leases) for job in group.jobs[1:]}
        members = [job for job in group.jobs if job is leader or owned[job.run_id] is not None]
        try:
            _in_portions(members, group.fit, owned, device, stop, report)
        except Interrupted:
            raise
        except Exception as error:  # of the group as such, or of one of its runs: nobody must fail for another
            traceback.print_exc()
            print(f"not trained as a group of {len(members)} ({type(error).__name__}); one by one instead", flush=True)
    if not _has_result(leader):
        execute(leader, device=device, stop=stop, report=report)


def _in_portions(
    jobs: Sequence[Job], fit: bool, owned: dict[str, lease.Lease | None], device: str, stop: Stop, report: Report
) -> None:
    """As many at once as fit; half as many after each time that memory ran out."""
    config, most = begin(jobs[0]), len(jobs)
    if fit and device.startswith("cuda"):
        most = fitting(config, device, most)
    left = list(jobs)
    while len(left) > 1 and most > 1:
        portion = left[:most]
        try:
            _together(portion, owned, device, stop, report)
        except torch.OutOfMemoryError:
            most = len(portion) // 2
            print(f"{len(portion)} runs at once do not fit on {device}; at most {most} from here on", flush=True)
        if most < len(portion) and device.startswith("cuda"):
            torch.cuda.empty_cache()  # here and not above, where the error still holds every tensor of the step
        left = [job for job in left if not _has_result(job)]


def _together(
    jobs: Sequence[Job], owned: dict[str, lease.Lease | None], device: str, stop: Stop, report: Report
) -> None:
    started, members = now(), dict[Path, Member]()
    status = "failed"
    try:
        for job in jobs:
            members[Path(job.directory)] = _member(job, jobs[0], device)

        def ended(session: Session, outcome: dict[str, Any]) -> None:
            member = members.pop(session.directory)
            session.mirrors.finish(outcome["status"])
            end(member.job, outcome, {**environment(session.config, device), "replicas": session.replicas}, started)

        def lost(session: Session) -> bool:
            held = owned.get(members[session.directory].job.run_id)
            return held is not None and held.lost

        watchers = Watchers(
            on_progress=lambda moment: report(**told(moment)), should_stop=stop,
            checkpoint_seconds=jobs[0].checkpoint_seconds, checkpoint_steps=jobs[0].checkpoint_steps,
        )
        train_together([member.session for member in members.values()], watchers, ended, lost)
        status = "interrupted"  # what is left belongs to somebody else now
    except Interrupted:
        status = "interrupted"
        raise
    finally:
        for member in members.values():
            member.session.mirrors.finish(status)


def _member(job: Job, leader: Job, device: str) -> Member:
    config, mirrors = begin(job), mirrors_of(job)
    directory = Path(job.directory)
    if job is not leader:
        with open(directory / records.LOG, "a") as log:
            log.write(f"--- {now()} trains in the group of {leader.run_id}, whose log has the rest\n")
    try:
        return Member(job, prepare(config, directory, job.hash, device, Watchers(mirrors=mirrors, layers=job.layers)))
    except BaseException:
        mirrors.finish("failed")
        raise


def _lease(job: Job, leases: contextlib.ExitStack) -> lease.Lease | None:
    """The run's lease; None when another owner trains it, or has."""
    directory = Path(job.directory)
    directory.mkdir(parents=True, exist_ok=True)
    held = lease.acquire(directory)
    if held is None:
        return None
    leases.callback(held.release)
    held.keep()
    return None if _has_result(job) else held


def _has_result(job: Job) -> bool:
    found = records.read_run(Path(job.directory)).result
    return found is not None and found.get("hash") == job.hash
