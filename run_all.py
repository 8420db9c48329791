"""The front door: `python run_all.py [COMMAND]`. No command runs the default experiments and their report."""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C while the imports below go on is an interruption like any other
    sys.excepthook = lambda kind, error, trace: (
        sys.exit(130) if kind is KeyboardInterrupt else sys.__excepthook__(kind, error, trace)
    )

import errno
import io
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
from pydantic import ValidationError

from experiments.commands.options import RESULTS, Device, Imports, Json, Results, Wandb, Workers
from experiments.commands.verbs import VERBS
from transformer.config import ConfigError
from transformer.registry import plain_words, shown, unknown

MAY_BE_EMPTY = ("--prompt", "--text")  # to begin with nothing is a beginning
LONG = 400  # characters of the longest word that a message shows whole


class Verbs(typer.core.TyperGroup):
    """Verbs by name; what is none is told with the nearest, or with the verb that it is an argument of."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if not isinstance(error.__cause__, ValidationError) or error.param is None:
                raise
            fault, name = error.__cause__.errors()[0], max(error.param.opts, key=len)
            rule = plain_words(fault["msg"].partition(", unable to parse")[0])
            raise ConfigError([(name, f"{shown(fault['input'])} {rule}")]) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        from experiments.catalog import NAMES

        word = args[0]
        if word in NAMES or word.endswith((".py", ".yaml", ".yml")):
            raise ConfigError([("", f"'{word}' is an experiment; write: python run_all.py run {word}")])
        if not word.startswith("-") and word not in self.commands:
            raise ConfigError([("", unknown("command", word, self.commands))])
        _refuse_empty(args)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, cls=Verbs,
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


@app.command()
def inside(
    run: Annotated[str, typer.Argument(help="Run id, or the beginning of one.")],
    text: Annotated[str | None, typer.Option(help="What the model reads; default the first validation row.")] = None,
    out: Annotated[Path | None, typer.Option(help="Another folder than the run's own.")] = None,
    results: Results = RESULTS, json: Json = False,
) -> None:
    """Attention maps, what each head looks at, sizes by layer; figures beside the run."""
    from analysis.figures.inside import draw
    from experiments.commands.inside import command
    from experiments.commands.show import find_run

    code = command(run, text, results, json, out=out)
    drawn = draw(out or find_run(results, run))
    if not json and drawn:
        typer.echo(f"figures: {drawn[0].parent}")
    raise typer.Exit(code)


@app.command()
def claims(
    name: Annotated[str | None, typer.Argument(help="One claim; default all.")] = None,
    preset: Annotated[str, typer.Option(help="quick or standard.")] = "quick",
    budget: Annotated[str | None, typer.Option(help="Begin no look that would not end within it: 30m, 2h.")] = None,
    export: Annotated[Path | None, typer.Option(help="Summary to keep, in place of an older one there.")] = None,
    results: Results = RESULTS, workers: Workers = None, device: Device = "auto", wandb: Wandb = "off",
    json: Json = False,
) -> None:
    """Decide well-known sentences about transformers: SUPPORTED, REFUTED or INCONCLUSIVE."""
    from analysis.verdicts import markdown, released, verdicts
    from analysis.verdicts.summary import summarise
    from experiments.commands.choices import Launch, check_launch
    from experiments.commands.claims import command
    from experiments.commands.launch import command_line

    def keep(names: Sequence[str], found: Sequence[Any]) -> Path:
        return summarise(export or results, results, names, found, command_line())

    launch = Launch(results=results, workers=workers, device=device, wandb=wandb, quiet=True, as_json=json)
    check_launch(launch)  # exact claims train nothing, and come first
    code = command(
        name, launch, preset, decide=verdicts, release=released, table=markdown, budget=budget,
        keep=keep if export else None,
    )
    raise typer.Exit(code)


@app.command()
def judge(
    set_: Annotated[list[str], typer.Option("--set", help="The change: model.feedforward=swiglu (repeatable).")],
    experiment: Annotated[str | None, typer.Option(help="Whose baseline, metric and smallest effect.")] = None,
    base: Annotated[list[str] | None, typer.Option(help="Change the baseline on both sides (repeatable).")] = None,
    task: Annotated[str | None, typer.Option(help="Another task for both sides.")] = None,
    metric: Annotated[str | None, typer.Option(help="What decides.")] = None,
    smallest_effect: Annotated[float | None, typer.Option(help="Difference that would matter.")] = None,
    budget: Annotated[str | None, typer.Option(help="Stop adding seeds after this: 300s or 20runs.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Even if it was decided before.")] = False,
    imports: Imports = None, results: Results = RESULTS, workers: Workers = None, device: Device = "auto",
    wandb: Wandb = "off", json: Json = False,
) -> None:
    """Is this one change real? Exit code 0 supported, 3 refuted, 4 inconclusive."""
    from analysis.verdicts import about_change, verdicts
    from experiments.commands.choices import Launch
    from experiments.commands.judge import Asked, command

    asked = Asked(
        sets=set_, experiment=experiment, task=task, base=base or (), metric=metric,
        smallest_effect=smallest_effect, budget=budget, again=again, imports=imports or (),
    )
    launch = Launch(results=results, workers=workers, device=device, wandb=wandb, quiet=True, as_json=json)
    raise typer.Exit(command(asked, launch, decide=verdicts, describe=about_change))


for verb_info in app.registered_commands:
    verb_info.short_help = verb_info.callback.__doc__ if verb_info.callback else None  # whole, not cut at 45 characters


def _default(names: tuple[str, ...], results: Path) -> int:
    """Runs and reports one experiment after another; a failed run does not stop the rest, Ctrl-C does."""
    from analysis.report.command import command as report_command
    from experiments.commands.choices import Launch
    from experiments.commands.run import command as run_command
    from experiments.files import declare

    worst = 0
    for name in names:
        code = run_command(declare(name), Launch(results=results), hint=False)
        if code == 130:
            return code
        worst = max(worst, code)
    return max(worst, report_command(None, results, metric=None, as_json=False))


def _refuse_empty(words: Sequence[str]) -> None:
    """An empty value is what a shell makes of a variable that is not set; read as a default it would mislead."""
    for before, word in itertools.pairwise(words):
        if before in MAY_BE_EMPTY or word.partition("=")[0] in MAY_BE_EMPTY:
            continue
        if not word.strip() or re.fullmatch(r"--[a-z-]+=\s*", word):
            name = word.partition("=")[0].strip() or (before if before.startswith("-") else "")
            raise ConfigError([(name, "'' is empty; write a value, or leave it out")])


def _say(text: str) -> None:
    """One error, on standard error; endless words (a name of thousands of letters) are cut."""
    text = re.sub(rf"\S{{{LONG},}}", lambda word: f"{word[0][:60]}... ({len(word[0])} characters)", text)
    print("\n       ".join(f"error: {text}".splitlines()), file=sys.stderr)


def _memory_ran_out(error: BaseException) -> bool:
    from experiments.runner.failures import MEMORY_TEXTS

    return isinstance(error, MemoryError) or any(text in str(error).lower() for text in MEMORY_TEXTS)


def main() -> None:
    """Runs the command line; a mistake of the user is one message and exit code 2."""
    debug = "--debug" in sys.argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows ASCII alone shows ? for the rest
    try:
        app()
    except ConfigError as error:
        if debug:
            raise
        for path, text in error.problems:
            _say(f"{path}: {text}" if path else text)
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if debug or not _memory_ran_out(error):
            raise
        _say(f"not enough memory; choose smaller sizes: {error}".rstrip(": "))
        sys.exit(2)
    except OSError as error:
        if debug:
            raise
        place = error.filename2 or error.filename or ""
        _say(f"{error.strerror or error}: {place}".rstrip(": "))
        sys.exit(2 if error.errno == errno.ENAMETOOLONG else 1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
