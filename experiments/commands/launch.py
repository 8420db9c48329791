"""From a declared experiment to a plan and a launch; what `plan`, `run` and `report` share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.check import checked_runs
from experiments.experiment import Run
from experiments.files import Declared
from experiments.runner.plan import FAILED, TO_RUN, Plan, State, plan
from experiments.runner.store import description, difference, stored
from experiments.tuning.budget import held_equal
from experiments.tuning.calibration import calibrated
from experiments.tuning.protocols import PROTOCOLS


@dataclass(frozen=True)
class Prepared:
    """An experiment ready to be launched.

    Attributes:
        declared: where it came from. runs: every wanted run. plan: their states.
        content: what experiment.json will say. changed: how that differs from the last launch, in words.
    """

    declared: Declared
    runs: list[Run]
    plan: Plan
    content: dict[str, Any]
    changed: list[str]


def prepare(declared: Declared, results: Path, *, verify: bool = False) -> Prepared:
    """Checks everything and compares with what is stored; writes nothing.

    Raises:
        ConfigError: everything that is wrong, at once.
    """
    declared = calibrated(declared, results, measure=False)
    experiment = declared.experiment
    checked_runs(experiment)
    protocol = PROTOCOLS.build(experiment.protocol)
    runs = protocol.runs(experiment, results)
    planned = plan(experiment.name, runs, results, verify=verify)
    content = description(
        protocol.reported(experiment), runs, source=declared.source, imports=declared.imports, command=command_line()
    )
    content |= held_equal(experiment, runs)
    old = stored(results, experiment.name)
    return Prepared(declared, runs, planned, content, difference(old, content) if old else [])


def headline(prepared: Prepared) -> str:
    """`components: 60 runs = 12 variants x 5 seeds: 34 done, 2 failed (retry with --retry-failed), 24 to run`."""
    experiment, counts = prepared.declared.experiment, prepared.plan.counts()
    variants, seeds = len(experiment.expand()), len({run.config.seed for run in prepared.runs})
    words = [f"{n} {state.value.replace('_', ' ')}" for state, n in counts.items() if state not in TO_RUN]
    if any(state in FAILED for state in counts):
        words[-1] += " (retry with --retry-failed)"
    if State.DAMAGED in counts:
        words[-1] += " (train again with --redo-damaged)"
    to_run = sum(n for state, n in counts.items() if state in TO_RUN)
    why = [f"{n} {s.value}" for s, n in counts.items() if s in TO_RUN and s is not State.NEW]
    words.append(f"{to_run} to run{f' ({chr(44).join(why)})' if why else ''}")
    total = len(prepared.runs)
    tuned = PROTOCOLS.build(experiment.protocol).headline(total, variants * seeds)
    size = f"{_count(total, 'run')} = {_count(variants, 'variant')} x {_count(seeds, 'seed')}"
    return f"{experiment.name}: {size}{tuned}: {', '.join(words)}"


def _count(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def command_line() -> str:
    """The command as it was typed, for the record."""
    import shlex

    return shlex.join(["python", *sys.argv]) if sys.argv[0].endswith("run_all.py") else "python run_all.py"


def again_command(verb: str, source: str, results: Path, extra: str) -> str:
    """The command as it was typed, when it was this verb, with one more word; otherwise the shortest that does it."""
    import shlex

    words = [word for word in sys.argv[1:] if word != extra]
    if words[:1] != [verb]:
        words = [verb, source, *([] if str(results) == "results" else ["--results", str(results)])]
    return f"python run_all.py {shlex.join(words)} {extra}"


def repeat_command(declared: Declared, results: Path) -> str:
    """A command that trains one run of this experiment again; `{run}` stands for its id."""
    import shlex

    words = [word for word in sys.argv[1:] if word not in ("--retry-failed", "-x", "--fail-fast")]
    if words[:1] == ["worker"]:
        words = ["run", *_without_share(words[1:])]
    if not words or words[0] != "run":
        words = ["run", declared.source]
        words += [] if str(results) == "results" else ["--results", str(results)]
    return f"python run_all.py {shlex.join(words)} --only {{run}} --redo"


def _without_share(words: list[str]) -> list[str]:
    return [w for i, w in enumerate(words) if not w.startswith("--shard") and words[max(0, i - 1)] != "--shard"]


def by_state(planned: Plan) -> Callable[[State], int]:
    """How many runs are in a state."""
    counts = planned.counts()
    return lambda state: counts.get(state, 0)
