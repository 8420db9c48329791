"""What is wrong with an experiment's protocol, budget and space, found before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from experiments.config import ConfigError, RunConfig
from experiments.strict_yaml import scalar
from experiments.tuning.defaults import space_of, space_of_field
from experiments.tuning.dimensions import DefaultRange, Dimension
from experiments.tuning.space import Part, Space, conditions, holds

if TYPE_CHECKING:
    from experiments.experiment import Experiment

Problems = list[tuple[str, str]]
UNTIMED = (  # what a tuner may change without changing the time of a step
    "train.lr", "train.schedule", "train.warmup", "train.weight_decay", "train.beta", "train.clip",
    "train.label_smoothing", "model.dropout", "model.init",
)


def declared_problems(experiment: Experiment) -> Problems:
    """Unknown protocols, budgets and paths, and values that no field takes. Torch-free."""
    from experiments.tuning.budget import BUDGETS
    from experiments.tuning.protocols import PROTOCOLS

    found = [("protocol", text) for text in PROTOCOLS.problems(experiment.protocol)]
    found += [("budget", text) for text in BUDGETS.problems(experiment.budget)]
    return found + [problem for path in experiment.space for problem in _declared(path, experiment)]


def _declared(path: str, experiment: Experiment) -> Problems:
    dimension, before = experiment.space[path], list(experiment.space)[: list(experiment.space).index(path)]
    where = f"space.{path}"
    if path == "seed":
        return [(where, "a seed is not tuned; it is what scores are averaged over")]
    if dimension.when is not None:
        condition, equals, _ = dimension.when.partition("=")
        if not equals:
            return [(where, f"condition {dimension.when!r} must be written path=value")]
        if condition.strip() in experiment.space and condition.strip() not in before:
            return [(where, f"its condition speaks of '{condition.strip()}', which must be declared before it")]
    try:
        if isinstance(dimension, DefaultRange):
            space_of_field(path)
        base = experiment.baseline.replace(_granting(dimension))
        for value in dimension.extremes():
            base.replace({path: value})
    except ConfigError as error:
        return [(where, text if inner in ("", path, where) else f"{inner}: {text}") for inner, text in error.problems]
    return []


def _granting(dimension: Dimension) -> Mapping[str, Any]:
    """The change that makes a dimension's condition true."""
    if dimension.when is None:
        return {}
    path, _, value = dimension.when.partition("=")
    return {path.strip(): scalar(value.strip().partition("(")[0])}


def spaces(experiment: Experiment, configured: Mapping[str, RunConfig]) -> dict[str, Space]:
    """The checked space of each variant, by name.

    Args:
        configured: variant -> its whole configuration.

    Raises:
        ConfigError: everything that is wrong, all at once: a tuned path that a variant sets, a value that cannot be
            built, a condition that never holds, a variant with nothing to tune.
    """
    problems: Problems = []
    found: dict[str, Space] = {}
    for variant in experiment.expand():
        if variant.name in configured:
            space = space_of(experiment.space, configured[variant.name])
            found[variant.name] = space
            where = f"variant '{variant.name}'"
            problems += [(f"{where}: {path}", text) for path, text in _problems(space, variant.changes)]
    problems += _never_holding(found)
    problems += _derived(experiment, {part.path for space in found.values() for part in space.parts})
    if problems:
        first: dict[str, str] = {}
        for path, text in problems:
            first.setdefault(text, path)
        raise ConfigError([(path, text) for text, path in first.items()])
    return found


def _problems(space: Space, changes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if not space.parts:
        yield "space", "nothing in it exists for this variant; tune something that every variant has, such as train.lr"
    for part in space.parts:
        if part.path in changes and not any(other.startswith(f"{part.path}.") for other in changes):
            yield f"space.{part.path}", "is tuned, but the variant sets it; take it out of the space or of the variants"
            continue
        for config in _configurations(space, part):
            wrong = config.problems()
            if wrong:
                yield f"space.{part.path}", "; ".join(f"{path}: {text}" for path, text in wrong)
                break


def _derived(experiment: Experiment, tuned: set[str]) -> Iterator[tuple[str, str]]:
    """Tuned paths that the budget derives, or that it cannot follow."""
    from experiments.tuning.budget import BUDGETS

    budget = experiment.budget.name
    if "train.steps" in tuned and BUDGETS.entry(budget).cls.derives_steps:
        yield "space.train.steps", f"is tuned, but budget '{budget}' derives it"
    if "model.d_ff" in tuned and experiment.match is not None:
        yield "space.model.d_ff", "is tuned, but `match: parameters` derives it"
    for path in sorted(tuned) if budget == "seconds" else ():
        if not path.startswith(UNTIMED):
            text = "may change how long a step takes, which budget 'seconds' measures once; tune it with another budget"
            yield f"space.{path}", text


def _configurations(space: Space, part: Part) -> Iterator[RunConfig]:
    """The configuration at each end of one dimension, where its condition holds, or could by another's choice."""
    grant = _granting(part.dimension)
    for value in part.dimension.extremes():
        if not grant or holds(space.config, str(part.dimension.when)):
            yield space.config.replace({part.path: value})
        elif any(other.path in grant for other in space.parts):
            yield space.config.replace({**grant, part.path: value})


def _never_holding(found: Mapping[str, Space]) -> Iterator[tuple[str, str]]:
    """Conditions that no variant and no choice in the space can make true."""
    for space in list(found.values())[:1]:
        tuned = {part.path for part in space.parts}
        for part, path, _ in conditions(space.parts):
            if path not in tuned and not any(holds(one.config, str(part.dimension.when)) for one in found.values()):
                yield f"space.{part.path}", f"its condition '{part.dimension.when}' holds for no variant"
