"""What is held equal over the variants: steps, tokens, FLOPs or seconds of training; and, on request, parameters.

The baseline's own `train.steps` are the budget. With u units a step (tokens, FLOPs, seconds):
    steps_variant = round(steps_baseline * u_baseline / u_variant)
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.config import ConfigError, RunConfig, digest
from experiments.experiment import BASELINE
from transformer.registry import Registry

if TYPE_CHECKING:
    from experiments.experiment import Experiment, Run, Variant

Made = list[tuple["Variant", RunConfig]]


class Budget(ABC):
    """Which quantity every variant gets the same of.

    Attributes:
        derives_steps: whether a variant's steps follow from it, so that no variant may set them itself.
        words: what is equal, for reports.
    """

    derives_steps = True
    words: str

    @abstractmethod
    def per_step(self, variant: str, config: RunConfig) -> float:
        """Units that one optimiser step of this variant takes."""


BUDGETS: Registry[Budget] = Registry("budget")


@BUDGETS.register("steps")
class Steps(Budget):
    """The same number of optimiser steps, unless a variant says otherwise."""

    derives_steps = False
    words = "optimiser steps"

    def per_step(self, variant: str, config: RunConfig) -> float:
        return 1.0


@BUDGETS.register("tokens")
class Tokens(Budget):
    """The same number of training tokens, padding included."""

    words = "training tokens"

    def per_step(self, variant: str, config: RunConfig) -> float:
        return tokens_per_step(config)


@BUDGETS.register("flops")
class Flops(Budget):
    """The same number of floating-point operations in forward and backward passes."""

    words = "training FLOPs"

    def per_step(self, variant: str, config: RunConfig) -> float:
        return tokens_per_step(config) * flops_per_token(config)


@BUDGETS.register("seconds")
class Seconds(Budget):
    """The same time in training steps, at rates that were measured once and recorded (calibration.json).

    Args:
        rates: variant -> seconds a step; filled in by `calibration.calibrated` before the runs are planned.
    """

    words = "seconds of training, at measured rates"

    def __init__(self, *, rates: dict[str, float] | None = None) -> None:
        self.rates = rates

    def per_step(self, variant: str, config: RunConfig) -> float:
        if self.rates is None or variant not in self.rates:
            text = f"no rate was measured for variant '{variant}'; `run` measures every variant before it plans"
            raise ConfigError([("budget", text)])
        return self.rates[variant]


def balanced(experiment: Experiment, made: Made) -> Made:
    """The variants' configurations with parameters matched and steps derived, as the experiment asks.

    Raises:
        ConfigError: a variant sets what would be derived, or no width gives the baseline's number of parameters.
    """
    budget = BUDGETS.build(experiment.budget)
    problems = [problem for variant, _ in made for problem in _conflicts(experiment, budget, variant)]
    if problems:
        raise ConfigError(problems)
    if experiment.match is not None:
        target = _parameters(experiment.baseline)
        made = [(v, _widened(v, config, target)) for v, config in made]
    if not budget.derives_steps:
        return made
    total = experiment.baseline.train.steps * budget.per_step(BASELINE, experiment.baseline)
    return [(v, _with_steps(v, config, total / budget.per_step(v.name, config))) for v, config in made]


def held_equal(experiment: Experiment, runs: list[Run]) -> dict[str, Any]:
    """What experiment.json says about fairness: the protocol, what was held equal, what that made of each variant."""
    first: dict[str, RunConfig] = {}
    for run in runs:
        first.setdefault(run.variant, run.config)
    budget = BUDGETS.entry(experiment.budget.name).cls
    derived = {n: {"train.steps": c.train.steps, "model.d_ff": c.model.hidden_width()} for n, c in first.items()}
    return {
        "protocol": experiment.protocol.to_dict(), "budget": experiment.budget.to_dict(), "held_equal": budget.words,
        "match": experiment.match, "derived": derived if experiment.match or budget.derives_steps else {},
    }


def tokens_per_step(config: RunConfig) -> float:
    """Tokens of one training batch, padding included: B * L of the first row (a task's rows may vary a little)."""
    return config.train.batch_size * _length(config)


def flops_per_token(config: RunConfig) -> float:
    """FLOPs of a forward pass for one token of the training length; a training step takes three times as much."""
    return _flops(digest([config.model.to_dict(), config.task.to_dict()]), config)


@functools.lru_cache(maxsize=1024)
def _flops(key: str, config: RunConfig) -> float:
    from experiments.check import build_task, model_arguments
    from transformer.costs import costs
    from transformer.models import build

    model = build(config.model, seed=0, device="meta", **model_arguments(build_task(config.task)))
    return costs(model, length=_length(config)).flops_per_token


def _length(config: RunConfig) -> int:
    from experiments.check import build_task

    return int(build_task(config.task).train_batch(0, 0, 1).inputs.shape[1])


def _conflicts(experiment: Experiment, budget: Budget, variant: Variant) -> list[tuple[str, str]]:
    derived = {"train.steps": f"budget '{experiment.budget.name}' derives it"} if budget.derives_steps else {}
    if experiment.match is not None:
        derived["model.d_ff"] = "`match: parameters` derives it"
    where = f"{experiment.name}: variant '{variant.name}'"
    return [(where, f"sets {path}, but {why}") for path, why in derived.items() if path in variant.changes]


def _with_steps(variant: Variant, config: RunConfig, steps: float) -> RunConfig:
    if round(steps) == config.train.steps:
        return config
    try:
        return config.replace({"train.steps": max(1, round(steps))})
    except ConfigError as error:
        where = f"variant '{variant.name}' with train.steps={round(steps)}"
        raise ConfigError([(f"{where}: {path}", text) for path, text in error.problems]) from None


def _widened(variant: Variant, config: RunConfig, target: int) -> RunConfig:
    """The feed-forward width whose parameter count is nearest to the target."""
    from transformer.costs import match_d_ff

    if _parameters(config) == target:
        return config
    try:
        model = match_d_ff(config.model, target, lambda one: _parameters(config.replace({"model.d_ff": one.d_ff})))
    except ZeroDivisionError:
        text = "its feed-forward width changes no parameter, so parameters cannot be matched"
        raise ConfigError([(f"variant '{variant.name}'", text)]) from None
    except ConfigError as error:
        raise ConfigError([(f"variant '{variant.name}': {path}", text) for path, text in error.problems]) from None
    return config.replace({"model.d_ff": model.d_ff})


def _parameters(config: RunConfig) -> int:
    from experiments.check import parameters

    return parameters(config)["total"]


def rates_of(experiment: Experiment) -> Mapping[str, float] | None:
    """The measured seconds a step of each variant, where the budget holds them."""
    found = experiment.budget.options.get("rates")
    return found if isinstance(found, Mapping) else None
