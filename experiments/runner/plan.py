"""What is wanted against what is stored: one state per run, from the files alone. Standard library only."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.records import EXPERIMENT, LEASE, Damaged, Stored, experiments, read_json, read_run, run_directory
from experiments.runner import lease

if TYPE_CHECKING:
    from experiments.experiment import Run


class State(StrEnum):
    """Where a run stands; `done` and `diverged` are results."""

    DONE = "done"
    DIVERGED = "diverged"
    REUSABLE = "reusable"
    RUNNING = "running"
    NEW = "new"
    STALE = "stale"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    DAMAGED = "damaged"


ENDED = (State.DONE, State.DIVERGED)
TO_RUN = (State.NEW, State.STALE, State.INTERRUPTED, State.REUSABLE, State.RUNNING)
FAILED = (State.FAILED, State.CRASHED, State.TIMED_OUT, State.OUT_OF_MEMORY)


@dataclass(frozen=True)
class Wanted:
    """One run as asked for; `run` is the whole of it where configurations were resolved."""

    id: str
    variant: str
    seed: int
    hash: str
    run: Run | None = None


@dataclass(frozen=True)
class Planned:
    """A wanted run and where it stands.

    Attributes:
        wanted: the run.
        state: where it stands.
        why: sentences: the error of a failed run, the damage of a damaged one, what differs for a stale one.
        source: the directory whose result fits, when it lies under another name (reusable), or the old one (stale).
    """

    wanted: Wanted
    state: State
    why: tuple[str, ...] = ()
    source: Path | None = None

    @property
    def id(self) -> str:
        """The run's id."""
        return self.wanted.id


@dataclass(frozen=True)
class Plan:
    """Every wanted run of an experiment with its state.

    Attributes:
        experiment: its name. results: the results root.
        runs: in the order in which they are to be trained.
        left_over: stored runs that the experiment no longer asks for.
    """

    experiment: str
    results: Path
    runs: tuple[Planned, ...]
    left_over: tuple[str, ...] = field(default=())

    def counts(self) -> dict[State, int]:
        """How many runs are in each state; states without runs are left out."""
        found = Counter(run.state for run in self.runs)
        return {state: found[state] for state in State if found[state]}

    def matrix(self) -> dict[str, dict[int, State]]:
        """variant -> seed -> state, in the order of the experiment; of several learning rates, one without a result."""
        table: dict[str, dict[int, State]] = {}
        for run in self.runs:
            of_variant = table.setdefault(run.wanted.variant, {})
            if of_variant.get(run.wanted.seed, State.DONE) in ENDED:
                of_variant[run.wanted.seed] = run.state
        return table

    def in_state(self, *states: State) -> list[Planned]:
        """The runs in any of these states."""
        return [run for run in self.runs if run.state in states]

    def shard(self, index: int, count: int) -> Plan:
        """Every `count`-th run from `index`: the same share however much of the plan is done already."""
        return Plan(self.experiment, self.results, self.runs[index::count])


def wanted(runs: Iterable[Run]) -> list[Wanted]:
    """An experiment's runs as a plan sees them."""
    return [Wanted(run.id, run.variant, run.config.seed, run.hash, run) for run in runs]


def plan(experiment: str, runs: Iterable[Run], results: Path, *, verify: bool = False) -> Plan:
    """What is to be done for these runs.

    Args:
        experiment: its name. runs: `Experiment.runs()`. results: the results root.
        verify: also compare every metrics.jsonl with the checksum in its result.
    """
    return _against(experiment, wanted(runs), results, verify, look_elsewhere=True)


def status(experiment: str, results: Path, *, verify: bool = False) -> Plan:
    """The same for the runs that the experiment's last launch asked for: resolves nothing, imports no torch.

    Raises:
        FileNotFoundError: the experiment was never run under `results`.
        Damaged: its experiment.json cannot be trusted.
    """
    content = read_json(results / experiment / EXPERIMENT)
    try:
        asked = [Wanted(str(r["id"]), str(r["variant"]), int(r["seed"]), str(r["hash"])) for r in content["runs"]]
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{results / experiment / EXPERIMENT}: has no readable list of runs ({error})") from None
    return _against(experiment, asked, results, verify, look_elsewhere=False)


def state_of(run: Wanted, directory: Path, *, verify: bool = False) -> Planned:
    """Where one run stands, judged by its own directory."""
    stored = read_run(directory, verify_metrics=verify)
    if stored.result is not None and stored.result.get("hash") != run.hash:
        stored = Stored(directory, stored.config, None, stored.failure, (_foreign(directory, run), *stored.damage))
    if os.path.exists(directory / LEASE) and stored.result is None and lease.holder(directory) is not None:
        return Planned(run, State.RUNNING)
    if stored.damage:
        return Planned(run, State.DAMAGED, stored.damage)
    if stored.result is not None:
        return Planned(run, State.DIVERGED if stored.result.get("status") == "diverged" else State.DONE)
    if stored.failure is not None and stored.failure.get("hash") == run.hash:
        return _failed(run, stored.failure)
    return Planned(run, State.INTERRUPTED if stored.config is not None else State.NEW)


def _foreign(directory: Path, run: Wanted) -> str:
    return f"{directory}: holds the result of another configuration than {run.id}"


def _failed(run: Wanted, failure: Mapping[str, Any]) -> Planned:
    known = {str(state) for state in (*FAILED, State.INTERRUPTED)}
    kind = str(failure.get("kind"))
    error = str(failure.get("error") or "")
    return Planned(run, State(kind) if kind in known else State.FAILED, (error,) if error else ())


def _against(experiment: str, asked: list[Wanted], results: Path, verify: bool, look_elsewhere: bool) -> Plan:
    here = _names(results, experiment)
    elsewhere = _by_suffix(results, experiment) if look_elsewhere else {}
    old = _by_stem(here, {run.id for run in asked})
    planned = []
    for run in asked:
        directory = run_directory(results, experiment, run.id)
        found = state_of(run, directory, verify=verify) if run.id in here else Planned(run, State.NEW)
        if found.state in (State.NEW, State.INTERRUPTED):
            found = _reusable(run, elsewhere.get(_suffix(run.id), ()), directory) or found
        if found.state is State.NEW:
            found = _stale(run, [results / experiment / "runs" / name for name in old.get(_stem(run.id), ())]) or found
        planned.append(found)
    return Plan(experiment, results, tuple(planned), tuple(sorted(here - {run.id for run in asked})))


def _names(results: Path, experiment: str) -> set[str]:
    try:
        return {entry.name for entry in os.scandir(results / experiment / "runs") if entry.is_dir()}
    except OSError:
        return set()


def _by_suffix(results: Path, own: str) -> dict[str, list[Path]]:
    """Every stored run of every experiment, `own` first, by `s<seed>-<hash8>`, which equal runs share."""
    table: dict[str, list[Path]] = {}
    for experiment in dict.fromkeys([own, *experiments(results)]):
        for name in sorted(_names(results, experiment)):
            table.setdefault(_suffix(name), []).append(run_directory(results, experiment, name))
    return table


def _by_stem(names: Iterable[str], known: set[str]) -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for name in sorted(set(names) - known):
        table.setdefault(_stem(name), []).append(name)
    return table


def _suffix(run_id: str) -> str:
    return "-".join(run_id.rsplit("-", 2)[1:])


def _stem(run_id: str) -> str:
    return re.sub(r"-[0-9a-f]{8}$", "", run_id)


def _reusable(run: Wanted, candidates: Iterable[Path], own: Path) -> Planned | None:
    for directory in candidates:
        if directory != own and fits(run, directory):
            equal = f"equal to {directory.parent.parent.name}/{directory.name}"
            return Planned(run, State.REUSABLE, (equal,), directory)
    return None


def fits(run: Wanted, directory: Path) -> bool:
    """Whether a stored result, checked down to its metrics, is exactly this run's under another name."""
    stored = read_run(directory, verify_metrics=True)
    return stored.result is not None and not stored.damage and stored.result.get("hash") == run.hash


def _stale(run: Wanted, old: Iterable[Path]) -> Planned | None:
    for directory in old:
        stored = read_run(directory)
        if stored.result is not None and stored.config is not None:
            return Planned(run, State.STALE, tuple(_differs(run, stored.config)), directory)
    return None


def _differs(run: Wanted, config: Mapping[str, Any]) -> list[str]:
    if run.run is None:
        return ["made by another configuration"]
    return differences(config.get("identity"), run.run.identity)


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """One line `path: old -> new` for every leaf in which two trees differ; `-` stands for absent."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = [*old, *(key for key in new if key not in old)]
        inside = [differences(old.get(k, "-"), new.get(k, "-"), f"{path}.{k}" if path else str(k)) for k in keys]
        return [line for lines in inside for line in lines]
    return [] if _plain(old) == _plain(new) else [f"{path}: {old} -> {new}"]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def matching(plan: Plan, names: Iterable[str]) -> Iterator[Planned]:
    """The runs of a plan whose id, or whose variant, is among `names`."""
    chosen = set(names)
    return (run for run in plan.runs if run.id in chosen or run.wanted.variant in chosen)
