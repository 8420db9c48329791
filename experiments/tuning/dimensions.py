"""What may be tuned: ranges and choices, in Python and in YAML. Torch-free.

    Python                              YAML                                 value
    LogRange(3e-4, 3e-2)                {log: [3e-4, 3e-2]}                  float, uniform in its logarithm
    Range(0.0, 0.3)                     {range: [0.0, 0.3]}                  float, uniform
    IntRange(64, 512, log=True)         {int: [64, 512], log: true}          integer
    Choice("cosine", "linear")          {choice: [cosine, linear]}, or just the list
    DEFAULT                             default                              what the field or component declares

Each takes `when="model.positional=rope"`: it exists only where the condition holds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from experiments.tuning.labels import label, rounded
from transformer.registry import unknown
from transformer.spec import Spec

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

EDGE_SHARE = 0.05  # a best value within this share of the range's width from an end counts as on the edge


class Dimension(ABC):
    """One thing to tune. `when` is a condition `path=value` under which it exists; None = always."""

    form: ClassVar[str]
    when: str | None

    @abstractmethod
    def distribution(self) -> BaseDistribution:
        """How Optuna sees it."""

    @abstractmethod
    def value(self, sampled: Any) -> Any:
        """The configuration value for what a sampler drew."""

    @abstractmethod
    def values(self) -> list[Any] | None:
        """Every value that a sampler may draw, in the sampler's terms; None = endlessly many."""

    @abstractmethod
    def extremes(self) -> list[Any]:
        """Configuration values that must fit for the whole dimension to fit."""

    @abstractmethod
    def to_dict(self) -> Any:
        """Plain data: what YAML files hold."""

    def edge(self, value: Any) -> str | None:
        """`lower` or `upper` when a configuration value lies at that end of the range, else None."""
        return None

    @staticmethod
    def parse(value: Any) -> Dimension:
        """A dimension from its plain form.

        Raises:
            ValueError: it is none of the forms, or its numbers do not fit.
        """
        if isinstance(value, Dimension):
            return value
        if isinstance(value, list | tuple):
            return Choice(*value)
        if value == DefaultRange.form:
            return DEFAULT
        if isinstance(value, Mapping):
            return _from_mapping(value)
        raise ValueError(f"{value!r} is no range: {HOW}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        to_plain = core_schema.plain_serializer_function_ser_schema(lambda dimension: dimension.to_dict())
        return core_schema.no_info_plain_validator_function(cls.parse, serialization=to_plain)


HOW = "write {log: [3e-4, 3e-2]}, {range: [0, 0.3]}, {int: [1, 8]}, {choice: [a, b]}, a list of values, or default"


@dataclass(frozen=True)
class _Numeric(Dimension):
    """An interval. `points` makes it finite: that many values at equal distances."""

    low: float
    high: float
    points: int | None = None
    when: str | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            if isinstance(getattr(self, name), bool) or not isinstance(getattr(self, name), int | float):
                raise ValueError(f"{self.form} {name}={getattr(self, name)!r} is not a number")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"{self.form} [{self.low}, {self.high}]: the first number must be less than the second")
        if self.points is not None and self.points < 2:
            raise ValueError(f"{self.form} points={self.points} must be at least 2: both ends")

    def extremes(self) -> list[Any]:
        return [float(self.low), float(self.high)]

    def value(self, sampled: Any) -> float:
        values = self.values()
        if values is not None:
            return float(min(values, key=lambda value: abs(self._scale(value) - self._scale(float(sampled)))))
        return min(max(rounded(float(sampled)), float(self.low)), float(self.high))

    def values(self) -> list[float] | None:
        if self.points is None:
            return None
        low, high = self._scale(self.low), self._scale(self.high)
        inner = [low + (high - low) * i / (self.points - 1) for i in range(1, self.points - 1)]
        return [float(self.low), *(rounded(self._unscale(x)) for x in inner), float(self.high)]

    def edge(self, value: Any) -> str | None:
        low, high, at = self._scale(self.low), self._scale(self.high), self._scale(float(value))
        reach = EDGE_SHARE * (high - low)
        return "lower" if at <= low + reach else "upper" if at >= high - reach else None

    def to_dict(self) -> Any:
        return _without_defaults(self, {self.form: [self.low, self.high]}, skip=("low", "high"))

    def _scale(self, x: float) -> float:
        return x

    def _unscale(self, x: float) -> float:
        return x


@dataclass(frozen=True)
class Range(_Numeric):
    """Uniform between two numbers."""

    form: ClassVar[str] = "range"

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import FloatDistribution

        return FloatDistribution(float(self.low), float(self.high))


@dataclass(frozen=True)
class LogRange(_Numeric):
    """Uniform in the logarithm between two positive numbers: for what acts by ratio, such as a learning rate."""

    form: ClassVar[str] = "log"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low <= 0:
            raise ValueError(f"log [{self.low}, {self.high}]: a logarithmic range needs positive numbers")

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import FloatDistribution

        return FloatDistribution(float(self.low), float(self.high), log=True)

    def _scale(self, x: float) -> float:
        return math.log10(x)

    def _unscale(self, x: float) -> float:
        return float(10**x)


@dataclass(frozen=True)
class IntRange(Dimension):
    """Whole numbers from low to high, both included; `log` draws them by ratio."""

    form: ClassVar[str] = "int"
    low: int
    high: int
    step: int = 1
    log: bool = False
    when: str | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high", "step"):
            if isinstance(getattr(self, name), bool) or not isinstance(getattr(self, name), int):
                raise ValueError(f"int {name}={getattr(self, name)!r} is not a whole number")
        if not self.low < self.high:
            raise ValueError(f"int [{self.low}, {self.high}]: the first number must be less than the second")
        if self.step < 1 or (self.high - self.low) % self.step:
            raise ValueError(f"int [{self.low}, {self.high}]: step={self.step} does not lead from one end to the other")
        if self.log and (self.step != 1 or self.low < 1):
            raise ValueError(f"int [{self.low}, {self.high}]: log needs a step of 1 and numbers from 1 on")

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import IntDistribution

        return IntDistribution(self.low, self.high, log=self.log, step=self.step)

    def value(self, sampled: Any) -> int:
        return int(sampled)

    def values(self) -> list[Any] | None:
        return list(range(self.low, self.high + 1, self.step))

    def extremes(self) -> list[Any]:
        return [self.low, self.high]

    def edge(self, value: Any) -> str | None:
        return {self.low: "lower", self.high: "upper"}.get(int(value))

    def to_dict(self) -> Any:
        return _without_defaults(self, {self.form: [self.low, self.high]}, skip=("low", "high"))


@dataclass(frozen=True, init=False)
class Choice(Dimension):
    """One of several values without an order: text, numbers, components."""

    form: ClassVar[str] = "choice"
    options: tuple[Any, ...]
    when: str | None

    def __init__(self, *options: Any, when: str | None = None) -> None:
        plain = tuple(option.to_dict() if isinstance(option, Spec) else option for option in options)
        object.__setattr__(self, "options", plain)
        object.__setattr__(self, "when", when)
        labels = [label(option) for option in plain]
        if len(labels) < 2 or len(set(labels)) < len(labels):
            raise ValueError(f"choice [{', '.join(labels)}] must name at least 2 different values")

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(tuple(self.values()))

    def value(self, sampled: Any) -> Any:
        return self.options[self.values().index(sampled)]

    def values(self) -> list[Any]:
        return [option if isinstance(option, str | int | float | None) else label(option) for option in self.options]

    def extremes(self) -> list[Any]:
        return list(self.options)

    def to_dict(self) -> Any:
        return _without_defaults(self, {self.form: list(self.options)}, skip=("options",))


@dataclass(frozen=True)
class DefaultRange(Dimension):
    """Stands for the range that the field, or the component in the slot, declares itself; resolved for each variant."""

    form: ClassVar[str] = "default"
    when: str | None = None

    def distribution(self) -> BaseDistribution:
        raise AssertionError("a default range is resolved before anything is sampled")

    def value(self, sampled: Any) -> Any:
        raise AssertionError("a default range is resolved before anything is sampled")

    def values(self) -> list[Any] | None:
        return None

    def extremes(self) -> list[Any]:
        return []

    def to_dict(self) -> Any:
        return self.form


DEFAULT = DefaultRange()


def _from_mapping(plain: Mapping[str, Any]) -> Dimension:
    forms: dict[str, type[Dimension]] = {kind.form: kind for kind in (IntRange, Range, Choice, LogRange)}
    form = next((form for form in forms if form in plain), None)
    if form is None:
        raise ValueError(f"{dict(plain)!r} is no range: {HOW}")
    kind, inside = forms[form], plain[form]
    options = {str(key): value for key, value in plain.items() if key != form}
    known = {field.name for field in fields(kind)} - {"low", "high", "options"}  # type: ignore[arg-type]
    for key in options:
        if key not in known:
            raise ValueError(unknown(f"option of '{form}'", key, known))
    if not isinstance(inside, list | tuple) or (kind is not Choice and len(inside) != 2):
        raise ValueError(f"{form}={inside!r} must be a list of {'values' if kind is Choice else 'two numbers'}")
    return kind(*inside, **options)


def _without_defaults(dimension: Any, plain: dict[str, Any], skip: tuple[str, ...]) -> dict[str, Any]:
    for field in fields(dimension):
        value = getattr(dimension, field.name)
        if field.name not in skip and value is not None and value != field.default:
            plain[field.name] = value
    return plain
