"""What one run is: model, task, training and seed; its identity; change by dotted path. Torch-free until checked."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from transformer.config import ConfigError, Frozen, ModelConfig
from transformer.spec import Spec

__all__ = ["ConfigError", "ModelConfig", "RunConfig", "Spec", "TrainConfig"]


def _tuned(**plain: Any) -> dict[str, Any]:
    """The range that a tuner takes for a field when an experiment says `default`; plain forms as in tuning/space.py."""
    return {"range": plain}


class TrainConfig(Frozen):
    """How a model is trained. Every field can change a number, so every field is part of a run's identity.

    Attributes:
        steps: optimiser steps.
        batch_size: sequences per step.
        lr: peak learning rate.
        schedule: cosine, linear, constant or noam, after `warmup`; options live on the schedule.
        warmup: steps (int) or share of all steps (float below 1) of linear warm-up.
        weight_decay: AdamW decay, on matrices only.
        beta1, beta2: AdamW.
        clip: largest global gradient norm; None = no clipping.
        eval_every: steps between validations; the last step is always validated.
        patience: validations without a better loss before stopping; None = never stop early.
        accumulate: micro-batches per step; gradients are weighted by tokens.
        precision: fp32, or bf16 by autocast.
        label_smoothing: share of the target spread over all classes, in training only.
        checkpoint_activations: recompute activations in the backward pass to save memory.
        scheduled_sampling: Spec of a decay of teacher forcing; None = always teacher forcing.
        overfit_one_batch: train on the first batch alone.
    """

    steps: int = Field(default=500, ge=1, le=10**9)
    batch_size: int = Field(default=32, ge=1, le=10**6)
    lr: float = Field(default=3e-3, gt=0, json_schema_extra=_tuned(log=[3e-4, 3e-2]))
    schedule: Spec = Spec("cosine")
    warmup: int | float = Field(default=0.1, json_schema_extra=_tuned(range=[0.0, 0.3]))
    weight_decay: float = Field(default=0.1, ge=0, json_schema_extra=_tuned(log=[1e-3, 1.0]))
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.95, ge=0, lt=1, json_schema_extra=_tuned(range=[0.9, 0.999]))
    clip: float | None = Field(default=1.0, gt=0)
    eval_every: int = Field(default=100, ge=1)
    patience: int | None = Field(default=None, ge=1)
    accumulate: int = Field(default=1, ge=1)
    precision: Literal["fp32", "bf16"] = "fp32"
    label_smoothing: float = Field(default=0.0, ge=0, lt=1, json_schema_extra=_tuned(range=[0.0, 0.2]))
    checkpoint_activations: bool = False
    scheduled_sampling: Spec | None = None
    overfit_one_batch: bool = False

    @model_validator(mode="after")
    def _numbers_fit(self) -> Self:
        if isinstance(self.warmup, float) and not 0 <= self.warmup < 1:
            raise ValueError(f"warmup={self.warmup} as a share must be in [0, 1); write an integer for steps")
        if isinstance(self.warmup, int) and not 0 <= self.warmup <= self.steps:
            raise ValueError(f"warmup={self.warmup} must be between 0 and steps={self.steps}")
        if self.batch_size % self.accumulate:
            raise ValueError(f"batch_size={self.batch_size} is not divisible by accumulate={self.accumulate}")
        return self

    def warmup_steps(self) -> int:
        """The warm-up as a number of steps."""
        return self.warmup if isinstance(self.warmup, int) else round(self.warmup * self.steps)


class RunConfig(Frozen):
    """One training of one model on one task with one seed."""

    model: ModelConfig = ModelConfig()
    task: Spec = Spec("text")
    train: TrainConfig = TrainConfig()
    seed: int = Field(default=0, ge=0)

    def problems(self) -> list[tuple[str, str]]:
        """Everything that would stop this run, found without training: names, options, combinations, sizes."""
        from experiments.check import run_problems

        return run_problems(self)

    def identity(self) -> dict[str, Any]:
        """Every field that can change a number, with component, task and schedule options resolved to values."""
        from experiments.training.schedules import SAMPLING, SCHEDULES

        train = self.train.to_dict()
        train["warmup"] = self.train.warmup_steps()
        train["schedule"] = SCHEDULES.identity(self.train.schedule)
        if self.train.scheduled_sampling is not None:
            train["scheduled_sampling"] = SAMPLING.identity(self.train.scheduled_sampling)
        return {
            "model": self.model.identity(), "task": task_identity(self.task), "train": train, "seed": self.seed,
        }


def task_identity(spec: Spec) -> dict[str, Any]:
    """A task's name, version, options and the content of its data; where a file lies does not count."""
    from experiments.check import build_task
    from experiments.tasks import TASKS

    identity = TASKS.identity(spec)
    task = build_task(spec)
    for option in task.file_options:
        identity["options"].pop(option)
    return {**identity, "data": list(task.data_files.values())}


def digest(identity: Any) -> str:
    """sha256 (hex) of a JSON-able value; the order of keys does not matter."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
