"""`list`: experiments, tasks and components that can be named. Imports neither torch nor pandas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments import catalog
from experiments.commands.source_index import Listed, index
from experiments.config import ConfigError
from experiments.files import import_file
from transformer.registry import unknown

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("experiments", "tasks", "components")


def command(kind: str | None, imports: list[str], as_json: bool) -> int:
    """Prints what can be named; `kind` limits it to one of KINDS."""
    if kind not in (None, *KINDS):
        raise ConfigError([("", unknown("kind", str(kind), KINDS))])
    for file in imports:
        import_file(Path(file))  # told here what is wrong with it, as `run` would
    parts = [one for place in (ROOT / "transformer", ROOT / "experiments", *map(Path, imports)) for one in index(place)]
    shown: dict[str, list[dict[str, Any]]] = {
        "experiments": [_experiment(name) for name in catalog.NAMES],
        "tasks": [_listed(one) for one in parts if one.kind == "task"],
        "components": [_listed(one) for one in parts if one.kind != "task"],
    }
    chosen = {name: rows for name, rows in shown.items() if kind in (None, name)}
    if as_json:
        print(json.dumps(chosen, indent=1))
        return 0
    for name, rows in chosen.items():
        _print(name, rows)
    return 0


def _experiment(name: str) -> dict[str, Any]:
    experiment = catalog.get(name)
    variants = experiment.expand()
    return {
        "name": name, "question": experiment.question, "variants": len(variants),
        "seeds": len(experiment.seed_list()), "runs": len(variants) * len(experiment.seed_list()),
        "presets": list(experiment.presets),
    }


def _listed(one: Listed) -> dict[str, Any]:
    return {
        "kind": one.kind, "name": one.name, "options": one.options, "summary": one.summary, "paper": one.paper,
    }


def _print(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    columns = [key for key in rows[0] if key != "paper"] if rows else []
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for row in rows:
        table.add_row(*(_cell(row[column]) for column in columns))
    Console(highlight=False, markup=False, soft_wrap=False).print(table, "")


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={inner}" for key, inner in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
