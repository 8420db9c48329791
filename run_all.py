"""The front door: `python run_all.py [COMMAND]`. No command runs the default experiments and their report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    add_completion=False, no_args_is_help=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="Does this change to a transformer help, by how much, at what cost, and how sure are we?",
    epilog="No command runs the default experiments and writes their report. Exit codes: 0 done, 1 a run failed, "
    "2 wrong usage or configuration, 130 interrupted.",
)

Target = Annotated[str | None, typer.Argument(help="Experiment: a name from `list`, or a .py or .yaml file.")]
Results = Annotated[Path, typer.Option(help="Where runs and reports lie.")]
Json = Annotated[bool, typer.Option("--json", help="Answer as JSON on standard output.")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="Change the baseline: train.steps=500 (repeatable).")]
Vary = Annotated[list[str] | None, typer.Option(help="One change at a time: model.positional=none,rope,alibi.")]
Grid = Annotated[list[str] | None, typer.Option(help="Every combination: model.n_heads=1,2,4 (repeatable).")]
Seeds = Annotated[int | None, typer.Option(min=1, help="Number of seeds.")]
Preset = Annotated[str | None, typer.Option(help="One of the experiment's presets, such as smoke or quick.")]
Name = Annotated[str | None, typer.Option(help="Keep the results under another name.")]
Imports = Annotated[list[str] | None, typer.Option("--import", help="Python file that registers your own parts.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; default one per core, or per GPU.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:0 or mps.")]
PerGpu = Annotated[int, typer.Option(min=1, help="Workers that share one GPU.")]
Wandb = Annotated[str, typer.Option(help="Mirror to wandb: off, offline or online.")]
Verify = Annotated[bool, typer.Option(help="Also check every metrics file against its checksum.")]


@app.callback(invoke_without_command=True)
def default(
    context: typer.Context,
    debug: Annotated[bool, typer.Option(help="Show the traceback of an error.")] = False,
) -> None:
    if context.invoked_subcommand is None:
        from experiments.catalog import DEFAULT

        codes = [_run_and_report(name) for name in DEFAULT]
        raise typer.Exit(max(codes))


@app.command("list")
def list_(
    kind: Annotated[str | None, typer.Argument(help="experiments, tasks or components; default all.")] = None,
    imports: Imports = None,
    json: Json = False,
) -> None:
    """What can be named: experiments, tasks, components and their options."""
    from experiments.commands.list import command

    raise typer.Exit(command(kind, imports or [], json))


@app.command()
def plan(
    experiment: Target = None, set_: Sets = None, vary: Vary = None, grid: Grid = None, seeds: Seeds = None,
    preset: Preset = None, name: Name = None, imports: Imports = None, results: Results = Path("results"),
    workers: Workers = None, verify: Verify = False, json: Json = False,
) -> None:
    """What a run would do: how many runs, their state, parameters per variant, estimated time. Writes nothing."""
    from experiments.commands.plan import command
    from experiments.runner.devices import slots

    declared = _declared(experiment, set_, vary, grid, seeds, preset, name, imports)
    raise typer.Exit(command(declared, results, len(slots("cpu", workers)), json, verify))


@app.command()
def run(
    experiment: Target = None, set_: Sets = None, vary: Vary = None, grid: Grid = None, seeds: Seeds = None,
    preset: Preset = None, name: Name = None, imports: Imports = None, results: Results = Path("results"),
    workers: Workers = None, device: Device = "auto", per_gpu: PerGpu = 1, wandb: Wandb = "offline",
    engine: Annotated[str, typer.Option(help="local, or ray (an extra).")] = "local",
    ray_address: Annotated[str | None, typer.Option(help="An existing Ray cluster.")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="Tiny runs that only prove that everything works.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="The same as `plan`.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try runs again that failed earlier.")] = False,
    redo: Annotated[bool, typer.Option("--redo", help="Train again whatever is stored (mind --only).")] = False,
    redo_damaged: Annotated[bool, typer.Option("--redo-damaged", help="Train runs with damaged files again.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Just this run id or variant (repeatable).")] = None,
    fail_fast: Annotated[bool, typer.Option("-x", "--fail-fast", help="Stop at the first failure.")] = False,
    max_failures: Annotated[int | None, typer.Option(min=1, help="Stop after this many failures.")] = None,
    time_limit: Annotated[float | None, typer.Option(min=0.1, help="Seconds that one run may take.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only failures and the summary.")] = False,
    json: Json = False,
) -> None:
    """Train what is missing. Running the same command again resumes."""
    from experiments.commands.run import Launch, command

    declared = _declared(experiment, set_, vary, grid, seeds, preset, name, imports, smoke=smoke)
    if dry_run:
        from experiments.commands.plan import command as plan_command
        from experiments.runner.devices import slots

        raise typer.Exit(plan_command(declared, results, len(slots("cpu", workers)), json, verify=False))
    launch = Launch(
        results=results, engine=engine, workers=workers, device=device, per_gpu=per_gpu, ray_address=ray_address,
        wandb=wandb, retry_failed=retry_failed, redo=redo, redo_damaged=redo_damaged, only=tuple(only or ()),
        max_failures=1 if fail_fast else max_failures, time_limit=time_limit, quiet=quiet, as_json=json,
    )
    code = command(declared, launch)
    if not json and code != 130:
        typer.echo(f"next: python run_all.py report {declared.experiment.name}")
    raise typer.Exit(code)


@app.command()
def status(
    experiment: Target = None, results: Results = Path("results"), verify: Verify = False, json: Json = False
) -> None:
    """What is stored against what was last asked for, per variant and seed."""
    from experiments.commands.status import command

    raise typer.Exit(command(experiment, results, json, verify))


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="Run id, or the beginning of one.")],
    results: Results = Path("results"), json: Json = False,
) -> None:
    """Everything that is recorded of one run."""
    from experiments.commands.show import command

    raise typer.Exit(command(run, results, json))


@app.command()
def report(
    experiment: Annotated[str | None, typer.Argument(help="Stored experiment; default all.")] = None,
    metric: Annotated[str | None, typer.Option(help="Another metric than the experiment's own.")] = None,
    results: Results = Path("results"), json: Json = False,
) -> None:
    """Tables, figures and answers from what is stored; works with half a sweep and says what is missing."""
    raise typer.Exit(_report(experiment, results, metric, json))


def _declared(experiment, set_, vary, grid, seeds, preset, name, imports, *, smoke=False):  # type: ignore[no-untyped-def]
    from experiments.files import declare

    return declare(
        experiment, sets=set_ or (), vary=vary or (), grid=grid or (), seeds=seeds, preset=preset, name=name,
        imports=imports or (), smoke=smoke,
    )


def _report(experiment: str | None, results: Path, metric: str | None, as_json: bool) -> int:
    from analysis.report.command import command

    return command(experiment, results, metric=metric, as_json=as_json)


def _run_and_report(name: str) -> int:
    from experiments.commands.run import Launch, command
    from experiments.files import declare

    code = command(declare(name), Launch(results=Path("results")))
    return code if code == 130 else max(code, _report(name, Path("results"), None, as_json=False))


def main() -> None:
    """Runs the command line; a mistake of the user is one message and exit code 2."""
    from transformer.config import ConfigError

    try:
        app()
    except ConfigError as error:
        if "--debug" in sys.argv:
            raise
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
