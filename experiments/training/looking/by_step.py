"""What the layers of a model look like at one step of training, as one flat row `path/quantity`.

B batch, H heads, L queries, S keys.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from experiments.tasks import Batch
from experiments.training.forward import Precision, each, logits_of, precision_context
from experiments.training.looking.probes import Seen, hooked, seen_of
from experiments.training.looking.watch import by_layer
from experiments.training.loss import asked_tokens, summed_loss
from transformer.attention import MultiHeadAttention
from transformer.blocks import Layer
from transformer.slots import FeedForward

ROWS, TOKENS, LONGEST = 8, 512, 256  # of the batch: enough for a mean, and little beside a training step


def probe(batch: Batch) -> Batch:
    """The part of an evaluation batch that every step is looked at with."""
    rows = max(1, min(ROWS, TOKENS // min(LONGEST, batch.inputs.shape[1])))
    return each(batch, lambda tensor: tensor[:rows, :LONGEST] if tensor.dim() > 1 else tensor[:rows])


def layers_row(
    model: nn.Module, batch: Batch, *, precision: Precision = "fp32", device: str = "cpu"
) -> dict[str, float]:
    """One forward and backward pass in eval mode; gradients of the parameters and the model's mode stay as they were.

    Returns:
        By `path/quantity`: for layers `rms`, `largest` (the residual stream after it); for attentions, over their
        heads, `score_rms`, `score_largest` (scaled q.k of visible keys), `entropy` (over the log of the visible keys)
        and `saturated` (share of rows with a weight above 0.99); for feed-forward layers `dead` (share of hidden units
        that are 0 for every token); `logits/rms`, `logits/largest`, `logits/sure` (mean largest probability); and
        `gradient` of layers and of what lies outside them. Attentions without weights have no numbers.
    """
    found: dict[str, Tensor] = {}
    was_training = model.training
    model.eval()
    try:
        gradients = _passed(model, batch, found, precision, device)
    finally:
        model.train(was_training)
    values = torch.stack([value.detach().float().cpu() for value in found.values()]).tolist()
    return {**dict(zip(found, values, strict=True)), **{f"{k}/gradient": v for k, v in by_layer(gradients).items()}}


def _passed(
    model: nn.Module, batch: Batch, found: dict[str, Tensor], precision: Precision, device: str
) -> dict[str, float]:
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with hooked(_hooks(model, batch, found)), torch.enable_grad():
        with precision_context(precision, device):
            logits = logits_of(model, batch)
        loss = summed_loss(logits, batch.targets) / max(1, asked_tokens(batch.targets))
        slopes = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    _note_logits(logits.detach().float(), batch, found)
    given = {name: g for name, g in zip(parameters, slopes, strict=True) if g is not None}
    norms = torch.stack([g.float().norm() for g in given.values()]).tolist()
    return dict(zip(given, norms, strict=True))


def _hooks(model: nn.Module, batch: Batch, found: dict[str, Tensor]) -> list[Any]:
    handles: list[Any] = []
    for name, module in model.named_modules():
        if isinstance(module, Layer):
            handles.append(module.register_forward_hook(partial(_note_stream, name, found)))
        if isinstance(module, FeedForward):
            linears = [part for part in module.modules() if isinstance(part, nn.Linear)]
            handles += [one.register_forward_pre_hook(partial(_note_units, name, found)) for one in linears[-1:]]
        if isinstance(module, MultiHeadAttention):
            handles += _attention_hooks(name, module, batch, found)
    return handles


def _attention_hooks(name: str, module: MultiHeadAttention, batch: Batch, found: dict[str, Tensor]) -> list[Any]:
    asked: dict[str, Any] = {}

    def want(module: nn.Module, inputs: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return inputs, {**options, "need_weights": True}

    def hold(module: nn.Module, inputs: Any, options: dict[str, Any]) -> None:
        q, k, _, pattern = inputs
        asked.update(q=q.detach(), k=k.detach(), pattern=pattern, scale=options["scale"])

    def note(module: nn.Module, inputs: Any, output: Any) -> None:
        if output[1] is not None and asked:
            _note_attention(seen_of(name, output[1].detach(), **asked, batch=batch), found)

    return [
        module.register_forward_pre_hook(want, with_kwargs=True), module.register_forward_hook(note),
        module.attention.register_forward_pre_hook(hold, with_kwargs=True),
    ]


@torch.no_grad()
def _note_attention(seen: Seen, found: dict[str, Tensor]) -> None:
    visible = seen.scores[seen.visible]
    found[f"{seen.name}/score_rms"] = visible.square().mean().sqrt()
    found[f"{seen.name}/score_largest"] = visible.abs().amax()
    found[f"{seen.name}/entropy"] = seen.entropy().mean()
    found[f"{seen.name}/saturated"] = seen.saturated().mean()


@torch.no_grad()
def _note_stream(name: str, found: dict[str, Tensor], module: nn.Module, inputs: Any, output: Any) -> None:
    x = (output[0] if isinstance(output, tuple) else output).float()
    found[f"{name}/rms"], found[f"{name}/largest"] = x.square().mean().sqrt(), x.abs().amax()


@torch.no_grad()
def _note_units(name: str, found: dict[str, Tensor], module: nn.Module, inputs: Any) -> None:
    found[f"{name}/dead"] = (inputs[0] == 0).flatten(0, -2).all(0).float().mean()


def _note_logits(logits: Tensor, batch: Batch, found: dict[str, Tensor]) -> None:
    real = logits if batch.keep is None or logits.dim() == 2 else logits[batch.keep]
    found["logits/rms"], found["logits/largest"] = real.square().mean().sqrt(), real.abs().amax()
    found["logits/sure"] = real.softmax(-1).amax(-1).mean()
