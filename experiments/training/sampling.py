"""Scheduled sampling in two passes: what the model would have said takes the place of some gold inputs.

B batch, L positions, V vocabulary. Source: Mihaylova and Martins 2019 (arXiv:1906.07651), after Bengio et al. 2015.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from experiments.tasks import Batch


def mixed(batch: Batch, predicted: Tensor, gold: Tensor) -> Batch:
    """The batch with some inputs replaced by predictions; its targets are untouched.

    A prediction at t answers target t, so it can stand in for input t + 1, and only where that input is the gold
    answer fed back. A first token, a prompt and padding are none, so they stay whatever the coin says.

    Args:
        predicted: int64 (B, L), the model's answer at each position.
        gold: bool (B, L), True = keep the gold input.
    """
    fed_back = batch.inputs[:, 1:] == batch.targets[:, :-1]  # IGNORE equals no token
    if batch.keep is not None:
        fed_back &= batch.keep[:, 1:]
    inputs = batch.inputs.clone()
    inputs[:, 1:] = torch.where(fed_back & ~gold[:, 1:], predicted[:, :-1], inputs[:, 1:])
    return replace(batch, inputs=inputs)


def coins(batch: Batch, chance: float, generator: torch.Generator) -> Tensor:
    """bool (B, L), each True with probability `chance`; one coin a token. The generator is a CPU one."""
    return (torch.rand(batch.inputs.shape, generator=generator) < chance).to(batch.inputs.device)
