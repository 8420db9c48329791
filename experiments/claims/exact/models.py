"""Small models and probes that several checks share."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from experiments.seeds import torch_stream
from transformer.config import ModelConfig
from transformer.models import build

SIZES: dict[str, Any] = {"d_model": 32, "n_layers": 2, "n_heads": 2}


def model(vocab: int, length: int, *, n_classes: int | None = None, **fields: Any) -> nn.Module:
    """An untrained model with seed 0, quiet about what it was built to show."""
    config = ModelConfig(**{**SIZES, **fields})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build(config, vocab_size=vocab, max_len=length, seed=0, n_classes=n_classes)


def tokens(rows: int, length: int, vocab: int, *address: object) -> Tensor:
    """Random tokens (B, L)."""
    return torch.randint(vocab, (rows, length), generator=torch_stream("claims", "tokens", *address))


def normal(*shape: int, address: object = 0) -> Tensor:
    """Unit-variance noise."""
    return torch.randn(shape, generator=torch_stream("claims", "normal", address))


def future_influence(language_model: nn.Module, tokens_BL: Tensor) -> float:
    """max |d logits_t / d x_s| over s > t, x token embeddings, along one direction of the logits of each t."""
    held: list[Tensor] = []

    def hold(module: nn.Module, given: Any, out: Tensor) -> Tensor:
        held.append(out.detach().requires_grad_())
        return held[-1]

    handle = language_model.decoder.embedding.register_forward_hook(hold)  # type: ignore[union-attr]
    try:
        logits = language_model(tokens_BL)
    finally:
        handle.remove()
    worst, along = 0.0, normal(logits.shape[-1])
    for t in range(tokens_BL.shape[1] - 1):
        (gradient,) = torch.autograd.grad((logits[:, t] @ along).sum(), held[0], retain_graph=True)
        worst = max(worst, float(gradient[:, t + 1 :].abs().max()))
    return worst


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """b of the least-squares line log cost = a + b log size."""
    x, y = [math.log(s) for s in sizes], [math.log(c) for c in costs]
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    over = sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True))
    return over / sum((a - middle_x) ** 2 for a in x)


def gradients(module: nn.Module) -> Tensor:
    """All gradients as one vector."""
    return torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])


def relative_error(found: Tensor, truth: Tensor) -> float:
    """|found - truth| / |truth|"""
    return float((found - truth).norm() / truth.norm())


def timed(run: Callable[[], object]) -> float:
    """Seconds of one call."""
    import time

    began = time.perf_counter()
    run()
    return time.perf_counter() - began
