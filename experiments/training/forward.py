"""How training calls a model: batches on its device, precision, and recomputed activations."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from experiments.tasks import Batch
from transformer.blocks import Stack

Precision = Literal["fp32", "bf16"]


def logits_of(model: nn.Module, batch: Batch) -> Tensor:
    """Logits (B, L, V), or (B, V) of a classifier."""
    logits: Tensor = model(*arguments(batch))
    return logits


def arguments(batch: Batch) -> tuple[Tensor | None, ...]:
    """What a model's forward takes of a batch, in order."""
    if batch.source is None:
        return batch.inputs, batch.keep
    return batch.source, batch.inputs, batch.source_keep, batch.keep


def moved(batch: Batch, device: str) -> Batch:
    """The batch on a device; the same object where it is there already."""
    return batch if batch.inputs.device == torch.device(device) else each(batch, lambda tensor: tensor.to(device))


def each(batch: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    """The batch with every tensor changed."""
    tensors = {name: getattr(batch, name) for name in ("inputs", "targets", "keep", "source", "source_keep")}
    return replace(batch, **{name: change(tensor) for name, tensor in tensors.items() if tensor is not None})


def precision_context(precision: Precision, device: str) -> AbstractContextManager[object]:
    """Autocast to bfloat16, or nothing. A context of its own for each pass: see scheduled sampling in step.py.

    bfloat16 has float32's range, so no loss scaling is needed. The loss itself is outside, in float32.
    """
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(torch.device(device).type, dtype=torch.bfloat16)


def recompute_activations(model: nn.Module) -> None:
    """Layers forget their activations in training and compute them again, dropout included, in the backward pass."""
    for module in model.modules():
        if isinstance(module, Stack):
            module.recompute = True
