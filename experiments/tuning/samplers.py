"""Samplers and pruners by name, with their options, and what each needs of a space."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from experiments.config import RunConfig
from experiments.tuning.dimensions import Choice
from experiments.tuning.space import Space
from transformer.registry import Registry

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

Trials = Annotated[int, Field(ge=0)]
Level = Annotated[float, Field(gt=0, lt=1)]


class Sampler(ABC):
    """Where the next trial comes from. Options are the keyword-only parameters of `__init__`.

    Attributes:
        in_order: takes the cells of a finite space one after another instead of asking Optuna.
    """

    in_order = False

    def problem(self, space: Space, objectives: int) -> str:
        """Why it cannot search this space, with the way out; "" = it can. Asked before anything runs."""
        return ""

    @abstractmethod
    def inner(self, study_seed: int, trial_seed: int) -> BaseSampler:
        """Optuna's sampler for one trial; seeds below 2^32. Made anew for each, so that a resumed study goes on as if
        it had never stopped (a sampler that is seeded once repeats its first suggestions)."""


SAMPLERS: Registry[Sampler] = Registry("sampler")


@SAMPLERS.register("tpe")
class Tpe(Sampler):
    """Tree-structured Parzen estimator, over all parameters jointly.

    Args:
        startup: random trials before it learns.
    """

    def __init__(self, *, startup: Trials = 10) -> None:
        self.startup = startup

    def inner(self, study_seed: int, trial_seed: int) -> BaseSampler:
        from optuna.samplers import TPESampler

        return TPESampler(
            seed=trial_seed, n_startup_trials=self.startup, multivariate=True, group=True, constant_liar=True
        )


@SAMPLERS.register("gp")
class Gp(Sampler):
    """Gaussian process with expected improvement; strong on few trials and few parameters.

    Args:
        startup: random trials before it learns.
    """

    def __init__(self, *, startup: Annotated[int, Field(ge=1)] = 10) -> None:
        self.startup = startup

    def inner(self, study_seed: int, trial_seed: int) -> BaseSampler:
        from optuna.samplers import GPSampler

        return GPSampler(seed=trial_seed, n_startup_trials=self.startup, warn_independent_sampling=False)


@SAMPLERS.register("cmaes")
class CmaEs(Sampler):
    """Covariance matrix adaptation; choices and conditional parameters are drawn at random."""

    def problem(self, space: Space, objectives: int) -> str:
        if importlib.util.find_spec("cmaes") is None:
            return "needs the package cmaes: pip install 'cmaes>=0.13,<0.14'; or use --sampler tpe"
        if objectives > 1:
            return "knows one objective only; use --sampler tpe"
        plain = [p for p in space.parts if not isinstance(p.dimension, Choice) and p.dimension.when is None]
        return "" if len(plain) > 1 else "needs at least 2 numeric parameters without conditions; use --sampler tpe"

    def inner(self, study_seed: int, trial_seed: int) -> BaseSampler:
        from optuna.samplers import CmaEsSampler

        return CmaEsSampler(seed=trial_seed, warn_independent_sampling=False)


@SAMPLERS.register("random")
class Random(Sampler):
    """Every parameter drawn independently."""

    def inner(self, study_seed: int, trial_seed: int) -> BaseSampler:
        from optuna.samplers import RandomSampler

        return RandomSampler(seed=trial_seed)


@SAMPLERS.register("qmc")
class Qmc(Sampler):
    """A scrambled Sobol sequence: random, but evenly spread; choices and conditional parameters are drawn at random."""

    def inner(self, study_seed: int, trial_seed: int) -> BaseSampler:
        from optuna.samplers import QMCSampler, RandomSampler

        return QMCSampler(
            scramble=True, seed=study_seed, independent_sampler=RandomSampler(seed=trial_seed),
            warn_asynchronous_seeding=False, warn_independent_sampling=False,
        )


@SAMPLERS.register("grid")
class Grid(Sampler):
    """Every combination of a finite space, in declared order."""

    in_order = True

    def problem(self, space: Space, objectives: int) -> str:
        endless = [part.path for part in space.parts if part.dimension.values() is None]
        if endless:
            return f"needs finitely many values of {endless[0]}; say how many: {{log: [3e-4, 3e-2], points: 5}}"
        return "" if space.cells() is not None else "has too many combinations to list; use --sampler random"

    def inner(self, study_seed: int, trial_seed: int) -> BaseSampler:
        return Random().inner(study_seed, trial_seed)


class Pruner(ABC):
    """When a trial that looks bad is given up. Only ever compares trials of one variant.

    Attributes:
        prunes: whether it does anything. by_seed: judges between a trial's seeds, which then run one after another;
            otherwise between the validations of its runs.
    """

    prunes = True
    by_seed = False

    @abstractmethod
    def inner(self, config: RunConfig) -> BasePruner:
        """Optuna's pruner for trials like this one."""


PRUNERS: Registry[Pruner] = Registry("pruner")


@PRUNERS.register("none")
class Nothing(Pruner):
    """Every trial is trained to its end: the rule for numbers that are reported."""

    prunes = False

    def inner(self, config: RunConfig) -> BasePruner:
        from optuna.pruners import NopPruner

        return NopPruner()


@PRUNERS.register("median")
class Median(Pruner):
    """Gives up what is worse than the median of earlier trials at the same step; never in the warm-up or first quarter.

    Args:
        startup: trials before it judges.
    """

    def __init__(self, *, startup: Trials = 5) -> None:
        self.startup = startup

    def inner(self, config: RunConfig) -> BasePruner:
        from optuna.pruners import MedianPruner

        spared = config.train.warmup_steps() + config.train.steps // 4
        return MedianPruner(n_startup_trials=self.startup, n_warmup_steps=spared)


@PRUNERS.register("hyperband")
class Hyperband(Pruner):
    """Successive halving in brackets of different patience; the resource is the number of steps.

    Args:
        reduction: of n trials at a rung, n / reduction go on.
    """

    def __init__(self, *, reduction: Annotated[int, Field(ge=2)] = 3) -> None:
        self.reduction = reduction

    def inner(self, config: RunConfig) -> BasePruner:
        from optuna.pruners import HyperbandPruner

        least = max(1, config.train.eval_every, config.train.steps // self.reduction**3)
        return HyperbandPruner(least, max(least, config.train.steps), self.reduction)


@PRUNERS.register("wilcoxon")
class Wilcoxon(Pruner):
    """Gives up a trial whose seeds so far are worse than the best trial's, by a signed-rank test.

    Args:
        p: level of the test. startup: seeds before it judges.
    """

    by_seed = True

    def __init__(self, *, p: Level = 0.1, startup: Trials = 2) -> None:
        self.p, self.startup = p, startup

    def inner(self, config: RunConfig) -> BasePruner:
        from optuna.pruners import WilcoxonPruner

        return WilcoxonPruner(p_threshold=self.p, n_startup_steps=self.startup)
