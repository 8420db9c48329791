"""Three models: DecoderLM (language model), Encoder (classifier), EncoderDecoder (sequence to sequence).

B batch, L positions, S source positions, D d_model, V vocabulary, C classes.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from transformer.blocks import Embedding, Stack
from transformer.config import ModelConfig
from transformer.generation.cache import Cache
from transformer.initialise import initialise
from transformer.slots import INIT, cautions
from transformer.spec import Dims


class DecoderLM(nn.Module):
    """A causal stack and a head: logits[:, t] says what follows token t. It never shifts; the data does."""

    def __init__(self, config: ModelConfig, dims: Dims) -> None:
        super().__init__()
        self.decoder = Stack(config, dims, _embedding(config, dims.vocab_size))
        self.head = Head(config, dims.vocab_size, self.decoder.embedding)

    def forward(self, tokens_BL: Tensor, keep: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """Logits (B, L, V).

        Args:
            tokens_BL: int64 (B, L); with a cache, the new tokens only.
            keep: bool (B, L), True = a real token; None = all are. Padding may stand on either side.
                With a cache it covers the cached positions too: (B, cached + L).
            cache: what earlier calls left; fresh for each batch of sequences.
        """
        return self.head(self.decoder(tokens_BL, keep, cache=cache))

    def dry_inputs(self, batch: int, length: int) -> tuple[Tensor, ...]:
        """Tokens for a pass that only shapes matter to."""
        return (torch.zeros(batch, length, dtype=torch.long),)


class Encoder(nn.Module):
    """A stack in which all tokens see each other, pooled into one vector, and a linear classifier."""

    def __init__(self, config: ModelConfig, dims: Dims, n_classes: int) -> None:
        super().__init__()
        self.encoder = Stack(config, dims, _embedding(config, dims.vocab_size))
        self.pool = POOLS[config.pooling]
        self.head = nn.Linear(dims.d_model, n_classes, bias=dims.bias)

    def forward(self, tokens_BL: Tensor, keep: Tensor | None = None) -> Tensor:
        """Logits (B, C). keep: bool (B, L), True = a real token; None = all are."""
        return self.head(self.pool(self.encoder(tokens_BL, keep), keep))

    def dry_inputs(self, batch: int, length: int) -> tuple[Tensor, ...]:
        """Tokens for a pass that only shapes matter to."""
        return (torch.zeros(batch, length, dtype=torch.long),)


class EncoderDecoder(nn.Module):
    """The paper's figure: an encoder reads the source, a decoder attends to it while it writes."""

    def __init__(self, config: ModelConfig, source_dims: Dims, dims: Dims, *, shared: bool) -> None:
        super().__init__()
        self.encoder = Stack(config, source_dims, _embedding(config, source_dims.vocab_size))
        embedding = self.encoder.embedding if shared else _embedding(config, dims.vocab_size)
        self.decoder = Stack(config, dims, embedding, crosses=True)
        self.head = Head(config, dims.vocab_size, embedding)

    def forward(
        self, source_BS: Tensor | None, inputs_BL: Tensor, source_keep: Tensor | None = None,
        keep: Tensor | None = None, cache: Cache | None = None, memory: Tensor | None = None,
    ) -> Tensor:
        """Logits (B, L, V).

        Args:
            source_BS: int64 (B, S); may be None when `memory` is given.
            inputs_BL: int64 (B, L), what the decoder has written so far; with a cache, the new tokens only.
            source_keep, keep: bool (B, S) and (B, L), True = a real token; None = all are.
            cache: what earlier calls left; fresh for each batch of sequences. `keep` covers its positions too.
            memory: (B, S, D), what `encode` gave; None = encode the source now.
        """
        if memory is None:
            assert source_BS is not None, "neither a source nor its memory"
            memory = self.encode(source_BS, source_keep)
        return self.head(self.decoder(inputs_BL, keep, cache=cache, memory_BSD=memory, memory_keep=source_keep))

    def dry_inputs(self, batch: int, length: int) -> tuple[Tensor, ...]:
        """Source and target tokens for a pass that only shapes matter to."""
        return (torch.zeros(batch, length, dtype=torch.long),) * 2

    def encode(self, source_BS: Tensor, source_keep: Tensor | None = None) -> Tensor:
        """What the decoder attends to, (B, S, D)."""
        return self.encoder(source_BS, source_keep)


class Head(nn.Linear):
    """Hidden states to logits, (B, L, D) -> (B, L, V); tied = its weight is the embedding's."""

    def __init__(self, config: ModelConfig, vocab_size: int, embedding: nn.Embedding) -> None:
        super().__init__(config.d_model, vocab_size, bias=False)
        self.multiplier = config.logit_multiplier()
        if config.tied:
            self.weight = embedding.weight

    def forward(self, x_BLD: Tensor) -> Tensor:
        logits_BLV = super().forward(x_BLD)
        return logits_BLV if self.multiplier == 1.0 else logits_BLV * self.multiplier


def mean_of_kept(x_BLD: Tensor, keep: Tensor | None) -> Tensor:
    """(B, L, D) -> (B, D): the mean over kept positions."""
    if keep is None:
        return x_BLD.mean(1)
    kept_BL1 = keep[:, :, None].to(x_BLD.dtype)
    return (x_BLD * kept_BL1).sum(1) / kept_BL1.sum(1).clamp_min(1)


def first_kept(x_BLD: Tensor, keep: Tensor | None) -> Tensor:
    """(B, L, D) -> (B, D): the first kept position."""
    if keep is None:
        return x_BLD[:, 0]
    first_B = keep.int().argmax(1)
    return x_BLD[torch.arange(len(x_BLD), device=x_BLD.device), first_B]


POOLS = {"mean": mean_of_kept, "first": first_kept}

Model = DecoderLM | Encoder | EncoderDecoder


def build(
    config: ModelConfig, *, vocab_size: int, max_len: int, seed: int, n_classes: int | None = None,
    source_vocab_size: int | None = None, device: str | torch.device = "cpu",
) -> nn.Module:
    """The model that `config` describes, with initial values that `seed` and parameter names alone decide.

    Args:
        vocab_size: tokens that the model reads and, unless it is a classifier, writes.
        max_len: positions that it needs, unless config.max_len says so.
        n_classes: classes of an encoder.
        source_vocab_size: tokens of an encoder-decoder's source; None = source and target share one vocabulary
            and one embedding.
        device: where it goes; `meta` = shapes without values.

    Raises:
        ValueError: sizes or options that cannot work, or an encoder without n_classes.
    """
    meta = torch.device(device).type == "meta"
    for sentence in () if meta else cautions(config):
        warnings.warn(sentence, stacklevel=2)
    filling = _Unfilled() if meta else nullcontext()
    with torch.random.fork_rng(devices=[]), torch.device("meta" if meta else "cpu"), filling:
        model = assemble(config, vocab_size, max_len, n_classes, source_vocab_size)
    if not meta:
        dims = config.dims(vocab_size=vocab_size, max_len=max_len)
        initialise(model, INIT.build(config.init, dims), seed)
    return model.to(device)


class _Unfilled(TorchFunctionMode):
    """torch.nn.init does nothing: on the `meta` device it would import a compiler, for 2 s, to fill shapes."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def assemble(
    config: ModelConfig, vocab_size: int, max_len: int, n_classes: int | None = None,
    source_vocab_size: int | None = None,
) -> Model:
    """The modules, with whatever values their constructors leave."""
    dims = config.dims(vocab_size=vocab_size, max_len=max_len)
    both_ways = replace(dims, causal=False)
    if config.architecture == "decoder":
        return DecoderLM(config, dims)
    if config.architecture == "encoder":
        if n_classes is None:
            raise ValueError("an encoder is a classifier and needs n_classes")
        return Encoder(config, both_ways, n_classes)
    source_dims = replace(both_ways, vocab_size=source_vocab_size or vocab_size)
    return EncoderDecoder(config, source_dims, replace(dims, n_branches=3), shared=source_vocab_size is None)


def _embedding(config: ModelConfig, vocab_size: int) -> Embedding:
    return Embedding(vocab_size, config.d_model, config.embedding_multiplier())
