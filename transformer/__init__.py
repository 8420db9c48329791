"""Transformers made of swappable parts.

Importing this package imports no torch; the first use of a name below that needs it does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformer.attention import MultiHeadAttention, scaled_dot_product_attention
    from transformer.config import ModelConfig
    from transformer.models import DecoderLM, Encoder, EncoderDecoder, build
    from transformer.spec import Dims, Spec

__all__ = [
    "DecoderLM", "Dims", "Encoder", "EncoderDecoder", "ModelConfig", "MultiHeadAttention", "Spec", "build",
    "scaled_dot_product_attention",
]

_HOMES = {
    "ModelConfig": "config", "Dims": "spec", "Spec": "spec",
    "MultiHeadAttention": "attention", "scaled_dot_product_attention": "attention",
    "DecoderLM": "models", "Encoder": "models", "EncoderDecoder": "models", "build": "models",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'transformer' has no attribute '{name}'")
    return getattr(importlib.import_module(f"transformer.{_HOMES[name]}"), name)
