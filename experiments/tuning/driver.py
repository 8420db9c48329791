"""The one process that owns ask and tell: feeds the trials' runs to a launch and tells the studies how they ended."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments import records
from experiments.experiment import Run
from experiments.runner.engine import Engine
from experiments.runner.events import FAILURES, Event
from experiments.runner.options import Options
from experiments.runner.plan import ENDED, Planned, plan
from experiments.tuning.scores import Score, read_score
from experiments.tuning.study import Study
from experiments.tuning.trials import PRUNED, Asked, Told

LOOK_SECONDS = 0.5  # how often the logs of running trials are read for a pruner


@dataclass
class _Lane:
    """A study and its trials that are not told yet, in order."""

    study: Study
    left: int
    open: deque[Asked] = field(default_factory=deque)
    issued: dict[int, int] = field(default_factory=dict)  # trial -> how many of its runs were handed out


class Driver:
    """A feed for `engine.run`; give its `on_event` every event.

    Args:
        studies: one per variant. trials: wanted of each. results, name: where the runs lie.
        engine: who trains them. options: of the launch. on_told: hears of every finished trial.
    """

    def __init__(
        self, studies: Sequence[Study], trials: int, results: Path, name: str, engine: Engine, options: Options, *,
        on_told: Callable[[Study, Told], None] = lambda study, told: None,
        ) -> None:
        self.results, self.name, self.engine, self.options = results, name, engine, options
        self.on_told = on_told
        self.lanes = [_Lane(s, max(0, trials - s.spent()) + s.waiting()) for s in studies]
        at_once = max(1 if s.pruner.by_seed else len(s.question.seeds) for s in studies)
        self.window = max(1, math.ceil(engine.free / (len(studies) * at_once)))
        self.owner: dict[str, tuple[_Lane, Asked]] = {}
        self.looked = 0.0
        self.began = False

    def feed(self) -> list[Planned] | None:
        """Tells every study what has ended, asks for as many trials as the workers can use; the runs to train now."""
        runs: list[Run] = []
        if not self.began:
            self.began = True
            for lane in self.lanes:
                for asked in lane.study.resume():
                    runs += self._open(lane, asked)
        more: list[Planned] = []
        while True:
            self._prune()
            for lane in self.lanes:
                runs += self._advance(lane)
            if not runs:
                break
            more += self._planned(runs)  # some may have a result already, which lets their trial end at once
            runs = []
        return None if not more and all(not lane.open for lane in self.lanes) else more

    def running(self) -> list[Run]:
        """The runs of trials that are not told yet."""
        return [run for lane in self.lanes for asked in lane.open for run in asked.runs]

    def on_event(self, event: Event) -> None:
        """Notes how a run ended."""
        if event.run_id not in self.owner or event.kind in ("started", "progress", "killed", "requeued", "interrupted"):
            return
        lane, asked = self.owner[event.run_id]
        run = next(run for run in asked.runs if run.id == event.run_id)
        score = self._read(lane, run)
        if event.kind == PRUNED:
            score = Score(PRUNED)
        elif event.kind in FAILURES and score.status == "missing":
            score = Score("failed", error=f"{event.kind}: {event.error}")
        if score.ended:
            asked.scores[run.id] = score

    def _advance(self, lane: _Lane) -> list[Run]:
        """Tell, ask, tell, ask ...: a trial is asked for as soon as the one `window` places before it is told.

        A gap is filled before anything more is told, so that a driver that died between a tell and an ask goes on
        with the very same ask.
        """
        runs = [run for asked in lane.open for run in self._next_seed(lane, asked)]
        while not runs:
            if not self._full(lane):
                return self._open(lane, self._ask(lane))
            if not lane.open or not self._over(lane, lane.open[0]):
                break
            self._tell(lane)
        return runs

    def _full(self, lane: _Lane) -> bool:
        if not lane.left or len(lane.open) >= self.window:
            return True
        if lane.study.exhausted():
            lane.left = 0
        return not lane.left

    def _ask(self, lane: _Lane) -> Asked:
        lane.left -= 1
        return lane.study.ask()

    def _open(self, lane: _Lane, asked: Asked) -> list[Run]:
        lane.open.append(asked)
        self.owner |= {run.id: (lane, asked) for run in asked.runs}
        lane.issued[asked.number] = 1 if lane.study.pruner.by_seed else len(asked.runs)
        return list(asked.runs[: lane.issued[asked.number]])

    def _next_seed(self, lane: _Lane, asked: Asked) -> list[Run]:
        """With a pruner that judges between seeds: the next seed, unless the trial is given up."""
        issued = lane.issued[asked.number]
        if not lane.study.pruner.by_seed or asked.pruned or asked.runs[issued - 1].id not in asked.scores:
            return []
        score = asked.scores[asked.runs[issued - 1].id]
        if score.value is None or issued == len(asked.runs):
            return []
        if issued - 1 > asked.reported and lane.study.report(asked, issued - 1, score.value):
            asked.pruned = True
            return []
        lane.issued[asked.number] += 1
        return [asked.runs[issued]]

    def _over(self, lane: _Lane, asked: Asked) -> bool:
        issued = asked.runs[: lane.issued[asked.number]]
        return all(run.id in asked.scores for run in issued)

    def _tell(self, lane: _Lane) -> None:
        asked = lane.open.popleft()
        for run in asked.runs:
            self.owner.pop(run.id, None)
        self.on_told(lane.study, lane.study.tell(asked))

    def _planned(self, runs: Sequence[Run]) -> list[Planned]:
        """The runs that need training; those that have ended, or failed and are not tried again, are noted at once."""
        wanted = []
        for planned in plan(self.name, runs, self.results).runs:
            if self.options.wants(planned):
                wanted.append(planned)
                continue
            lane, asked = self.owner[planned.id]
            run = next(run for run in asked.runs if run.id == planned.id)
            score = self._read(lane, run) if planned.state in ENDED else Score("failed", error="; ".join(planned.why))
            asked.scores[planned.id] = score
        return wanted

    def _read(self, lane: _Lane, run: Run) -> Score:
        return read_score(self.results, self.name, run.id, run.hash, lane.study.question.objectives[0].metric)

    def _prune(self) -> None:
        """Passes validations of running trials to their pruner; asks the runs of a trial that is given up to stop."""
        if time.monotonic() - self.looked < LOOK_SECONDS:
            return
        self.looked = time.monotonic()
        for lane in self.lanes:
            if not lane.study.pruner.prunes or lane.study.pruner.by_seed:
                continue
            for asked in lane.open:
                if not asked.pruned:
                    asked.pruned = self._hopeless(lane, asked)
                for run in asked.runs if asked.pruned else ():
                    if run.id not in asked.scores:
                        self.engine.cancel(run.id)

    def _hopeless(self, lane: _Lane, asked: Asked) -> bool:
        for step, value in self._curve(lane, asked):
            if step > asked.reported and lane.study.report(asked, step, value):
                return True
        return False

    def _curve(self, lane: _Lane, asked: Asked) -> list[tuple[int, float]]:
        """(step, mean score) at the validations that every run of the trial has reached, but not its last."""
        metric, curves = lane.study.question.objectives[0].metric, []
        for run in asked.runs:
            rows = records.read_metrics(records.run_directory(self.results, self.name, run.id))
            curves.append({int(row["step"]): float(row[metric]) for row in rows if _scored(row.get(metric))})
        last = asked.runs[0].config.train.steps
        steps = sorted(set.intersection(*(set(curve) for curve in curves)) - {last})
        return [(step, math.fsum(curve[step] for curve in curves) / len(curves)) for step in steps]


def _scored(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
