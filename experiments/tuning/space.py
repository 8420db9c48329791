"""The space of one variant: its dimensions in order, with the conditions under which each exists. Torch-free."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from experiments.tuning.dimensions import Dimension
from experiments.tuning.labels import label
from transformer.spec import Spec

__all__ = ["Part", "Space", "conditions", "holds", "label"]

CELLS = 10_000  # spaces with more combinations than this are treated as endless


@dataclass(frozen=True)
class Part:
    """One dimension of a space: where its value goes."""

    path: str
    dimension: Dimension


@dataclass(frozen=True)
class Space:
    """The dimensions of one variant, in declared order; a condition may only speak of what stands before it.

    Attributes:
        config: the variant's configuration, to which sampled values are applied (a RunConfig).
    """

    config: Any
    parts: tuple[Part, ...]

    def walk(self, sample: Any) -> dict[str, Any]:
        """path -> configuration value of every dimension that exists, asked one after another.

        Args:
            sample: `sample(path, dimension)` gives what was drawn, in the sampler's terms.
        """
        changes: dict[str, Any] = {}
        for part in self.parts:
            if part.dimension.when is None or holds(self.config.replace(changes), part.dimension.when):
                changes[part.path] = part.dimension.value(sample(part.path, part.dimension))
        return changes

    def cells(self) -> list[dict[str, Any]] | None:
        """Every combination in the sampler's terms (path -> drawn); None = endless, or more than CELLS."""
        sizes = [part.dimension.values() for part in self.parts]
        if any(values is None for values in sizes) or math.prod(len(values or ()) for values in sizes) > CELLS:
            return None
        found: dict[str, dict[str, Any]] = {}
        for drawn in itertools.product(*(values or () for values in sizes)):
            cell: dict[str, Any] = {}
            by_part = {id(part.dimension): value for part, value in zip(self.parts, drawn, strict=True)}

            def take(path: str, dimension: Dimension, into: dict[str, Any] = cell, at: Any = by_part) -> Any:
                into[path] = at[id(dimension)]
                return into[path]

            self.walk(take)
            found.setdefault(repr(sorted(cell.items(), key=lambda item: item[0])), cell)
        return list(found.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for records and comparisons."""
        return {f"{part.path}{f' [{part.dimension.when}]' if part.dimension.when else ''}": part.dimension.to_dict()
                for part in self.parts}


def holds(config: Any, condition: str) -> bool:
    """Whether `path=value` is true of a configuration; a component is named with or without its options."""
    path, _, wanted = condition.partition("=")
    value: Any = config
    for part in path.strip().split("."):
        value = value.options.get(part) if isinstance(value, Spec) else getattr(value, part, None)
    return wanted.strip() in {label(value), value.name if isinstance(value, Spec) else label(value)}


def conditions(parts: tuple[Part, ...]) -> Iterator[tuple[Part, str, str]]:
    """(part, path, value) of every condition in a space."""
    for part in parts:
        if part.dimension.when is not None:
            path, _, value = part.dimension.when.partition("=")
            yield part, path.strip(), value.strip()
