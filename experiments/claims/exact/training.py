"""Label smoothing and clipping, as mathematics has them."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.claims.exact.models import gradients, model, tokens
from experiments.claims.measured import Value
from experiments.tasks.task import Batch
from experiments.training.loss import summed_loss
from experiments.training.step import Recipe, take_step

CLASSES, SMOOTHING = 10, 0.1


def label_smoothing() -> list[Value]:
    """Where the smoothed loss is least, and whether the plain loss has such a place."""
    target = torch.tensor([3])
    best = torch.log(torch.full((1, CLASSES), SMOOTHING / CLASSES))
    best[0, 3] = math.log(1 - SMOOTHING + SMOOTHING / CLASSES)
    floor = -float((best.exp() * best).sum())
    return [
        Value("finite", "gradient at p = (1 - e) onehot + e / V", _gradient(best, target, SMOOTHING), high=1e-6),
        Value("finite", "least loss - entropy of that p, nats", _loss(best, target, SMOOTHING) - floor, -1e-6, 1e-6),
        Value("finite", "plain loss: gradient there", _gradient(best, target, 0.0), low=1e-2),
        Value("finite", "plain loss: what growing the logits twice still gains, nats",
              _loss(best, target, 0.0) - _loss(2 * best, target, 0.0), low=1e-3),
        Value("costs-likelihood", "negative log-likelihood at the smoothed optimum, nats", _loss(best, target, 0.0),
              low=0.01),
    ]  # fmt: skip


def _loss(logits: Tensor, target: Tensor, smoothing: float) -> float:
    return float(summed_loss(logits, target, smoothing=smoothing))


def _gradient(logits: Tensor, target: Tensor, smoothing: float) -> float:
    leaf = logits.clone().requires_grad_()
    torch.autograd.backward(summed_loss(leaf, target, smoothing=smoothing))
    assert leaf.grad is not None
    return float(leaf.grad.norm())


def clipping() -> list[Value]:
    """Direction and length of a clipped gradient, and of one that is short already."""
    free, limit = _after_step(None), 0.1
    clipped = _after_step(limit)
    loose = _after_step(10 * float(free.norm()))
    return [
        Value("direction", "cosine between the gradient before and after", float(F.cosine_similarity(free, clipped, 0)),
              low=1 - 1e-5),
        Value("direction", "length after clipping over the limit", float(clipped.norm()) / limit, 1 - 1e-4, 1 + 1e-4),
        Value("direction", "a shorter gradient: change", float((free - loose).norm()), high=0.0),
        Value("adam", "Adam's first update: cosine with and without clipping", _adam_cosine(limit), low=0.999),
        Value("adam", "Adam's first update: length with over without clipping", _adam_ratio(limit), 0.99, 1.01),
    ]  # fmt: skip


def _after_step(clip: float | None) -> Tensor:
    made = model(16, 16)
    take_step(made, torch.optim.SGD(made.parameters(), lr=0.0), [_batch()], Recipe(clip=clip), lr=0.0)
    return gradients(made)


def _adam_update(clip: float | None) -> Tensor:
    made = model(16, 16)
    before = nn.utils.parameters_to_vector(made.parameters()).detach().clone()
    take_step(made, torch.optim.Adam(made.parameters(), eps=1e-12), [_batch()], Recipe(clip=clip), lr=1e-3)
    return nn.utils.parameters_to_vector(made.parameters()).detach() - before


def _adam_cosine(limit: float) -> float:
    return float(F.cosine_similarity(_adam_update(None), _adam_update(limit), 0))


def _adam_ratio(limit: float) -> float:
    return float(_adam_update(limit).norm() / _adam_update(None).norm())


def _batch() -> Batch:
    rows = tokens(8, 17, 16, "clipping")
    return Batch(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
