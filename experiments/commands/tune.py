"""`tune`: a study per variant. Running the same command again is how to resume, and with more trials, to go on."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

from experiments.commands.choices import Launch, check_launch, engine_maker
from experiments.commands.launch import again_command
from experiments.commands.progress import Show
from experiments.files import Declared
from experiments.records import read_json
from experiments.runner.events import Outcome
from experiments.runner.options import Options, training_jobs
from experiments.tuning.labels import label
from experiments.tuning.request import Request


def command(declared: Declared, launch: Launch, request: Request) -> int:
    """Tunes every variant of an experiment and says what was found; returns the exit code.

    Args:
        request: trials, sampler, pruner, seeds, second objective, storage, name and variants.

    Raises:
        ConfigError: everything that is wrong, before anything is trained.
    """
    outcome, content = tune(declared, launch, request)
    if launch.as_json:
        print(json.dumps({"exit_code": outcome.exit_code, "problem": outcome.problem, **content}, indent=1))
    else:
        _say(outcome, content, launch, request)
    return outcome.exit_code


def tune(declared: Declared, launch: Launch, request: Request) -> tuple[Outcome, dict[str, Any]]:
    """Carries out the studies; how the launch ended, and the content of tuning.json with its folder."""
    from experiments.tuning.calibration import calibrated
    from experiments.tuning.export import TUNING
    from experiments.tuning.session import session
    from experiments.tuning.study import Study
    from experiments.tuning.trials import Told

    check_launch(launch)
    declared = calibrated(declared, launch.results)
    engine_of = engine_maker(launch, declared.imports)
    console = Console(stderr=launch.as_json, highlight=False, markup=False)
    with session(declared, request, launch.results) as going:
        options = options_of(going, declared, launch)
        if launch.retry_failed:
            going.retry_failed()
        console.print(_headline(going), markup=False, soft_wrap=True)
        at_most = going.missing() * request.seeds
        with Show(at_most, launch.workers or 1, quiet=launch.quiet, as_json=launch.as_json) as on_event:

            def on_told(study: Study, told: Told) -> None:
                if not launch.quiet:
                    on_event.console.print(_told(study, told), markup=False, soft_wrap=True)

            outcome = going.run(lambda: engine_of(options.target), options, on_event=on_event, on_told=on_told)
        return outcome, {"folder": str(launch.results / going.experiment.name), **read_json(going.folder / TUNING)}


def options_of(going: Any, declared: Declared, launch: Launch) -> Options:
    """How the runs of a session's trials are launched; wandb groups them under the study's name."""
    tags = (*declared.experiment.tags, "tune")
    job = training_jobs(launch.results, wandb=launch.wandb, tags=tags, imports=declared.imports)
    again = again_command("tune", declared.source, launch.results, "--retry-failed")
    return Options(
        job=job, retry_failed=launch.retry_failed, redo_damaged=True, max_failures=launch.max_failures,
        time_limit=launch.time_limit, repeat=again,
    )


def _headline(going: Any) -> str:
    """`recall-tune: 2 studies x 20 trials x 1 seed: 7 told, 33 to go`."""
    studies, request = going.studies, going.request
    told, seeds = sum(len(study.told()) for study in studies), f"{request.seeds} seed{'s' if request.seeds > 1 else ''}"
    names = f"{len(studies)} stud{'ies' if len(studies) > 1 else 'y'}"
    return f"{going.experiment.name}: {names} x {request.trials} trials x {seeds}: {told} told, {going.missing()} to go"


def _told(study: Any, told: Any) -> str:
    values = ", ".join(f"{path}={label(value)}" for path, value in told.values.items())
    score = ", ".join(f"{value:.4g}" for value in told.scores or ())
    best = study.best()
    so_far = f"; best {best[0].scores[0]:.4g} (trial {best[0].number})" if best else ""
    status = "" if told.status == "done" else f" {told.status.upper()}"
    return f"trial {told.number} of {study.question.variant}:{status} {score or '-'} with {values}{so_far}"


def _say(outcome: Outcome, content: dict[str, Any], launch: Launch, request: Request) -> None:
    console = Console(highlight=False, markup=False)
    for study in content["studies"]:
        _say_study(console, study, content["folder"])
    if outcome.problem:
        console.print(f"stopped: {outcome.problem}", markup=False, soft_wrap=True)
    if not content["final"]:
        console.print("not finished; the same command goes on from here", markup=False)
    if outcome.failed:
        console.print(f"{len(outcome.failed)} runs failed; try them again with --retry-failed", markup=False)
    url = request.storage or f"sqlite:///{content['folder']}/study.db"
    if "@" not in url:
        console.print(f"browse the trials: optuna-dashboard {url}", markup=False, soft_wrap=True)


def _say_study(console: Console, study: dict[str, Any], folder: str) -> None:
    metric = study["objectives"][0]["metric"]
    if not study["best"]:
        console.print(f"{study['variant']}: {study['trials']} trials, none is done", markup=False)
        return
    for best in study["best"]:
        scores = ", ".join(f"{value:.5g}" for value in best["scores"])
        values = ", ".join(f"{path}={label(value)}" for path, value in best["values"].items())
        head = f"{study['variant']}: best of {study['trials']} trials is {best['number']}"
        console.print(f"{head}: {metric} {scores} with {values}", markup=False, soft_wrap=True)
    for path, share in study["importance"].items():
        console.print(f"  {path} explains {share:.0%} of the differences", markup=False)
    if study["warning"]:
        console.print(f"  warning: {study['warning']}", markup=False, soft_wrap=True)
    console.print(f"  use it: {study['set']}", markup=False, soft_wrap=True)
    console.print(f"  or: python run_all.py run {folder}/{study['file']}", markup=False, soft_wrap=True)
