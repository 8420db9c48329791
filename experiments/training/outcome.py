"""How a run ends: test scores, weights, and the part of result.json that training knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.config import digest
from experiments.records import METRICS, WEIGHTS, file_digest
from experiments.tasks import Evaluation
from experiments.training.answers import text_scores
from experiments.training.checkpoint import save_weights
from experiments.training.divergence import finite, score_trouble
from experiments.training.memory import peak_memory
from experiments.training.session import Session
from transformer.costs import count_parameters, forward_flops

_counted: dict[str, dict[str, Any]] = {}


def conclude(
    run: Session, test: Sequence[Evaluation] | None = None, tested: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Test scores (unless the run diverged), weights, and the record of the run.

    Args:
        test, tested: its test sets and scores on them, where somebody has them already.
    """
    test = run.task.evaluations("test", run.config.seed) if test is None else test
    scores, found = dict(run.progress.scores), {}
    if run.diverged is None:
        found = dict(run.score(test, "test") if tested is None else tested)
        run.diverged = score_trouble(run.progress.step, found)
    if run.diverged is None:
        found |= text_scores(run.model, run.task, test, device=run.recipe.device)
        run.write({"step": run.progress.step, "seconds": run.seconds(), **found})
        scores.update(finite(found))
    run.metrics.flush(sync=True)
    save_weights(run.directory / WEIGHTS, run.model, run_hash=run.run_hash)
    run.mirrors.summary(scores)
    return _record(run, test, scores)


def _record(run: Session, test: Sequence[Evaluation], scores: Mapping[str, float]) -> dict[str, Any]:
    progress = run.progress
    best = {"step": progress.best_step, "validation/loss": progress.best_loss} if progress.best_step else None
    return {
        "status": "done" if run.diverged is None else "diverged", "metrics": dict(scores),
        "lengths": {one.name: one.length for one in test if one.length is not None},
        "cost": _cost(run), "diverged": run.diverged, "stopped_early": run.stopped_early, "best": best,
        "loss_floor": run.task.loss_floor, "clipped_share": progress.clipped / max(1, progress.step),
        "metrics_sha256": file_digest(run.directory / METRICS),
    }


def _cost(run: Session) -> dict[str, Any]:
    """flops_per_token: of a forward pass at the training length, for a token that the loss is asked of; a training step
    takes about three times as much. tokens: positions that the model read in training, padding included."""
    progress = run.progress
    peak, how = peak_memory(run.model, run.optimiser, progress.saved_bytes, run.recipe.device, run.replicas)
    return {
        **_sizes(run), "tokens": progress.tokens, "steps": progress.step, "seconds": run.seconds(),
        "train_seconds": round(progress.train_seconds, 4), "peak_memory_bytes": peak, "peak_memory_measure": how,
    }


def _sizes(run: Session) -> dict[str, Any]:
    length = run.progress.length
    key = digest([run.config.model.to_dict(), run.config.task.to_dict(), length])
    if key not in _counted:  # counting takes a forward pass: once for all seeds of a variant in a worker
        found = count_parameters(run.model)
        _counted[key] = {
            "parameters": found["total"], "parameters_non_embedding": found["non_embedding"],
            "flops_per_token": forward_flops(run.model, length=length),
        }
    return _counted[key]
