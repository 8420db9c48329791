"""From what a person types to a case: a stored run, or an experiment and a variant of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from experiments import records
from experiments.commands.show import find_run, read_config
from experiments.config import ConfigError
from experiments.diagnosis.case import Budget, Case
from experiments.experiment import BASELINE
from experiments.files import declare, import_file
from transformer.registry import unknown


def find(
    target: str, results: Path, *, variant: str | None = None, sets: Iterable[str] = (), imports: Iterable[str] = (),
    budget: Budget | None = None,
) -> Case:
    """The case of a target.

    Args:
        target: catalog name, experiment file, run id, the beginning of one, or a run's directory.
        variant: of an experiment; its baseline if not given. sets: `path=value` changes to an experiment's baseline.
        imports: files of the user's own parts.

    Raises:
        ConfigError: nothing has that name, or it cannot be read.
    """
    from experiments.catalog import NAMES

    if target in NAMES or Path(target).suffix in (".py", ".yaml", ".yml"):
        return _declared(target, variant, sets, imports, budget or Budget())
    for file in imports:
        import_file(Path(file))
    try:
        directory = find_run(results, target)
    except ConfigError as error:
        problems = [("", f"{text} (or an experiment: {', '.join(NAMES)}, or its file)") for _, text in error.problems]
        raise ConfigError(problems) from None
    if variant is not None or list(sets):
        raise ConfigError([("", f"'{target}' is a stored run, which cannot be changed; --variant and --set go with an "
                            "experiment")])
    return stored(directory, budget or Budget())


def stored(directory: Path, budget: Budget) -> Case:
    """The case of a run directory.

    Raises:
        ConfigError: its config.json cannot be read, or parts that it names are gone.
    """
    found, config = read_config(directory)
    told, weights = found.config or {}, directory / records.WEIGHTS
    return Case(
        f"{told['experiment']}: {told['run_id']}", config,
        rows=records.read_metrics(directory), layers=records.read_metrics(directory, records.BY_STEP),
        result=found.result, failure=found.failure,
        weights=weights if weights.is_file() and found.result is not None else None, budget=budget,
    )


def _declared(
    target: str, variant: str | None, sets: Iterable[str], imports: Iterable[str], budget: Budget
) -> Case:
    experiment = declare(target, sets=sets, imports=imports).experiment
    variants = {one.name: one for one in experiment.expand()}
    name = variant or BASELINE
    if name not in variants:
        raise ConfigError([("", unknown(f"variant of '{experiment.name}'", name, variants))])
    try:
        configs = {one.name: config for one, config in experiment.configured()}
    except ConfigError:  # its problems become findings
        configs = {name: experiment.baseline.replace(variants[name].changes)}
    seed = experiment.seed_list()[0]
    return Case(f"{experiment.name}: {name}", configs[name].replace({"seed": seed}), budget=budget)
