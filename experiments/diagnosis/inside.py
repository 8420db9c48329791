"""What is inside a trained model, as plain data that fits beside the run: `gather` is the content of inside.json.

B batch, H heads, L queries, S keys, D d_model, K d_head, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from experiments.config import ConfigError
from experiments.diagnosis.case import Case
from experiments.diagnosis.demonstrations import attention_memory, histogram, random_vectors
from experiments.diagnosis.roles import THRESHOLDS, roles
from experiments.diagnosis.writing import answer, labels, samples
from experiments.tasks import Batch
from experiments.training.looking.probes import arguments, attention_of, rows_of
from transformer.blocks import Stack
from transformer.look import look

SCHEMA = 1
MOST_TOKENS, MOST_WEIGHTS = 48, 60_000  # of the maps: what a page can show, and a file should hold
PICTURE = 64  # rows and columns of a picture of positions
MOST_STEPS = 60


@dataclass(frozen=True)
class Text:
    """What the model reads: one row, its tokens as labels, and what it was to answer."""

    batch: Batch
    tokens: list[str]
    source: list[str]


def gather(case: Case, text: str | None = None) -> dict[str, Any]:
    """Attention maps on a text, roles of heads, sizes of activations and logits, positions, scores, memory, samples.

    Args:
        case: a stored run.
        text: what the model reads; None = the first row of validation.

    Raises:
        ConfigError: the run has no weights, or the task cannot read the text.
    """
    model = case.trained
    if case.weights is None or model is None:
        raise ConfigError([(case.name, "has no weights yet, so there is nothing inside it to show")])
    model.eval()
    read = reading(case, text)
    probe = rows_of(case.task.evaluations("validation", case.config.seed)[0].batches[0], 16)
    return {
        "schema": SCHEMA, "text": text, "tokens": read.tokens, "source_tokens": read.source,
        "maps": maps(model, read), "heads": [asdict(role) for role in roles(model, probe, case.task)],
        "thresholds": THRESHOLDS, "activations": activations(case.fresh(), model, probe),
        "by_step": _thinned(case.layers),
        "logits": logits(case.fresh(), model, probe), "scores": scores(case.fresh(), model, probe),
        "positions": positions(model, case.config.model.d_model, case.config.model.head_width(), case.task.max_len),
        "random_vectors": random_vectors(), "attention_memory": attention_memory(),
        "samples": samples(case, model, read.batch, text), "answer": answer(case, model, read.batch),
    }


def _thinned(rows: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    every = max(1, math.ceil(len(rows) / MOST_STEPS))
    return [dict(row) for row in rows[::-1][::every][::-1]]


def reading(case: Case, text: str | None) -> Text:
    """A text as the model reads it, cut to what a map can show.

    Raises:
        ConfigError: the task cannot encode it, or it is empty.
    """
    task = case.task
    row = rows_of(task.evaluations("validation", case.config.seed)[0].batches[0], 1)
    batch = Batch(_real(row.inputs, row.keep), row.targets, source=_real(row.source, row.source_keep))
    if text is not None:
        try:
            tokens = torch.tensor([task.encode(text)])
        except ValueError as error:
            raise ConfigError([(f"text {text!r}", str(error))]) from None
        if not tokens.numel():
            raise ConfigError([(f"text {text!r}", "has no token; write something")])
        batch = Batch(tokens, tokens) if batch.source is None else _with_source(case, tokens)
    n = _shown(case)
    inputs, source = batch.inputs[:, :n], None if batch.source is None else batch.source[:, :n]
    targets = batch.targets[:, :n] if batch.targets.dim() == 2 else batch.targets
    of_source = [] if source is None else labels(source[0].tolist(), task.decode_source)
    return Text(Batch(inputs, targets, source=source), labels(inputs[0].tolist(), task.decode), of_source)


def _with_source(case: Case, source: Tensor) -> Batch:
    """The source and what the model itself makes of it, so that both sides can be seen."""
    from experiments.diagnosis.writing import continued

    start = torch.tensor([[case.task.bos_id or 0]])
    assert case.trained is not None
    written = continued(case, case.trained, Batch(start, start, source=source), most=MOST_TOKENS)
    inputs = torch.cat([start, torch.tensor([written], dtype=torch.long).view(1, -1)], 1)
    return Batch(inputs, inputs, source=source)


def _real(tokens: Any, keep: Tensor | None) -> Any:
    return tokens if tokens is None or keep is None else tokens[:, keep[0]]


def _shown(case: Case) -> int:
    """Tokens of a map: fewer where there are many heads, never more than the model can take."""
    model = case.config.model
    per_layer = 3 if model.architecture == "encoder_decoder" else 1
    fits = int(math.sqrt(MOST_WEIGHTS / (model.n_heads * model.n_layers * per_layer)))
    return max(8, min(MOST_TOKENS, fits, model.max_len or case.task.max_len))


def packed(matrix: Tensor, digits: int = 0) -> list[str]:
    """A matrix as one line of text a row: short in a file, and easy to read."""
    return [" ".join(f"{value:.{digits}f}" for value in row) for row in matrix.tolist()]


def maps(model: nn.Module, read: Text) -> list[dict[str, Any]]:
    """Weights of every head in percent: `rows` has a line a query."""
    found = []
    for seen in attention_of(model, read.batch):
        for head, weights in enumerate(seen.weights[0]):
            found.append({"attention": seen.name, "head": head, "rows": packed(100 * weights)})
    return found


def activations(start: nn.Module, end: nn.Module, batch: Batch) -> list[dict[str, Any]]:
    """Root mean square and largest size of what each layer and sublayer gives, before and after training."""
    before, after = (look(model, *arguments(batch)).activations for model in (start, end))
    return [
        {"where": name, "start_rms": _short(before[name].rms), "rms": _short(after[name].rms),
         "start_largest": _short(before[name].largest), "largest": _short(after[name].largest)}
        for name in after
    ]


def logits(start: nn.Module, end: nn.Module, batch: Batch) -> dict[str, Any]:
    """Distribution of logits, and how sure the model is (largest probability), before and after training."""
    found: dict[str, Any] = {}
    for when, model in (("start", start), ("end", end)):
        out = look(model, *arguments(batch)).logits.float()
        sure = out.softmax(-1).amax(-1)
        real = torch.ones_like(sure, dtype=torch.bool) if batch.keep is None or out.dim() == 2 else batch.keep
        found[when] = {
            "logits": histogram(out[real], 41), "std": _short(float(out[real].std())),
            "sure": histogram(sure[real], 20, (0.0, 1.0)), "mean_sure": _short(float(sure[real].mean())),
        }
    return found


def scores(start: nn.Module, end: nn.Module, batch: Batch) -> list[dict[str, Any]]:
    """Distribution of scaled q.k over visible keys by attention, before and after training."""
    before = {seen.name: seen for seen in attention_of(start, batch)}
    found = []
    for seen in attention_of(end, batch):
        old = before[seen.name]
        found.append({
            "attention": seen.name, "start_std": _short(float(old.scores[old.visible].std())),
            "std": _short(float(seen.scores[seen.visible].std())), "start": histogram(old.scores[old.visible], 41),
            "end": histogram(seen.scores[seen.visible], 41),
            "saturated": [_short(s) for s in seen.saturated().tolist()],
            "entropy": [_short(e) for e in seen.entropy().tolist()],
        })
    return found


def positions(model: nn.Module, d_model: int, d_head: int, max_len: int) -> list[dict[str, Any]]:
    """Pictures of what the first stack's encoding does: what it adds, how it turns, which bias it gives."""
    stack = next(module for module in model.modules() if isinstance(module, Stack))
    n = min(PICTURE, max_len)
    at = torch.arange(n)
    with torch.no_grad():
        stack.positional.reach(n)
        added = stack.positional.embed(torch.zeros(1, n, d_model), at)[0]
        turned = stack.positional.rotate(torch.ones(1, 1, n, d_head), at)[0, 0]
        bias = stack.positional.bias(at, at)
    found = []
    if bool(added.any()):
        found += [_picture("added to embeddings", added[:, :PICTURE], "position", "dimension"),
                  _picture("cosine similarity", _cosine(added), "position", "position")]
    if not bool((turned == 1).all()):
        found += [_picture("rotation of a vector of ones", turned[:, :PICTURE], "position", "dimension"),
                  _picture("cosine similarity", _cosine(turned), "position", "position")]
    if bias is not None:
        found.append(_picture("bias of the last query", bias[:, -1], "head", "key"))
    return found


def _picture(what: str, values: Tensor, down: str, across: str) -> dict[str, Any]:
    return {"what": what, "down": down, "across": across, "rows": packed(values, 3)}


def _cosine(rows: Tensor) -> Tensor:
    unit = rows / rows.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    return unit @ unit.T


def _short(value: float) -> float:
    return float(f"{value:.4g}")


