"""Where experiments come from: the catalog, a Python file, a strict YAML file, or the command line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from experiments.config import ConfigError, RunConfig, digest
from experiments.experiment import Experiment
from experiments.strict_yaml import parse, scalar
from transformer.registry import unknown
from transformer.spec import Spec


@dataclass(frozen=True)
class Declared:
    """An experiment and what is needed to declare it again elsewhere.

    Attributes:
        experiment: the declaration.
        source: catalog name or path, as a person would type it.
        imports: Python files that register the user's own parts; workers import them too.
    """

    experiment: Experiment
    source: str
    imports: tuple[str, ...] = ()


def declare(
    target: str | None, *, preset: str | None = None, sets: Iterable[str] = (), vary: Iterable[str] = (),
    grid: Iterable[str] = (), seeds: int | None = None, name: str | None = None, imports: Iterable[str] = (),
    smoke: bool = False,
) -> Declared:
    """The experiment that a command line describes.

    Args:
        target: catalog name or file; None = an ad-hoc experiment around the default baseline.
        preset: one of the experiment's own presets.
        sets: `path=value` changes to the baseline. vary, grid: `path=value,value`.
        seeds: count. name: another name for the results. imports: files that register components or tasks.
        smoke: shrink every run to a few steps, under the name `<name>-smoke`.

    Raises:
        ConfigError: everything wrong with them, before anything runs.
    """
    files = tuple(str(Path(file).resolve()) for file in imports)
    for file in files:
        import_file(Path(file))
    declared = load(target) if target else Declared(_ad_hoc(vary, grid), "ad-hoc")
    tree = declared.experiment.to_dict()
    if preset is not None:
        tree = _with_preset(declared.experiment, tree, preset)
    changes = dict(assignment(text) for text in sets)
    if changes:
        tree["baseline"] = RunConfig(**tree["baseline"]).replace(changes).to_dict()
    if target and (list(vary) or list(grid)):
        tree |= {"vary": _tables(vary), "grid": _tables(grid), "groups": [], "variants": {}, "when": {}}
    if seeds is not None:
        tree["seeds"] = seeds
    if name is not None:
        tree["name"] = name
    experiment = Experiment(**tree)
    if smoke:
        experiment = _smoke(experiment, seeds or 2)
    return replace(declared, experiment=experiment, imports=(*declared.imports, *files))


def load(target: str) -> Declared:
    """An experiment by catalog name or by path (`.py`, `.yaml`, `.yml`).

    Raises:
        ConfigError: no such experiment or file, or something wrong inside it.
    """
    path = Path(target)
    if path.suffix in (".py", ".yaml", ".yml"):
        if not path.is_file():
            raise ConfigError([("", f"no such experiment file: '{target}'")])
        return _from_yaml(path) if path.suffix != ".py" else _from_python(path)
    from experiments import catalog

    if target not in catalog.NAMES:
        raise ConfigError([("", f"{unknown('experiment', target, catalog.NAMES)} (or a path ending in .py, .yaml)")])
    return Declared(catalog.get(target), target)


def import_file(path: Path) -> ModuleType:
    """Imports a Python file once per process, under a name made from its path.

    Raises:
        ConfigError: the file is missing, or raises while it is imported.
    """
    path = path.resolve()
    module_name = f"user_{path.stem}_{digest(str(path))[:8]}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError([("", f"cannot import '{path}': no such Python file")])
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except ConfigError:
        del sys.modules[module_name]
        raise
    except Exception as error:
        del sys.modules[module_name]
        raise ConfigError([(str(path), f"{type(error).__name__} while importing it: {error}")]) from error
    return module


def assignment(text: str) -> tuple[str, Any]:
    """`train.steps=500` as (path, value); the value is read as YAML, so `{name: rope, base: 500.0}` works."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise ConfigError([("", f"'{text}' must be written path=value, such as train.steps=500")])
    return path.strip(), _value(value)


def component(text: str) -> Spec:
    """`rope`, or `{name: rope, base: 500.0}`, as a Spec.

    Raises:
        ConfigError: it is neither.
    """
    try:
        return Spec.parse(_value(text))
    except ValueError as error:
        raise ConfigError([("", str(error))]) from None


def _value(text: str) -> Any:
    return parse(text, source=f"value '{text}'").tree if text.lstrip()[:1] in ("{", "[", '"', "'") else scalar(text)


def _tables(texts: Iterable[str]) -> dict[str, list[Any]]:
    """`model.positional=none,rope` lines as path -> values."""
    table: dict[str, list[Any]] = {}
    for text in texts:
        path, equals, values = text.partition("=")
        if not equals or not values.strip():
            raise ConfigError([("", f"'{text}' must be written path=value,value, such as model.norm=rmsnorm,none")])
        inside = parse(f"[{values}]", source=f"'{text}'").tree
        table.setdefault(path.strip(), []).extend(inside)
    return table


def _ad_hoc(vary: Iterable[str], grid: Iterable[str]) -> Experiment:
    one_by_one, product = _tables(vary), _tables(grid)
    if not one_by_one and not product:
        raise ConfigError([("", "name an experiment, or say what to vary: --vary model.positional=none,rope,alibi")])
    paths = [path.rsplit(".", 1)[-1] for path in (*one_by_one, *product)]
    words = " and ".join(paths)
    return Experiment(
        name="-".join(["vary", *paths])[:64], question=f"What does {words} change?", vary=one_by_one, grid=product
    )


def _with_preset(experiment: Experiment, tree: dict[str, Any], preset: str) -> dict[str, Any]:
    if preset not in experiment.presets:
        known = ", ".join(experiment.presets) or "none"
        raise ConfigError([("", f"experiment '{experiment.name}' has no preset '{preset}'. Known: {known}")])
    changed: Experiment = experiment.replace(experiment.presets[preset])
    return changed.to_dict()


def _smoke(experiment: Experiment, seeds: int) -> Experiment:
    from experiments.check import build_task
    from experiments.training.evaluate import metric_names
    from experiments.training.smoke import smoke

    baseline = smoke(experiment.baseline)
    measured = experiment.metric in metric_names(build_task(baseline.task))
    small = {"baseline": baseline.to_dict(), "seeds": seeds, "name": f"{experiment.name[:58]}-smoke"}
    tree = experiment.to_dict() | small
    return Experiment(**tree if measured else tree | {"metric": "test/loss", "goal": "min"})


def _from_yaml(path: Path) -> Declared:
    document = parse(_text(path), source=str(path))
    if not isinstance(document.tree, dict):
        raise ConfigError([(str(path), "must be a mapping with name, question, baseline and what to vary")])
    tree = dict(document.tree)
    imports = tuple(str((path.parent / str(file)).resolve()) for file in tree.pop("imports", None) or [])
    for file in imports:
        import_file(Path(file))
    try:
        return Declared(Experiment(**tree), str(path), imports)
    except ConfigError as error:
        raise ConfigError([_located(document, path, *problem) for problem in error.problems]) from None


def _located(document: Any, path: Path, where: str, text: str) -> tuple[str, str]:
    key = where
    if not key and text.startswith("unknown key '"):
        key = text.split("'")[1]
    line = document.line(key) or next((n for p, n in document.lines.items() if key and p.endswith(f".{key}")), None)
    return f"{path}:{line}" if line else str(path), f"{where}: {text}" if where else text


def _from_python(path: Path) -> Declared:
    module = import_file(path)
    found = {id(value): value for value in vars(module).values() if isinstance(value, Experiment)}
    if len(found) != 1:
        raise ConfigError([(str(path), f"must define exactly one Experiment at top level; it defines {len(found)}")])
    return Declared(next(iter(found.values())), str(path), (str(path.resolve()),))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError([(str(path), "is not UTF-8 text")]) from None
