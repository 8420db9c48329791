"""What a model costs: parameters, arithmetic, memory; and sizing a model to a parameter budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from torch import nn

from transformer.attention import MultiHeadAttention
from transformer.blocks import Stack
from transformer.config import ConfigError, ModelConfig
from transformer.models import Model
from transformer.slots import FeedForward, Norm, Positional
from transformer.trace import counted, run

PARTS = ("embedding", "positional", "attention", "feedforward", "norm", "head")


@dataclass(frozen=True)
class Costs:
    """What one model costs at one sequence length.

    Attributes:
        parameters: trained numbers; a tied tensor counts once.
        parameters_non_embedding: without token embeddings (and the head tied to them) and without positions.
        flops_per_token: forward, matrix products only, 2 per multiply-add; per token that the loss is asked of.
            A training step costs about three times as much: the backward pass makes two products of each.
        activation_bytes: kept for the backward pass of one batch, on top of parameters: what autograd saves, without
            workspace and allocator overhead.
        parameters_by_part, flops_by_part, activation_bytes_by_part: the same by part, in the order of PARTS.
    """

    parameters: int
    parameters_non_embedding: int
    flops_per_token: float
    activation_bytes: int
    parameters_by_part: Mapping[str, int]
    flops_by_part: Mapping[str, float]
    activation_bytes_by_part: Mapping[str, int]


def costs(model: nn.Module, *, length: int, batch: int = 1) -> Costs:
    """The costs of a model (on any device, `meta` included) at sequences of `length`, `batch` at a time.

    An encoder-decoder reads a source and writes a target of that length; its cost is per target token.
    """
    dry = run(model, *cast(Model, model).dry_inputs(batch, length))
    parts = parameters_by_part(model)
    part_at = _parts(model)
    flops = dict.fromkeys(PARTS, 0.0)
    for product in dry.products:
        flops[part_at(product.where)] += product.flops / (batch * length)
    kept = dict.fromkeys(PARTS, 0)
    for where, size in dry.saved_bytes.items():
        kept[part_at(where)] += size
    counts = count_parameters(model)
    return Costs(
        counts["total"], counts["non_embedding"], sum(flops.values()), sum(kept.values()), parts, flops, kept
    )


def forward_flops(model: nn.Module, *, length: int) -> float:
    """`flops_per_token` as `costs` gives it, from a real pass of one sequence on the model's device."""
    inputs = (tensor.to(next(model.parameters()).device) for tensor in cast(Model, model).dry_inputs(1, length))
    return sum(product.flops for product in counted(model, *inputs)) / length


def count_parameters(model: nn.Module) -> dict[str, int]:
    """`total`, and `non_embedding`: without token embeddings (and the head tied to them) and without positions."""
    parts = parameters_by_part(model)
    total = sum(parts.values())
    return {"total": total, "non_embedding": total - parts["embedding"] - parts["positional"]}


def parameters_by_part(model: nn.Module) -> dict[str, int]:
    """Trained numbers of each part, in the order of PARTS; a tied head is the embedding's."""
    part_at = _parts(model)
    found = dict.fromkeys(PARTS, 0)
    for name, parameter in model.named_parameters():  # names a shared tensor once
        found[part_at(name.rpartition(".")[0])] += parameter.numel()
    return found


def match_d_ff(
    config: ModelConfig, parameters: int, count: Callable[[ModelConfig], int]
) -> ModelConfig:
    """The same model with the d_ff that brings its parameter count nearest to `parameters`.

    Args:
        count: parameters of a config, such as `lambda c: count_parameters(build(c, ..., device="meta"))["total"]`.

    Raises:
        ConfigError: even d_ff = 1 is above the budget.
    """
    one = count(config.replace({"d_ff": 1}))
    slope = count(config.replace({"d_ff": 2})) - one
    if one > parameters:
        raise ConfigError([("d_ff", f"a budget of {parameters} parameters is too small: d_ff=1 has {one} already")])
    return config.replace({"d_ff": 1 + round((parameters - one) / slope)})


KINDS: tuple[tuple[type[nn.Module], str], ...] = (
    (Positional, "positional"), (MultiHeadAttention, "attention"), (FeedForward, "feedforward"), (Norm, "norm"),
    (nn.Embedding, "embedding"),
)


def _parts(model: nn.Module) -> Callable[[str], str]:
    """Which part the module at a path belongs to: the outermost of a known kind, else the head."""
    known = {path: part for path, module in model.named_modules() for kind, part in KINDS if isinstance(module, kind)}
    stacks = {path for path, module in model.named_modules() if isinstance(module, Stack)}

    def part(path: str) -> str:
        pieces = path.split(".")
        prefixes = [".".join(pieces[: i + 1]) for i in range(len(pieces))]
        inside_stack = any(prefix in stacks for prefix in prefixes)
        return next((known[p] for p in prefixes if p in known), "norm" if inside_stack else "head")

    return part
