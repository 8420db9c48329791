"""Where experiments come from: the catalog, a Python file, a strict YAML file, or the command line."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from experiments.config import ConfigError, RunConfig, digest
from experiments.experiment import Experiment
from experiments.problems import described
from experiments.strict_yaml import Document, parse, scalar
from transformer.registry import did_you_mean, shown, unknown
from transformer.spec import Spec

T = TypeVar("T")
_NO_MAPPING = "must be a mapping such as: name, question, baseline and vary, each followed by a colon and its value"
SUFFIXES = (".py", ".yaml", ".yml")


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
    faults = _Faults()
    files = tuple(str(Path(file).resolve()) for file in imports)
    for file in files:
        faults.of(functools.partial(import_file, Path(file)))
    one_by_one, product = faults.of(lambda: _tables(vary)), faults.of(lambda: _tables(grid))
    changes = _changes(sets, faults)
    if target:
        declared = faults.of(lambda: load(target))
    else:
        readable = one_by_one is not None and product is not None
        declared = faults.of(lambda: Declared(_ad_hoc(one_by_one or {}, product or {}), "ad-hoc")) if readable else None
    if declared is None:
        faults.of(lambda: _only_known(changes))
        raise ConfigError(list(dict.fromkeys(faults.found)))
    tree = declared.experiment.to_dict()
    if preset is not None:
        tree = faults.of(lambda: _with_preset(declared.experiment, preset)) or tree
    if changes:
        baseline = RunConfig(**tree["baseline"])
        tree["baseline"] = (faults.of(lambda: baseline.replace(changes)) or baseline).to_dict()
    if target and (one_by_one or product):
        tree |= {"vary": one_by_one or {}, "grid": product or {}, "groups": [], "variants": {}, "when": {}}
    tree |= {key: value for key, value in (("seeds", seeds), ("name", name)) if value is not None}
    experiment = faults.of(lambda: Experiment(**tree))
    if experiment is None or faults.found:
        raise ConfigError(list(dict.fromkeys(faults.found)))
    if smoke:
        experiment = _smoke(experiment, seeds or 2)
    return replace(declared, experiment=experiment, imports=(*declared.imports, *files))


def _only_known(changes: dict[str, Any]) -> None:
    """Whether the paths exist, when there is no baseline to check the values against."""
    try:
        RunConfig().replace(changes)
    except ConfigError as error:
        unknown_keys = [problem for problem in error.problems if problem[1].startswith("unknown key")]
        if unknown_keys:
            raise ConfigError(unknown_keys) from None


class _Faults:
    """Gathers what is wrong with the parts of a command line, so that all of it is told at once."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def of(self, make: Callable[[], T]) -> T | None:
        """What `make` returns; None when it raises, and its problems are noted."""
        try:
            return make()
        except ConfigError as error:
            self.found += error.problems
            return None


def load(target: str) -> Declared:
    """An experiment by catalog name or by path (`.py`, `.yaml`, `.yml`).

    Raises:
        ConfigError: no such experiment or file, or something wrong inside it.
    """
    path = Path(target)
    if path.suffix.lower() in SUFFIXES:
        if not path.is_file():
            raise ConfigError([("", _no_file(path))])
        return _from_python(path) if path.suffix.lower() == ".py" else _from_yaml(path)
    from experiments import catalog

    if target not in catalog.NAMES:
        raise ConfigError([("", f"{unknown('experiment', target, catalog.NAMES)} (or a path ending in .py, .yaml)")])
    return Declared(catalog.get(target), target)


def _no_file(path: Path) -> str:
    if path.exists():
        return f"'{path}' is no file; name an experiment file, ending in .py or .yaml"
    beside = [file.name for file in path.parent.glob("*.*") if file.suffix in SUFFIXES and file.is_file()]
    return f"no such experiment file: '{path}'. {did_you_mean(path.name, beside)}".rstrip(". ")


def import_file(path: Path) -> ModuleType:
    """Imports a Python file once per process, under a name made from its path.

    Raises:
        ConfigError: the file is missing, or raises while it is imported.
    """
    path = path.resolve()
    module_name = f"user_{path.stem}_{digest(str(path))[:8]}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    if not path.is_file() or path.suffix.lower() != ".py":
        what = "it is no file ending in .py" if path.exists() else "no such Python file"
        raise ConfigError([("", f"cannot import '{path}': {what}")])
    spec = importlib.util.spec_from_loader(module_name, SourceFileLoader(module_name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what it prints is no part of an answer, such as that of --json
            spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[module_name]
        if isinstance(error, Exception | SystemExit) and not isinstance(error, ConfigError):
            raise ConfigError([(str(path), f"cannot be imported: {described(error)}")]) from error
        raise
    return module


def assignment(text: str) -> tuple[str, Any]:
    """`train.steps=500` as (path, value); the value is read as YAML, so `{name: rope, base: 500.0}` works."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise ConfigError([("", f"{text!r} must be written path=value, such as train.steps=500")])
    return path.strip(), _value(value)


def component(text: str, option: str = "") -> Spec:
    """`rope`, or `{name: rope, base: 500.0}`, as a Spec; `option` is where it was typed, for messages.

    Raises:
        ConfigError: it is neither.
    """
    try:
        return Spec.parse(_value(text))
    except ConfigError as error:
        raise ConfigError([(option, f"{path}: {fault}" if path else fault) for path, fault in error.problems]) from None
    except ValueError as error:
        raise ConfigError([(option, str(error))]) from None


def _value(text: str) -> Any:
    composed = text.lstrip()[:1] in ("{", "[", '"', "'")
    return parse(text, source=f"value {shown(text)}").tree if composed else scalar(text)


def _tables(texts: Iterable[str]) -> dict[str, list[Any]]:
    """`model.positional=none,rope` lines as path -> values."""
    table: dict[str, list[Any]] = {}
    problems: list[tuple[str, str]] = []
    for text in texts:
        path, equals, values = text.partition("=")
        try:
            inside = parse(f"[{values}]").tree if equals and path.strip() and values.strip() else None
        except ConfigError:
            inside = None
        if isinstance(inside, list) and inside:
            table.setdefault(path.strip(), []).extend(inside)
        else:
            problems.append(("", f"{text!r} must be written path=value,value, such as model.norm=rmsnorm,none"))
    if problems:
        raise ConfigError(problems)
    return table


def _changes(sets: Iterable[str], faults: _Faults) -> dict[str, Any]:
    made = [faults.of(functools.partial(assignment, text)) for text in sets]
    return dict(change for change in made if change is not None)


def _ad_hoc(one_by_one: dict[str, list[Any]], product: dict[str, list[Any]]) -> Experiment:
    if not one_by_one and not product:
        raise ConfigError([("", "name an experiment, or say what to vary: --vary model.positional=none,rope,alibi")])
    paths = [path.rsplit(".", 1)[-1] for path in (*one_by_one, *product)]
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join(["vary", *paths]))[:64]
    return Experiment(name=name, question=f"What does {' and '.join(paths)} change?", vary=one_by_one, grid=product)


def _with_preset(experiment: Experiment, preset: str) -> dict[str, Any]:
    if preset not in experiment.presets:
        known = f"{did_you_mean(preset, experiment.presets)}Known: {', '.join(experiment.presets) or 'none'}"
        raise ConfigError([("", f"experiment '{experiment.name}' has no preset '{preset}'. {known}")])
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
        raise ConfigError([(str(path), _NO_MAPPING)])
    tree = dict(document.tree)
    imports = _imports(tree.pop("imports", None), path, document)
    try:
        return Declared(Experiment(**tree), str(path), imports)
    except ConfigError as error:
        raise ConfigError([_located(document, path, *problem) for problem in error.problems]) from None


def _imports(value: Any, path: Path, document: Document) -> tuple[str, ...]:
    where = f"{path}:{document.line('imports')}"
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(file, str) for file in value):
        raise ConfigError([(where, f"imports: {shown(value)} must be a list of Python files, such as [my_parts.py]")])
    files = tuple(str((path.parent / file).resolve()) for file in value)
    for file in files:
        import_file(Path(file))
    return files


def _located(document: Document, path: Path, where: str, text: str) -> tuple[str, str]:
    key = where
    if not key and text.startswith("unknown key '"):
        key = text.split("'")[1]
    if not key:  # `seeds=0 must be ...` and `name 'a/b' must be ...` begin with theirs
        key = re.split(r"\W", text, maxsplit=1)[0]
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
    except UnicodeDecodeError as error:
        fault = f"is not UTF-8 text (byte {error.start}); save it as UTF-8"
    except OSError as error:
        fault = f"cannot be read ({error.strerror})"
    raise ConfigError([(str(path), fault)])
