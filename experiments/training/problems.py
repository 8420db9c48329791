"""What is wrong with how a run would be trained, beyond names and types; found when it is declared."""

from __future__ import annotations

from experiments.config import RunConfig
from experiments.training.schedules import SAMPLING, SCHEDULES, Horizon


def train_problems(config: RunConfig) -> list[tuple[str, str]]:
    """Pairs of (path, sentence): option values out of range, features that the model cannot use."""
    train, found = config.train, []
    try:
        SCHEDULES.build(train.schedule, Horizon(train.lr, train.warmup_steps(), train.steps, config.model.d_model))
    except ValueError as error:
        found.append(("train.schedule", str(error)))
    if train.scheduled_sampling is None:
        return found
    try:
        SAMPLING.build(train.scheduled_sampling, train.steps)
    except ValueError as error:
        found.append(("train.scheduled_sampling", str(error)))
    if config.model.architecture == "encoder":
        text = "an encoder reads no answer of its own, so there is nothing to sample; leave it out"
        found.append(("train.scheduled_sampling", text))
    return found
