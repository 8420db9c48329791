"""Is this one change real? The baseline and the change side by side, seeds added by looks until that is decided."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from experiments.claims.card import Claim, Part, difference, less, more
from experiments.claims.sequence import Afford, Decide, Looked, Train, look_by_look
from experiments.config import ConfigError, RunConfig, digest
from experiments.experiment import Experiment
from experiments.tuning.labels import label

LOOKS = (5, 10, 20)
LONGER = 2  # times the steps, for the baseline that a better change is set against in compute
EXIT = {"SUPPORTED": 0, "REFUTED": 3, "INCONCLUSIVE": 4}
MATTERS = {"min": 0.01, "max": 0.02}  # the smallest effect when none is given: nats per token, or share


@dataclass(frozen=True)
class Question:
    """A change and what it is held against.

    Attributes:
        baseline: what everything else is equal to. changes: dotted path -> value.
        metric, goal: what decides. smallest_effect: improvement that would matter.
        looks: seed counts at which it may be decided.
    """

    baseline: RunConfig
    changes: Mapping[str, Any]
    metric: str = "test/loss"
    goal: Literal["min", "max"] = "min"
    smallest_effect: float = MATTERS["min"]
    looks: tuple[int, ...] = LOOKS

    @property
    def words(self) -> str:
        """`model.feedforward=swiglu`."""
        return ", ".join(f"{path}={label(_plain(value))}" for path, value in sorted(self.changes.items()))

    @property
    def changed(self) -> RunConfig:
        """The baseline with the change.

        Raises:
            ConfigError: a path that does not exist, or a value that does not fit.
        """
        return self.baseline.replace(dict(self.changes))

    @property
    def changes_nothing(self) -> bool:
        """Whether every number would be the same: both sides resolve to one identity."""
        return self.changed.identity() == self.baseline.identity()

    @property
    def key(self) -> str:
        """What makes two questions the same one: both sides, the metric and the effect that matters."""
        sides = [self.baseline.replace({"seed": 0}).identity(), self.changed.replace({"seed": 0}).identity()]
        return digest([*sides, self.metric, self.goal, self.smallest_effect, list(self.looks)])

    def claim(self) -> Claim:
        """The question as a claim with the arms `baseline` and `change`."""
        terms = less if self.goal == "min" else more
        effect = difference(terms("change", "baseline", self.metric), self.smallest_effect)
        says = f"{self.words} improves {self.metric} by at least {self.smallest_effect:g}"
        return Claim(
            name=f"judge-{self.key[:12]}", statement=says, source="asked on the command line",
            parts=[Part(name="change", says=says, kind="quality", rule=effect)], baseline=self.baseline,
            arms={"baseline": {}, "change": dict(self.changes)}, metric=self.metric, goal=self.goal,
            looks=list(self.looks),
        )

    def longer(self, seeds: int) -> Experiment:
        """The baseline alone, trained for twice as long."""
        baseline = self.baseline.replace({"train.steps": LONGER * self.baseline.train.steps})
        return Experiment(
            name=f"judge-{self.key[:12]}-longer", question="How good is the baseline with twice the steps?",
            baseline=baseline, seeds=seeds, metric=self.metric, goal=self.goal, tags=["judge"],
        )


@dataclass(frozen=True)
class Budget:
    """What may be spent: seconds, runs, or both; None = no limit."""

    seconds: float | None = None
    runs: int | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """`600` or `600s` or `10m` or `2h`, or `20runs`.

        Raises:
            ConfigError: it is none of these.
        """
        found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]+)?)\s*(s|m|h|runs?)?", text.strip())
        in_runs = found is not None and (found[2] or "").startswith("run")
        if not found or not float(found[1]) or (in_runs and "." in found[1]):
            raise ConfigError([("--budget", f"'{text}' must be a time (600s, 10m, 2h) or a number of runs (20runs)")])
        if in_runs:
            return cls(runs=int(found[1]))
        return cls(seconds=float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2] or "s"])


class Beside(Protocol):
    """What stands beside a verdict: noise floor and speed-up."""

    def lines(self) -> list[str]: ...

    def to_dict(self) -> dict[str, Any]: ...


Describe = Callable[[Path, str, str | None], Beside]  # (results, experiment, the longer baseline or None)
Expect = Callable[[Experiment], float]  # seconds that an experiment's runs will take, all workers at work


@dataclass(frozen=True)
class Judged:
    """The answer.

    Attributes:
        label, detail: the verdict. lines: all that a reader is told. content: the same for scripts and the ledger.
    """

    label: str
    detail: str
    lines: tuple[str, ...]
    content: Mapping[str, Any] = field(default_factory=dict)
    signalled: bool = False
    failed: bool = False

    @property
    def exit_code(self) -> int:
        """0 supported, 3 refuted, 4 inconclusive; 1 when runs failed, 130 when a person stopped it."""
        if self.signalled:
            return 130
        return 1 if self.failed and self.label == "INCONCLUSIVE" else EXIT[self.label]


def judge(
    question: Question, results: Path, train: Train, decide: Decide, describe: Describe, *,
    budget: Budget = Budget(), expect: Expect = lambda experiment: 0.0, clock: Callable[[], float] = time.monotonic,
) -> Judged:
    """Trains look after look until the change is decided or the budget is spent.

    Args:
        question: recorded already, see claims/record.py.
        train, decide, describe: the runner, and `verdicts` and `about_change` of analysis.verdicts.
        budget: no look begins that would not end within it.
    """
    if question.changes_nothing:
        return same(question)
    claim, began = question.claim(), clock()
    afford = _affordable(question, budget, expect, began, clock)
    looked = look_by_look(claim, results, train, decide, afford=afford)
    if not looked.answers:
        looked = _below_the_first_look(claim, results, train, decide, budget, looked)
    longer = _longer(question, looked, train, afford)
    return _told(question, claim, looked, describe(results, claim.name, longer), clock() - began)


def same(question: Question) -> Judged:
    """The answer to a change that changes nothing: no run is needed."""
    line = f"REFUTED (no effect): {question.words} is what the baseline has already, so every number would be the same"
    content = {"verdict": "REFUTED", "detail": "no effect", "effect": 0.0, "n": 0, "runs": 0, "seconds": 0.0}
    return Judged("REFUTED", "no effect", (line,), content)


def _affordable(
    question: Question, budget: Budget, expect: Expect, began: float, clock: Callable[[], float]
) -> Afford:
    claim = question.claim()

    def afford(have: int, need: int) -> bool:
        if budget.runs is not None and need > budget.runs:
            return False
        if budget.seconds is None:
            return True
        spent = clock() - began
        coming = spent * (need - have) / have if have else expect(claim.experiment(need // 2))
        return spent + coming <= budget.seconds

    return afford


def _below_the_first_look(
    claim: Claim, results: Path, train: Train, decide: Decide, budget: Budget, looked: Looked
) -> Looked:
    """A budget under the first look still buys what it buys: no decision, but an effect to go on."""
    seeds = min(claim.looks[0] - 1, budget.runs // 2) if budget.runs else 0
    outcome = train(claim.experiment(seeds)) if seeds else None
    answers = tuple(decide(results, claim.name)) if seeds else ()
    return Looked(answers, seeds, 2 * seeds, looked.fixed, looked.stopped, outcome)


def _longer(question: Question, looked: Looked, train: Train, afford: Afford) -> str | None:
    """Trains the longer baseline where the change won; its name, or None where there is no need or no budget."""
    won = any(answer.label == "SUPPORTED" for answer in looked.answers)
    seeds = min(looked.seeds, question.looks[0])
    if not won or not afford(looked.runs, looked.runs + LONGER * seeds):
        return None
    experiment = question.longer(seeds)
    return experiment.name if train(experiment).exit_code == 0 else None


def _told(question: Question, claim: Claim, looked: Looked, beside: Beside, seconds: float) -> Judged:
    outcome = looked.outcome
    ended = {"signalled": bool(outcome and outcome.signalled), "failed": bool(outcome and outcome.exit_code)}
    if not looked.answers:
        line = f"INCONCLUSIVE (the budget ended first): {question.words}; {looked.stopped}"
        content = {"verdict": "INCONCLUSIVE", "detail": looked.stopped, "n": 0, "runs": 0, "seconds": seconds}
        return Judged("INCONCLUSIVE", looked.stopped, (line,), content, **ended)
    verdict = looked.answers[0]
    plain = verdict.to_dict()
    lines = [str(verdict), *(f"  {line}" for line in beside.lines())]
    lines += [f"  stopped early: {looked.stopped}"] if looked.stopped else []
    lines += [f"  {looked.saved} of {looked.fixed} runs were not needed"] if looked.saved else []
    content = {
        **{key: plain[key] for key in ("detail", "effect", "low", "high", "n", "p", "mde", "more_seeds", "scope")},
        "verdict": verdict.label, "runs": looked.runs, "runs_saved": looked.saved, "seconds": round(seconds, 1),
        "stopped": looked.stopped, **beside.to_dict(), "run_ids": plain["runs"], "gates": plain["gates"],
        "notes": plain["notes"],
    }
    return Judged(verdict.label, str(plain["detail"]), tuple(lines), content, **ended)


def _plain(value: Any) -> Any:
    return value.to_dict() if hasattr(value, "to_dict") else value
