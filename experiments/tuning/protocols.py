"""How every variant of an experiment gets its hyper-parameters: fixed, lr_grid, search.

A protocol says which runs are wanted, given what is stored. `carry_out` launches them until nothing more is wanted,
so an interrupted experiment goes on by the same command, and no run is trained twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import records
from experiments.config import ConfigError
from experiments.tuning.choice import Curve, Pick, choose, edges, grid, short
from experiments.tuning.request import Request, store_name
from experiments.tuning.scores import Score, read_score, validation_metric
from experiments.tuning.winners import CHOICE, Winner, write_choice
from transformer.registry import Registry
from transformer.spec import Spec

if TYPE_CHECKING:
    from experiments.experiment import Experiment, Run
    from experiments.runner.events import Outcome

LR = "train.lr"


@dataclass(frozen=True)
class Stage:
    """What a protocol acts on.

    Attributes:
        results: the results root.
        launch: trains those of the experiment's planned runs that are missing, and waits for them.
        tune: carries out studies, for protocols that search.
    """

    experiment: Experiment
    results: Path
    launch: Callable[[], Outcome]
    tune: Callable[[Request], Outcome]


class Protocol(ABC):
    """One way to give every variant its hyper-parameters. Options are the keyword-only parameters of `__init__`."""

    @abstractmethod
    def runs(self, experiment: Experiment, results: Path) -> list[Run]:
        """Every run that is wanted, as far as it is known from what is stored; the same call later may know more.

        Raises:
            ConfigError: what is wrong with any variant, or a variant that sets what the protocol tunes.
        """

    def conclude(self, experiment: Experiment, results: Path) -> None:
        """Records what was decided, from what is stored; nothing where nothing is decided."""
        return

    def reported(self, experiment: Experiment) -> Experiment:
        """The experiment as its report describes it: with the seeds whose scores are compared."""
        return experiment

    def headline(self, runs: int, cells: int) -> str:
        """What stands behind `variants x seeds` in the first line of a plan."""
        return ""

    def carry_out(self, stage: Stage) -> Outcome:
        """Launches what is wanted until no more is."""
        outcome = None
        while True:
            known = {run.id for run in self.runs(stage.experiment, stage.results)}
            outcome = _joined(outcome, stage.launch())
            self.conclude(stage.experiment, stage.results)
            if outcome.exit_code or {run.id for run in self.runs(stage.experiment, stage.results)} <= known:
                return outcome


PROTOCOLS: Registry[Protocol] = Registry("protocol")


def _joined(earlier: Outcome | None, last: Outcome) -> Outcome:
    """Two launches as one: what ended in either; what is left, and why, as the last found it."""
    if earlier is None:
        return last
    ends = ("done", "diverged", "reused", "failed", "elsewhere")
    return replace(last, **{name: getattr(earlier, name) + getattr(last, name) for name in ends})


@PROTOCOLS.register("fixed")
class Fixed(Protocol):
    """One change at a time: every variant trains with the hyper-parameters that it declares."""

    def runs(self, experiment: Experiment, results: Path) -> list[Run]:
        return experiment.runs()

    def carry_out(self, stage: Stage) -> Outcome:
        return stage.launch()


@PROTOCOLS.register("lr_grid", paper="arXiv:1910.05446")
class LearningRateGrid(Protocol):
    """A common grid of learning rates times the same seeds for every variant; choice.py says how the choice is made.

    When the choice of any variant lies on the grid's edge, the grid grows there by one rate for all variants.

    Args:
        low, high: ends of the grid; None = a factor of 10 on either side of the baseline's learning rate.
        points: rates from low to high, at equal ratios.
        extend: how often the grid may grow.
    """

    def __init__(
        self, *, low: float | None = None, high: float | None = None, points: int = 5, extend: int = 2
    ) -> None:
        self.low, self.high, self.points, self.extend = low, high, points, extend

    def rates(self, experiment: Experiment, *, below: int = 0, above: int = 0) -> list[float]:
        """The grid as declared, grown by so many rates at each end.

        Raises:
            ConfigError: its numbers do not make a grid.
        """
        middle = experiment.baseline.train.lr
        low = short(middle / 10) if self.low is None else self.low
        high = short(middle * 10) if self.high is None else self.high
        try:
            if self.extend < 0:
                raise ValueError(f"extend={self.extend} must be at least 0")
            return grid(low, high, self.points, below=below, above=above)
        except ValueError as error:
            raise ConfigError([("protocol", str(error))]) from None

    def headline(self, runs: int, cells: int) -> str:
        return f" x {runs // cells} learning rates" if cells else ""

    def runs(self, experiment: Experiment, results: Path) -> list[Run]:
        by_rate = _Grid(experiment)
        rates = self._grown(by_rate, experiment, results)
        return [run for seed in experiment.seed_list() for lr in rates for run in by_rate.at(lr, seed)]

    def conclude(self, experiment: Experiment, results: Path) -> None:
        by_rate = _Grid(experiment)
        rates = self._grown(by_rate, experiment, results)
        curves = by_rate.curves(rates, results)
        write_choice(
            results, experiment, protocol=experiment.protocol, metric=validation_metric(experiment.metric),
            final=_all_ended(curves),
            winners={name: _winner(by_rate, name, curve, experiment) for name, curve in curves.items()},
            tried={run.id: {LR: lr} for lr in rates for seed in experiment.seed_list() for run in by_rate.at(lr, seed)},
        )

    def _grown(self, by_rate: _Grid, experiment: Experiment, results: Path) -> list[float]:
        below = above = 0
        for _ in range(self.extend):
            curves = by_rate.curves(self.rates(experiment, below=below, above=above), results)
            if not _all_ended(curves):
                break
            lower, upper = edges(choose(_values(curve), experiment.goal) for curve in curves.values())
            below, above = below + lower, above + upper
        return self.rates(experiment, below=below, above=above)


Scores = Mapping[float, Mapping[int, Score]]  # learning rate -> seed -> how that run ended


class _Grid:
    """The runs of an experiment at any learning rate."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment, self.made = experiment, experiment.configured()
        setting = [variant.name for variant, _ in self.made if LR in variant.changes]
        if setting:
            text = f"protocol 'lr_grid' tunes {LR}, but {', '.join(map(repr, setting))} set it; vary something else"
            raise ConfigError([("protocol", text)])
        self.known: dict[tuple[float, int], list[Run]] = {}

    def at(self, lr: float, seed: int) -> list[Run]:
        """One run per variant."""
        if (lr, seed) not in self.known:
            from experiments.experiment import Variant

            self.known[lr, seed] = [
                self.experiment.run_of(Variant(v.name, {**v.changes, LR: lr}), config.replace({LR: lr}), seed)
                for v, config in self.made
            ]
        return self.known[lr, seed]

    def curves(self, rates: list[float], results: Path) -> dict[str, Scores]:
        """variant -> learning rate -> seed -> what is stored of that run."""
        metric = validation_metric(self.experiment.metric)
        found: dict[str, dict[float, dict[int, Score]]] = {v.name: {lr: {} for lr in rates} for v, _ in self.made}
        for lr in rates:
            for seed in self.experiment.seed_list():
                for run in self.at(lr, seed):
                    found[run.variant][lr][seed] = read_score(results, run.experiment, run.id, run.hash, metric)
        return dict(found)


def _all_ended(curves: Mapping[str, Scores]) -> bool:
    return all(s.ended for of_rate in curves.values() for of_seed in of_rate.values() for s in of_seed.values())


def _values(scores: Scores) -> Curve:
    return {lr: {seed: score.value for seed, score in of_seed.items()} for lr, of_seed in scores.items()}


def _winner(by_rate: _Grid, name: str, scores: Scores, experiment: Experiment) -> Winner:
    """The choice among the rates whose every seed has ended."""
    complete = {lr: of_seed for lr, of_seed in scores.items() if all(score.ended for score in of_seed.values())}
    pick = choose(_values(complete), experiment.goal)
    if pick.lr is None:
        return Winner({}, (), None, None, "no learning rate with a score for every seed")
    chosen = tuple(run.id for s in experiment.seed_list() for run in by_rate.at(pick.lr, s) if run.variant == name)
    return Winner({LR: pick.lr}, chosen, pick.mean, pick.edge, _warning(pick, complete))


def _warning(pick: Pick, complete: Scores) -> str:
    if pick.edge is None:
        return ""
    towards = "lower" if pick.edge == "lower" else "higher"
    return f"the best learning rate, {pick.lr:g}, is the {pick.edge} end of the grid: {towards} ones may be better"


@PROTOCOLS.register("search")
class Search(Protocol):
    """A study per variant with equal trials, then fresh paired seeds at each variant's winner.

    Trials use the first `seeds` of the experiment's seeds; what is reported uses seeds that no trial has seen.

    Args:
        trials: of each variant. sampler: tpe, gp, cmaes, random, qmc or grid.
        seeds: seeds that a trial's score is averaged over.
        fresh_seeds: seeds at the winner; None = as many as the experiment has.
    """

    def __init__(
        self, *, trials: int = 20, sampler: str = "tpe", seeds: int = 1, fresh_seeds: int | None = None
    ) -> None:
        self.trials, self.sampler, self.seeds, self.fresh_seeds = trials, sampler, seeds, fresh_seeds

    def fresh(self, experiment: Experiment) -> list[int]:
        """Seeds that no trial has seen."""
        known = experiment.seed_list()
        count = len(known) if self.fresh_seeds is None else self.fresh_seeds
        return list(range(max(known) + 1, max(known) + 1 + count))

    def reported(self, experiment: Experiment) -> Experiment:
        changed: Experiment = experiment.replace({"seeds": self.fresh(experiment)})
        return changed

    def headline(self, runs: int, cells: int) -> str:
        return f" after {self.trials} trials of each"

    def runs(self, experiment: Experiment, results: Path) -> list[Run]:
        winners = self._winners(experiment, results)
        if winners is None:
            return []
        from experiments.experiment import Variant

        return [
            experiment.run_of(Variant(v.name, {**v.changes, **winners[v.name]}), config.replace(winners[v.name]), seed)
            for seed in self.fresh(experiment)
            for v, config in experiment.configured()
            if v.name in winners
        ]

    def carry_out(self, stage: Stage) -> Outcome:
        """The studies first; then, once every variant has its winner, the runs that are reported."""
        request = Request(trials=self.trials, sampler=Spec(self.sampler), seeds=self.seeds, study="search")
        outcome = stage.tune(request)
        if outcome.exit_code or self._winners(stage.experiment, stage.results) is None:
            return outcome
        return super().carry_out(stage)

    def _winners(self, experiment: Experiment, results: Path) -> dict[str, dict[str, Any]] | None:
        """variant -> tuned values; None while the studies are not finished."""
        try:
            content = records.read_json(results / store_name(experiment.name, "search") / CHOICE)
        except (FileNotFoundError, records.Damaged):
            return None
        if not content.get("final"):
            return None
        return {name: dict(of["values"]) for name, of in content["variants"].items() if of["values"]}
