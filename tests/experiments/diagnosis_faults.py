"""Faults as a person would make them: components and tasks of one's own, and configurations; and runs that are fine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from experiments.config import ModelConfig, RunConfig, Spec, TrainConfig
from experiments.diagnosis.case import Budget, Case
from experiments.tasks import TASKS
from experiments.tasks.copying import SelectiveCopy
from experiments.tasks.markov import Markov
from transformer.attention.scaled_dot_product import Softmax
from transformer.feedforward import TwoMatrices
from transformer.norms import LayerNorm
from transformer.positional.learned import Learned
from transformer.slots import ATTENTION, FEEDFORWARD, NORM, POSITIONAL, SCALING, Pattern, Scaling

SMALL = ModelConfig(d_model=16, n_layers=2, n_heads=2, positional=Spec("rope"))
MARKOV = Spec("markov", length=24, vocab=6, eval_rows=64)


@ATTENTION.register("fault_maskless")
class Maskless(Softmax):
    """Forgets the mask."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, **options: Any) -> Any:
        return super().forward(q, k, v, Pattern(), **options)


@ATTENTION.register("fault_inverted")
class Inverted(Softmax):
    """Takes True for "block", as torch's own layers do."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, **options: Any) -> Any:
        keep = ~torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        return super().forward(q, k, v, Pattern(keep=keep, mask=keep), **options)


@ATTENTION.register("fault_paddingless")
class Paddingless(Softmax):
    """Applies the causal rule and forgets the padding."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, **options: Any) -> Any:
        return super().forward(q, k, v, replace(pattern, keep=None, mask=None), **options)


@POSITIONAL.register("fault_short")
class ShortTable(Learned):
    """Has four rows and uses the last one again."""

    def embed(self, x_BLD: Tensor, at: Tensor) -> Tensor:
        return super().embed(x_BLD, at.clamp_max(3))


@FEEDFORWARD.register("fault_dead")
class Dead(TwoMatrices):
    """ReLU behind a threshold that nothing reaches."""

    def act(self, h_BLF: Tensor) -> Tensor:
        return (h_BLF - 10).relu()


@NORM.register("fault_log")
class Logarithm(LayerNorm):
    """Takes the logarithm of negative numbers."""

    def forward(self, x_BLD: Tensor) -> Tensor:
        return super().forward(x_BLD).log()


@SCALING.register("fault_tiny")
class Tiny(Scaling):
    """A factor that leaves no score to speak of."""

    def factor(self) -> float:
        return 1e-6


@TASKS.register("fault_unshifted")
class Unshifted(Markov):
    """Asks for the token that is there."""

    def present(self, rows: Any) -> Any:
        batch = super().present(rows)
        return replace(batch, targets=batch.inputs)


@TASKS.register("fault_stuck")
class Stuck(Markov):
    """Its stream stands still."""

    def train_batch(self, seed: int, step: int, batch_size: int) -> Any:
        return super().train_batch(seed, 0, batch_size)


@TASKS.register("fault_mixed")
class Mixed(SelectiveCopy):
    """Evaluates on what it trains on."""

    def _rows(self, split: str, seed: int, n: int, length: int | None, *address: object) -> Any:
        return super()._rows("train", seed, n, None, 0)


def case(name: str = "case", budget: Budget | None = None, **changes: Any) -> Case:
    """A small run on a made-up language, changed by path; short enough that the replay is the whole of it."""
    base = RunConfig(
        model=SMALL, task=MARKOV, train=TrainConfig(steps=60, batch_size=16, eval_every=10),
    )
    config = base.replace({path.replace("__", "."): value for path, value in changes.items()})
    return Case(name, config, budget=budget or Budget(steps=200, range_steps=40, seconds=120.0))
