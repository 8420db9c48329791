"""experiment.json, and results of equal runs that lie under another name. Standard library only."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.config import digest
from experiments.experiment import BASELINE
from experiments.records import (
    BY_STEP,
    CONFIG,
    EXPERIMENT,
    METRICS,
    RESULT,
    SCHEMA,
    WEIGHTS,
    Damaged,
    read_json,
    read_run,
    run_directory,
    write_json,
)
from experiments.runner import lease
from experiments.runner.plan import Planned, differences, fits

if TYPE_CHECKING:
    from experiments.experiment import Experiment, Run


def description(
    experiment: Experiment, runs: Iterable[Run], *, source: str, imports: Iterable[str] = (), command: str = ""
) -> dict[str, Any]:
    """The content of experiment.json: what was asked, and the ids of the runs that answer it."""
    declared = experiment.to_dict()
    return {
        "schema": SCHEMA,
        **{key: declared[key] for key in ("name", "question", "metric", "goal", "smallest_effect", "tags")},
        "seeds": experiment.seed_list(),
        "baseline": BASELINE,
        "baseline_config": declared["baseline"],
        "variants": [{"name": v.name, "changes": dict(v.changes)} for v in experiment.expand()],
        "runs": [{"id": r.id, "variant": r.variant, "seed": r.config.seed, "hash": r.hash} for r in runs],
        "imports": list(imports),
        "source": source,
        "definition": digest(declared),
        "command": command,
    }


def write(results: Path, content: Mapping[str, Any]) -> None:
    """Writes an experiment's experiment.json, whole or not at all.

    Raises:
        OSError: the results folder cannot be written.
    """
    folder = results / str(content["name"])
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / EXPERIMENT, dict(content))


def stored(results: Path, experiment: str) -> dict[str, Any] | None:
    """What the last launch under this name asked for; None when there was none or it cannot be read."""
    with contextlib.suppress(FileNotFoundError, Damaged):
        return read_json(results / experiment / EXPERIMENT)
    return None


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What a changed experiment asks differently, one readable line each; empty when it asks the same."""
    keys = ("question", "metric", "goal", "smallest_effect", "seeds")
    lines = [f"{key}: {old.get(key)} -> {new.get(key)}" for key in keys if old.get(key) != new.get(key)]
    lines += differences(old.get("baseline_config"), new.get("baseline_config"), "baseline")
    before, after = _changes(old), _changes(new)
    lines += [f"variant '{name}' is new" for name in after if name not in before]
    lines += [f"variant '{name}' is no longer asked for" for name in before if name not in after]
    for name in after:
        if name in before:
            lines += differences(before[name], after[name], f"variant '{name}'")
    if not lines and not _hashes(old) <= _hashes(new):  # more runs of the same (a grid that grew) are no change
        lines.append("a component's definition or default has changed since the stored runs")
    kept = len(_hashes(old) & _hashes(new))
    return [*lines, f"{kept} of {len(_hashes(new))} runs are unchanged"] if lines else []


def adopt(planned: Planned, results: Path, experiment: str) -> bool:
    """Copies the result of an equal run to where this run's belongs; False when it no longer fits.

    Raises:
        OSError: the results folder cannot be written.
    """
    wanted, source = planned.wanted, planned.source
    directory = run_directory(results, experiment, wanted.id)
    directory.mkdir(parents=True, exist_ok=True)
    held = lease.acquire(directory)
    if held is None or source is None:
        return False
    try:
        if not fits(wanted, source):
            return False
        _copy(planned, source, directory, experiment)
        return True
    finally:
        held.release()


def _copy(planned: Planned, source: Path, directory: Path, experiment: str) -> None:
    """Everything but the result first: should we die in between, the run counts as interrupted, not as done."""
    wanted, found = planned.wanted, read_run(source)
    assert found.config is not None
    assert found.result is not None
    names = {"run_id": wanted.id, "experiment": experiment, "variant": wanted.variant}
    changes = dict(wanted.run.changes) if wanted.run is not None else found.config.get("changes")
    write_json(directory / CONFIG, {**found.config, **names, "changes": changes})
    for name in (METRICS, WEIGHTS, BY_STEP):
        if (source / name).exists():
            temporary = directory / f".{name}.{os.getpid()}.tmp"
            shutil.copyfile(source / name, temporary)
            os.replace(temporary, directory / name)
    origin = f"{source.parent.parent.name}/{source.name}"
    write_json(directory / RESULT, {**found.result, **names, "reused_from": origin})


def _changes(content: Mapping[str, Any]) -> dict[str, Any]:
    variants = content.get("variants")
    return {str(v.get("name")): v.get("changes") for v in variants} if isinstance(variants, list) else {}


def _hashes(content: Mapping[str, Any]) -> set[str]:
    runs = content.get("runs")
    return {str(r.get("hash")) for r in runs} if isinstance(runs, list) else set()
