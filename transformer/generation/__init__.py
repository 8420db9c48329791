"""Text from a trained model: `generate(model, prompts, Decode.parse("sample,top_p=0.9"), generator=...)`.

settings    Decode: greedy, sampling or beam search, and their options
decode      generate: greedy and sampled text; left_pad
beam        beam search
processors  what changes the next token's distribution: penalties, temperature, top-k, top-p
reader      the model behind it, with or without a cache
cache       keys and values of the tokens already read
likelihood  how probable a given text is under a model
statistics  how repetitive and how varied given texts are

Importing this package, Decode and the statistics imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from transformer.generation.settings import Decode

if TYPE_CHECKING:
    from transformer.generation.decode import Generated, generate, left_pad
    from transformer.generation.likelihood import Likelihood, negative_log_likelihood

__all__ = ["Decode", "Generated", "Likelihood", "generate", "left_pad", "negative_log_likelihood"]

_HOMES = {
    "Generated": "decode", "generate": "decode", "left_pad": "decode",
    "Likelihood": "likelihood", "negative_log_likelihood": "likelihood",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'transformer.generation' has no attribute '{name}'")
    return getattr(importlib.import_module(f"transformer.generation.{_HOMES[name]}"), name)
