"""Faults as a person would make them: components and tasks of one's own, and configurations; and runs that are fine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from experiments.config import ModelConfig, RunConfig, Spec, TrainConfig
from experiments.diagnosis.case import Budget, Case
from experiments.tasks import TASKS
from experiments.tasks.copying import SelectiveCopy
from experiments.tasks.markov import Markov
from tests.own_parts import take_out
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


@TASKS.register("fault_outside")
class Outside(Markov):
    """Hands out a token that its vocabulary does not have."""

    def train_batch(self, seed: int, step: int, batch_size: int) -> Any:
        batch = super().train_batch(seed, step, batch_size)
        return replace(batch, inputs=batch.inputs + self.vocab_size)


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


@dataclass(frozen=True)
class Fault:
    """Changes that plant a fault, the check that must speak first, and a word of what it must say.

    static: whether it shows before any step is trained.
    """

    changes: dict[str, Any]
    check: str
    word: str
    static: bool = False


SMALL_TEXT = "a text of 1500 characters"
LANGUAGE = {"length": 24, "vocab": 6, "eval_rows": 64}

FIRST = {
    "logarithm of negative numbers": Fault(
        {"model__norm": Spec("fault_log")}, "not_a_number", "untrained model gives NaN", static=True),
    "mask forgotten": Fault(
        {"model__attention": Spec("fault_maskless")}, "future", "sees the positions after it", static=True),
    "mask inverted": Fault({"model__attention": Spec("fault_inverted")}, "future", "the mask is inverted", static=True),
    "norm over time": Fault({"model__norm": Spec("batchnorm")}, "future", "mixes positions", static=True),
    "padding forgotten": Fault(
        {"model__attention": Spec("fault_paddingless"), "model__architecture": "encoder", "task": Spec("listops")},
        "padding", "padding mask is ignored", static=True),
    "targets not shifted": Fault(
        {"task": Spec("fault_unshifted", **LANGUAGE)}, "labels", "were not shifted", static=True),
    "the same batch for ever": Fault(
        {"task": Spec("fault_stuck", **LANGUAGE)}, "repetition", "does not depend on the step", static=True),
    "evaluation on training data": Fault({"task": Spec("fault_mixed")}, "overlap", "occur in training", static=True),
    "position table that repeats": Fault(
        {"model__positional": Spec("fault_short")}, "positions", "position table too short", static=True),
    "position table declared too short": Fault(
        {"model__max_len": 8}, "configuration", "position table too short", static=True),
    "rate far too large": Fault(
        {"train__lr": 30.0, "model__norm": Spec("none"), "train__clip": None, "train__warmup": 0},
        "divergence", "the learning rate is too large"),
    "rate too large": Fault(
        {"train__lr": 0.3, "model__placement": Spec("post"), "train__clip": None, "train__warmup": 0,
         "train__schedule": Spec("constant")}, "oscillation", "the learning rate is too large"),
    "rate far too small": Fault({"train__lr": 1e-6}, "stall", "the learning rate is too small"),
    "model far too small": Fault(
        {"task": Spec("modular"), "model__d_model": 2, "model__n_heads": 1}, "stall", "the model is too small"),
    "scores too small": Fault(
        {"task": Spec("recall"), "model__scaling": Spec("fault_tiny")}, "uniform_attention", "looks everywhere alike"),
    "saturation": Fault(
        {"model__scaling": Spec("none"), "model__init": Spec("xavier"), "model__embedding_scale": "sqrt_d_model",
         "model__d_model": 128, "model__n_heads": 1}, "saturation", "the softmax is saturated before training"),
    "dead units": Fault({"model__feedforward": Spec("fault_dead")}, "dead_units", "are dead"),
    "vanishing gradient": Fault(
        {"model__placement": Spec("none"), "model__norm": Spec("none"), "model__n_layers": 8}, "gradients", "vanishes"),
    "drowned tokens": Fault({"model__positional": Spec("sinusoidal")}, "scale", "positions drown the tokens"),
    "too little data": Fault(
        {"task": Spec("text", path=SMALL_TEXT, context=16, validation_share=0.2, eval_tokens=300, test_tokens=60),
         "train__steps": 200, "train__lr": 1e-2, "model__d_model": 64, "train__batch_size": 32},
        "overfitting", "validation gets worse"),
}

PARTS = take_out("fault_")  # a test file that wants them registers them while it runs
