"""Tries parts that did not come with the suite, so that their faults are told when an experiment is declared."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from experiments.check import model_arguments
from experiments.config import RunConfig
from experiments.tasks import Task
from experiments.training.forward import logits_of
from experiments.training.loss import summed_loss
from transformer.models import build
from transformer.slots import REGISTRIES, FeedForward, Norm

ROWS = 2


def has_own_parts(config: RunConfig, task: Task) -> bool:
    """Whether a component or the task was registered by a file of the user's."""
    parts = [REGISTRIES[slot].entry(spec.name).cls for slot, spec in config.model.specs().items()]
    return any(cls.__module__.split(".")[0] not in ("transformer", "experiments") for cls in (*parts, type(task)))


def rehearse(config: RunConfig, task: Task) -> None:
    """One layer, forward and backward on two rows of the task.

    Raises:
        ValueError: a tensor that no seed governs, or one of the wrong shape.
        Exception: whatever a part raises.
    """
    small = config.replace({"model.n_layers": 1})
    model = _built_the_same_twice(small, task)
    for module in model.modules():
        if isinstance(module, FeedForward | Norm):
            module.register_forward_hook(_keeps_the_shape)
    batch = task.train_batch(0, 0, ROWS)
    logits = logits_of(model, batch)
    needed = (*batch.targets.shape, task.n_classes or task.vocab_size)
    if tuple(logits.shape) != needed:
        raise ValueError(f"the model gives logits of shape {tuple(logits.shape)} where {needed} is needed")
    summed_loss(logits, batch.targets).backward()


def _built_the_same_twice(config: RunConfig, task: Task) -> nn.Module:
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run itself will say it
        first = build(config.model, seed=0, **model_arguments(task))
        torch.rand(1)  # whoever draws from the process's own stream draws something else now
        second = build(config.model, seed=0, **model_arguments(task))
    others = dict(second.named_buffers())
    for name, buffer in first.named_buffers():
        if not torch.equal(buffer.nan_to_num(), others[name].nan_to_num()):
            raise ValueError(
                f"buffer '{name}' starts at random values that no seed governs; compute it without chance, or make it "
                "a parameter (requires_grad=False if it must stay) of a module with a method reset(generator)"
            )
    return first


def _keeps_the_shape(module: nn.Module, given: Any, result: Any) -> None:
    x: Tensor = given[0]
    if not isinstance(result, Tensor) or result.shape != x.shape:
        found = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
        raise ValueError(f"{type(module).__name__} turns a tensor of shape {tuple(x.shape)} into {found}, not the same")
