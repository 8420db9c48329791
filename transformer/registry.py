"""Names for swappable parts: register a class once, refer to it by name everywhere.

Torch-free, so that listing names and reading experiment files stays instant.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import re
import threading
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from transformer.spec import Spec

T = TypeVar("T")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`Did you mean 'alibi'? ` when something known is close to `word`, else an empty string."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"Did you mean '{close[0]}'? " if close else ""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The one sentence for every unknown name, whatever it names."""
    names = sorted(known)
    return f"unknown {kind} '{name}'. {did_you_mean(name, names)}Known: {', '.join(names)}"


_PLAIN = (  # how a checker of types puts it, and how a person would
    ("input should be ", "must be "), ("a valid integer", "a whole number"), ("a valid number", "a number"),
    ("a valid string", "text"), ("a valid boolean", "true or false"), ("a valid list", "a list, such as [a, b]"),
    ("a valid tuple", "a list, such as [a, b]"), ("an instance of Sequence", "a list, such as [a, b]"),
    ("field required", "is missing"),
)


def plain_words(message: str) -> str:
    """What a type checker says about a value, in words for somebody who wrote it in a file."""
    text = message[:1].lower() + message[1:]
    for technical, plain in _PLAIN:
        text = text.replace(technical, plain)
    return re.sub(r"a valid dictionary( or .*)?$", "a mapping, such as {key: value}", text)


def shown(value: Any) -> str:
    """A value as messages show it: short, on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered class with what was declared beside it."""

    name: str
    cls: type[T]
    paper: str | None
    version: int
    added: tuple[str, ...] = ()


@dataclass
class Registry(Generic[T]):
    """The classes that can fill one slot, by name.

    Args:
        slot: what the names stand for, such as `positional`; used in messages.
        load: imports the modules that register the shipped names; called once, on first use.
        contract: the class that every class here must derive from; None = any.
    """

    slot: str
    load: Callable[[], object] | None = None
    contract: type | None = None
    _entries: dict[str, Entry[T]] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.RLock, repr=False, compare=False)
    _loading: bool = field(default=False, repr=False, compare=False)

    def register(
        self, name: str, *, paper: str | None = None, version: int = 1, added: tuple[str, ...] = ()
    ) -> Callable[[type[T]], type[T]]:
        """Class decorator: make `name` mean this class.

        Raise `version` when the meaning of a component changes: results made by the old
        meaning then count as stale instead of being mixed with new ones.
        Name in `added` the options that came when there were results already, whose defaults are what the component
        did before: at its default such an option is no part of the identity, so those results stand.

        Raises:
            ValueError: the name is taken by another class (the message shows both) or cannot be one, the class
                does not keep the slot's contract, or its options cannot be options.
        """
        _refuse(self.slot, name, {
            "the name must be text of letters, digits, _ . + - only": not _is_name(name),
            f"version={shown(version)} must be a whole number": type(version) is not int,
        })

        def add(cls: type[T]) -> type[T]:
            _refuse(self.slot, name, _unfit(cls, self.contract))
            options = _options(cls)  # type: ignore[arg-type]
            _refuse(self.slot, name, {f"added names '{key}', which is no option": key not in options for key in added})
            taken = self._entries.get(name)
            if taken is not None and _home(taken.cls) != _home(cls):
                raise ValueError(
                    f"{self.slot} '{name}' is taken by {_home(taken.cls)}; {_home(cls)} needs another name"
                )
            self._entries[name] = Entry(name, cls, paper, version, added)
            return cls

        return add

    def names(self) -> list[str]:
        """Every registered name, sorted."""
        self._fill()
        return sorted(self._entries)

    def entry(self, name: str) -> Entry[T]:
        """The entry under `name`.

        Raises:
            ValueError: nothing is registered under that name.
        """
        self._fill()
        if name not in self._entries:
            raise ValueError(unknown(self.slot, name, self._entries))
        return self._entries[name]

    def build(self, spec: Spec, *args: Any, **context: Any) -> T:
        """Make the component that `spec` names: `cls(*args, **context, **options)`."""
        entry = self.entry(spec.name)
        return entry.cls(*args, **context, **self.resolve(spec))

    def options(self, name: str) -> dict[str, inspect.Parameter]:
        """The options of a component: the keyword-only parameters of its `__init__`."""
        return dict(_options(self.entry(name).cls))  # type: ignore[arg-type]

    def resolve(self, spec: Spec) -> dict[str, Any]:
        """Every option of the component with the value that `spec` gives or the default.

        Raises:
            ValueError: an unknown name or option, a missing or ill-typed value (all in one message).
        """
        found = self.problems(spec)
        if found:
            raise ValueError("\n".join(found))
        options = self.options(spec.name)
        hints = _hints(self.entry(spec.name).cls)  # type: ignore[arg-type]
        values = {key: spec.options.get(key, p.default) for key, p in options.items()}
        return {key: _adapter(hints.get(key, Any)).validate_python(value) for key, value in values.items()}

    def problems(self, spec: Spec) -> list[str]:
        """What is wrong with `spec`, one sentence each; empty when nothing is."""
        try:
            options = self.options(spec.name)
        except ValueError as error:
            return [str(error)]
        try:
            hints = _hints(self.entry(spec.name).cls)  # type: ignore[arg-type]
        except NameError as error:
            return [f"{self.slot} '{spec.name}': the types of its options cannot be read: {error}"]
        found = [
            unknown(f"option of {self.slot} '{spec.name}':", key, options) if options
            else f"{self.slot} '{spec.name}' takes no options, but got '{key}'"
            for key in spec.options
            if key not in options
        ]
        for key, parameter in options.items():
            if key in spec.options:
                found += _type_problems(f"{self.slot} '{spec.name}': {key}", hints.get(key, Any), spec.options[key])
            elif parameter.default is inspect.Parameter.empty:
                found.append(f"{self.slot} '{spec.name}' needs the option '{key}'")
            else:
                what = f"{self.slot} '{spec.name}': the default {key}"
                found += _type_problems(what, hints.get(key, Any), parameter.default)
        return found

    def identity(self, spec: Spec) -> dict[str, Any]:
        """What makes a result belong to this component: name, version and every resolved option.

        Options that were added later count only where they are not at their default: see `register`.
        """
        entry, options = self.entry(spec.name), self.resolve(spec)
        plain = {key for key in entry.added if options[key] == self.options(spec.name)[key].default}
        kept = {key: value for key, value in options.items() if key not in plain}
        return {"name": spec.name, "version": entry.version, "options": kept}

    def _fill(self) -> None:
        """Loads once; another thread waits until all names are there, and what raised is tried again."""
        if self.load is None:
            return
        with self._lock:
            if self.load is None or self._loading:  # what is being loaded may itself ask for names
                return
            self._loading = True
            try:
                self.load()
                self.load = None
            finally:
                self._loading = False


def _is_name(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(r"\w[\w.+-]*", name) is not None


def _refuse(slot: str, name: object, faults: Mapping[str, bool]) -> None:
    found = [f"{slot} {name!r}: {text}" for text, wrong in faults.items() if wrong]
    if found:
        raise ValueError("\n".join(found))


def _unfit(cls: Any, contract: type | None) -> dict[str, bool]:
    """What keeps a class from filling a slot, as sentence -> whether that is so."""
    if not isinstance(cls, type):
        return {f"{shown(cls)} is no class; write the decorator on a class": True}
    faults = {}
    if contract is not None:
        text = f"{cls.__name__} must derive from {contract.__name__} (from {contract.__module__})"
        faults[text] = not issubclass(cls, contract)
    for key, p in inspect.signature(cls.__init__).parameters.items():  # type: ignore[misc]
        by_place = p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        faults[f"the option '{key}' must stand after a *, as in __init__(self, dims, *, {key}=...)"] = (
            by_place and p.default is not inspect.Parameter.empty
        )
        faults[f"no option may be called '{key}': files name the component by that key"] = (
            key == "name" and p.kind is inspect.Parameter.KEYWORD_ONLY
        )
    return faults


def _home(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


@functools.cache  # thousands of configurations are checked against the same few classes
def _options(cls: type) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
    return {key: p for key, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls.__init__, include_extras=True)  # type: ignore[misc]


def _adapter(hint: Any) -> TypeAdapter[Any]:
    try:
        return _made(hint)
    except TypeError:  # a hint that cannot be a key, such as one with a list inside
        return _made.__wrapped__(hint)


@functools.cache
def _made(hint: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hint, config=ConfigDict(strict=True, allow_inf_nan=False))
    except Exception:  # a hint that carries its own config (a model class) cannot take another
        return TypeAdapter(hint)


def _type_problems(what: str, hint: Any, value: Any) -> list[str]:
    if not _is_plain(value):  # a result's identity is written down as JSON
        return [f"{what}={shown(value)} must be made of finite numbers, text, true, false, null, lists and mappings"]
    try:
        _adapter(hint).validate_python(value)
    except ValidationError as error:
        return [f"{what}={shown(value)} {plain_words(e['msg'])}" for e in error.errors()[:1]]
    return []


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(inner) for inner in value)
    return value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))
