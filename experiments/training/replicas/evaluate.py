"""Scores of all replicas at once, where their evaluation batches have the same shapes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.func import vmap

from experiments.tasks import Batch, Evaluation
from experiments.training.evaluate import Split, counted, named, set_scores
from experiments.training.forward import moved
from experiments.training.replicas.batches import alike, stacked
from experiments.training.replicas.stack import Stack


def scores_together(
    stack: Stack, sets: Sequence[Sequence[Evaluation]], split: Split, *, sequences: bool, pad_id: int
) -> list[dict[str, float]] | None:
    """Scores of every replica on its own sets, as `evaluate` gives them; None where the sets differ in shape."""
    together = _aligned(sets)
    if together is None:
        return None
    scores: list[dict[str, float]] = [{} for _ in sets]
    stack.template.eval()
    with torch.no_grad():
        for name, batches in together:
            sums = [_sums(stack, batch, pad_id) for batch in batches]
            for row, found in enumerate(scores):
                own = set_scores([(nats[row], counts[row]) for nats, counts in sums], sequences)
                found.update({named(split, name, score): value for score, value in own.items()})
    stack.template.train()
    return scores


def _sums(stack: Stack, batches: Sequence[Batch], pad_id: int) -> tuple[Tensor, Tensor]:
    batch = moved(stacked(batches, pad_id), stack.recipe.device)
    nats, counts = vmap(counted)(stack.logits(batch, torch.zeros_like(batch.inputs[:, 0, 0])), batch.targets)
    return nats.cpu(), counts.cpu()


def _aligned(sets: Sequence[Sequence[Evaluation]]) -> list[tuple[str, list[tuple[Batch, ...]]]] | None:
    """(name, batches of all replicas) of each set; None when they do not correspond."""
    if len({tuple((one.name, len(one.batches)) for one in own) for own in sets}) > 1:
        return None
    found = [
        (ones[0].name, list(zip(*(one.batches for one in ones), strict=True))) for ones in zip(*sets, strict=True)
    ]
    return found if all(alike(batches) for _, lists in found for batches in lists) else None
