"""Scores of a model on fixed evaluation sets. Sums over tokens in float64, so that no batch size changes a score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from experiments.tasks import IGNORE, Batch, Evaluation, Task
from experiments.training.answers import computable
from experiments.training.forward import Precision, logits_of, moved, precision_context
from experiments.training.loss import token_losses

Split = Literal["validation", "test"]


def evaluate(
    model: nn.Module, sets: Sequence[Evaluation], split: Split, *, sequences: bool = False, device: str = "cpu",
    precision: Precision = "fp32",
) -> dict[str, float]:
    """Scores named `split/name` for the set "" and `split/set/name` for the others.

    loss: mean negative log-likelihood of asked tokens, nats, never smoothed. perplexity: exp(loss). bits_per_token:
    loss / ln 2. accuracy: share of asked tokens whose likeliest token is right. exact_match (with `sequences`): share
    of rows whose every asked token is right, each judged after the gold tokens before it.

    The model is in eval mode meanwhile and in the mode it had afterwards.
    """
    scores: dict[str, float] = {}
    was_training = model.training
    model.eval()
    with torch.no_grad():
        for one in sets:
            found = set_scores(_batch_sums(model, one.batches, device, precision), sequences)
            scores.update({named(split, one.name, name): value for name, value in found.items()})
    model.train(was_training)
    return scores


def metric_names(task: Task) -> list[str]:
    """Every metric that a run on this task records, sorted."""
    names = ["loss", "perplexity", "bits_per_token", "accuracy", *(["exact_match"] if task.sequence_metrics else [])]
    found = [f"test/{name}" for name in computable(task)]
    for split in ("validation", "test"):
        for one in task.evaluations(split, 0):  # type: ignore[arg-type]
            found += [named(split, one.name, name) for name in names]
    return sorted(found)


def named(split: str, one: str, score: str) -> str:
    """`split/score` for the set "", `split/set/score` for the others."""
    return f"{split}/{one}/{score}" if one else f"{split}/{score}"


def set_scores(sums: Iterable[tuple[Tensor, Tensor]], sequences: bool) -> dict[str, float]:
    """Scores of one set from what `counted` found in each of its batches; empty where nothing was asked."""
    totals = torch.zeros(5, dtype=torch.float64)  # nats, asked, right, whole rows, asked rows
    for nats, counts in sums:
        totals += torch.cat([nats.cpu().view(1), counts.cpu().double()])
    total, asked, right, whole, rows = totals.tolist()
    if not asked:
        return {}
    loss = total / asked
    scores = {
        "loss": loss, "perplexity": math.exp(loss) if loss < 700 else math.inf,
        "bits_per_token": loss / math.log(2), "accuracy": right / asked,
    }
    return {**scores, "exact_match": whole / rows} if sequences else scores


def counted(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Of one batch: summed loss (float64 scalar), and asked tokens, right ones, whole rows, asked rows (int64)."""
    asked = targets != IGNORE
    right = (logits.argmax(-1) == targets) & asked
    per_row = asked.view(len(targets), -1)
    whole = (right.view(len(targets), -1) | ~per_row).all(1) & per_row.any(1)
    losses = token_losses(logits, targets)
    losses = losses.cpu() if losses.device.type == "mps" else losses  # which has no float64
    return losses.double().sum(), torch.stack([flag.sum() for flag in (asked, right, whole, per_row.any(1))])


def _batch_sums(
    model: nn.Module, batches: Sequence[Batch], device: str, precision: Precision
) -> Iterator[tuple[Tensor, Tensor]]:
    for batch in batches:
        batch = moved(batch, device)
        with precision_context(precision, device):
            logits = logits_of(model, batch)
        yield counted(logits, batch.targets)
