"""What a model is: sizes plus one Spec per slot, frozen, strict, checked when made. Torch-free until asked to build."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from transformer.registry import did_you_mean, plain_words, shown
from transformer.spec import Dims, Spec

SLOTS = ("positional", "attention", "scaling", "feedforward", "norm", "placement", "init")


class ConfigError(ValueError):
    """Everything that is wrong with a configuration, one line each.

    Attributes:
        problems: pairs of (dotted path, sentence).
    """

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        super().__init__("\n".join(f"{path}: {text}" if path else text for path, text in problems))

    def __reduce__(self) -> tuple[Any, ...]:
        return ConfigError, (self.problems,)


class Frozen(BaseModel):
    """A config that cannot be changed, refuses unknown keys and wrong types, and says so in one ConfigError."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ConfigError(list(_explain(type(self), error))) from None

    def replace(self, changes: Mapping[str, Any]) -> Self:
        """The same config with values changed by dotted path, such as `{"model.positional.base": 500.0}`.

        Raises:
            ConfigError: a path that does not exist, or a value that does not fit.
        """
        tree = self.to_dict()
        problems = [problem for path in sorted(changes) if (problem := self._set(tree, path, changes[path]))]
        try:
            changed = type(self)(**tree)
        except ConfigError as error:
            problems += error.problems
        if problems:
            raise ConfigError(problems)
        return changed

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and scalars: what files hold."""
        return {name: _plain(getattr(self, name)) for name in type(self).model_fields}

    def _set(self, tree: dict[str, Any], path: str, value: Any) -> tuple[str, str] | None:
        *parents, last = path.split(".")
        config: Any = self
        for depth, part in enumerate(parents):
            if part not in tree or not isinstance(tree[part], dict):
                return ("", _unknown_path(path, ".".join(parents[:depth]), part, tree))
            tree, config = tree[part], getattr(config, part, None)
        if isinstance(config, BaseModel) and last not in type(config).model_fields:
            return ("", _unknown_path(path, ".".join(parents), last, tree))
        try:
            names_a_part = isinstance(tree.get(last), dict) and "name" in tree[last]
            tree[last] = Spec.parse(value).to_dict() if names_a_part else value
        except ValueError as error:
            return (path, str(error))
        return None


class ModelConfig(Frozen):
    """Sizes and components of one transformer.

    Attributes:
        architecture: `decoder` (causal language model), `encoder` (classifier) or `encoder_decoder`.
        d_model, n_layers, n_heads: width, depth (of each stack) and attention heads.
        d_head: width of a head; None = d_model / n_heads, which n_heads must then divide. Public T5 1.1 and some LLaMA
            weights have heads that together are narrower or wider than the model.
        d_ff: hidden width of the feed-forward layer; `matched` means 4 d_model, and for gated layers the
            width whose parameter count equals the ungated one's: 8/3 d_model rounded to a multiple of 8.
        max_len: longest sequence that the model can take; None means what the task needs.
        dropout: on embeddings, attention probabilities and every residual branch.
        bias: whether linear layers carry a bias.
        tied: whether the output head is the token embedding.
        embedding_scale: multiplies token embeddings before positions are added; `sqrt_d_model` as in the paper.
        logit_scale: multiplies the logits; `inverse_sqrt_d_model` as in T5. A tied head under `xavier` starts by
            repeating its input (initial loss far above ln V, the more so the wider the model) unless this is set.
        pooling: what an encoder's classifier reads: the mean over kept tokens, or the first token.
        positional ... init: one component per slot.
    """

    architecture: Literal["decoder", "encoder", "encoder_decoder"] = "decoder"
    d_model: int = Field(default=64, ge=1, le=10**6)
    n_layers: int = Field(default=2, ge=1, le=1000)
    n_heads: int = Field(default=4, ge=1)
    d_head: int | None = Field(default=None, ge=1, le=10**6)
    d_ff: int | Literal["matched"] = "matched"
    max_len: int | None = Field(default=None, ge=1)
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    bias: bool = True
    tied: bool = True
    embedding_scale: float | Literal["sqrt_d_model"] = 1.0
    logit_scale: float | Literal["inverse_sqrt_d_model"] = 1.0
    pooling: Literal["mean", "first"] = "mean"
    positional: Spec = Spec("learned")
    attention: Spec = Spec("softmax")
    scaling: Spec = Spec("sqrt_d_head")
    feedforward: Spec = Spec("gelu")
    norm: Spec = Spec("layernorm")
    placement: Spec = Spec("pre")
    init: Spec = Spec("gpt")

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.d_head is None and self.d_model % self.n_heads:
            near = max(self.n_heads, round(self.d_model / self.n_heads) * self.n_heads)
            raise ValueError(
                f"d_model={self.d_model} is not divisible by n_heads={self.n_heads}; "
                f"the nearest d_model that is: {near}; or set d_head"
            )
        if isinstance(self.d_ff, int) and self.d_ff < 1:
            raise ValueError(f"d_ff={self.d_ff} must be at least 1, or 'matched'")
        return self

    def to_dict(self) -> dict[str, Any]:
        """As every config, but for a d_head that is left open: files from before it was there read the same."""
        return {name: value for name, value in super().to_dict().items() if (name, value) != ("d_head", None)}

    def specs(self) -> dict[str, Spec]:
        """The component of every slot, in the order of SLOTS."""
        return {slot: getattr(self, slot) for slot in SLOTS}

    def embedding_multiplier(self) -> float:
        """The number that token embeddings are multiplied by."""
        return math.sqrt(self.d_model) if self.embedding_scale == "sqrt_d_model" else float(self.embedding_scale)

    def logit_multiplier(self) -> float:
        """The number that logits are multiplied by."""
        return self.d_model**-0.5 if self.logit_scale == "inverse_sqrt_d_model" else float(self.logit_scale)

    def dims(self, *, vocab_size: int, max_len: int, causal: bool = True) -> Dims:
        """The sizes that components see (imports the registries to learn whether the feed-forward is gated)."""
        return Dims(
            d_model=self.d_model, n_heads=self.n_heads, n_layers=self.n_layers, d_ff=self.hidden_width(),
            vocab_size=vocab_size, max_len=self.max_len or max_len, dropout=self.dropout, causal=causal, bias=self.bias,
            head_width=self.d_head,
        )

    def head_width(self) -> int:
        """d_head as a number."""
        return self.d_head or self.d_model // self.n_heads

    def hidden_width(self) -> int:
        """d_ff as a number (`matched` resolved)."""
        if isinstance(self.d_ff, int):
            return self.d_ff
        from transformer.slots import FEEDFORWARD

        gated = FEEDFORWARD.entry(self.feedforward.name).cls.gated
        return max(8, 8 * round(self.d_model / 3)) if gated else 4 * self.d_model

    def problems(self) -> list[tuple[str, str]]:
        """Unknown components or options and combinations that cannot work; empty when the model can be built."""
        from transformer.slots import REGISTRIES, clashes

        found = [(slot, text) for slot, spec in self.specs().items() for text in REGISTRIES[slot].problems(spec)]
        return found or [("", text) for text in clashes(self)] or [("", text) for text in self._build_problems()]

    def _build_problems(self) -> list[str]:
        """What only building shows, such as a head size that a component refuses: one layer, without any values."""
        import torch

        from transformer.models import assemble
        from transformer.slots import INIT

        try:
            with torch.device("meta"):
                assemble(self.replace({"n_layers": 1}), vocab_size=2, max_len=1, n_classes=2)
            INIT.build(self.init, self.dims(vocab_size=2, max_len=1))
        except ValueError as error:
            return str(error).splitlines()
        except Exception:  # a part of a user's own: building the whole model tells where it raises
            return []
        return []

    def identity(self) -> dict[str, Any]:
        """Everything about the model that can change a number: sizes, and per slot name, version, resolved options."""
        from transformer.slots import REGISTRIES

        plain = {key: value for key, value in self.to_dict().items() if key not in SLOTS}
        plain["d_ff"] = self.hidden_width()
        if self.head_width() * self.n_heads == self.d_model:  # what it is when left open
            plain.pop("d_head", None)
        plain["embedding_scale"] = self.embedding_multiplier()
        plain["logit_scale"] = self.logit_multiplier()
        return {**plain, **{slot: REGISTRIES[slot].identity(spec) for slot, spec in self.specs().items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, Frozen | Spec):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _explain(cls: type[BaseModel], error: ValidationError) -> Iterator[tuple[str, str]]:
    union_seen: set[str] = set()
    for one in error.errors():
        path = ".".join(str(part) for part in one["loc"] if part != "[key]")
        inner = one.get("ctx", {}).get("error")
        if isinstance(inner, ConfigError):
            yield from (_inside(path, sub, text) for sub, text in inner.problems)
        elif one["type"] == "extra_forbidden":
            *parents, last = path.split(".")
            yield "", _unknown_path(path, ".".join(parents), last, cls.model_fields)
        elif isinstance(inner, ValueError):
            yield path, str(inner)
        else:
            name = str(one["loc"][0]) if one["loc"] else ""
            if len(one["loc"]) > 1 and name in cls.model_fields and _is_union(cls, name):
                if name not in union_seen:  # one sentence for a value that fits no member of a union
                    union_seen.add(name)
                    yield name, f"{shown(one['input'])} must be {_members(cls, name)}"
            else:
                yield path, _said(cls, name, one)


def _said(cls: type[BaseModel], name: str, one: Any) -> str:
    if one["type"] == "missing":
        return "is missing"
    value, text = one["input"], f"{shown(one['input'])} {plain_words(one['msg'])}"
    if one["type"] == "literal_error" and isinstance(value, str):
        near = did_you_mean(value, one["ctx"]["expected"].replace(" or ", ", ").replace("'", "").split(", "))
        return f"{text}. {near}".rstrip(". ") if near else text
    nullable = len(one["loc"]) == 1 and name in cls.model_fields and _takes_null(cls, name)
    return f"{text} or null" if nullable and one["type"].endswith(("_type", "_parsing")) else text


def _inside(path: str, sub: str, text: str) -> tuple[str, str]:
    if path and text.startswith("unknown key '"):  # the message carries its own path
        text = text.replace("'", f"'{path}.", 1).replace("mean '", f"mean '{path}.", 1)
        return sub, text.replace("Known: ", f"Known in {path}: ", 1)
    return ".".join(filter(None, [path, sub])), text


def _unknown_path(path: str, parent: str, last: str, known: Mapping[str, Any]) -> str:
    near = did_you_mean(last, known)
    if near and parent:
        near = near.replace("'", f"'{parent}.", 1)
    return f"unknown key '{path}'. {near}Known{f' in {parent}' if parent else ''}: {', '.join(known)}"


def _is_union(cls: type[BaseModel], name: str) -> bool:
    return "|" in str(cls.model_fields[name].annotation) or "Union" in str(cls.model_fields[name].annotation)


def _members(cls: type[BaseModel], name: str) -> str:
    return " or ".join(_words(member) for member in get_args(cls.model_fields[name].annotation))


def _words(member: Any) -> str:
    if get_origin(member) is Literal:
        return " or ".join(repr(value) for value in get_args(member))
    if get_origin(member) is list:
        return f"a list of {_words(get_args(member)[0]).split(maxsplit=1)[-1]}s"
    return {int: "a whole number", float: "a number", type(None): "null", str: "text"}.get(member, str(member))


def _takes_null(cls: type[BaseModel], name: str) -> bool:
    return type(None) in get_args(cls.model_fields[name].annotation)
