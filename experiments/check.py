"""What would stop a run, found before anything trains: names, options, combinations, sizes. Imports torch."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any

from experiments.config import ConfigError, RunConfig, digest
from experiments.experiment import Experiment, Run
from experiments.problems import described, purpose_problems
from experiments.tasks import TASKS, Task
from transformer.spec import Spec

MOST_BYTES = 4 * 10**9  # that made-up examples may take at once; sizes beyond are slips


def run_problems(config: RunConfig) -> list[tuple[str, str]]:
    """Pairs of (path, sentence); empty when the run can start. Nothing is trained and no weights are allocated."""
    model = repr((config.model.to_dict(), config.task.to_dict()))  # no digest: a value may be no JSON yet
    named = _name_problems(config, model)
    if named:
        return named
    try:
        task = build_task(config.task)
    except Exception as error:  # whatever a user's own task raises
        return [("task", line) for line in _lines(error)]
    found = _fit_problems(config, task) or ([] if model in _sound else _build_problems(config, task))
    if not found:
        _sound.add(model)
    return found


def checked_runs(experiment: Experiment) -> list[Run]:
    """The runs of an experiment whose every variant can start and whose metric will be measured.

    Raises:
        ConfigError: all problems at once.
    """
    name = experiment.name
    problems = [(f"{name}: {path}" if path else name, text) for path, text in purpose_problems(experiment)]
    try:
        runs = experiment.runs()
        problems += metric_problems(experiment)
        problems += _same_runs(name, runs)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    return runs


def _same_runs(name: str, runs: list[Run]) -> list[tuple[str, str]]:
    """Variants that are written differently and come to the same, such as a default that is spelled out."""
    seen: dict[str, str] = {}
    found = []
    for run in runs:
        first = seen.setdefault(run.hash, run.variant)
        if first != run.variant:
            text = f"'{run.variant}' comes to the same configuration as '{first}'; leave one out"
            found.append((f"{name}: variants", text))
    return list(dict.fromkeys(found))


def metric_problems(experiment: Experiment) -> list[tuple[str, str]]:
    """Whether some variant's task cannot measure the experiment's metric."""
    from experiments.training.answers import lacking
    from experiments.training.evaluate import metric_names
    from transformer.registry import unknown

    for variant in experiment.expand():
        config = experiment.baseline.replace(variant.changes)
        task = build_task(config.task)
        known = metric_names(task)
        if experiment.metric not in known:
            kept_back = experiment.metric in {f"test/{name}" for name in (*task.text_metrics, *task.yardsticks)}
            text = lacking(task) if kept_back else None
            text = text or unknown(f"metric of task '{config.task}'", experiment.metric, known)
            return [(f"{experiment.name}: metric", text)]
    return []


def parameters(config: RunConfig) -> dict[str, int]:
    """Parameter counts of a run's model, without allocating it: total and without embeddings."""
    from transformer.costs import count_parameters

    return dict(_count(digest([config.model.to_dict(), config.task.to_dict()]), config, count_parameters))


def build_task(spec: Spec) -> Task:
    """The task of a spec; built once per process, since corpora are read and encoded.

    Raises:
        ValueError: its options do not fit together, or ask for more than can be made.
    """
    return _task(digest(spec.to_dict()), spec)


def model_arguments(task: Task) -> dict[str, Any]:
    """What a task tells `transformer.models.build` about sizes."""
    return {
        "vocab_size": task.vocab_size, "max_len": task.max_len, "n_classes": task.n_classes,
        "source_vocab_size": task.source_vocab_size,
    }


def _too_large(spec: Spec) -> str:
    """What of a task with made-up examples would take minutes to make and then all memory; "" = nothing.

    A block of training examples is held at once, 8 bytes for each token, symbol or combination.
    """
    from experiments.tasks.generated import BLOCK_ROWS, Generated

    if not issubclass(TASKS.entry(spec.name).cls, Generated):
        return ""
    options = TASKS.resolve(spec)
    rows = max(BLOCK_ROWS, int(options.get("eval_rows") or 0))
    each = [(key, value if isinstance(value, list | tuple) else [value]) for key, value in options.items()]
    sizes = [(n, key) for key, values in each for n in values if type(n) is int and key != "eval_rows"]
    largest, key = max(sizes, default=(0, ""))
    needed, fits = 8 * rows * largest, MOST_BYTES // (8 * rows)
    if needed <= MOST_BYTES:
        return ""
    return f"task '{spec.name}': {key}={largest} would take about {needed / 1e9:,.0f} GB; at most {fits:,} fits"


@functools.lru_cache(maxsize=64)
def _task(key: str, spec: Spec) -> Task:
    too_large = _too_large(spec)
    if too_large:
        raise ValueError(too_large)
    return TASKS.build(spec)


_counts: dict[str, dict[str, int]] = {}


def _count(key: str, config: RunConfig, count: Any) -> dict[str, int]:
    if key not in _counts:
        from transformer.models import build

        model = build(config.model, seed=0, device="meta", **model_arguments(build_task(config.task)))
        _counts[key] = count(model)
    return _counts[key]


_sound: set[str] = set()  # models that were built without trouble: variants that train them differently need no more


def _name_problems(config: RunConfig, model: str) -> list[tuple[str, str]]:
    from experiments.training.schedules import SAMPLING, SCHEDULES

    about_model = [] if model in _sound else config.model.problems()
    found = [(f"model.{path}" if path else "model", text) for path, text in about_model]
    found += [("task", text) for text in TASKS.problems(config.task)]
    found += [("train.schedule", text) for text in SCHEDULES.problems(config.train.schedule)]
    if config.train.scheduled_sampling is not None:
        found += [("train.scheduled_sampling", text) for text in SAMPLING.problems(config.train.scheduled_sampling)]
    return found


def _fit_problems(config: RunConfig, task: Task) -> list[tuple[str, str]]:
    from experiments.training.problems import train_problems

    found = train_problems(config)
    if config.model.architecture not in task.architectures:
        able = " or ".join(task.architectures)
        text = f"task '{config.task.name}' needs {able}, not '{config.model.architecture}'"
        found.append(("model.architecture", text))
    if config.model.max_len is not None and config.model.max_len < task.max_len:
        found.append((
            "model.max_len",
            f"{config.model.max_len} is shorter than the {task.max_len} positions that task '{config.task.name}' asks "
            f"for; leave it out, or give at least {task.max_len}",
        ))
    return found


def _build_problems(config: RunConfig, task: Task) -> list[tuple[str, str]]:
    from experiments.rehearsal import has_own_parts, rehearse
    from transformer.models import build

    try:
        with contextlib.redirect_stdout(sys.stderr):  # a user's own part may print, which is no part of our answer
            build(config.model, seed=0, device="meta", **model_arguments(task))
            if has_own_parts(config, task):
                rehearse(config, task)
    except Exception as error:  # whatever a user's own part raises
        return [("model", line) for line in _lines(error)]
    return []


def _lines(error: Exception) -> list[str]:
    return str(error).splitlines() if type(error) is ValueError and str(error) else [described(error)]
