"""One session of tuning: everything is checked, studies are opened, trials are run, what was found is written."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.check import build_task
from experiments.config import ConfigError, RunConfig
from experiments.experiment import Experiment, Run, Variant
from experiments.files import Declared
from experiments.runner import lease
from experiments.runner.engine import Engine, run
from experiments.runner.events import Event, Outcome
from experiments.runner.options import Options
from experiments.runner.plan import Plan
from experiments.runner.store import description, write
from experiments.tuning.budget import BUDGETS, balanced
from experiments.tuning.check import spaces
from experiments.tuning.driver import Driver
from experiments.tuning.export import COSTS, export
from experiments.tuning.request import Request, store_name
from experiments.tuning.samplers import PRUNERS, SAMPLERS
from experiments.tuning.scores import validation_metric
from experiments.tuning.space import Space
from experiments.tuning.storage import close, open_storage
from experiments.tuning.study import Question, Study
from experiments.tuning.trials import Objective, Told
from experiments.tuning.winners import Winner
from transformer.registry import unknown
from transformer.spec import Spec

WRITE_SECONDS = 10.0  # how often what was found so far is written while trials go on


@dataclass
class Session:
    """Studies that are ready to go on.

    Attributes:
        experiment: under the name of its store. declared, request: what was asked.
        folder: where its files lie. studies: one per variant.
    """

    experiment: Experiment
    declared: Declared
    request: Request
    folder: Path
    studies: list[Study]
    written: float = field(default=0.0)

    def missing(self) -> int:
        """Trials that are still to be told."""
        return sum(self._missing(study) for study in self.studies)

    def retry_failed(self) -> None:
        """Queues every failed trial that was not tried again; asked twice, it queues nothing twice."""
        for study in self.studies:
            study.retry_failed()

    def run(
        self, engine_of: Callable[[], Engine], options: Options, *,
        on_event: Callable[[Event], None] = lambda event: None,
        on_told: Callable[[Study, Told], None] = lambda study, told: None,
    ) -> Outcome:
        """Runs what is missing; writes what was found, also when it is interrupted."""
        if options.retry_failed:
            self.retry_failed()
        if not self.missing():
            self.write(())
            return Outcome()
        engine, results = engine_of(), self.folder.parent
        driver = Driver(self.studies, self.request.trials, results, self.experiment.name, engine, options,
                        on_told=lambda study, told: self._told(driver, study, told, on_told))  # fmt: skip

        def both(event: Event) -> None:
            driver.on_event(event)
            on_event(event)

        try:
            return run(Plan(self.experiment.name, results, ()), engine, options, both, driver.feed)
        finally:
            self.write(driver.running())

    def write(self, running: list[Run] | tuple[()], *, brief: bool = False) -> dict[str, Winner]:
        """Writes experiment.json and everything of export.py; `brief` leaves out what takes long."""
        runs: list[dict[str, Any]] = [
            {**one, "variant": study.question.variant} for study in self.studies for t in study.told() for one in t.runs
        ]
        runs += [{"id": r.id, "variant": r.variant, "seed": r.config.seed, "hash": r.hash} for r in running]
        source = self.declared.source
        content = description(self.experiment, (), source=source, imports=self.declared.imports,
                              command=f"python run_all.py tune {source}")  # fmt: skip
        write(self.folder.parent, {**content, "runs": list({run["id"]: run for run in runs}.values())})
        self.written = time.monotonic()
        return export(
            self.folder, self.experiment, self.studies, settings=self.request.to_dict(), final=not self.missing(),
            imports=self.declared.imports, importance=not brief,
        )

    def _missing(self, study: Study) -> int:
        left = max(0, self.request.trials - study.spent()) + study.waiting()
        return study.unfinished() + (0 if left and study.exhausted() else left)

    def _told(
        self, driver: Driver, study: Study, told: Told, on_told: Callable[[Study, Told], None]
    ) -> None:
        on_told(study, told)
        if time.monotonic() - self.written > WRITE_SECONDS:
            self.write(driver.running(), brief=True)


@contextmanager
def session(declared: Declared, request: Request, results: Path) -> Iterator[Session]:
    """Opens the studies of an experiment for this process alone.

    Raises:
        ConfigError: everything that is wrong, before anything is trained; or another tuner is at work on them.
    """
    experiment = renamed(declared.experiment, request.study)
    questions = _questions(experiment, request)
    _check(questions, request)
    folder = results.absolute() / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    held = lease.acquire(folder)
    if held is None:
        owner = lease.holder(folder)
        who = f"process {owner.pid} on {owner.host.split()[0]}" if owner and owner.host else "another process"
        text = f"'{experiment.name}' is being tuned by {who}; wait for it, or choose another --study"
        raise ConfigError([("", text)])
    held.keep()
    storage = None
    try:
        storage = open_storage(request.storage, folder)
        pruner = PRUNERS.build(request.pruner)
        studies = [
            Study(question, storage, SAMPLERS.build(request.sampler), pruner, pruner.inner(config), request.seed)
            for question, config in questions
        ]
        yield Session(experiment, declared, request, folder, studies)
    finally:
        if storage is not None:
            close(storage)
        held.release()
        with contextlib.suppress(OSError):  # what could not begin leaves no empty folder
            folder.rmdir()


def renamed(experiment: Experiment, study: str) -> Experiment:
    """The experiment under the name of its study's store.

    Raises:
        ConfigError: the study's name does not fit into a file name.
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,30}", study):
        raise ConfigError([("--study", f"{study!r} must be 1 to 30 of A-Z a-z 0-9 . _ -")])
    found: Experiment = experiment.replace({"name": store_name(experiment.name, study), "protocol": Spec("fixed")})
    return found


def _questions(experiment: Experiment, request: Request) -> list[tuple[Question, RunConfig]]:
    """One question per variant, with the variant's configuration."""
    chosen, seeds = _variants(experiment, request), _seeds(experiment, request)
    made = {v.name: (v, config) for v, config in experiment.configured() if v.name in chosen}
    found = spaces(experiment, {name: config for name, (_, config) in made.items()})
    objectives = _objectives(experiment, request, [config for _, config in made.values()])
    return [
        (
            Question(
                f"{experiment.name}/{name}", name, found[name], objectives, seeds, config.identity(),
                _run_of(experiment, variant, found[name]),
            ),
            config,
        )
        for name, (variant, config) in made.items()
    ]  # fmt: skip


def _run_of(experiment: Experiment, variant: Variant, space: Space) -> Callable[[Any, int], Run]:
    """Tuned values on top of what the variant declares; budgets are made equal again, since values may change them."""
    plain = experiment.baseline.replace(variant.changes)
    same = experiment.match is None and not BUDGETS.build(experiment.budget).derives_steps

    def make(values: Any, seed: int) -> Run:
        tuned = Variant(variant.name, {**variant.changes, **values})
        config: RunConfig = plain.replace(values)
        config = config if same else balanced(experiment, [(tuned, config)])[0][1]
        return experiment.run_of(tuned, config, seed)

    return make


def _variants(experiment: Experiment, request: Request) -> list[str]:
    known = [variant.name for variant in experiment.expand()]
    wrong = [name for name in request.variants if name not in known]
    if wrong:
        raise ConfigError([("--variant", unknown("variant", name, known)) for name in wrong])
    return list(request.variants) or known


def _seeds(experiment: Experiment, request: Request) -> tuple[int, ...]:
    there = experiment.seed_list()
    if not 1 <= request.seeds <= len(there):
        text = f"{request.seeds} is not between 1 and the experiment's {len(there)} seeds"
        raise ConfigError([("--trial-seeds", text)])
    if request.trials < 1:
        raise ConfigError([("--trials", f"{request.trials} must be at least 1")])
    return tuple(there[: request.seeds])


def _objectives(experiment: Experiment, request: Request, configs: list[RunConfig]) -> tuple[Objective, ...]:
    from experiments.training.evaluate import metric_names

    metric = validation_metric(experiment.metric)
    for config in configs:
        known = [name for name in metric_names(build_task(config.task)) if name.startswith("validation/")]
        if metric not in known:
            raise ConfigError([(f"{experiment.name}: metric", unknown("validation metric", metric, known))])
    score = Objective(metric, experiment.goal)
    if request.cost is None:
        return (score,)
    if request.cost not in (*COSTS, "peak_memory_bytes"):
        raise ConfigError([("--cost", unknown("cost", request.cost, (*COSTS, "peak_memory_bytes")))])
    return (score, Objective(f"cost/{request.cost}", "min"))


def _check(questions: list[tuple[Question, RunConfig]], request: Request) -> None:
    problems = [("--sampler", text) for text in SAMPLERS.problems(request.sampler)]
    problems += [("--pruner", text) for text in PRUNERS.problems(request.pruner)]
    if not problems:
        sampler = SAMPLERS.build(request.sampler)
        for question, _ in questions:
            text = sampler.problem(question.space, len(question.objectives))
            problems += [("--sampler", f"'{request.sampler.name}' {text}")] if text else []
        if request.cost and PRUNERS.build(request.pruner).prunes:
            problems.append(("--pruner", "with two objectives no trial can be given up early; use --pruner none"))
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
