"""Every random stream of the project, each addressed by names and numbers. Nothing else seeds anything."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def stream_seed(*address: object) -> int:
    """A 63-bit seed from an address such as (3, "train", 17); equal addresses give equal seeds on every machine."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in address)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def numpy_stream(*address: object) -> np.random.Generator:
    """A fresh numpy generator for an address."""
    return np.random.Generator(np.random.PCG64(stream_seed(*address)))


def torch_stream(*address: object, device: str = "cpu") -> torch.Generator:
    """A fresh torch generator for an address."""
    import torch

    return torch.Generator(device=device).manual_seed(stream_seed(*address))


def seed_dropout(seed: int, step: int, *, device: str = "cpu") -> None:
    """Puts torch's global generators, which dropout draws from, at the start of the stream of one training step.

    A stream a step rather than one a run: whatever was drawn before, step `step` of `seed` drops the same units, so a
    resumed run repeats an undisturbed one exactly.
    """
    import torch

    address = stream_seed(seed, "dropout", step)
    torch.default_generator.manual_seed(address)  # the CPU's alone: torch.manual_seed visits every kind of device
    if device.startswith("cuda"):
        torch.cuda.manual_seed_all(address)
    elif device.startswith("mps"):
        torch.mps.manual_seed(address)
