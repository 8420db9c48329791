"""Baselines that several cards start from, and how they shrink for `quick`."""

from __future__ import annotations

from typing import Any

from experiments.config import ModelConfig, RunConfig, Spec, TrainConfig

LOSS = "nats per token"
DELTA = 0.01  # nats per token: one percent of perplexity, the smallest difference in loss that cards call an effect
POINTS = 0.02  # of accuracy
RATES = [1e-3, 3e-3, 1e-2]
WIDE_RATES = [1e-3, 3e-3, 1e-2, 3e-2]

PROSE = Spec("text", corpus="austen", context=64, eval_tokens=8192, test_tokens=16384)
SHORT_PROSE = Spec("text", corpus="austen", context=32, eval_tokens=4096, test_tokens=8192)
CODE = Spec("code", context=64, eval_tokens=8192, test_tokens=16384)

LANGUAGE = RunConfig(
    model=ModelConfig(d_model=64, n_layers=2, n_heads=4, positional=Spec("rope")),
    task=PROSE,
    train=TrainConfig(steps=400, batch_size=16, lr=3e-3, eval_every=100),
)
RECALL = RunConfig(
    model=ModelConfig(d_model=64, n_layers=2, n_heads=4, positional=Spec("rope")),
    task=Spec("recall", length=32, n_pairs=4, vocab=32),
    train=TrainConfig(steps=800, batch_size=32, lr=3e-3, eval_every=200),
)
ORDER = RunConfig(
    model=ModelConfig(
        architecture="encoder", d_model=32, n_layers=1, n_heads=2, positional=Spec("sinusoidal"),
        embedding_scale="sqrt_d_model", init=Spec("xavier"),
    ),
    task=Spec("word_order"),
    train=TrainConfig(steps=300, batch_size=64, lr=3e-3, eval_every=100),
)


def quick(steps: int = 100, **changes: Any) -> dict[str, dict[str, Any]]:
    """The preset `quick`: fewer steps, one task, one look at five seeds."""
    return {
        "quick": {
            "baseline.train.steps": steps, "baseline.train.eval_every": max(1, steps // 4), "second": {}, "looks": [5],
            **changes,
        }
    }


def quick_prose(steps: int = 100, **changes: Any) -> dict[str, dict[str, Any]]:
    """The same, on shorter windows of the prose."""
    return quick(steps, **{"baseline.task": SHORT_PROSE, **changes})
