"""AdamW with weight decay on matrices only."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from experiments.config import TrainConfig


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Every trainable parameter exactly once: those with two or more axes decay, vectors and scalars do not.

    The rule is the number of axes, never a name, so a custom norm's gain is not decayed and a tied head, which is
    the token embedding, is held once. Embeddings, learned positions and relative-bias tables are matrices: they decay.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]  # nn.Module lists a shared parameter once
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


class PlainAdamW(torch.optim.AdamW):
    """torch's AdamW, with its methods as they are written.

    torch wraps them for its compiler, which the first call would load: 1.5 s in every process, for nothing where no
    optimiser is compiled.
    """

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))
    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)


def adamw(model: nn.Module, train: TrainConfig) -> torch.optim.AdamW:
    """AdamW (decoupled decay, eps 1e-8) in torch's fused form. The rate is set anew for every step.

    Source: Loshchilov and Hutter 2019, arXiv:1711.05101.
    """
    groups = parameter_groups(model, train.weight_decay)
    return PlainAdamW(groups, lr=train.lr, betas=(train.beta1, train.beta2), fused=True)


def set_rate(optimiser: torch.optim.Optimizer, lr: float) -> None:
    """The learning rate of the next step, in every group."""
    for group in optimiser.param_groups:
        group["lr"] = lr
