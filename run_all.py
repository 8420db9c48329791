"""The front door: `python run_all.py [COMMAND]`. No command runs the default experiments and their report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

app = typer.Typer(
    add_completion=False, no_args_is_help=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="Does this change to a transformer help, by how much, at what cost, and how sure are we?",
    epilog="No command runs the default experiments and writes their report. Exit codes: 0 done, 1 a run failed, "
    "2 wrong usage or configuration, 130 interrupted.",
)

Target = Annotated[Optional[str], typer.Argument(help="Experiment: a name from `list`, or a .py or .yaml file.")]
Results = Annotated[Path, typer.Option(help="Where runs and reports lie.")]
Json = Annotated[bool, typer.Option("--json", help="Answer as JSON on standard output.")]
Sets = Annotated[Optional[list[str]], typer.Option("--set", help="Change the baseline: train.steps=500 (repeatable).")]
Vary = Annotated[Optional[list[str]], typer.Option(help="One change at a time: model.positional=none,rope,alibi.")]
Grid = Annotated[Optional[list[str]], typer.Option(help="Every combination: model.n_heads=1,2,4 (repeatable).")]
Seeds = Annotated[Optional[int], typer.Option(min=1, help="Number of seeds.")]
Preset = Annotated[Optional[str], typer.Option(help="One of the experiment's presets, such as smoke or quick.")]
Name = Annotated[Optional[str], typer.Option(help="Keep the results under another name.")]
Imports = Annotated[Optional[list[str]], typer.Option("--import", help="Python file that registers your own parts.")]
