"""A sampler that never proposes what a trial has had already, whatever sampler it asks."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from experiments.seeds import numpy_stream, stream_seed
from experiments.tuning.dimensions import Dimension
from experiments.tuning.samplers import Random, Sampler
from experiments.tuning.space import Space

ATTEMPTS = 10  # how often the sampler may think again before chance decides
PROPOSAL = "proposal"  # the user attribute in which a trial keeps what was drawn for it


def key_of(values: Mapping[str, Any]) -> str:
    """Equal for equal configurations."""
    return json.dumps(values, sort_keys=True)


class Distinct(BaseSampler):
    """Asks another sampler for whole configurations, each with a seed from (study, trial, attempt).

    Every proposal is therefore a function of the trials before it, and a trial that was asked for just before its
    process died is completed to the same configuration.

    Args:
        space: what is searched. sampler: who proposes. seed: of the study.
        known: keys of the configurations that may not come again.
    """

    def __init__(self, space: Space, sampler: Sampler, seed: int, known: Callable[[], Collection[str]]) -> None:
        self.space, self.sampler, self.seed, self.known = space, sampler, seed, known
        self._drawn: dict[int, dict[str, Any]] = {}

    @functools.cached_property
    def cells(self) -> dict[str, dict[str, Any]] | None:
        """key of its configuration -> cell, for every cell of a finite space; None = endless."""
        cells = self.space.cells()
        return None if cells is None else {key_of(self.values(cell)): cell for cell in cells}

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self.drawn(study, trial)[param_name]

    def drawn(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        """path -> value in the sampler's terms: the proposal for this trial."""
        if trial.number not in self._drawn:
            stored = trial.user_attrs.get(PROPOSAL)
            drawn = self._propose(study, trial) if stored is None else dict(stored["drawn"])
            if stored is None:  # in one write, so that a killed driver leaves all of it or nothing
                proposal = {"drawn": drawn, "values": self.values(drawn)}
                study._storage.set_trial_user_attr(trial._trial_id, PROPOSAL, proposal)
            self._drawn = {trial.number: drawn}
        return self._drawn[trial.number]

    def values(self, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """path -> configuration value."""
        return self.space.walk(lambda path, dimension: drawn[path])

    def untried(self) -> list[dict[str, Any]] | None:
        """The cells of a finite space that no trial has had; None = endless."""
        known = self.known()
        return None if self.cells is None else [cell for key, cell in self.cells.items() if key not in known]

    def _propose(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        known = self.known()
        if not self.sampler.in_order:
            for attempt in range(ATTEMPTS):
                drawn = self._draw(self.sampler, study, trial, attempt)
                if key_of(self.values(drawn)) not in known:
                    return drawn
        left = self.untried()
        if left is None:
            return self._draw(Random(), study, trial, ATTEMPTS)
        assert left, "asked for a trial although every cell is tried"
        chance = 0 if self.sampler.in_order else int(numpy_stream(self.seed, "cell", trial.number).integers(len(left)))
        return left[chance]

    def _draw(self, sampler: Sampler, study: Study, trial: FrozenTrial, attempt: int) -> dict[str, Any]:
        seed = stream_seed(self.seed, "trial", trial.number, attempt)
        inner = sampler.inner(self.seed % 2**32, seed % 2**32)
        together = inner.infer_relative_search_space(study, trial)
        relative = inner.sample_relative(study, trial, together)
        drawn: dict[str, Any] = {}

        def take(path: str, dimension: Dimension) -> Any:
            distribution = dimension.distribution()
            if path in relative and together.get(path) == distribution:
                drawn[path] = relative[path]
            else:
                drawn[path] = inner.sample_independent(study, trial, path, distribution)
            return drawn[path]

        self.space.walk(take)
        return drawn
