"""Initial values. Each comes from (seed, parameter name) alone: tensors that variants share start with equal values."""

from __future__ import annotations

import hashlib
import math
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from transformer.slots import INIT, Init
from transformer.spec import Dims, NotNegative


@INIT.register("gpt", paper="GPT-2 (Radford et al. 2019)")
class Gpt(Init):
    """N(0, std^2); what writes to the residual stream is divided by sqrt(number of branches that write to it)."""

    ranges: ClassVar[dict[str, Any]] = {"std": {"log": [0.005, 0.08]}}

    def __init__(self, dims: Dims, *, std: NotNegative = 0.02) -> None:
        super().__init__(dims)
        self.std = std

    def linear(self, weight: Tensor, generator: torch.Generator, *, branches: int = 0) -> None:
        weight.normal_(0.0, self.std / math.sqrt(branches or 1), generator=generator)

    def embedding(self, weight: Tensor, generator: torch.Generator) -> None:
        weight.normal_(0.0, self.std, generator=generator)


@INIT.register("xavier", paper="arXiv:1706.03762")
class Xavier(Init):
    """Linear: U(-a, a), a = gain sqrt(6 / (fan_in + fan_out)); embeddings: N(0, 1 / d_model), meant for
    embedding_scale `sqrt_d_model`.

    With a tied head the untrained model repeats its input; see `logit_scale`.
    """

    ranges: ClassVar[dict[str, Any]] = {"gain": {"log": [0.25, 4.0]}}

    def __init__(self, dims: Dims, *, gain: NotNegative = 1.0) -> None:
        super().__init__(dims)
        self.gain = gain

    def linear(self, weight: Tensor, generator: torch.Generator, *, branches: int = 0) -> None:
        nn.init.xavier_uniform_(weight, self.gain, generator=generator)

    def embedding(self, weight: Tensor, generator: torch.Generator) -> None:
        weight.normal_(0.0, self.dims.d_model**-0.5, generator=generator)


@runtime_checkable
class Resets(Protocol):
    """A module that draws its own parameters."""

    def reset(self, generator: torch.Generator) -> None:
        """Fills every parameter that it holds itself (not its children's) from `generator`."""


def stream(seed: int, name: str) -> torch.Generator:
    """The random stream of one tensor."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


@torch.no_grad()
def initialise(model: nn.Module, init: Init, seed: int) -> None:
    """Gives every parameter its initial value, in place; a tied tensor once, under its first name.

    Linear and embedding weights follow `init`, biases are 0, a module with `reset` draws its own,
    and what is left keeps the constant that it was built with (gains of 1).

    Raises:
        ValueError: a parameter that follows none of these rules.
    """
    done: set[Tensor] = set()
    for path, module in model.named_modules():
        own = {key: p for key, p in module.named_parameters(recurse=False) if p not in done}
        if own and isinstance(module, Resets):
            module.reset(stream(seed, path))
        else:
            for key, parameter in own.items():
                _fill(module, key, parameter, init, f"{path}.{key}", seed)
        done.update(own.values())


def _fill(module: nn.Module, key: str, parameter: Tensor, init: Init, name: str, seed: int) -> None:
    if isinstance(module, nn.Linear) and key == "weight":
        init.linear(parameter, stream(seed, name), branches=getattr(module, "branches", 0))
    elif isinstance(module, nn.Embedding) and key == "weight":
        init.embedding(parameter, stream(seed, name))
    elif isinstance(module, nn.Linear) and key == "bias":
        parameter.zero_()
    elif not bool((parameter == parameter.flatten()[0]).all()):
        raise ValueError(
            f"parameter '{name}' of {type(module).__name__} starts at random values that no seed governs; "
            "give the module a method reset(generator) that draws them"
        )
