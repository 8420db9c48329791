"""A question, its baseline and what to vary; expands to variants and runs. Torch-free until its runs are checked."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from experiments.config import ConfigError, RunConfig, digest
from experiments.problems import BASELINE as BASELINE
from experiments.problems import shape_problems, size_problems
from experiments.tuning.dimensions import Dimension
from experiments.tuning.labels import label
from experiments.tuning.space import holds
from transformer.config import Frozen
from transformer.spec import Spec

Changes = Mapping[str, Any]


@dataclass(frozen=True)
class Variant:
    """A named set of changes to the baseline: `changes` maps dotted paths to values."""

    name: str
    changes: Changes


@dataclass(frozen=True)
class Run:
    """One training: a variant with one seed.

    Attributes:
        experiment, variant: names. changes: what makes the variant. config: the whole configuration.
        identity: every resolved field that can change a number. hash: sha256 of it.
    """

    experiment: str
    variant: str
    changes: Changes
    config: RunConfig
    identity: Mapping[str, Any]
    hash: str

    @property
    def id(self) -> str:
        """`<variant>-s<seed>-<hash8>`: the name of the run's directory, under 100 bytes."""
        return f"{slug(self.variant)}-s{self.config.seed}-{self.hash[:8]}"


class Experiment(Frozen):
    """A question asked of a baseline.

    Attributes:
        name: file-name safe; results lie under it.
        question: what the report answers, as a sentence with a question mark.
        baseline: the configuration that everything is compared with.
        vary: path -> values, one change at a time.
        grid: path -> values, every combination.
        groups: sub-grids whose union is run.
        when: condition `path=value` -> a sub-grid of settings that exist only where the condition holds.
        variants: explicit named sets of changes.
        seeds: a count n (seeds 0..n-1) or a list.
        metric, goal: what decides, such as `test/loss`, and whether less or more of it is better.
        smallest_effect: difference in the metric that would matter; None = not stated.
        protocol: how every variant gets its hyper-parameters: `fixed`, `lr_grid` or `search`; options on the protocol.
        space: path -> range or choice, for `search` and `tune`; plain forms as in tuning/space.py.
        budget: what is equal for every variant: `steps`, `tokens`, `flops` or `seconds`.
        match: `parameters` = the feed-forward width of every variant is set to the baseline's number of parameters.
        presets: name -> changes to this experiment by dotted path, such as `{"quick": {"seeds": 3}}`.
        tags: words for `list` and for wandb.
    """

    name: str
    question: str
    baseline: RunConfig = RunConfig()
    vary: dict[str, list[Any]] = Field(default_factory=dict)
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    groups: list[dict[str, list[Any]]] = Field(default_factory=list)
    when: dict[str, dict[str, list[Any]]] = Field(default_factory=dict)
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)
    seeds: int | list[int] = 5
    metric: str = "test/loss"
    goal: Literal["min", "max"] = "min"
    smallest_effect: float | None = Field(default=None, gt=0)
    protocol: Spec = Spec("fixed")
    space: dict[str, Dimension] = Field(default_factory=dict)
    budget: Spec = Spec("steps")
    match: Literal["parameters"] | None = None
    presets: dict[str, dict[str, Any]] = Field(default_factory=dict)
    tags: list[str] = Field(default_factory=list)

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ConfigError as error:
            raise ConfigError(list(dict.fromkeys([*error.problems, *_hidden(fields, error)]))) from None

    @model_validator(mode="after")
    def _can_be_expanded(self) -> Self:
        too_many = size_problems(self)
        problems = [*shape_problems(self), *too_many]
        for variant in () if too_many else self.expand():
            try:
                self.baseline.replace(variant.changes)
            except ConfigError as error:
                problems += error.problems
        problems += self._tuning_problems()
        if problems:
            raise ConfigError(list(dict.fromkeys(problems)))
        return self

    def _tuning_problems(self) -> list[tuple[str, str]]:
        from experiments.tuning.check import declared_problems

        return declared_problems(self)

    def seed_list(self) -> list[int]:
        """The seeds, in order."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)

    def expand(self) -> list[Variant]:
        """The baseline first, then every different set of changes, in a stable order."""
        found: dict[str, Variant] = {BASELINE: Variant(BASELINE, {})}
        for changes in self._one_by_one():
            effective = self._effective(changes)
            if effective:
                name = ", ".join(f"{_short(path, effective)}={label(value)}" for path, value in effective.items())
                found.setdefault(name, Variant(name, effective))
        for name, changes in self.variants.items():
            found[name] = Variant(name, self._effective({path: _plain(value) for path, value in changes.items()}))
        return list(found.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and scalars: what files hold."""
        return {**super().to_dict(), "space": {path: part.to_dict() for path, part in self.space.items()}}

    def runs(self) -> list[Run]:
        """Every (variant, seed) with its identity; seeds vary slowest, so that early results cover every variant.

        Raises:
            ConfigError: everything that is wrong with any variant, all at once.
        """
        made = [(variant, config, config.identity()) for variant, config in self.configured()]
        return [self._seeded(*one, seed) for seed in self.seed_list() for one in made]

    def configured(self) -> list[tuple[Variant, RunConfig]]:
        """Every variant with its whole configuration, after budgets and sizes were made equal.

        Raises:
            ConfigError: everything that is wrong with any variant, all at once.
        """
        problems: list[tuple[str, str]] = []
        made: list[tuple[Variant, RunConfig]] = []
        for variant in self.expand():
            config = self.baseline.replace(variant.changes)
            where = f"{self.name}: " if variant.name == BASELINE else f"{self.name}: variant '{variant.name}': "
            problems += [(f"{where}{path}", text) for path, text in config.problems()]
            made.append((variant, config))
        if problems:
            raise ConfigError(_once(problems))
        if self.budget == Spec("steps") and self.match is None:
            return made
        from experiments.tuning.budget import balanced

        return balanced(self, made)

    def run_of(self, variant: Variant, config: RunConfig, seed: int) -> Run:
        """A configuration as a run of a variant, with a seed."""
        return self._seeded(variant, config, config.identity(), seed)

    def _seeded(self, variant: Variant, config: RunConfig, identity: Mapping[str, Any], seed: int) -> Run:
        """Seeds share everything else: thousands of runs are made in a moment and take little memory."""
        identity = {**identity, "seed": seed}
        config = config.model_copy(update={"seed": seed})
        return Run(self.name, variant.name, variant.changes, config, identity, digest(identity))

    def _one_by_one(self) -> Iterator[dict[str, Any]]:
        def with_conditions(changes: dict[str, Any]) -> Iterator[dict[str, Any]]:
            extra = [table for condition, table in self.when.items() if self._holds(condition, changes)]
            for parts in itertools.product(*(_product(table) for table in extra)):
                yield {**changes, **{k: v for part in parts for k, v in part.items()}}

        if not (self.vary or self.grid or self.groups):
            yield from with_conditions({})
        for path, values in self.vary.items():
            for value in values:
                yield from with_conditions({path: _plain(value)})
        for table in ([self.grid] if self.grid else []) + self.groups:
            for changes in _product(table):
                yield from with_conditions(changes)

    def _holds(self, condition: str, changes: Changes) -> bool:
        try:
            return holds(self.baseline.replace(changes), condition)
        except ConfigError:
            return False

    def _effective(self, changes: Changes) -> dict[str, Any]:
        """The same changes in one spelling: by sorted path, options folded into their component, no-ops left out."""
        try:
            changed = self.baseline.replace(changes)
        except ConfigError:
            return dict(sorted(changes.items()))  # the validator reports it
        before, after = dict(_leaves(self.baseline.to_dict())), dict(_leaves(changed.to_dict()))
        return {path: after[path] for path in sorted(after) if after[path] != before.get(path)}


def _hidden(fields: Mapping[str, Any], error: ConfigError) -> list[tuple[str, str]]:
    """What else is wrong in the fields that have no fault of their own, so that all is told at once."""
    faulty = {(path or text.partition("'")[2].partition("'")[0]).split(".")[0] for path, text in error.problems}
    good = {name: value for name, value in fields.items() if name not in faulty}
    if len(good) == len(fields) and {"name", "question"} <= set(fields):
        return []
    try:
        Frozen.__init__(Experiment.__new__(Experiment), **{"name": "x", "question": "?", **good})
    except ConfigError as rest:
        strange = "baseline" in faulty  # against a baseline that is not theirs, only misspelt paths are sure
        return [(path, text) for path, text in rest.problems if not strange or text.startswith("unknown key")]
    return []


def slug(text: str) -> str:
    """A directory-safe form of a variant's name, at most 60 bytes; long names end in a hash of the whole."""
    plain = re.sub(r"[^A-Za-z0-9._=+-]+", "_", text).strip("_") or "variant"
    return plain if len(plain) <= 60 else f"{plain[:51]}-{digest(text)[:8]}"


def _product(table: Mapping[str, Iterable[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*table.values()):
        yield {path: _plain(value) for path, value in zip(table, values, strict=True)}


def _plain(value: Any) -> Any:
    return value.to_dict() if isinstance(value, Spec) else value


def _short(path: str, changes: Changes) -> str:
    last = path.rsplit(".", 1)[-1]
    return last if sum(p.rsplit(".", 1)[-1] == last for p in changes) == 1 else path


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and "name" not in value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _once(problems: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same sentence about several variants is told once, for the first of them."""
    first: dict[str, str] = {}
    for path, text in problems:
        first.setdefault(text, path)
    return [(path, text) for text, path in first.items()]
