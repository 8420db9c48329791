"""The space of one variant: declared ranges as they stand, default ranges looked up where they live.

A field of a config declares its range beside its rule: `Field(gt=0, json_schema_extra={"range": {"log": [...]}})`.
A component declares the ranges of its options as a class attribute: `ranges = {"base": {"log": [1e2, 1e5]}}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from experiments.config import ConfigError, RunConfig
from experiments.tuning.dimensions import DEFAULT, Choice, DefaultRange, Dimension
from experiments.tuning.space import Part, Space
from transformer.config import SLOTS
from transformer.spec import Spec

WHEN_NOTHING_IS_DECLARED: Mapping[str, Dimension] = {"train.lr": DEFAULT}


def space_of(declared: Mapping[str, Dimension], config: RunConfig) -> Space:
    """The dimensions that exist for this configuration.

    A default range of a component's option exists where the variant, or a choice in the same space, has a component
    with such a range; elsewhere it is left out.

    Raises:
        ConfigError: a default range of a field that declares none.
    """
    parts: list[Part] = []
    for path, dimension in (declared or WHEN_NOTHING_IS_DECLARED).items():
        if not isinstance(dimension, DefaultRange):
            parts.append(Part(path, dimension))
        elif _slot(path):
            parts += _component_parts(path, declared, config)
        else:
            parts += space_of_field(path)
    return Space(config, tuple(parts))


def space_of_field(path: str) -> list[Part]:
    """The part that a config field's own range makes; none for an option of a component, which only a variant has.

    Raises:
        ConfigError: there is no such field, or it declares no range.
    """
    return [] if _slot(path) else [Part(path, _field_range(path))]


def field_range(path: str) -> Dimension | None:
    """The range that a field of RunConfig declares beside its rule; None = it declares none."""
    model: Any = RunConfig
    *parents, last = path.split(".")
    for part in parents:
        if part not in model.model_fields:
            return None
        model = model.model_fields[part].annotation
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return None
    field = model.model_fields.get(last)
    extra = field.json_schema_extra if field is not None else None
    plain = extra.get("range") if isinstance(extra, dict) else None
    return None if plain is None else Dimension.parse(plain)


def _field_range(path: str) -> Dimension:
    found = field_range(path)
    if found is None:
        known = ", ".join(sorted(_fields_with_ranges(RunConfig, "")))
        text = f"declares no default range; write one, such as {{range: [0, 1]}}. Fields that declare one: {known}"
        raise ConfigError([(f"space.{path}", text)])
    return found


def _fields_with_ranges(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _fields_with_ranges(field.annotation, f"{prefix}{name}.")
        elif field_range(f"{prefix}{name}") is not None:
            yield f"{prefix}{name}"


def _slot(path: str) -> str | None:
    """`positional` for `model.positional.base`."""
    parts = path.split(".")
    return parts[1] if len(parts) == 3 and parts[0] == "model" and parts[1] in SLOTS else None


def _component_parts(path: str, declared: Mapping[str, Dimension], config: RunConfig) -> list[Part]:
    from transformer.slots import REGISTRIES

    slot, option = _slot(path), path.rsplit(".", 1)[-1]
    assert slot is not None
    chosen = declared.get(f"model.{slot}")
    several = [Spec.parse(value) for value in chosen.options] if isinstance(chosen, Choice) else []
    parts = []
    for spec in several or [getattr(config.model, slot)]:
        ranges = getattr(REGISTRIES[slot].entry(spec.name).cls, "ranges", {})
        if option in ranges:
            found: Any = Dimension.parse(ranges[option])
            parts.append(Part(path, replace(found, when=f"model.{slot}={spec.name}") if several else found))
    return parts
