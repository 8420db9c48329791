"""`show RUN`: everything that is recorded of one run."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments import records
from experiments.config import ConfigError, RunConfig
from transformer.registry import did_you_mean


def command(run: str, results: Path, as_json: bool) -> int:
    """Prints config, scores, cost and state of the run with this id (or a unique beginning of it)."""
    directory = find_run(results, run)
    stored = records.read_run(directory, verify_metrics=True)
    answer = {
        "directory": str(directory), "config": stored.config, "result": stored.result, "failure": stored.failure,
        "damage": list(stored.damage), "logged_steps": len(records.read_metrics(directory)),
    }
    if as_json:
        print(json.dumps(answer, indent=1))
        return 0
    _print(answer)
    return 0


def find_run(results: Path, run: str) -> Path:
    """The directory of a run: its path, its id, or the beginning of an id that only one run has.

    Raises:
        ConfigError: no run, or several, match; the nearest ids are named.
    """
    if (Path(run) / records.CONFIG).is_file():
        return Path(run)
    known = {d.name: d for name in records.experiments(results) for d in records.run_directories(results, name)}
    if run in known:
        return known[run]
    matches = [name for name in known if name.startswith(run)]
    if len(matches) == 1:
        return known[matches[0]]
    if matches:
        raise ConfigError([("", f"'{run}' begins {len(matches)} run ids: {', '.join(matches[:6])}")])
    some = ", ".join(list(known)[:6]) or "none yet"
    raise ConfigError([("", f"no run '{run}' under {results}. {did_you_mean(run, known)}Runs there: {some}")])


def read_config(directory: Path) -> tuple[records.Stored, RunConfig]:
    """What is stored of a run, and its configuration; its user's own parts are imported, as its experiment names them.

    Raises:
        ConfigError: no configuration that this version can read, or parts that are gone.
    """
    from experiments.files import import_file

    stored = records.read_run(directory)
    told = stored.config or {}
    if not {"config", "run_id", "experiment", "variant", "hash"} <= told.keys():
        why = stored.damage[0] if stored.damage else f"there is no {records.CONFIG}"
        if stored.config is not None:
            why = f"its {records.CONFIG} has schema {told.get('schema')}, this version writes {records.SCHEMA}"
        raise ConfigError([(str(directory), f"is no run that can be read: {why}")])
    with contextlib.suppress(FileNotFoundError, records.Damaged):  # moved out of its experiment, it may well need none
        for file in records.read_json(directory.parent.parent / records.EXPERIMENT).get("imports", []):
            import_file(Path(file))
    try:
        return stored, RunConfig(**told["config"])
    except ConfigError as error:
        raise ConfigError([(f"{directory.name}: {path}".rstrip(": "), text) for path, text in error.problems]) from None


def _print(answer: dict[str, Any]) -> None:
    console = Console(highlight=False, markup=False)
    config, result = answer["config"] or {}, answer["result"] or {}
    console.print(f"run        {config.get('run_id', Path(answer['directory']).name)}")
    console.print(f"directory  {answer['directory']}")
    console.print(f"variant    {config.get('variant')}, seed {config.get('seed')}")
    console.print(f"experiment {config.get('experiment')}")
    console.print(f"state      {_state(answer)}")
    for line in answer["damage"]:
        console.print(f"damaged    {line}")
    for title in ("metrics", "cost", "environment"):
        rows = result.get(title) or {}
        if rows:
            console.print(_table(title, rows))
    if config.get("config"):
        console.print(_table("configuration", dict(_flat(config["config"]))))


def _state(answer: dict[str, Any]) -> str:
    if answer["result"]:
        return str(answer["result"].get("status"))
    if answer["failure"]:
        return f"{answer['failure'].get('kind')}: {answer['failure'].get('error')}"
    return f"not finished; {answer['logged_steps']} rows logged"


def _table(title: str, rows: dict[str, Any]) -> Table:
    table = Table(title=f"\n{title}", title_justify="left", show_header=False, box=None, pad_edge=False)
    for key, value in rows.items():
        table.add_row(str(key), f"{value:.6g}" if isinstance(value, float) else str(value))
    return table


def _flat(tree: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in tree.items():
        rows += _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)]
    return rows
