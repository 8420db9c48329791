"""Options that several verbs share, each written once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.config import ConfigError
from experiments.files import Declared, declare


def results_folder(results: Path) -> Path:
    """The folder of --results, when it is one or can become one; see `output_folder`."""
    return output_folder(results, "--results")


def output_folder(folder: Path, option: str) -> Path:
    """The folder that an option names, when it is one or can become one.

    Raises:
        ConfigError: it, or what it would lie in, is something else.
    """
    for place in (folder, *folder.parents):
        if place.is_symlink() and not place.exists():
            raise ConfigError([(option, f"'{place}' is a link to nothing; name a folder")])
        if place.exists() and not place.is_dir():
            raise ConfigError([(option, f"'{place}' is a file; name a folder")])
    return folder


def writable(results: Path) -> None:
    """Checks that runs can be written, before anything is trained.

    Raises:
        ConfigError: the folder, or the one that it would be made in, does not allow it.
    """
    there = next(place for place in (results, *results.absolute().parents) if place.is_dir())
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError([("--results", f"nothing can be written to '{there}'; name another folder")])


Target = Annotated[str | None, typer.Argument(help="Experiment: a name from `list`, or a .py or .yaml file.")]
Results = Annotated[Path, typer.Option(help="Where runs and reports lie.", callback=results_folder)]
Json = Annotated[bool, typer.Option("--json", help="Answer as JSON on standard output.")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="Change the baseline: train.steps=500 (repeatable).")]
Vary = Annotated[list[str] | None, typer.Option(help="One change at a time: model.positional=none,rope,alibi.")]
Grid = Annotated[list[str] | None, typer.Option(help="Every combination: model.n_heads=1,2,4 (repeatable).")]
Seeds = Annotated[int | None, typer.Option(min=1, help="Number of seeds.")]
Preset = Annotated[str | None, typer.Option(help="One of the experiment's presets, such as quick.")]
Name = Annotated[str | None, typer.Option(help="Keep the results under another name.")]
Imports = Annotated[list[str] | None, typer.Option("--import", help="Python file that registers your own parts.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; default one per core, or per GPU.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:0 or mps.")]
PerGpu = Annotated[int, typer.Option(min=1, help="Workers that share one GPU.")]
Replicas = Annotated[str, typer.Option(help="Runs of one shape that train as one: auto, or at most so many.")]
Wandb = Annotated[str, typer.Option(help="Mirror to wandb: off, offline or online.")]
Engine = Annotated[str, typer.Option(help="local, or ray (an extra).")]
RayAddress = Annotated[str | None, typer.Option(help="An existing Ray cluster.")]
Verify = Annotated[bool, typer.Option(help="Also check every metrics file against its checksum.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only failures and the summary.")]
RESULTS = Path("results")


def declared(
    target: str | None, sets: list[str] | None, vary: list[str] | None, grid: list[str] | None, seeds: int | None,
    preset: str | None, name: str | None, imports: list[str] | None, **more: Any,
) -> Declared:
    """The experiment that these options describe."""
    return declare(
        target, sets=sets or (), vary=vary or (), grid=grid or (), seeds=seeds, preset=preset, name=name,
        imports=imports or (), **more,
    )
