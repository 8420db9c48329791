"""Where the memory of training goes, and what would save some: measured by what autograd saves, on CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from experiments.diagnosis.case import Case
from experiments.diagnosis.finding import Finding
from experiments.tasks import Batch
from experiments.training.forward import Precision, logits_of, precision_context, recompute_activations
from experiments.training.looking.probes import rows_of
from experiments.training.memory import Kept
from transformer.costs import PARTS, costs

FIXED = 16  # bytes a parameter: weight, gradient and AdamW's two moments, in float32
MEGA = 2**20


@dataclass(frozen=True)
class Memory:
    """Bytes of one training step.

    Attributes:
        fixed: weights, gradients, moments. activations: what the forward pass keeps for the backward pass.
        parts: activations by part of the model, by counting. bf16, halved, recomputed: activations under bf16
            autocast, with two micro-batches, and with recomputed activations.
    """

    fixed: int
    activations: int
    parts: dict[str, float]
    bf16: int
    halved: int
    recomputed: int


def measured(case: Case) -> Memory:
    """Four forward passes of one batch."""
    config = case.config
    batch = case.task.train_batch(config.seed, 0, config.train.batch_size // config.train.accumulate)
    model = case.fresh().train()
    plain = _kept(model, batch, config.train.precision)
    counted = costs(model, length=batch.inputs.shape[1], batch=len(batch)).activation_bytes_by_part
    total = max(1, sum(counted.values()))
    bf16 = _kept(model, batch, "bf16")
    halved = _kept(model, rows_of(batch, max(1, len(batch) // 2)), config.train.precision)
    recompute_activations(model)
    inputs = len(batch) * batch.inputs.shape[1] * config.model.d_model * 4 * config.model.n_layers
    recomputed = _kept(model, batch, config.train.precision) + inputs  # layer inputs are kept out of autograd's sight
    return Memory(
        FIXED * sum(p.numel() for p in model.parameters()), plain, {part: counted[part] / total for part in PARTS},
        bf16, halved, recomputed,
    )


def _kept(model: nn.Module, batch: Batch, precision: Precision) -> int:
    kept = Kept(model)
    with kept, precision_context(precision, "cpu"):
        logits_of(model, batch)
    return kept.nbytes()


def memory(case: Case) -> Iterator[Finding]:
    """Memory by part and what would save some; an alarm only where a run died of it."""
    found = measured(case)
    died = case.failure is not None and case.failure.get("kind") == "out_of_memory"
    others = sorted(((share, part) for part, share in found.parts.items() if share > 0.005), reverse=True)
    total = found.fixed + found.activations
    savings = sorted([
        (found.activations - found.bf16, f"train.precision=bf16 saves {_mb(found.activations - found.bf16)}"),
        (found.activations - found.halved, f"train.accumulate={2 * case.config.train.accumulate} saves "
         f"{_mb(found.activations - found.halved)}"),
        (found.activations - found.recomputed, "train.checkpoint_activations=true saves "
         f"{_mb(found.activations - found.recomputed)}, at a third more time"),
    ], reverse=True)
    yield Finding(
        "memory", "broken" if died else "note", "the run was out of memory" if died else "memory of a training step",
        f"{_mb(total)}: {_mb(found.fixed)} for weights, gradients and moments, {_mb(found.activations)} of "
        "activations, of which " + ", ".join(f"{part} {share:.0%}" for share, part in others)
        + (f"; {case.failure.get('error')}" if died and case.failure else ""),
        "activations outweigh the weights" if found.activations > found.fixed else "weights outweigh the activations",
        "; ".join(text for saved, text in savings if saved > 0) or "a smaller model",
    )


def _mb(size: int) -> str:
    return f"{size / MEGA:.1f} MB" if size >= 0.1 * MEGA else f"{size / 1024:.0f} kB"
