"""Plans and launches imaginary experiments with fake jobs, for the tests of the runner."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from experiments.config import RunConfig, digest
from experiments.experiment import Run
from experiments.records import read_run, run_directory
from experiments.runner import engine, plan
from experiments.runner.events import Event, Outcome
from experiments.runner.local import LocalEngine
from tests.experiments.runner_jobs import FakeJob, number

TARGET = "tests.experiments.runner_jobs:execute"


def make_runs(variants: int, seeds: int, *, experiment: str = "x", version: int = 1) -> list[Run]:
    """Runs of an imaginary experiment; another `version` means another identity under the same names."""
    runs = []
    for seed in range(seeds):
        for variant in range(variants):
            identity = {"variant": variant, "version": version, "seed": seed}
            runs.append(Run(experiment, f"v{variant}", {}, RunConfig(seed=seed), identity, digest(identity)))
    return runs


def jobs(results: Path, experiment: str = "x", *, only: str = "", **settings: Any) -> Callable[[plan.Planned], FakeJob]:
    """What `Options.job` is in tests; `behaviour` concerns the variant `only`, or all when it is empty."""

    def job(planned: plan.Planned) -> FakeJob:
        wanted, directory = planned.wanted, run_directory(results.absolute(), experiment, planned.id)
        own = dict(settings)
        if only not in ("", wanted.variant):
            own.pop("behaviour", None)
        identity = dict(wanted.run.identity) if wanted.run is not None else {}
        names = (wanted.id, experiment, wanted.variant, wanted.seed, wanted.hash, identity)
        return FakeJob(str(directory), *names, **own)

    return job


def launch(
    results: Path, runs: Iterable[Run], *, workers: int = 2, experiment: str = "x", only: str = "",
    seen: list[Event] | None = None, on_event: Callable[[Event], None] = lambda event: None,
    job: dict[str, Any] | None = None, **options: Any,
) -> Outcome:
    """Plans and runs with the local engine and fake jobs."""
    def note(event: Event) -> None:
        if seen is not None:
            seen.append(event)
        on_event(event)

    planned = plan.plan(experiment, runs, results)
    chosen = engine.Options(jobs(results, experiment, only=only, **(job or {})), target=TARGET, **options)
    return engine.run(planned, LocalEngine(["cpu"] * workers, target=TARGET), chosen, note)


def scores(results: Path, runs: Iterable[Run], experiment: str = "x") -> dict[str, Any]:
    """Run id -> metrics of every run that has a result."""
    found = {run.id: read_run(run_directory(results, experiment, run.id), verify_metrics=True) for run in runs}
    return {run_id: stored.result["metrics"] for run_id, stored in found.items() if stored.result is not None}


def expected(runs: Iterable[Run], steps: int = 5) -> dict[str, Any]:
    """What `scores` must be after an undisturbed launch."""
    return {run.id: {"test/loss": number(run.hash, steps)} for run in runs}


def completions(results: Path, runs: Iterable[Run], experiment: str = "x") -> dict[str, int]:
    """Run id -> how often it was trained to its end."""
    found = {}
    for run in runs:
        path = run_directory(results, experiment, run.id) / "completions"
        found[run.id] = len(path.read_text()) if path.exists() else 0
    return found
