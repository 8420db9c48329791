"""When a run has diverged. That is a result, recorded with its step and reason, and never an error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from experiments.training.checkpoint import Progress

HIGH_STEPS = 50  # this many steps in a row ...
HIGH_RATIO = 2.0  # ... with a loss above this multiple of the first step's, and at least
HIGH_MARGIN = 1.0  # this many nats above it


def step_trouble(step: int, loss: float, grad_norm: float, progress: Progress) -> dict[str, Any] | None:
    """What is wrong with the step just taken: {step, metric, reason}, or None. Counts high losses in `progress`."""
    for metric, value in (("train/loss", loss), ("train/grad_norm", grad_norm)):
        if not math.isfinite(value):
            return {"step": step, "metric": metric, "reason": f"{metric} is {_word(value)} at step {step}"}
    if progress.start_loss is None:
        progress.start_loss = loss
    limit = max(HIGH_RATIO * progress.start_loss, progress.start_loss + HIGH_MARGIN)
    progress.high_steps = progress.high_steps + 1 if loss > limit else 0
    if progress.high_steps < HIGH_STEPS:
        return None
    reason = f"train/loss stayed above {limit:.3g} for {HIGH_STEPS} steps; it began at {progress.start_loss:.3g}"
    return {"step": step, "metric": "train/loss", "reason": reason}


def score_trouble(step: int, scores: Mapping[str, float]) -> dict[str, Any] | None:
    """The same for scores of an evaluation, of which only losses must be finite (a perplexity may overflow)."""
    for metric, value in scores.items():
        if metric.endswith("/loss") and not math.isfinite(value):
            return {"step": step, "metric": metric, "reason": f"{metric} is {_word(value)} at step {step}"}
    return None


def finite(scores: Mapping[str, float]) -> dict[str, float]:
    """The scores that are numbers; the others are left out rather than written as something they are not."""
    return {name: value for name, value in scores.items() if math.isfinite(value)}


def _word(value: float) -> str:
    return "nan" if math.isnan(value) else "infinite"
