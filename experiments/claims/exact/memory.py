"""What the backward pass must remember: of attention, under mixed precision, and with recomputed activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from experiments.claims.exact.models import gradients, model, normal, relative_error, slope, timed, tokens
from experiments.claims.measured import Repeats, Value
from experiments.seeds import seed_dropout
from experiments.training.forward import Precision, precision_context, recompute_activations
from experiments.training.memory import Kept
from transformer.attention.linear import Linear
from transformer.attention.scaled_dot_product import scaled_dot_product_attention
from transformer.slots import Pattern
from transformer.spec import Dims

LENGTHS, HEADS, WIDTH = (512, 1024, 2048), (4, 8, 16), 64  # where the scores outweigh queries, keys and values
LONGEST = 1024
REPEATS, LAYERS = 15, 8
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def attention() -> list[Value]:
    """Slopes of log bytes in log length and log heads: written out, fused, and linear."""
    found = []
    ways: dict[str, tuple[Attend, float]] = {
        "written-out": (_written_out, 2.0), "fused": (_fused, 2.0), "linear": (_linear, 1.0),
    }
    for part, (attend, expected) in ways.items():
        in_length = slope(LENGTHS, [_bytes(attend, length, 4) for length in LENGTHS])
        found.append(Value(part, "slope of log bytes in log length", in_length, expected - 0.06, expected + 0.06))
    in_heads = slope(HEADS, [_bytes(_written_out, LONGEST, heads) for heads in HEADS])
    return [*found, Value("written-out", "slope of log bytes in log heads", in_heads, 0.94, 1.06)]


def _bytes(attend: Attend, length: int, heads: int) -> int:
    q, k, v = (normal(1, heads, length, WIDTH // heads, address=i).requires_grad_() for i in range(3))
    kept = Kept(nn.Identity())
    with kept:
        attend(q, k, v)
    return kept.nbytes()


def _written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v, need_weights=True)[0]


def _fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v, need_weights=False)[0]


def _linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    dims = Dims(WIDTH, q.shape[1], n_layers=1, d_ff=1, vocab_size=1, max_len=1, causal=True)
    return Linear(dims)(q, k, v, Pattern(causal=True), scale=1.0)[0]


def recomputing() -> list[Value | Repeats]:
    """Gradients, remembered bytes and time of a step with and without recomputed activations, with dropout."""
    plain, frugal = _deep(), _deep()
    recompute_activations(frugal)
    rows = tokens(16, 64, 32, "recomputing")
    inputs = LAYERS * rows.numel() * WIDTH * 4  # of layers, which recomputing keeps outside of autograd's sight
    bytes_plain, bytes_frugal = _step(plain, rows), _step(frugal, rows) + inputs
    error = relative_error(gradients(frugal), gradients(plain))
    times = [(timed(lambda: _step(frugal, rows)), timed(lambda: _step(plain, rows))) for _ in range(REPEATS)]
    return [
        Value("same-gradients", "gradient error", error, high=1e-6),
        Value("less-memory", "remembered bytes, as a share of those without", bytes_frugal / bytes_plain, high=0.5),
        Repeats("time", "time of a step over that without", *(tuple(column) for column in zip(*times, strict=True))),
    ]


def _deep() -> nn.Module:
    return model(32, 64, n_layers=LAYERS, d_model=WIDTH, n_heads=4, dropout=0.1).train()


def _step(made: nn.Module, rows: Tensor) -> int:
    made.zero_grad()
    seed_dropout(0, 1)
    kept = Kept(made)
    with kept:
        loss = made(rows).square().mean()
    torch.autograd.backward(loss)
    return kept.nbytes()


@dataclass(frozen=True)
class TrainingBytes:
    """What training holds: weights with gradients and two moments, and what the backward pass must remember."""

    fixed: int
    activations: int
    casts: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.fixed + self.activations + self.casts


def mixed_precision() -> list[Value]:
    """Bytes of training under bf16 autocast over those in fp32, where activations are few and where they are many.

    Copies of weights (autocast's bf16 ones, or joined projections) are remembered too, but are no activations: they
    count in the whole alone.
    """
    found = []
    for words, rows in (("few activations (batch 1)", 1), ("many activations (batch 64)", 64)):
        fp32, bf16 = training_bytes("fp32", rows), training_bytes("bf16", rows)
        activations = bf16.activations / fp32.activations
        found += [
            Value("activations", f"{words}: remembered activations, bf16 over fp32", activations, high=0.85),
            Value("all", f"{words}: all bytes of training, bf16 over fp32", bf16.total / fp32.total, high=0.55),
            Value("all", f"{words}: remembered casts of weights, as a share of all bytes", bf16.casts / bf16.total),
        ]
    return found


def training_bytes(precision: Precision, rows: int, *, d_model: int = 64) -> TrainingBytes:
    """Of one step of a small decoder on `rows` rows of 64 tokens."""
    made = model(32, 64, d_model=d_model, n_heads=4, n_layers=4).train()
    kept, copies = Kept(made), _CopiesOfWeights(made)
    with kept, precision_context(precision, "cpu"), copies:
        made(tokens(rows, 64, 32, "precision"))
    casts = sum(size for storage, size in kept.storages.items() if storage in copies.storages)
    fixed = 16 * sum(p.numel() for p in made.parameters())  # all four in fp32 under autocast
    return TrainingBytes(fixed, kept.nbytes() - casts, casts)


class _CopiesOfWeights(TorchDispatchMode):
    """Notes which storages hold results of the weights alone, such as their casts."""

    def __init__(self, made: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.storages = {_storage(p) for p in made.parameters()}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [_storage(one) for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        found = func(*args, **(kwargs or {}))
        results = {_storage(one) for one in tree_leaves(found) if isinstance(one, Tensor)}
        if given and self.storages.issuperset(given):
            self.storages |= results
        else:
            self.storages -= results  # an address that a copy had before it was freed
        return found


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
