"""Verbs of `run_all.py` that need no analysis: their options, and the function that does the work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from experiments.commands.options import (
    RESULTS,
    Device,
    Engine,
    Grid,
    Imports,
    Json,
    Name,
    PerGpu,
    Preset,
    Quiet,
    RayAddress,
    Replicas,
    Results,
    Seeds,
    Sets,
    Target,
    Vary,
    Verify,
    Wandb,
    Workers,
    declared,
)

Flag = typer.Option


def list_(
    kind: Annotated[str | None, typer.Argument(help="experiments, tasks or components; default all.")] = None,
    imports: Imports = None, json: Json = False,
) -> None:
    """What can be named: experiments, tasks, components and their options."""
    from experiments.commands.list import command

    raise typer.Exit(command(kind, imports or [], json))


def plan(
    experiment: Target = None, set_: Sets = None, vary: Vary = None, grid: Grid = None, seeds: Seeds = None,
    preset: Preset = None, name: Name = None, imports: Imports = None, results: Results = RESULTS,
    workers: Workers = None, verify: Verify = False, json: Json = False,
) -> None:
    """What a run would do: how many runs, their state, parameters per variant, estimated time. Writes nothing."""
    from experiments.commands.plan import command

    command_declared = declared(experiment, set_, vary, grid, seeds, preset, name, imports)
    raise typer.Exit(command(command_declared, results, workers, json, verify))


def run(
    experiment: Target = None, set_: Sets = None, vary: Vary = None, grid: Grid = None, seeds: Seeds = None,
    preset: Preset = None, name: Name = None, imports: Imports = None, results: Results = RESULTS,
    workers: Workers = None, device: Device = "auto", per_gpu: PerGpu = 1, replicas: Replicas = "auto",
    wandb: Wandb = "offline", engine: Engine = "local", ray_address: RayAddress = None,
    smoke: Annotated[bool, Flag("--smoke", help="Tiny runs that only prove that everything works.")] = False,
    dry_run: Annotated[bool, Flag("--dry-run", help="The same as `plan`.")] = False,
    retry_failed: Annotated[bool, Flag("--retry-failed", help="Try runs again that failed earlier.")] = False,
    redo: Annotated[bool, Flag("--redo", help="Train again whatever is stored (mind --only).")] = False,
    redo_damaged: Annotated[bool, Flag("--redo-damaged", help="Train runs with damaged files again.")] = False,
    only: Annotated[list[str] | None, Flag(help="Just this run id or variant (repeatable).")] = None,
    fail_fast: Annotated[bool, Flag("-x", "--fail-fast", help="Stop at the first failure.")] = False,
    max_failures: Annotated[int | None, Flag(min=1, help="Stop after this many failures.")] = None,
    time_limit: Annotated[float | None, Flag(min=0.1, help="Seconds that one run may take.")] = None,
    record: Annotated[bool, Flag("--record", help="Also what the layers look like at each validation.")] = False,
    quiet: Quiet = False, json: Json = False,
) -> None:
    """Train what is missing. Running the same command again resumes."""
    from experiments.commands.choices import Launch
    from experiments.commands.run import command

    wanted = declared(experiment, set_, vary, grid, seeds, preset, name, imports, smoke=smoke)
    if dry_run:
        from experiments.commands.plan import command as plan_command

        raise typer.Exit(plan_command(wanted, results, workers, json, verify=False))
    launch = Launch(
        results=results, engine=engine, workers=workers, device=device, per_gpu=per_gpu, replicas=replicas,
        ray_address=ray_address, wandb=wandb, retry_failed=retry_failed, redo=redo, redo_damaged=redo_damaged,
        only=tuple(only or ()), max_failures=1 if fail_fast else max_failures, time_limit=time_limit, quiet=quiet,
        as_json=json, layers=record,
    )
    raise typer.Exit(command(wanted, launch))


def status(
    experiment: Target = None, results: Results = RESULTS, verify: Verify = False, json: Json = False
) -> None:
    """What is stored against what was last asked for, per variant and seed."""
    from experiments.commands.status import command

    raise typer.Exit(command(experiment, results, json, verify))


def show(
    run: Annotated[str, typer.Argument(help="Run id, or the beginning of one.")],
    results: Results = RESULTS, json: Json = False,
) -> None:
    """Everything that is recorded of one run."""
    from experiments.commands.show import command

    raise typer.Exit(command(run, results, json))


def generate(
    run: Annotated[str, typer.Argument(help="Run id, or the beginning of one.")],
    prompt: Annotated[list[str], Flag(help="Text to go on from (repeatable).")],
    decode: Annotated[str, Flag(help="greedy, sample,temperature=0.8,top_p=0.9 or beam,beams=4.")] = "greedy",
    n: Annotated[int, Flag(min=1, help="Texts for each prompt.")] = 1,
    seed: Annotated[int, Flag(min=0, help="Of the sampling.")] = 0,
    results: Results = RESULTS, json: Json = False,
) -> None:
    """Text from a finished run."""
    from experiments.commands.generate import command

    raise typer.Exit(command(run, prompt, decode, results, json, n, seed))


def trace(
    experiment: Target = None,
    variant: Annotated[str | None, typer.Argument(help="One of its variants; default the baseline.")] = None,
    set_: Sets = None, imports: Imports = None, json: Json = False,
    rows: Annotated[int, Flag(min=1, help="Sequences in the batch.")] = 2,
    length: Annotated[int | None, Flag(min=1, help="Tokens in each; default 10, or the task's longest.")] = None,
) -> None:
    """One forward pass as a table of every matrix product: shapes, parameters, FLOPs."""
    from experiments.commands.trace import command

    raise typer.Exit(command(experiment, variant, set_ or [], imports or [], rows, length, json))


def tune(
    experiment: Target = None, set_: Sets = None, seeds: Seeds = None, preset: Preset = None, name: Name = None,
    imports: Imports = None, results: Results = RESULTS, workers: Workers = None, device: Device = "auto",
    per_gpu: PerGpu = 1, wandb: Wandb = "offline", engine: Engine = "local", ray_address: RayAddress = None,
    trials: Annotated[int, Flag(min=1, help="Wanted of each variant, earlier sessions included.")] = 20,
    sampler: Annotated[str, Flag(help="tpe, gp, cmaes (extra), random, qmc or grid.")] = "tpe",
    pruner: Annotated[str, Flag(help="none, median, hyperband or wilcoxon (over seeds).")] = "none",
    trial_seeds: Annotated[int, Flag(min=1, help="Seeds that a trial's score is averaged over.")] = 1,
    cost: Annotated[str | None, Flag(help="A second objective to keep small, such as flops_per_token.")] = None,
    storage: Annotated[str | None, Flag(help="Study storage URL; default a SQLite file beside the runs.")] = None,
    study: Annotated[str, Flag(help="Name part under which the trials lie.")] = "tune",
    variant: Annotated[list[str] | None, Flag(help="Tune only this variant (repeatable).")] = None,
    sampler_seed: Annotated[int, Flag(min=0, help="Another number gives other trials.")] = 0,
    retry_failed: Annotated[bool, Flag("--retry-failed", help="Try trials again that failed earlier.")] = False,
    fail_fast: Annotated[bool, Flag("-x", "--fail-fast", help="Stop at the first failure.")] = False,
    max_failures: Annotated[int | None, Flag(min=1, help="Stop after this many failures.")] = None,
    time_limit: Annotated[float | None, Flag(min=0.1, help="Seconds that one run may take.")] = None,
    quiet: Quiet = False, json: Json = False,
) -> None:
    """Search hyper-parameters with Optuna over the experiment's `space`. The same command resumes."""
    from experiments.commands.choices import Launch
    from experiments.commands.tune import command
    from experiments.files import component
    from experiments.tuning.request import Request

    wanted = declared(experiment, set_, None, None, seeds, preset, name, imports)
    request = Request(
        trials=trials, sampler=component(sampler, "--sampler"), pruner=component(pruner, "--pruner"),
        seeds=trial_seeds, cost=cost, storage=storage, study=study, variants=tuple(variant or ()), seed=sampler_seed,
    )
    launch = Launch(
        results=results, engine=engine, workers=workers, device=device, per_gpu=per_gpu, ray_address=ray_address,
        wandb=wandb, retry_failed=retry_failed, max_failures=1 if fail_fast else max_failures, time_limit=time_limit,
        quiet=quiet, as_json=json,
    )
    raise typer.Exit(command(wanted, launch, request))


def slurm(
    experiment: Target = None, set_: Sets = None, vary: Vary = None, grid: Grid = None, seeds: Seeds = None,
    preset: Preset = None, name: Name = None, imports: Imports = None, results: Results = RESULTS,
    output: Annotated[Path, Flag(help="Where the script goes.")] = Path("ablation.sbatch"),
    tasks: Annotated[int, Flag(min=1, help="Array tasks that share the runs.")] = 8,
    at_once: Annotated[int | None, Flag(min=1, help="Array tasks at a time.")] = None,
    hours: Annotated[float, Flag(help="Wall-clock limit of one array task.")] = 4.0,
    memory_gb: Annotated[int, Flag(min=1, help="Memory of one array task.")] = 4,
    gpus: Annotated[int, Flag(min=0, max=1, help="GPUs of one array task.")] = 0,
    partition: Annotated[str | None, Flag(help="As the cluster calls it.")] = None,
    account: Annotated[str | None, Flag(help="As the cluster calls it.")] = None,
) -> None:
    """Write an sbatch array script over the plan, for clusters without Ray."""
    from experiments.commands.slurm import command
    from experiments.runner.slurm import Cluster

    cluster = Cluster(tasks, at_once, hours, 1, memory_gb, gpus, partition, account)
    wanted = declared(experiment, set_, vary, grid, seeds, preset, name, imports)
    raise typer.Exit(command(wanted, results, output, cluster))


def worker(
    shard: Annotated[str, Flag(help="Share of the plan, such as 0/8.")],
    experiment: Target = None, set_: Sets = None, vary: Vary = None, grid: Grid = None, seeds: Seeds = None,
    preset: Preset = None, name: Name = None, imports: Imports = None, results: Results = RESULTS,
    device: Device = "auto", wandb: Wandb = "offline",
) -> None:
    """Train one share of a plan in this machine's place of a cluster; what `slurm` scripts call."""
    from experiments.commands.choices import Launch
    from experiments.commands.run import command

    launch = Launch(results=results, workers=1, device=device, wandb=wandb, shard=shard)
    raise typer.Exit(command(declared(experiment, set_, vary, grid, seeds, preset, name, imports), launch))


def diagnose(
    target: Annotated[str, typer.Argument(help="A run id, an experiment, or an experiment file.")],
    variant: Annotated[str | None, Flag(help="A variant of the experiment; default its baseline.")] = None,
    set_: Sets = None, imports: Imports = None,
    steps: Annotated[int, Flag(min=1, help="First steps that are trained again.")] = 150,
    seconds: Annotated[float, Flag(min=1, help="What all short trainings together may take.")] = 50.0,
    results: Results = RESULTS, json: Json = False,
) -> None:
    """What is wrong with a run: symptom, evidence, likely cause, what to change, worst first."""
    from experiments.commands.diagnose import command

    raise typer.Exit(command(
        target, results, json, variant=variant, sets=set_ or (), imports=imports or (), steps=steps, seconds=seconds
    ))


def history(results: Results = RESULTS, json: Json = False) -> None:
    """Every change that was ever judged here."""
    from experiments.commands.history import command

    raise typer.Exit(command(results, json))


VERBS: dict[str, Callable[..., None]] = {
    "list": list_, "plan": plan, "run": run, "status": status, "show": show, "generate": generate, "trace": trace,
    "tune": tune, "diagnose": diagnose, "history": history, "slurm": slurm, "worker": worker,
}
