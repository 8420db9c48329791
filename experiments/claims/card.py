"""A claim: a sentence from a textbook, the runs that can test it, and the rule that decides, fixed beforehand.

Torch-free. A claim is either an exact check (no seeds, no chance), or an experiment over arms, or both.

An arm is a set of changes to the baseline. Every arm is trained at every learning rate of `rates` with every seed; its
rate is then chosen by the mean validation score, the same way for all arms, and the rule reads the test scores there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from experiments.config import ConfigError, RunConfig, digest
from experiments.experiment import BASELINE, Experiment
from transformer.config import Frozen
from transformer.registry import unknown

Kind = Literal["exact", "stability", "quality", "cost", "generation"]
RULES: dict[str, tuple[str, ...]] = {
    "exact": ("exact",),
    "stability": ("rates", "difference"),
    "quality": ("difference", "equivalence", "harmless"),
    "cost": ("ratio", "difference"),
    "generation": ("difference",),
}
BY_SEEDS = ("difference", "equivalence", "harmless", "rates")
SECOND = "second"
STANDARD = "standard"


class Part(Frozen):
    """One decidable sentence of a claim.

    Attributes:
        name: short, unique in the claim. says: the sentence.
        kind: what sort of claim it is; each kind has its own rules.
        rule: `name` of the rule and its options, as in analysis/verdicts/rules.py; make it with the functions below.
        primary: tested within the claim's family. Others are shown, and decide nothing.
    """

    name: str
    says: str
    kind: Kind
    rule: dict[str, Any]
    primary: bool = True

    @model_validator(mode="after")
    def _rule_fits_kind(self) -> Part:
        if self.rule.get("name") not in RULES[self.kind]:
            raise ValueError(f"kind '{self.kind}' is decided by {' or '.join(RULES[self.kind])}, not {self.rule}")
        return self

    def arms(self) -> set[str]:
        """The arms that the rule reads."""
        terms = [*self.rule.get("terms", []), *(self.rule.get("guard") or {}).get("terms", [])]
        return {term["arm"] for term in terms} | {*self.rule.get("more", []), *self.rule.get("fewer", [])}


class Choice(Frozen):
    """What an arm's learning rate is chosen by."""

    metric: str = "validation/loss"
    goal: Literal["min", "max"] = "min"


class Claim(Frozen):
    """A claim card.

    Attributes:
        name: file-name safe; results lie under it. statement: the sentence, as textbooks have it. source: who says so.
        parts: what is decided, one verdict each.
        scope: what the verdict is about, in words; sizes, tokens, data and rates are read from the runs.
        check: `module:function` that measures exactly, without training for a result; None = there is none.
        probe: `module:function` that measures on the trained weights of each run; None = there is none.
        baseline, arms, rates, second: the experiment, see above; `second` are the changes that make the second task.
        metric, goal: of the experiment's own report. choose: what learning rates are chosen by.
        looks: seed counts at which something may be decided, fixed beforehand.
        presets: name -> changes by dotted path.
    """

    name: str
    statement: str
    source: str
    parts: list[Part]
    scope: str = ""
    check: str | None = None
    probe: str | None = None
    baseline: RunConfig = RunConfig()
    arms: dict[str, dict[str, Any]] = Field(default_factory=dict)
    rates: list[float] = Field(default_factory=list)
    second: dict[str, Any] = Field(default_factory=dict)
    metric: str = "test/loss"
    goal: Literal["min", "max"] = "min"
    choose: Choice = Choice()
    looks: list[int] = Field(default_factory=lambda: [5, 10, 20])
    presets: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _hangs_together(self) -> Claim:
        names = [part.name for part in self.parts]
        problems = [("parts", f"'{name}' is there twice") for name in names if names.count(name) > 1][:1]
        problems += [("parts", "a claim decides at least one thing")] if not names else []
        used = set().union(*(part.arms() for part in self.parts))
        problems += [("parts", unknown("arm", arm, self.arms)) for arm in sorted(used - set(self.arms))]
        if not self.check and any(part.rule["name"] in ("exact", "ratio") for part in self.parts):
            problems.append(("check", "an exact or timed part needs a check"))
        if self.arms and not any(self._same(changes) for changes in self.cells().values()):
            problems.append(("arms", "one arm, at one learning rate, must be the baseline itself"))
        if problems:
            raise ConfigError(problems)
        return self

    def _same(self, changes: Mapping[str, Any]) -> bool:
        return self.baseline.replace(changes) == self.baseline

    @property
    def by_seeds(self) -> bool:
        """Whether any part needs training."""
        return any(part.rule["name"] in BY_SEEDS for part in self.parts)

    @property
    def hash(self) -> str:
        """sha256 of the whole card."""
        return digest(self.to_dict())

    def at(self, preset: str) -> Claim:
        """The card at a preset; `standard` is the card as it stands. Its results have a place of their own.

        Raises:
            ConfigError: no such preset.
        """
        if preset == STANDARD:
            return self.replace({"presets": {}})
        if preset not in self.presets and (self.by_seeds or preset != "quick"):
            raise ConfigError([(self.name, unknown("preset", preset, [STANDARD, *self.presets]))])
        changes = dict(self.presets.get(preset, {}))
        return self.replace({**changes, "name": f"{self.name}-{preset}" if self.by_seeds else self.name, "presets": {}})

    def cells(self) -> dict[tuple[str, float | None, str], dict[str, Any]]:
        """(arm, learning rate, task) -> changes; the task is "" or `second`."""
        found: dict[tuple[str, float | None, str], dict[str, Any]] = {}
        rates: list[float | None] = [*self.rates] or [None]
        for task, extra in (("", {}), (SECOND, self.second)):
            if task == SECOND and not self.second:
                continue
            for arm, changes in self.arms.items():
                for lr in rates:
                    found[arm, lr, task] = {**extra, **changes, **({} if lr is None else {"train.lr": lr})}
        return found

    @property
    def size(self) -> int:
        """Runs a seed."""
        return len({self.variant(*cell) for cell in self.cells()} | {BASELINE})

    def variant(self, arm: str, lr: float | None, task: str) -> str:
        """The name of a cell's variant in the experiment."""
        if self._same(self.cells()[arm, lr, task]):
            return BASELINE
        return ", ".join(word for word in (arm, f"lr={lr:g}" if lr is not None else "", task) if word)

    def experiment(self, seeds: int) -> Experiment:
        """The runs of the claim with seeds 0 to n - 1."""
        named = {self.variant(*cell): changes for cell, changes in self.cells().items()}
        return Experiment(
            name=self.name, question=_question(self.statement), baseline=self.baseline,
            variants={name: changes for name, changes in named.items() if name != BASELINE}, seeds=seeds,
            metric=self.metric, goal=self.goal, tags=["claim"],
        )


def _question(statement: str) -> str:
    return f"Is it so? {statement}"


def term(arm: str, metric: str, weight: float) -> dict[str, Any]:
    """weight * score(arm, metric), a term of a contrast."""
    return {"arm": arm, "metric": metric, "weight": weight}


def less(arm: str, than: str, metric: str = "test/loss") -> list[dict[str, Any]]:
    """score(than) - score(arm): positive where the arm has less of it."""
    return [term(than, metric, 1.0), term(arm, metric, -1.0)]


def more(arm: str, than: str, metric: str = "test/accuracy") -> list[dict[str, Any]]:
    """score(arm) - score(than): positive where the arm has more of it."""
    return [term(arm, metric, 1.0), term(than, metric, -1.0)]


def mean_less(arms: Sequence[str], than: Sequence[str], metric: str = "test/loss") -> list[dict[str, Any]]:
    """mean over `than` - mean over `arms`."""
    return [*(term(arm, metric, 1 / len(than)) for arm in than), *(term(arm, metric, -1 / len(arms)) for arm in arms)]


def scaled(terms: Sequence[Mapping[str, Any]], factor: float) -> list[dict[str, Any]]:
    """The contrast times a number: -1 turns it, and sums of contrasts make interactions."""
    return [{**one, "weight": factor * one["weight"]} for one in terms]


def difference(
    terms: Sequence[Mapping[str, Any]], delta: float, unit: str = "", guard: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The contrast is at least delta; under a condition, if there is a guard."""
    rule = {"name": "difference", "terms": list(terms), "delta": delta, "unit": unit}
    return rule if guard is None else {**rule, "guard": dict(guard)}


def guard(
    terms: Sequence[Mapping[str, Any]], says: str, *, at_least: float | None = None, at_most: float | None = None
) -> dict[str, Any]:
    """A condition: the 95 % interval of a contrast lies within bounds. `says` is what a reader is told where not."""
    return {"terms": list(terms), "says": says, "at_least": at_least, "at_most": at_most}


def equivalence(terms: Sequence[Mapping[str, Any]], delta: float, unit: str = "") -> dict[str, Any]:
    """The contrast lies within -delta and delta."""
    return {"name": "equivalence", "terms": list(terms), "delta": delta, "unit": unit}


def harmless(
    terms: Sequence[Mapping[str, Any]], delta: float, unit: str = "", guard: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The contrast, turned so that positive is harm, stays below delta; under a condition, if there is a guard."""
    return {**difference(terms, delta, unit, guard), "name": "harmless"}


def rates(more: Sequence[str], fewer: Sequence[str], delta: float) -> dict[str, Any]:
    """A larger share of runs fails in the arms `more` than in `fewer`, by delta."""
    return {"name": "rates", "more": list(more), "fewer": list(fewer), "delta": delta, "unit": "of runs"}


def ratio(at_most: float) -> dict[str, Any]:
    """The timed ratio of this part is below `at_most`."""
    return {"name": "ratio", "at_most": at_most}


EXACT: dict[str, Any] = {"name": "exact"}  # every value that the check measures for this part lies within its bounds
