"""Tunes imaginary experiments without processes, for the tests of the tuner."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.config import RunConfig, Spec, TrainConfig
from experiments.experiment import Experiment
from experiments.files import Declared
from experiments.records import read_run, run_directories
from experiments.runner.attempt import Stop, Task, attempt
from experiments.runner.events import Event, Outcome
from experiments.runner.local import event_of
from experiments.runner.options import Options
from experiments.tuning.request import Request
from tests.experiments.tuning_jobs import TARGET, Valley

LR = {"train.lr": {"log": [3e-4, 3e-2]}}
SMALL = RunConfig(task=Spec("recall"), train=TrainConfig(steps=4, batch_size=8, eval_every=1, warmup=0))


class InstantEngine:
    """Trains in this process, one run per `wait`, in the order that `pick` says; stops after `most` runs."""

    name = "instant"

    def __init__(
        self, slots: int = 1, *, most: int | None = None, pick: Callable[[int], int] = lambda n: 0,
        on_run: Callable[[Task], None] = lambda task: None,
    ) -> None:
        self.slots, self.most, self.pick, self.on_run = slots, most, pick, on_run
        self.queue: deque[Task] = deque()
        self.trained: list[str] = []

    @property
    def free(self) -> int:
        return self.slots - len(self.queue)

    def submit(self, task: Task) -> None:
        self.queue.append(task)

    def wait(self, seconds: float) -> list[Event]:
        if not self.queue:
            return []
        if self.most is not None and len(self.trained) >= self.most:
            raise Killed
        index = self.pick(len(self.queue))
        task = self.queue[index]
        del self.queue[index]
        self.on_run(task)
        ended = attempt(task, device="cpu", stop=Stop(), report=lambda **progress: None)
        self.trained.append(task.id)
        return [event_of(task, ended.kind, 0, error=ended.error, seconds=ended.seconds, metrics=ended.metrics)]

    def stop(self) -> None: ...

    def cancel(self, run_id: str) -> None: ...

    def close(self, *, now: bool = False) -> None: ...


class Killed(BaseException):
    """Stands for kill -9: the driver gets no chance to tidy up."""


def experiment(**fields: Any) -> Experiment:
    """A small experiment that tunes the learning rate."""
    return Experiment(**{"name": "valley", "question": "Where is the valley?", "baseline": SMALL, "space": LR, **fields})


def tune(
    results: Path, declared: Experiment, request: Request, engine: Any = None, *, retry_failed: bool = False,
    told: list[Any] | None = None, **job: Any,
) -> tuple[Outcome, list[Any]]:
    """One session with instant jobs; the outcome, and every trial of every study."""
    from experiments.tuning.session import session

    options = Options(Valley.maker(results, **job), target=TARGET, retry_failed=retry_failed)
    with session(Declared(declared, declared.name), request, results) as going:
        outcome = going.run(
            lambda: engine or InstantEngine(), options,
            on_told=lambda study, trial: told.append(trial) if told is not None else None,
        )
        return outcome, [trial for study in going.studies for trial in study.told()]


def launch_protocol(results: Path, declared: Experiment, most: int | None = None, **job: Any) -> Outcome:
    """Carries out the experiment's protocol with instant jobs, and writes experiment.json as `run` does."""
    from experiments.runner.engine import run
    from experiments.runner.plan import plan
    from experiments.runner.store import description, write
    from experiments.tuning.budget import held_equal
    from experiments.tuning.protocols import PROTOCOLS, Stage

    protocol, left = PROTOCOLS.build(declared.protocol), [most]
    options = Options(Valley.maker(results, **job), target=TARGET)

    def launch() -> Outcome:
        runs = protocol.runs(declared, results)
        write(results, {**description(declared, runs, source=declared.name), **held_equal(declared, runs)})
        engine = InstantEngine(most=left[0])
        outcome = run(plan(declared.name, runs, results), engine, options)
        left[0] = None if left[0] is None else left[0] - len(engine.trained)
        return outcome

    def search(request: Request) -> Outcome:
        return tune(results, declared, request, **job)[0]

    return protocol.carry_out(Stage(declared, results, launch, search))


def tune_until_killed(results: Path, declared: Experiment, request: Request, runs: int, slots: int = 1, **job: Any) -> bool:
    """Tunes, and dies after so many runs; whether it died."""
    try:
        with abandoned():
            tune(results, declared, request, InstantEngine(slots, most=runs), **job)
    except Killed:
        return True
    return False


@contextmanager
def abandoned() -> Any:
    """Nothing is written after the death."""
    from experiments.tuning.session import Session

    original = Session.write

    def write(self: Any, *arguments: Any, **options: Any) -> Any:
        import sys

        if isinstance(sys.exc_info()[1], Killed):
            return {}
        return original(self, *arguments, **options)

    Session.write = write  # type: ignore[method-assign]
    try:
        yield
    finally:
        Session.write = original  # type: ignore[method-assign]


def completions(results: Path, name: str) -> dict[str, int]:
    """Run id -> how often it was trained to its end."""
    found = {}
    for directory in run_directories(results, name):
        path = directory / "completions"
        found[directory.name] = len(path.read_text()) if path.exists() else 0
    return found


def rates(trials: Iterable[Any]) -> list[float]:
    """The learning rate of each trial."""
    return [trial.values["train.lr"] for trial in trials]


def results_of(results: Path, name: str) -> dict[str, Any]:
    """Run id -> metrics of every run with a result."""
    found = {directory.name: read_run(directory) for directory in run_directories(results, name)}
    return {run_id: stored.result["metrics"] for run_id, stored in found.items() if stored.result is not None}
