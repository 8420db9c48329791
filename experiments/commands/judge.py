"""`judge`: is this one change real? One verdict on the screen, an exit code for scripts, a line in the ledger."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from experiments import ledger
from experiments.check import checked_runs
from experiments.claims.launching import trainer
from experiments.claims.record import record
from experiments.claims.sequence import Decide
from experiments.commands.choices import Launch, check_launch
from experiments.commands.launch import command_line
from experiments.config import ConfigError, RunConfig
from experiments.experiment import Experiment
from experiments.files import assignment, declare, import_file
from experiments.judge import EXIT, LOOKS, MATTERS, Budget, Describe, Expect, Judged, Question, judge, same
from transformer.registry import shown

LESS_IS_BETTER = ("loss", "perplexity", "bits_per_token", "error_rate")
CURVE_POINTS = 5  # validations that the speed-up is read from, at least


@dataclass(frozen=True)
class Asked:
    """What a person typed.

    Attributes:
        sets: the change, `path=value`. base: changes to the baseline, that both sides share.
        experiment: whose baseline, metric and smallest effect to take; None = the default configuration.
        task: another task for both sides. metric, smallest_effect: others than the experiment's own.
        looks: seed counts at which it may be decided. budget: see Budget. again: also where it was decided before.
    """

    sets: Sequence[str]
    experiment: str | None = None
    task: str | None = None
    base: Sequence[str] = ()
    metric: str | None = None
    smallest_effect: float | None = None
    looks: Sequence[int] = LOOKS
    budget: str | None = None
    again: bool = False
    imports: Sequence[str] = ()


def command(asked: Asked, launch: Launch, *, decide: Decide, describe: Describe) -> int:
    """Judges a change and prints one verdict; returns 0 supported, 3 refuted, 4 inconclusive.

    Args:
        decide, describe: `verdicts` and `about_change` of analysis.verdicts.

    Raises:
        ConfigError: something that was typed cannot be.
    """
    budget = Budget() if asked.budget is None else Budget.parse(asked.budget)
    question, imports = question_of(asked)
    check_launch(launch)
    say = Console(stderr=launch.as_json, highlight=False, markup=False, soft_wrap=True)
    before = ledger.read(launch.results).earlier(question.key)
    if before is not None and not asked.again and before["verdict"] != "INCONCLUSIVE":
        return _told_before(before, launch)
    if before is not None:
        say.print(f"tried before: {_one_line(before)}; going on from its runs", markup=False)
    judged = _judge(question, launch, imports, budget, decide, describe, say)
    content = {"key": question.key, "change": question.words, "metric": question.metric, **_sides(question),
               "experiment": question.claim().name, "command": command_line(), **judged.content}  # fmt: skip
    if not judged.signalled:
        ledger.append(launch.results, content)
    if launch.as_json:
        print(json.dumps({**content, "exit_code": judged.exit_code}, indent=1))
    else:
        for line in judged.lines:
            say.print(line, markup=False)
    return judged.exit_code


def _judge(
    question: Question, launch: Launch, imports: tuple[str, ...], budget: Budget, decide: Decide, describe: Describe,
    say: Console,
) -> Judged:
    if question.changes_nothing:
        return same(question)
    for line in record(question.claim(), launch.results, command_line()):
        say.print(line, markup=False)
    train = trainer(launch, imports)
    return judge(question, launch.results, train, decide, describe, budget=budget, expect=_expect(launch))


def question_of(asked: Asked) -> tuple[Question, tuple[str, ...]]:
    """The question that a command line asks, and the files that declare its parts.

    Raises:
        ConfigError: nothing to change, or a path or value that does not fit.
    """
    if not asked.sets:
        raise ConfigError([("--set", "say what to change: --set model.feedforward=swiglu")])
    imports = tuple(str(Path(file).resolve()) for file in asked.imports)
    for file in imports:
        import_file(Path(file))
    declared = declare(asked.experiment) if asked.experiment else None
    experiment = declared.experiment if declared else Experiment(name="judge", question="Is it real?")
    base = _changes("--base", asked.base)
    base |= {"task": assignment(f"task={asked.task}")[1]} if asked.task is not None else {}
    baseline = _with_curve(experiment.baseline.replace(base), base)
    metric = experiment.metric if asked.metric is None else asked.metric
    goal = experiment.goal if metric == experiment.metric else goal_of(metric)
    own = experiment.smallest_effect if metric == experiment.metric else None
    effect = _effect(asked.smallest_effect) or own or MATTERS[goal]
    question = Question(baseline, _changes("--set", asked.sets), metric, goal, effect, tuple(asked.looks))
    problems = baseline.problems() or [(f"--set: {path}", text) for path, text in question.changed.problems()]
    if problems:
        raise ConfigError(problems)
    if not question.changes_nothing:
        _check_runs(question)
    return question, (*(declared.imports if declared else ()), *imports)


def _changes(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """`path=value` words as path -> value; two values for one path contradict each other."""
    found: dict[str, Any] = {}
    for path, value in map(assignment, texts):
        if path in found and found[path] != value:
            told = f"{path} is both {shown(found[path])} and {shown(value)}; judge one of them at a time"
            raise ConfigError([(option, told)])
        found[path] = value
    return found


def _effect(given: float | None) -> float | None:
    if given is None or (given > 0 and math.isfinite(given)):
        return given
    raise ConfigError([("--smallest-effect", f"{given:g} must be a finite number more than 0")])


def _check_runs(question: Question) -> None:
    """Whether its runs can be planned and its metric measured, in the words of the options that ask for them."""
    words = {"metric": "--metric", "baseline.seed": "--base seed", "variants.change": "--set"}
    try:
        checked_runs(question.claim().experiment(question.looks[0]))
    except ConfigError as error:
        paths = [(re.sub(r"^judge-[0-9a-f]{12}(: )?", "", path), text) for path, text in error.problems]
        raise ConfigError([(words.get(path, path), text) for path, text in paths]) from None


def goal_of(metric: str) -> Literal["min", "max"]:
    """Whether less or more is better, by the metric's last word."""
    return "min" if metric.endswith(LESS_IS_BETTER) else "max"


def _with_curve(baseline: RunConfig, given: Mapping[str, Any]) -> RunConfig:
    """Often enough validated to read a speed-up from, unless a person chose how often."""
    every = max(1, baseline.train.steps // CURVE_POINTS)
    if "train.eval_every" in given or baseline.train.eval_every <= every:
        return baseline
    return baseline.replace({"train.eval_every": every})


def _expect(launch: Launch) -> Expect:
    def expect(experiment: Experiment) -> float:
        from experiments.estimate import seconds_of
        from experiments.runner.devices import slots

        workers = len(slots(launch.device, launch.workers, launch.per_gpu))
        return sum(seconds_of(experiment.runs(), launch.results)) / workers

    return expect


def _sides(question: Question) -> dict[str, Any]:
    baseline = question.baseline.to_dict()
    return {"changes": dict(question.changes), "baseline": baseline, "smallest_effect": question.smallest_effect}


def _told_before(before: Mapping[str, Any], launch: Launch) -> int:
    if launch.as_json:
        print(json.dumps({**before, "told_before": True, "exit_code": EXIT[before["verdict"]]}, indent=1))
    else:
        text = f"already decided: {_one_line(before)}\nask again with --again, which goes on from its runs"
        Console(highlight=False, markup=False).print(text, markup=False, soft_wrap=True)
    return EXIT[str(before["verdict"])]


def _one_line(line: Mapping[str, Any]) -> str:
    effect = line.get("effect")
    found = f", effect {effect:+.4g} in {line.get('metric')}" if isinstance(effect, int | float) else ""
    return f"{line.get('change')} is {line.get('verdict')}{found}, n = {line.get('n', 0)} ({line.get('when')})"
