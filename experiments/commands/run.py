"""`run`: trains what is missing. Running the same command again is how to resume."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.commands.choices import Launch, check_launch, engine_maker, grouping
from experiments.commands.launch import Prepared, headline, prepare, repeat_command
from experiments.commands.progress import Show
from experiments.commands.tune import tune
from experiments.config import ConfigError
from experiments.files import Declared
from experiments.runner.engine import Engine, Options, run
from experiments.runner.events import Outcome
from experiments.runner.plan import ENDED, Plan, Planned, matching
from experiments.runner.slurm import shard
from experiments.runner.store import write
from experiments.tuning.protocols import PROTOCOLS, Stage
from experiments.tuning.request import Request
from transformer.registry import unknown


def command(declared: Declared, launch: Launch, *, hint: bool = True) -> int:
    """Runs an experiment and says how it went, with a hint at the next command; returns the exit code."""
    outcome, prepared = launch_experiment(declared, launch)
    _say(outcome, prepared, launch)
    if hint and not launch.as_json and not outcome.signalled:
        where = "" if str(launch.results) == "results" else f" --results {shlex.quote(str(launch.results))}"
        print(f"next: python run_all.py report {prepared.plan.experiment}{where}")
    return outcome.exit_code


def launch_experiment(declared: Declared, launch: Launch) -> tuple[Outcome, Prepared]:
    """Checks, plans, records what is asked, and trains what is missing, as the experiment's protocol says.

    Raises:
        ConfigError: before anything is written or trained.
    """
    from experiments.tuning.calibration import calibrated

    check_launch(launch)
    engine_of = engine_maker(launch, declared.imports)
    declared = calibrated(declared, launch.results)
    experiment = declared.experiment
    launched: list[Prepared] = []

    def once() -> Outcome:
        again = replace(launch, redo=False) if launched else launch  # what was trained in an earlier round stays
        launched.append(prepare(declared, launch.results, verify=True))
        return _launch_once(launched[-1], again, engine_of)

    stage = Stage(experiment, launch.results, once, lambda request: _tune(declared, launch, request))
    outcome = PROTOCOLS.build(experiment.protocol).carry_out(stage)
    return outcome, launched[-1] if launched else prepare(declared, launch.results)


def _tune(declared: Declared, launch: Launch, request: Request) -> Outcome:
    return tune(declared, launch, request)[0]


def _launch_once(prepared: Prepared, launch: Launch, engine_of: Callable[[str], Engine]) -> Outcome:
    chosen = _chosen(prepared.plan, launch)
    console = Console(stderr=launch.as_json, highlight=False, markup=False)
    _announce(console, prepared)
    options = Options(
        job=job_maker(prepared, launch), retry_failed=launch.retry_failed, redo_damaged=launch.redo_damaged,
        redo=frozenset(p.id for p in chosen.runs) if launch.redo else frozenset(), max_failures=launch.max_failures,
        time_limit=launch.time_limit, repeat=repeat_command(prepared.declared, launch.results),
        groups=grouping(launch),
    )
    wanted = [planned for planned in chosen.runs if options.wants(planned)]
    write(launch.results, prepared.content)
    if not wanted:
        left = tuple(p.id for p in chosen.runs if p.state not in ENDED)
        return Outcome(left=left)
    engine = engine_of(options.target)
    with Show(len(wanted), engine.free, quiet=launch.quiet, as_json=launch.as_json) as on_event:
        return run(chosen, engine, options, on_event)


def job_maker(prepared: Prepared, launch: Launch) -> Callable[[Planned], Any]:
    """What a worker is given for a planned run."""
    from experiments.training.execute import Job

    tags = tuple(prepared.declared.experiment.tags)

    def make(planned: Planned) -> Job:
        run = planned.wanted.run
        assert run is not None
        return Job.of(
            run, launch.results.absolute(), wandb=launch.wandb, tags=tags, imports=prepared.declared.imports,
            layers=launch.layers,
        )

    return make


def _chosen(plan: Plan, launch: Launch) -> Plan:
    if launch.shard is not None:
        plan = plan.shard(*shard(launch.shard))
    if not launch.only:
        return plan
    runs = tuple(matching(plan, launch.only))
    known = {name for p in plan.runs for name in (p.id, p.wanted.variant)}
    missing = [name for name in launch.only if name not in known]
    if missing:
        raise ConfigError([("--only", unknown("run or variant", name, known)) for name in missing])
    return Plan(plan.experiment, plan.results, runs, plan.left_over)


def _announce(console: Console, prepared: Prepared) -> None:
    console.print(headline(prepared), markup=False, soft_wrap=True)
    for line in prepared.changed:
        console.print(f"  changed since the last launch: {line}", markup=False, soft_wrap=True)


def _say(outcome: Outcome, prepared: Prepared, launch: Launch) -> None:
    name, results = prepared.plan.experiment, launch.results
    if launch.as_json:
        print(json.dumps(_answer(outcome, name, results), indent=1))
        return
    console = Console(highlight=False, markup=False)
    ended = [*outcome.done, *outcome.diverged, *outcome.reused, *outcome.elsewhere]
    if not ended and outcome.exit_code == 0:
        console.print(f"{name}: nothing to do, every run has a result", markup=False)
    else:
        parts = {
            "done": outcome.done, "diverged": outcome.diverged, "reused": outcome.reused, "failed": outcome.failed,
            "trained by another launcher": outcome.elsewhere, "interrupted": outcome.interrupted,
            "not started": outcome.not_started, "failed or damaged earlier": outcome.left,
        }
        words = ", ".join(f"{len(ids)} {word}" for word, ids in parts.items() if ids)
        console.print(f"{name}: {words}", markup=False)
    if outcome.problem:
        console.print(f"stopped: {outcome.problem}", markup=False, soft_wrap=True)
    again = repeat_command(prepared.declared, results)
    for run_id in outcome.failed:
        line = f"  failed {run_id}; repeat it with: {again.replace('{run}', run_id)}"
        console.print(line, markup=False, soft_wrap=True)
    if outcome.signalled or outcome.problem or outcome.not_started:
        console.print(f"resume with: {again.split(' --only')[0]}", markup=False, soft_wrap=True)
    if outcome.left:
        console.print("try earlier failures again with --retry-failed, damaged runs with --redo-damaged")


def _answer(outcome: Outcome, name: str, results: Path) -> dict[str, Any]:
    from dataclasses import asdict

    return {"experiment": name, "results": str(results / name), "exit_code": outcome.exit_code, **asdict(outcome)}
