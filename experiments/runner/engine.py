"""`run`: feeds a plan to an engine, keeps count, and stops when it must."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.records import RESULT, read_run, run_directory
from experiments.runner import failures, lease, store
from experiments.runner.attempt import GRACE_SECONDS, Task, clear
from experiments.runner.events import FAILURES, Event, Outcome
from experiments.runner.interface import Engine, Feed
from experiments.runner.options import Options
from experiments.runner.plan import ENDED, FAILED, Plan, Planned, State, state_of
from experiments.runner.riders import Riders
from experiments.runner.signals import signals

MOST_KILLS = 2  # how often a run whose worker was killed from outside is tried again in one launch
TICK_SECONDS = 0.2
ELSEWHERE_SECONDS = 1.0


def run(
    plan: Plan, engine: Engine, options: Options, on_event: Callable[[Event], None] = lambda event: None,
    feed: Feed | None = None,
) -> Outcome:
    """Trains every run of the plan that has no result, and waits for those that another launcher trains.

    With a `feed`, asks it for more runs a few times a second until it says that there are none.
    Ctrl-C or SIGTERM once: every run writes its checkpoint and stops. Twice: everything ends at once.
    The engine is closed at the end.
    """
    launch = _Launch(plan, engine, options, on_event, feed)
    now = True
    try:
        with signals(launch.interrupt):
            launch.go()
        now = launch.interrupts > 1
    finally:
        engine.close(now=now)
    return launch.outcome()


class _Launch:
    def __init__(
        self, plan: Plan, engine: Engine, options: Options, on_event: Callable[[Event], None], feed: Feed | None
    ) -> None:
        self.plan, self.engine, self.options, self.on_event, self.feed = plan, engine, options, on_event, feed
        self.waiting = deque(planned for planned in plan.runs if options.wants(planned))
        self.left = [p.id for p in plan.runs if not options.wants(p) and p.state not in ENDED]
        self.active: dict[str, Planned] = {}
        self.elsewhere: dict[str, Planned] = {}
        self.ends: dict[str, str] = {}
        self.kills: Counter[str] = Counter()
        self.redone: set[str] = set()
        self.riders = Riders(options.groups)
        self.problem, self.interrupts = "", 0
        self.stopped_at, self.looked_at = 0.0, 0.0

    def go(self) -> None:
        """Until every run has ended, or until those that were active when the launch was stopped have."""
        while self.active or (not self.stopped_at and (self.waiting or self.elsewhere or self.feed)):
            if not self.stopped_at:
                self._take_more()
                self._fill()
            for event in self.engine.wait(TICK_SECONDS):
                self._take(event)
            self._look_elsewhere()
            if self.interrupts and not self.stopped_at:
                self._stop()
            if self.interrupts > 1 or (self.stopped_at and time.monotonic() - self.stopped_at > 2 * GRACE_SECONDS):
                break

    def interrupt(self) -> None:
        """A person asks to stop; the second time, at once."""
        self.interrupts += 1

    def outcome(self) -> Outcome:
        """What has become of every run."""
        def of(*kinds: str) -> tuple[str, ...]:
            return tuple(p.id for p in self.plan.runs if self.ends.get(p.id) in kinds)

        for run_id in [*self.active, *(rider.id for riders in self.riders.of.values() for rider in riders)]:
            self.ends[run_id] = "interrupted"
        waiting = {p.id for p in self.waiting} | set(self.elsewhere)
        return Outcome(
            done=of("done"), diverged=of("diverged"), reused=of("reused"), failed=of(*FAILURES),
            interrupted=of("interrupted", "storage"), elsewhere=of("elsewhere"),
            not_started=tuple(p.id for p in self.plan.runs if p.id in waiting), left=tuple(self.left),
            problem=self.problem, signalled=self.interrupts > 0,
        )

    def _take_more(self) -> None:
        more = self.feed() if self.feed is not None and not self.interrupts else ()
        if more is None:
            self.feed = None
            return
        self.plan = replace(self.plan, runs=(*self.plan.runs, *more))
        self.waiting.extend(p for p in more if self.options.wants(p))
        self.left += [p.id for p in more if not self.options.wants(p) and p.state not in ENDED]

    def _fill(self) -> None:
        share = math.ceil(len(self.waiting) / max(1, self.engine.free + len(self.active)))
        while self.waiting and self.engine.free and not self.interrupts and not self.problem:
            planned = self.waiting.popleft()
            try:
                self._begin(planned, share)
            except OSError as error:
                self.waiting.appendleft(planned)
                self._give_up(self._storage(error, planned))

    def _begin(self, planned: Planned, share: int) -> None:
        if planned.state is State.RUNNING or not self._ready(planned):
            self.elsewhere[planned.id] = planned
        elif planned.state is State.REUSABLE and store.adopt(planned, self.plan.results, self.plan.experiment):
            self._end(planned, self._event("reused", planned))
        else:
            riders = self.riders.gather(planned, self.waiting, share, self._ready)
            self.active[planned.id] = planned
            self.engine.submit(self._task(planned, riders))

    def _ready(self, planned: Planned) -> bool:
        """Removes first what is stored of a run that is to be done again; False when somebody is training it."""
        return not self.options.redoes(planned) or planned.id in self.redone or self._cleared(planned)

    def _cleared(self, planned: Planned) -> bool:
        """Removes what is stored of a run that is to be done again; False when somebody is training it."""
        directory = self._directory(planned)
        directory.mkdir(parents=True, exist_ok=True)
        held = lease.acquire(directory)
        if held is None:
            return False
        try:
            clear(directory)
        finally:
            held.release()
        self.redone.add(planned.id)
        return True

    def _task(self, planned: Planned, riders: list[Planned]) -> Task:
        wanted, limit = planned.wanted, self.options.time_limit
        jobs = [self.options.job(one) for one in (planned, *riders)]
        return Task(
            wanted.id, wanted.variant, wanted.seed, wanted.hash, self._directory(planned),
            *self.riders.task(jobs, self.options.target), None if limit is None else limit * len(jobs),
        )

    def _take(self, event: Event) -> None:
        planned = self.active.get(event.run_id)
        if planned is None or event.kind in ("started", "progress"):
            self.on_event(event)
            return
        del self.active[event.run_id]
        riders = self.riders.leave(planned.id)
        self._settle(riders, together=event.kind in ("killed", "interrupted", "elsewhere"))
        if riders and event.is_failure:  # perhaps the group's fault: alone it tells
            self.riders.alone.add(planned.id)
            self.waiting.appendleft(planned)
            self.on_event(replace(event, kind="requeued"))
        elif event.kind == "elsewhere":
            self.elsewhere[planned.id] = planned
        elif event.kind == "broken":
            self.waiting.appendleft(planned)
            self.on_event(event)
            self._give_up(f"no worker can start: {event.error.splitlines()[0]}")
        elif event.kind == "killed" or (event.kind == "interrupted" and not self.stopped_at):
            self._killed(planned, event)
        else:
            self._end(planned, event)

    def _settle(self, riders: list[Planned], *, together: bool) -> None:
        """What has become of runs whose group is over; those without a result train again, in a group or alone."""
        for rider in riders:
            found = state_of(rider.wanted, self._directory(rider))
            if found.state in ENDED:
                self._land(rider)
            elif found.state is State.RUNNING:
                self.elsewhere[rider.id] = rider
            elif self.stopped_at:
                self._end(rider, self._event("interrupted", rider))
            else:
                self.riders.alone |= set() if together else {rider.id}
                self.waiting.appendleft(replace(rider, state=State.INTERRUPTED))

    def _land(self, rider: Planned) -> None:
        result = read_run(self._directory(rider)).result or {}
        seconds = (result.get("cost") or {}).get("seconds", 0.0)
        self._end(rider, self._event(
            str(result.get("status", "done")), rider, metrics=dict(result.get("metrics") or {}), seconds=seconds
        ))

    def _killed(self, planned: Planned, event: Event) -> None:
        """The worker of a run was killed from outside: the run goes on from its checkpoint, but not for ever."""
        if self.stopped_at:
            self._end(planned, replace(event, kind="interrupted"))
            return
        failure = read_run(self._directory(planned)).failure or {}
        if failure.get("kind") == "timed_out":  # it ended itself, which some engines cannot tell from a kill
            self._end(planned, replace(event, kind="timed_out", error=str(failure.get("error"))))
            return
        self.kills[planned.id] += 1
        if self.kills[planned.id] > MOST_KILLS:
            error = f"{event.error or 'its worker was asked to stop from outside'}, {MOST_KILLS + 1} times"
            self._end(planned, replace(event, kind="crashed", error=error))
            return
        self.waiting.appendleft(planned)
        self.on_event(replace(event, kind="requeued"))

    def _end(self, planned: Planned, event: Event) -> None:
        event = replace(event, repeat=self.options.repeat.replace("{run}", planned.id))
        self.ends[planned.id] = event.kind
        if event.kind in ("crashed", "out_of_memory", "timed_out"):
            self._record_death(planned, event)
        self.on_event(event)
        if event.kind == "storage":
            self._give_up(event.error)
        most, failed = self.options.max_failures, sum(kind in FAILURES for kind in self.ends.values())
        if event.is_failure and most is not None and failed >= most:
            self._give_up(f"stopped after {failed} failed run{'s' if failed > 1 else ''}")

    def _record_death(self, planned: Planned, event: Event) -> None:
        """A worker that died could not record why; one that lived has (`forgive` began its attempt), which stays."""
        directory, wanted = self._directory(planned), planned.wanted
        try:
            directory.mkdir(parents=True, exist_ok=True)
            held = lease.acquire(directory)
            if held is None:
                return
            try:
                stored = read_run(directory)
                if stored.result is None and (stored.failure or {}).get("kind") not in FAILURES:
                    failures.record(directory, wanted.id, wanted.hash, event.kind, event.error)
            finally:
                held.release()
        except OSError as error:
            self._give_up(self._storage(error, planned))

    def _storage(self, error: OSError, planned: Planned) -> str:
        directory = self._directory(planned)
        return failures.storage_problem(error, directory) or f"{directory}: {failures.one_line(error)}"

    def _look_elsewhere(self) -> None:
        """Runs that another launcher trains: ours to finish when that launcher dies, done when it succeeds."""
        now = time.monotonic()
        if not (self.elsewhere or self.riders.of) or now - self.looked_at < ELSEWHERE_SECONDS:
            return
        self.looked_at = now
        for riders in self.riders.of.values():
            for rider in [r for r in riders if (self._directory(r) / RESULT).exists()]:
                riders.remove(rider)
                self._settle([rider], together=True)
        for planned in list(self.elsewhere.values()):
            found = state_of(planned.wanted, self._directory(planned))
            if found.state is State.RUNNING:
                continue
            del self.elsewhere[planned.id]
            if found.state in ENDED:
                self._end(planned, self._event("elsewhere", planned))
            elif found.state in FAILED or found.state is State.DAMAGED:
                self._end(planned, self._event("failed", planned, error="; ".join(found.why)))
            else:
                self.waiting.append(found)

    def _give_up(self, problem: str) -> None:
        self.problem = self.problem or problem
        self._stop()

    def _stop(self) -> None:
        if not self.stopped_at:
            self.stopped_at = time.monotonic()
            self.engine.stop()

    def _directory(self, planned: Planned) -> Path:
        return run_directory(self.plan.results.absolute(), self.plan.experiment, planned.id)

    def _event(self, kind: str, planned: Planned, **details: Any) -> Event:
        return Event(kind, planned.id, planned.wanted.variant, planned.wanted.seed, **details)


__all__ = ["Engine", "Feed", "Options", "run"]
