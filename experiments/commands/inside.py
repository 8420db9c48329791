"""`inside RUN --text ...`: attention maps, roles of heads and more, as inside.json beside the run."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from experiments.records import INSIDE, write_json


def command(run: str, text: str | None, results: Path, as_json: bool, *, out: Path | None = None) -> int:
    """Looks inside a finished run and writes inside.json; figures are drawn from it by analysis.figures.inside.

    Args:
        run: its id, the beginning of one, or its directory.
        text: what the model reads; None = the first row of validation.
        out: another folder for inside.json than the run's own.

    Raises:
        ConfigError: no such run, no weights, or a text that the task cannot read.
        OSError: the folder cannot be written.
    """
    from rich.console import Console

    with contextlib.redirect_stdout(sys.stderr):  # a user's own part may print, which is no part of our answer
        folder, content = look_inside(run, text, results, out)
    if as_json:
        print(json.dumps(content, indent=1, ensure_ascii=False))
        return 0
    console = Console(highlight=False, markup=False)
    console.print(f"{content['run_id']}: {len(content['heads'])} heads", style="bold", markup=False)
    for head in content["heads"]:
        score = head["scores"].get(head["role"])
        told = f"{head['role']} {score:.2f}" if score is not None else _highest(head["scores"])
        console.print(f"  {head['attention']} {head['head']}: {told}", markup=False)
    for sample in content["samples"]:
        console.print(f"  {sample['decode']}: {sample['prompt']!r} -> {sample['text']!r}", markup=False, soft_wrap=True)
    if content["answer"] is not None:
        console.print(f"  answer: {content['answer']}", markup=False)
    if content["by_step"]:
        console.print(f"  {_over_steps(content['by_step'])}", markup=False, soft_wrap=True)
    console.print(f"wrote {folder / INSIDE}", markup=False, soft_wrap=True)
    return 0


def look_inside(run: str, text: str | None, results: Path, out: Path | None = None) -> tuple[Path, dict[str, Any]]:
    """Writes inside.json; the folder that it is in, and its content."""
    from experiments.commands.options import output_folder
    from experiments.commands.show import find_run, read_config
    from experiments.diagnosis.case import Budget
    from experiments.diagnosis.inside import gather
    from experiments.diagnosis.target import stored

    directory = find_run(results, run)
    folder = output_folder(out, "--out") if out else directory
    told = read_config(directory)[0].config or {}
    case = stored(directory, Budget())
    content = {**{name: told[name] for name in ("run_id", "experiment", "variant", "hash")}, **gather(case, text)}
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / INSIDE, content)
    return folder, content


def _over_steps(rows: list[dict[str, float]]) -> str:
    """What the record of the layers shows at its ends, of the last layer."""
    first, last = rows[0], rows[-1]
    told = []
    for quantity in ("rms", "score_rms", "entropy", "gradient"):
        name = next((name for name in reversed(last) if name.endswith(f"/{quantity}") and ".layers." in name), None)
        if name is not None and name in first:
            told.append(f"{name} {first[name]:.3g} -> {last[name]:.3g}")
    return f"from step {first['step']} to {last['step']}: " + ", ".join(told)


def _highest(scores: dict[str, float]) -> str:
    name = max(scores, key=lambda key: scores[key])
    return f"mixed (highest: {name} {scores[name]:.2f})"
