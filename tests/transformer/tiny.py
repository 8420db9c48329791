"""Small models and sizes for the tests of this folder."""

import torch

from transformer import Dims, ModelConfig, Spec, build
from transformer.config import SLOTS


def dims(d_model=16, n_heads=2, **other):
    return Dims(**{
        "d_model": d_model, "n_heads": n_heads, "n_layers": 2, "d_ff": 24, "vocab_size": 13, "max_len": 32, **other
    })


def config(**fields):
    fields = {key: Spec.parse(value) if key in SLOTS else value for key, value in fields.items()}
    return ModelConfig(**{"d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 24, **fields})


def model(vocab_size=13, max_len=48, seed=0, n_classes=3, **fields):
    return build(config(**fields), vocab_size=vocab_size, max_len=max_len, seed=seed, n_classes=n_classes)


def rand(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def tokens(batch=2, length=10, seed=0, vocab_size=13):
    return torch.randint(0, vocab_size, (batch, length), generator=torch.Generator().manual_seed(seed))
