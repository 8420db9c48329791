"""`history`: every change that was ever judged here, newest last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments import ledger


def command(results: Path, as_json: bool) -> int:
    """Prints the ledger of `judge`."""
    found = ledger.read(results)
    if as_json:
        print(json.dumps({"lines": [dict(line) for line in found.lines], "torn": found.torn}, indent=1))
        return 0
    console = Console(highlight=False, markup=False)
    if not found.lines:
        text = f"nothing judged under {results} yet; try: python run_all.py judge --set model.norm=rmsnorm"
        console.print(text, markup=False, soft_wrap=True)
    else:
        console.print(_table(found.lines))
    if found.torn:
        text = f"{found.torn} torn line(s) in {results / ledger.LEDGER} could not be read; they stay"
        console.print(text, markup=False, soft_wrap=True)
    return 0


def _table(lines: tuple[Mapping[str, Any], ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("when", "change", "verdict", "effect (95 % CI)", "n", "runs lie in"):
        table.add_column(title, overflow="fold", no_wrap=title in ("when", "n"))
    for line in lines:
        verdict = f"{line.get('verdict')}" + (f" ({line['detail']})" if line.get("detail") else "")
        when, change, n, where = (str(line.get(key, "")) for key in ("when", "change", "n", "experiment"))
        table.add_row(when[:16].replace("T", " "), change, verdict, _effect(line), n, where)
    return table


def _effect(line: Mapping[str, Any]) -> str:
    if not isinstance(line.get("effect"), int | float):
        return "-"
    found = f"{line['effect']:+.3g} in {line.get('metric')}"
    low, high = line.get("low"), line.get("high")
    known = isinstance(low, int | float) and isinstance(high, int | float)
    return f"{found} ({low:+.3g} to {high:+.3g})" if known else found
