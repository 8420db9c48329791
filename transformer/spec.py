"""What fills a slot: a registered name and its options. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

Positive = Annotated[float, Field(gt=0)]  # types of options: the range is checked where the type is
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, eq=False)
class Spec:
    """A component by name, with options: `Spec("rope", base=500.0)`.

    Files and command lines write it as text (`rope`) or as a mapping (`{name: rope, base: 500.0}`).
    """

    name: str
    options: Mapping[str, Any]

    def __init__(self, name: str, /, **options: Any) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "options", MappingProxyType(dict(options)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and (self.name, dict(self.options)) == (other.name, dict(other.options))

    def __hash__(self) -> int:
        return hash((self.name, str(sorted(self.options.items()))))

    def __repr__(self) -> str:
        return f"Spec({', '.join([repr(self.name), *(f'{k}={v!r}' for k, v in self.options.items())])})"

    def __str__(self) -> str:
        """`rope` or `rope(base=500.0)`: how tables and figures label it."""
        inside = ", ".join(f"{key}={value}" for key, value in sorted(self.options.items()))
        return f"{self.name}({inside})" if inside else self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.name, dict(self.options))

    def replace(self, **options: Any) -> Spec:
        """The same component with some options changed."""
        return Spec(self.name, **{**self.options, **options})

    def to_dict(self) -> dict[str, Any]:
        """`{"name": ..., option: value, ...}`, the form that files use."""
        return {"name": self.name, **self.options}

    @classmethod
    def parse(cls, value: Any) -> Spec:
        """A Spec from text, a mapping with `name`, or a Spec.

        Raises:
            ValueError: the value is none of these.
        """
        if isinstance(value, Spec):
            return value
        if isinstance(value, str):
            return cls(value)
        if isinstance(value, Mapping) and isinstance(value.get("name"), str):
            return cls(value["name"], **{str(k): v for k, v in value.items() if k != "name"})
        text = " ".join(repr(value).split())[:80]
        raise ValueError(f"{text} names no component: write a name such as 'rope', or {{name: rope, base: 500.0}}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        to_plain = core_schema.plain_serializer_function_ser_schema(lambda spec: spec.to_dict())
        return core_schema.no_info_plain_validator_function(cls.parse, serialization=to_plain)


def _rebuild(name: str, options: dict[str, Any]) -> Spec:
    return Spec(name, **options)


@dataclass(frozen=True)
class Dims:
    """The sizes that the parts of one model share.

    Attributes:
        d_model: width of the residual stream (D).
        n_heads: attention heads (H); divides d_model, unless heads have a width of their own.
        n_layers: layers of the stack that the part belongs to.
        d_ff: hidden width of the feed-forward layer (F), already resolved to a number.
        vocab_size: number of tokens (V).
        max_len: positions that the model must be able to tell apart.
        dropout: probability for residual, embedding and attention dropout.
        causal: whether position t may see only positions <= t.
        bias: whether linear layers carry a bias.
        n_branches: sublayers of one layer that write to the residual stream; 3 with cross-attention.
        head_width: width of one head where that is not d_model / n_heads.
    """

    d_model: int
    n_heads: int
    n_layers: int
    d_ff: int
    vocab_size: int
    max_len: int
    dropout: float = 0.0
    causal: bool = True
    bias: bool = True
    n_branches: int = 2
    head_width: int | None = None

    @property
    def d_head(self) -> int:
        """Width of one head (K)."""
        return self.head_width or self.d_model // self.n_heads
