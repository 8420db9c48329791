"""Does a wrong mask leak the future, and does the right one not?

Two witnesses: how far the future moves the present's logits, and whether random tokens, whose next token nobody can
know, are predicted better than ln V.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.claims.exact.models import future_influence, model, tokens
from experiments.claims.measured import Value
from experiments.seeds import seed_dropout
from transformer.slots import Pattern

VOCAB, LENGTH, STEPS, ROWS = 8, 16, 120, 32
NOTHING, LEAK = 1e-6, 0.05  # influence that is rounding; nats below ln V that are no luck
Keep = Callable[[int], Tensor]

WRONG: dict[str, Keep] = {
    "inverted mask": lambda n: ~torch.ones(n, n, dtype=torch.bool).tril(),
    "mask off by one": lambda n: torch.ones(n, n, dtype=torch.bool).tril(1),
}


def leak() -> list[Value]:
    """Influence and predictability under the model's own mask, two wrong ones, and a norm over time."""
    found = [
        Value("right-mask", "influence of the future on logits", _influence(None), high=NOTHING),
        Value("right-mask", f"ln {VOCAB} - loss on random tokens, nats", _gain(None), high=LEAK),
    ]
    for name, keep in WRONG.items():
        found += [
            Value("wrong-mask", f"{name}: influence of the future on logits", _influence(keep), low=NOTHING),
            Value("wrong-mask", f"{name}: ln {VOCAB} - loss on random tokens, nats", _gain(keep), low=LEAK),
        ]
    batch_norm = _influence(None, norm="batchnorm")
    return [*found, Value("batchnorm", "influence of the future on logits in training", batch_norm, low=NOTHING)]


def _made(keep: Keep | None, **fields: Any) -> nn.Module:
    made = model(VOCAB, LENGTH, **fields).train()
    if keep is not None:
        stack = made.decoder
        own = stack.pattern  # type: ignore[union-attr]

        def pattern(tokens_BL: Tensor, padding: Tensor | None, cache: Any) -> tuple[Pattern, Tensor]:
            mask = keep(tokens_BL.shape[1])
            return Pattern(keep=mask, mask=mask), own(tokens_BL, padding, cache)[1]  # type: ignore[operator]

        stack.pattern = pattern  # type: ignore[union-attr, assignment]
    return made


def _influence(keep: Keep | None, **fields: Any) -> float:
    return future_influence(_made(keep, init={"name": "xavier"}, **fields), tokens(4, LENGTH, VOCAB))


def _gain(keep: Keep | None) -> float:
    """ln V - loss on fresh random tokens after some training on random tokens."""
    seed_dropout(0, 0)
    made = _made(keep)
    optimiser = torch.optim.AdamW(made.parameters(), lr=5e-3)
    for step in range(STEPS):
        loss = _loss(made, tokens(ROWS, LENGTH + 1, VOCAB, "train", step))
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    with torch.no_grad():
        return math.log(VOCAB) - float(_loss(made.eval(), tokens(256, LENGTH + 1, VOCAB, "test")))


def _loss(made: nn.Module, rows: Tensor) -> Tensor:
    """The last position is left out: an inverted mask leaves it nothing to see."""
    logits = made(rows[:, :-1])[:, :-1]
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:-1].flatten())
