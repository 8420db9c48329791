"""What can a model without positions know of order? An encoder nothing; a decoder of one layer almost nothing."""

from __future__ import annotations

import torch

from experiments.check import build_task
from experiments.claims.exact.models import model, tokens
from experiments.claims.measured import Value
from experiments.config import Spec
from experiments.tasks import Task

LENGTH, VOCAB = 12, 16
SAME, DIFFERENT = 1e-5, 1e-4


def needs_position() -> list[Value]:
    """Does exchanging who does what to whom change an encoder's answer; does a prefix's order reach a decoder?"""
    task = build_task(Spec("word_order"))
    causal = {layers: _prefix_effect(layers) for layers in (1, 2)}
    return [
        Value("encoder-blind", "no positions: change of a logit by exchanging nouns", _exchange(task, "none"),
              high=SAME),
        Value("encoder-blind", "no positions: exchanged pairs of which both are right", _both_right(task, "none"),
              high=0.0),
        Value("encoder-blind", "sinusoidal: change of a logit by exchanging nouns",
              _exchange(task, "sinusoidal"), low=DIFFERENT),
        Value("decoder-blind", "one layer, no positions: effect of the prefix's order", causal[1],
              high=SAME),
        Value("decoder-blind", "two layers, no positions: effect of the prefix's order", causal[2],
              high=SAME),
    ]  # fmt: skip


def _encoder(task: Task, positional: str) -> torch.Tensor:
    """Logits (pairs, 2, classes): each sentence and the one with the nouns exchanged."""
    made = model(
        task.vocab_size, task.max_len, n_classes=task.n_classes, architecture="encoder", init={"name": "xavier"},
        embedding_scale="sqrt_d_model", positional={"name": positional},
    ).eval()
    batches = task.evaluations("test", 0)[0].batches
    with torch.no_grad():
        return torch.cat([made(batch.inputs, batch.keep) for batch in batches]).unflatten(0, (-1, 2))


def _exchange(task: Task, positional: str) -> float:
    logits = _encoder(task, positional)
    return float((logits[:, 0] - logits[:, 1]).abs().max())


def _both_right(task: Task, positional: str) -> float:
    right = torch.cat([batch.targets for batch in task.evaluations("test", 0)[0].batches]).unflatten(0, (-1, 2))
    # one answer serves both, since their logits are equal: rounding must not decide an even draw
    answers = _encoder(task, positional).mean(1).argmax(-1)
    return float(((answers[:, None] == right).all(1)).double().mean())


def _prefix_effect(layers: int) -> float:
    made = model(VOCAB, LENGTH, n_layers=layers, init={"name": "xavier"}, embedding_scale="sqrt_d_model",
                 positional={"name": "none"}).eval()  # fmt: skip
    rows = tokens(8, LENGTH, VOCAB, "order")
    reordered = torch.cat([rows[:, :-1].flip(1), rows[:, -1:]], 1)
    with torch.no_grad():
        return float((made(rows)[:, -1] - made(reordered)[:, -1]).abs().max())
