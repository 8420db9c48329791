"""What a model writes, and tokens as labels of an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from experiments.diagnosis.case import Case
from experiments.seeds import torch_stream
from experiments.tasks import IGNORE, Batch
from experiments.training.answers import prompts
from experiments.training.forward import logits_of
from transformer.generation.decode import generate
from transformer.generation.settings import Decode

LONGEST = 120  # new tokens
SHOWN = {" ": "␣", "\n": "↵", "\t": "⇥"}


def labels(tokens: Sequence[int], decode: Callable[[Sequence[int]], str]) -> list[str]:
    """One short label a token; what `decode` leaves out is shown by its number."""
    found = []
    for token in tokens:
        text = decode([token])
        found.append(SHOWN.get(text, text[:12]) or f"<{token}>")
    return found


def samples(case: Case, model: nn.Module, read: Batch, text: str | None) -> list[dict[str, Any]]:
    """What the model writes after the text: the likeliest, and one drawn; nothing of a classifier."""
    if case.task.n_classes is not None:
        return []
    prompt = read if text is not None else _prompt(read)
    if read.source is not None:
        start = torch.tensor([[case.task.bos_id or 0]])
        prompt = Batch(start, start, source=read.source)
    shown = text
    if shown is None:
        shown = case.task.decode(prompt.inputs[0].tolist()) if read.source is None else (
            case.task.decode_source(read.source[0].tolist()))
    written = {decode: continued(case, model, prompt, decode=decode) for decode in (Decode(), Decode(temperature=1.0))}
    return [
        {"decode": str(decode), "prompt": shown, "text": case.task.decode(tokens)} for decode, tokens in written.items()
    ]


def _prompt(read: Batch) -> Batch:
    """What stands before the first asked token; half of the row where all are asked."""
    asked = (read.targets[0] != IGNORE).nonzero().flatten().tolist()
    tokens, _ = prompts(read)
    if asked and asked[0] == 0:
        tokens = read.inputs[:, : max(1, read.inputs.shape[1] // 2)]
    return Batch(tokens, tokens)


def continued(
    case: Case, model: nn.Module, prompt: Batch, *, decode: Decode | None = None, most: int = LONGEST
) -> list[int]:
    """New tokens after a prompt of one row, until the end token or as many as the model has positions for."""
    room = (case.config.model.max_len or case.task.max_len) - prompt.inputs.shape[1] + 1
    given = {} if decode is None else {name: getattr(decode, name) for name in decode.model_fields_set}
    settings = Decode(
        **{"max_new_tokens": max(1, min(most, room)), "eos_id": case.task.eos_id, "pad_id": case.task.pad_id, **given}
    )
    found = generate(
        model, prompt.inputs, settings, source=prompt.source, generator=torch_stream("diagnosis", "sample")
    )
    return found.lists()[0][0]


def answer(case: Case, model: nn.Module, read: Batch) -> str | None:
    """The class that a classifier names; None of other models."""
    if case.task.n_classes is None:
        return None
    with torch.no_grad():
        index = int(logits_of(model, read).argmax(-1)[0])
    return str(case.task.class_names[index]) if case.task.class_names else str(index)
