"""Measurements on a model that stands still: who influences whom, how attention is spread, how large things are.

B batch, H heads, L queries, S keys, D d_model, K d_head.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from experiments.seeds import seed_dropout, torch_stream
from experiments.tasks import Batch
from experiments.training.forward import each, logits_of
from experiments.training.looking.watch import rms
from experiments.training.loss import asked_tokens, summed_loss
from transformer.attention import MultiHeadAttention
from transformer.blocks import Layer, Stack
from transformer.look import look
from transformer.slots import Attention, FeedForward, Pattern


def arguments(batch: Batch) -> tuple[Any, ...]:
    """What the model's forward takes of a batch."""
    if batch.source is None:
        return batch.inputs, batch.keep
    return batch.source, batch.inputs, batch.source_keep, batch.keep


def rows_of(batch: Batch, rows: int) -> Batch:
    """The first rows of a batch."""
    return each(batch, lambda tensor: tensor[:rows])


@contextlib.contextmanager
def hooked(handles: list[Any]) -> Iterator[None]:
    """Removes hooks afterwards, whatever happens."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def influence(model: nn.Module, batch: Batch) -> Tensor:
    """(L, L): the largest |d logits_t / d x_s| over the batch, x the input of the last stack's first layer.

    Along one random direction of the logits of each t, so that a zero is exact and a non-zero is certain. In training
    mode dropout is on: what it drops here it does not drop there, and a leak remains one.
    """
    decoder: Stack = model.decoder  # type: ignore[assignment]
    held: list[Tensor] = []

    def hold(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        held.append(inputs[0].detach().requires_grad_())
        return held[-1], *inputs[1:]

    seed_dropout(0, 0)
    with hooked([decoder.layers[0].register_forward_pre_hook(hold)]):
        logits = logits_of(model, batch)
    along = torch.randn(logits.shape[-1], generator=torch_stream("diagnosis", "direction"))
    found = []
    for t in range(logits.shape[1]):
        (gradient,) = torch.autograd.grad((logits[:, t].float() @ along).sum(), held[0], retain_graph=True)
        found.append(gradient.abs().amax((0, 2)))
    return torch.stack(found)


@dataclass(frozen=True)
class Seen:
    """One attention at work.

    Attributes:
        name: its path. weights: (B, H, L, S). scores: scale q.k, (B, H, L, S). visible: bool (B, H, L, S) by its mask.
        real: bool (B, 1, L), queries that are no padding.
    """

    name: str
    weights: Tensor
    scores: Tensor
    visible: Tensor
    real: Tensor

    def rows(self, least: int = 8) -> Tensor:
        """bool (B, H, L): real queries that may see `least` keys, or half of what any may see if that is less."""
        seen = self.visible.sum(-1)
        return (seen >= max(2, min(least, int(seen.max()) // 2))) & self.real

    def entropy(self) -> Tensor:
        """(H,): mean entropy of a row over the log of the keys that it may see; 1 = looks everywhere alike."""
        share = torch.special.entr(self.weights.double()).sum(-1) / self.visible.sum(-1).clamp_min(2).double().log()
        return _mean_over_rows(share, self.rows())

    def saturated(self, limit: float = 0.99) -> Tensor:
        """(H,): share of rows with one weight above the limit."""
        return _mean_over_rows((self.weights.amax(-1) > limit).double(), self.rows())


def _mean_over_rows(values_BHL: Tensor, rows_BHL: Tensor) -> Tensor:
    rows = rows_BHL.double()
    return (values_BHL * rows).sum((0, 2)) / rows.sum((0, 2)).clamp_min(1)


def attention_of(model: nn.Module, batch: Batch) -> list[Seen]:
    """Every attention of a forward pass in eval mode that has weights to show."""
    asked: dict[str, tuple[Tensor, Tensor, Pattern, float]] = {}
    handles = [
        module.attention.register_forward_pre_hook(partial(_note_scores, name, asked), with_kwargs=True)
        for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)
    ]
    with hooked(handles):
        weights = look(model, *arguments(batch)).weights
    return [seen_of(name, weights[name], *asked[name], batch) for name in asked if weights.get(name) is not None]


def _note_scores(name: str, asked: dict[str, Any], module: Attention, inputs: Any, options: dict[str, Any]) -> None:
    q, k, _, pattern = inputs
    asked[name] = (q, k, pattern, options["scale"])


def seen_of(name: str, weights: Tensor, q: Tensor, k: Tensor, pattern: Pattern, scale: float, batch: Batch) -> Seen:
    """An attention from what it was given, q (B, H, L, K) and k (B, H, S, K), and the weights that it made."""
    scores = scale * q.float() @ k.float().transpose(-2, -1)
    visible = torch.ones_like(scores, dtype=torch.bool)
    if pattern.causal:
        visible = visible.tril()
    elif pattern.keep is not None:
        visible = visible & pattern.keep
    keep = batch.source_keep if name.startswith("encoder") and batch.source is not None else batch.keep
    real = scores.new_ones(scores.shape[0], scores.shape[2], dtype=torch.bool) if keep is None else keep
    return Seen(name, weights.float(), scores, visible, real[:, None])


@dataclass(frozen=True)
class Slopes:
    """Gradients at one point of training.

    Attributes:
        loss: nats per asked token. layers: norm of d loss / d x at the input of each layer, by path.
        parameters: norm of the gradient of each parameter, by name.
    """

    loss: float
    layers: dict[str, float]
    parameters: dict[str, float]


def slopes(model: nn.Module, batch: Batch) -> Slopes:
    """One backward pass."""
    kept: dict[str, Tensor] = {}

    def keep(name: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if inputs[0].requires_grad:
            inputs[0].retain_grad()
            kept[name] = inputs[0]

    model.zero_grad(set_to_none=True)
    layers = [(name, module) for name, module in model.named_modules() if isinstance(module, Layer)]
    with hooked([module.register_forward_pre_hook(partial(keep, name)) for name, module in layers]):
        loss = summed_loss(logits_of(model, batch), batch.targets) / max(1, asked_tokens(batch.targets))
    torch.autograd.backward(loss)
    sizes = {name: float(x.grad.norm()) for name, x in kept.items() if x.grad is not None}
    parameters = {name: float(p.grad.norm()) for name, p in model.named_parameters() if p.grad is not None}
    return Slopes(float(loss.detach()), sizes, parameters)


def never_active(model: nn.Module, batches: list[Batch]) -> dict[str, float]:
    """Share of hidden units of each feed-forward layer that are exactly 0 for every real token of the batches."""
    alive: dict[str, Tensor] = {}

    def note(name: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        active = (inputs[0] != 0).flatten(0, -2).any(0)
        alive[name] = alive[name] | active if name in alive else active

    handles = [
        linears[-1].register_forward_pre_hook(partial(note, name))
        for name, module in model.named_modules() if isinstance(module, FeedForward)
        and (linears := [part for part in module.modules() if isinstance(part, nn.Linear)])
    ]
    with hooked(handles), torch.no_grad():
        for batch in batches:
            logits_of(model, batch)
    return {name: float((~active).double().mean()) for name, active in alive.items()}


@dataclass(frozen=True)
class Sizes:
    """Root mean squares at the start of one stack.

    Attributes:
        tokens: token embeddings with their multiplier. positions: what `embed` adds to them; 0 = nothing.
        stream: what enters the first layer. branches: what each attention and feed-forward layer of it gives.
    """

    tokens: float
    positions: float
    stream: float
    branches: dict[str, float]


def sizes_of(model: nn.Module, batch: Batch) -> dict[str, Sizes]:
    """The sizes that meet in the residual stream of each stack, by its path."""
    streams: dict[str, list[float]] = {}
    branches: dict[str, dict[str, float]] = {}
    handles = []
    stacks = {name: module for name, module in model.named_modules() if isinstance(module, Stack)}
    for name, stack in stacks.items():
        first = stack.layers[0]
        handles.append(first.register_forward_pre_hook(
            lambda module, inputs, name=name: streams.setdefault(name, []).append(rms(inputs[0]))
        ))
        for part, module in first.named_modules():
            if isinstance(module, MultiHeadAttention | FeedForward):
                handles.append(module.register_forward_hook(partial(_note_branch, branches.setdefault(name, {}), part)))
    with hooked(handles), torch.no_grad():
        logits_of(model, batch)
    found = {}
    for name, stack in stacks.items():
        tokens = batch.source if batch.source is not None and name.startswith("encoder") else batch.inputs
        with torch.no_grad():
            x = stack.embedding(tokens)
            added = stack.positional.embed(x, torch.arange(tokens.shape[1])) - x
        found[name] = Sizes(rms(x), rms(added), streams[name][0], branches.get(name, {}))
    return found


def _note_branch(sizes: dict[str, float], part: str, module: nn.Module, inputs: Any, output: Any) -> None:
    sizes[part] = rms(output[0] if isinstance(output, tuple) else output)
