"""Names for swappable parts: register a class once, refer to it by name everywhere.

Torch-free, so that listing names and reading experiment files stays instant.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import typing
from collections.abc import Callable, Iterable
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


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered class with what was declared beside it."""

    name: str
    cls: type[T]
    paper: str | None
    version: int


@dataclass
class Registry(Generic[T]):
    """The classes that can fill one slot, by name.

    Args:
        slot: what the names stand for, such as `positional`; used in messages.
        load: imports the modules that register the shipped names; called once, on first use.
    """

    slot: str
    load: Callable[[], object] | None = None
    _entries: dict[str, Entry[T]] = field(default_factory=dict)

    def register(self, name: str, *, paper: str | None = None, version: int = 1) -> Callable[[type[T]], type[T]]:
        """Class decorator: make `name` mean this class.

        Raise `version` when the meaning of a component changes: results made by the old
        meaning then count as stale instead of being mixed with new ones.

        Raises:
            ValueError: the name is taken by another class; the message shows both.
        """

        def add(cls: type[T]) -> type[T]:
            taken = self._entries.get(name)
            if taken is not None and _home(taken.cls) != _home(cls):
                raise ValueError(
                    f"{self.slot} '{name}' is taken by {_home(taken.cls)}; {_home(cls)} needs another name"
                )
            self._entries[name] = Entry(name, cls, paper, version)
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
        hints = _hints(self.entry(spec.name).cls)  # type: ignore[arg-type]
        found = [
            unknown(f"option of {self.slot} '{spec.name}'", key, options) if options
            else f"{self.slot} '{spec.name}' takes no options, but got '{key}'"
            for key in spec.options
            if key not in options
        ]
        for key, parameter in options.items():
            if key in spec.options:
                found += _type_problems(f"{self.slot} '{spec.name}': {key}", hints.get(key, Any), spec.options[key])
            elif parameter.default is inspect.Parameter.empty:
                found.append(f"{self.slot} '{spec.name}' needs the option '{key}'")
        return found

    def identity(self, spec: Spec) -> dict[str, Any]:
        """What makes a result belong to this component: name, version and every resolved option."""
        return {"name": spec.name, "version": self.entry(spec.name).version, "options": self.resolve(spec)}

    def _fill(self) -> None:
        if self.load is not None:
            load, self.load = self.load, None
            load()


def _home(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


@functools.cache  # thousands of configurations are checked against the same few classes
def _options(cls: type) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
    return {key: p for key, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls.__init__)  # type: ignore[misc]


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
    try:
        _adapter(hint).validate_python(value)
    except ValidationError as error:
        return [f"{what}={value!r}: {_lower(e['msg'])}" for e in error.errors()[:1]]
    return []


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
