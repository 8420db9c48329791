"""One study: the trials of one variant, asked and told in order, kept in a storage that outlives the process.

A trial is a configuration; its runs, one per seed, are ordinary runs in the store. The study is told trials in the
order in which it was asked, each as soon as those before it are told, so what the sampler knows when it proposes trial
n does not depend on which worker was faster, nor on how often the driver was killed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from experiments.config import ConfigError
from experiments.experiment import Run
from experiments.runner.plan import differences
from experiments.seeds import stream_seed
from experiments.tuning.dimensions import Dimension
from experiments.tuning.proposals import PROPOSAL, Distinct, key_of
from experiments.tuning.samplers import Pruner, Sampler
from experiments.tuning.scores import Score
from experiments.tuning.space import Space
from experiments.tuning.trials import (
    PRUNED,
    TOLD,
    Asked,
    Objective,
    Told,
    mean_cost,
    named,
    status_of,
    told_of,
    total,
)

DEFINITION, RETRY = "definition", "retry_of"


@dataclass(frozen=True)
class Question:
    """What a study asks. A study that was begun with another question is refused.

    Attributes:
        name: of the study in its storage. variant: whose hyper-parameters.
        space, objectives, seeds: what is varied, what decides, what scores are averaged over.
        identity: of the variant's configuration: every resolved field, versions included.
        run_of: (values, seed) -> the run.
    """

    name: str
    variant: str
    space: Space
    objectives: tuple[Objective, ...]
    seeds: tuple[int, ...]
    identity: Mapping[str, Any]
    run_of: Callable[[Mapping[str, Any], int], Run]

    def definition(self) -> dict[str, Any]:
        """What must stay the same under one name."""
        return {
            "space": self.space.to_dict(),
            "objectives": {one.metric: one.goal for one in self.objectives},
            "seeds": list(self.seeds),
            "configuration": {key: value for key, value in self.identity.items() if key != "seed"},
        }


class Study:
    """A question in a storage, with the sampler and pruner of this session.

    Raises:
        ConfigError: under this name another question was asked; the message says what differs.
    """

    def __init__(
        self, question: Question, storage: BaseStorage, sampler: Sampler, pruner: Pruner, pruning: Any, seed: int
    ) -> None:
        self.question, self.pruner = question, pruner
        self._known: set[str] = set()
        space = question.space
        self.proposer = Distinct(space, sampler, stream_seed(seed, "study"), lambda: self._known)
        self.optuna = optuna.create_study(
            study_name=question.name, storage=storage, sampler=self.proposer, pruner=pruning, load_if_exists=True,
            directions=["minimize" if one.goal == "min" else "maximize" for one in question.objectives],
        )
        self._same_question()
        trials = self.trials()
        self._known |= {key_of(t.user_attrs[PROPOSAL]["values"]) for t in trials if PROPOSAL in t.user_attrs}
        self._told = [told_of(t) for t in trials if t.state.is_finished() and TOLD in t.user_attrs]
        self._left = [t for t in trials if t.state is TrialState.RUNNING]
        self._queued = sum(t.state is TrialState.WAITING for t in trials)
        self._spent = len(trials) - len({t.user_attrs[RETRY] for t in trials if RETRY in t.user_attrs})

    def trials(self) -> list[FrozenTrial]:
        """Every trial as stored, in order of number; read once, when the study is opened."""
        return self.optuna.get_trials(deepcopy=False)

    def spent(self) -> int:
        """Trials that count towards the number wanted: all but failures that were tried again."""
        return self._spent

    def unfinished(self) -> int:
        """Trials that a stopped or killed driver has left running."""
        return len(self._left)

    def waiting(self) -> int:
        """Trials that are queued to be tried again."""
        return self._queued

    def resume(self) -> list[Asked]:
        """The trials that a stopped or killed driver has left running, to be told as if nothing had happened."""
        left, self._left = self._left, []
        return [self._asked(Trial(self.optuna, t._trial_id), max(t.intermediate_values, default=-1)) for t in left]

    def retry_failed(self) -> int:
        """Puts every failed trial that was not tried again at the head of the queue; returns how many."""
        trials = self.trials()
        again = {t.user_attrs[RETRY] for t in trials if RETRY in t.user_attrs}
        failed = [t for t in trials if t.state is TrialState.FAIL and t.number not in again]
        for trial in failed:
            attributes = {RETRY: trial.number, PROPOSAL: trial.user_attrs[PROPOSAL]}
            self.optuna.enqueue_trial(trial.params, user_attrs=attributes)
        self._queued += len(failed)
        return len(failed)

    def exhausted(self) -> bool:
        """Whether every combination of a finite space has been tried."""
        return not self._queued and self.proposer.untried() == []

    def ask(self) -> Asked:
        """The next trial. Call `exhausted` first."""
        self._spent += not self._queued
        self._queued -= self._queued > 0  # Optuna gives queued trials first
        return self._asked(self.optuna.ask(), -1)

    def report(self, asked: Asked, step: int, value: float) -> bool:
        """Notes an intermediate score of a trial; returns whether to give the trial up."""
        asked.trial.report(value, step)
        asked.reported = step
        return asked.trial.should_prune()

    def tell(self, asked: Asked) -> Told:
        """Ends a trial with what its runs scored."""
        scores = [asked.scores[run.id] for run in asked.runs if run.id in asked.scores]
        status = status_of(scores, asked.pruned)
        values = None if status in ("failed", PRUNED) else self._objectives(scores)
        record = {
            "status": status, "seconds": total(scores, "seconds"), "cost": mean_cost(scores),
            "error": next((s.error for s in scores if s.error), ""), "runs": named(asked.runs),
        }
        asked.trial.set_user_attr(TOLD, record)
        state = {"failed": TrialState.FAIL, PRUNED: TrialState.PRUNED}.get(status, TrialState.COMPLETE)
        told = told_of(self.optuna.tell(asked.trial, values, state=state))
        self._told.append(told)
        return told

    def told(self) -> list[Told]:
        """Every finished trial."""
        return self._told

    def best(self) -> list[Told]:
        """With one objective the best trial; with several, those that no other beats in all, best score first."""
        signs = [1.0 if one.goal == "min" else -1.0 for one in self.question.objectives]
        done = [(tuple(s * v for s, v in zip(signs, t.scores, strict=True)), t) for t in self.told()
                if t.status == "done" and t.scores is not None]  # fmt: skip
        front = [
            (at, trial) for at, trial in done
            if not any(all(a <= b for a, b in zip(other, at, strict=True)) and other != at for other, _ in done)
        ]
        front.sort(key=lambda pair: (pair[0], pair[1].number))
        return [trial for _, trial in front[: 1 if len(signs) == 1 else None]]

    def _asked(self, trial: Trial, reported: int) -> Asked:
        values = self.question.space.walk(lambda path, dimension: _suggest(trial, path, dimension))
        self._known.add(key_of(values))
        runs = tuple(self.question.run_of(values, seed) for seed in self.question.seeds)
        return Asked(trial, values, runs, reported=reported)

    def _objectives(self, scores: Sequence[Score]) -> list[float]:
        return [math.fsum(v) / len(v) for v in (self._of_runs(i, scores) for i in range(len(self.question.objectives)))]

    def _of_runs(self, index: int, scores: Sequence[Score]) -> list[float]:
        objective = self.question.objectives[index]
        found = [objective.of(score) if score.status == "done" else None for score in scores]
        cap = self._cap(index, scores) if None in found else math.nan
        return [cap if value is None else value for value in found]

    def _cap(self, index: int, scores: Sequence[Score]) -> float:
        """A finite value for a run without a score: that of an untrained model, or the worst seen if that is worse.

        Told as it is, NaN would teach the sampler nothing, and it would keep proposing what diverges.
        """
        objective = self.question.objectives[index]
        worst = max if objective.goal == "min" else min
        seen = [t.scores[index] for t in self.told() if t.scores is not None and math.isfinite(t.scores[index])]
        if objective.metric.startswith("cost/"):
            return worst([*seen, *(c for c in map(objective.of, scores) if c is not None), 0.0])
        untrained = [score.untrained for score in scores if score.untrained is not None]
        return worst([*seen, *(untrained or [1.0 if objective.goal == "min" else 0.0])])

    def _same_question(self) -> None:
        asked, now = self.optuna.user_attrs.get(DEFINITION), self.question.definition()
        if asked is None:
            self.optuna.set_user_attr(DEFINITION, now)
            return
        lines = differences(asked, now)
        if lines:
            text = f"was begun with another question, whose trials do not fit: {'; '.join(lines)}"
            way_out = "Give the new one another name: --study NAME"
            raise ConfigError([(f"study '{self.question.name}'", f"{text}. {way_out}")])


def _suggest(trial: Trial, path: str, dimension: Dimension) -> Any:
    """Optuna's record of one parameter; the value is what the proposer drew."""
    distribution = dimension.distribution()
    if isinstance(distribution, FloatDistribution):
        return trial.suggest_float(path, distribution.low, distribution.high, log=distribution.log)
    if isinstance(distribution, IntDistribution):
        low, high = distribution.low, distribution.high
        return trial.suggest_int(path, low, high, step=distribution.step, log=distribution.log)
    return trial.suggest_categorical(path, distribution.choices)  # type: ignore[attr-defined]
