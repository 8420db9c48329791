"""The front door: `python run_all.py [COMMAND]`. No command runs the default experiments and their report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from experiments.commands.options import RESULTS, Json, Results
from experiments.commands.verbs import VERBS
from transformer.config import ConfigError

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="Does this change to a transformer help, by how much, at what cost, and how sure are we?",
    epilog="No command runs the default experiments and writes their report. Exit codes: 0 done, 1 a run failed, "
    "2 wrong usage or configuration, 130 interrupted.",
)
for name, verb in VERBS.items():
    app.command(name)(verb)


@app.callback(invoke_without_command=True)
def default(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if context.invoked_subcommand is None:
        from experiments.catalog import DEFAULT

        raise typer.Exit(_default(DEFAULT, RESULTS))


@app.command()
def report(
    experiment: Annotated[str | None, typer.Argument(help="Stored experiment; default all.")] = None,
    metric: Annotated[str | None, typer.Option(help="Another metric than the experiment's own.")] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Also LaTeX tables and PDF figures.")] = False,
    serve: Annotated[bool, typer.Option("--serve", help="Serve the website on this machine afterwards.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="For --serve; 0 = any free one.")] = 8000,
    results: Results = RESULTS, json: Json = False,
) -> None:
    """Tables, figures and answers from what is stored; works with half a sweep and says what is missing."""
    from analysis.load import ReportError
    from analysis.report.command import command

    try:
        served = port if serve else None
        raise typer.Exit(command(experiment, results, metric=metric, as_json=json, paper=paper, port=served))
    except ReportError as error:
        raise ConfigError([("", str(error))]) from error


def _default(names: tuple[str, ...], results: Path) -> int:
    """Runs and reports one experiment after another; a failed run does not stop the rest, Ctrl-C does."""
    from analysis.report.command import command as report_command
    from experiments.commands.run import Launch
    from experiments.commands.run import command as run_command
    from experiments.files import declare

    worst = 0
    for name in names:
        code = run_command(declare(name), Launch(results=results), hint=False)
        if code == 130:
            return code
        worst = max(worst, code)
    return max(worst, report_command(None, results, metric=None, as_json=False))


def main() -> None:
    """Runs the command line; a mistake of the user is one message and exit code 2."""
    debug = "--debug" in sys.argv
    try:
        app()
    except ConfigError as error:
        if debug:
            raise
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if debug:
            raise
        print(f"error: {error.strerror or error}: {error.filename or ''}".rstrip(": "), file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
