"""Scores of a model on fixed evaluation sets. Sums over tokens in float64, so that no batch size changes a score."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
            prefix = f"{split}/{one.name}/" if one.name else f"{split}/"
            found = _set_scores(model, one.batches, sequences, device, precision)
            scores.update({prefix + name: value for name, value in found.items()})
    model.train(was_training)
    return scores


def metric_names(task: Task) -> list[str]:
    """Every metric that a run on this task records, sorted."""
    names = ["loss", "perplexity", "bits_per_token", "accuracy", *(["exact_match"] if task.sequence_metrics else [])]
    found = [f"test/{name}" for name in computable(task)]
    for split in ("validation", "test"):
        for one in task.evaluations(split, 0):  # type: ignore[arg-type]
            found += [f"{split}/{one.name}/{name}" if one.name else f"{split}/{name}" for name in names]
    return sorted(found)


def _set_scores(
    model: nn.Module, batches: Sequence[Batch], sequences: bool, device: str, precision: Precision
) -> dict[str, float]:
    totals = torch.zeros(5, dtype=torch.float64)  # nats, asked, right, whole rows, asked rows
    for nats, counts in _batch_sums(model, batches, device, precision):
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


def _batch_sums(
    model: nn.Module, batches: Sequence[Batch], device: str, precision: Precision
) -> Iterator[tuple[Tensor, Tensor]]:
    for batch in batches:
        batch = moved(batch, device)
        with precision_context(precision, device):
            logits = logits_of(model, batch)
        asked = batch.targets != IGNORE
        right = (logits.argmax(-1) == batch.targets) & asked
        per_row = asked.view(len(batch), -1)
        whole = (right.view(len(batch), -1) | ~per_row).all(1) & per_row.any(1)
        losses = token_losses(logits, batch.targets)
        losses = losses.cpu() if device.startswith("mps") else losses  # which has no float64
        yield losses.double().sum(), torch.stack([flag.sum() for flag in (asked, right, whole, per_row.any(1))])
