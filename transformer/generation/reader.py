"""Reading growing texts with a model: the logits of what comes next, with or without a cache.

B prompts, R rows (each prompt `copies` times, next to each other), P prompt length, T tokens so far, V vocabulary.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from transformer.generation.cache import Cache
from transformer.slots import Positional


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients; every module gets its own training flag back, whatever happens."""
    were_training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in were_training:
            module.training = True


class Reader:
    """Next-token logits of rows of tokens; with a cache, each token is read once.

    Args:
        model: a DecoderLM, an EncoderDecoder with its source, or any module that maps tokens (R, L) to logits
            (R, L, V); it gets `keep` only when there is padding, and `cache` only if its forward takes one.
        keep_BP: bool (B, P), True = a real token of the prompts; every later token is real.
        copies: rows for each prompt.
        source, source_keep: int64 and bool (B, S); the source is read once.
        cached: whether to keep what was read.
    """

    def __init__(
        self, model: nn.Module, keep_BP: Tensor, copies: int, *, source: Tensor | None = None,
        source_keep: Tensor | None = None, cached: bool = True,
    ) -> None:
        self._keep_RP = keep_BP.repeat_interleave(copies, 0)
        self._padded = not bool(keep_BP.all())
        self._writer = getattr(model, "decoder", model)
        self._cache = Cache() if cached and "cache" in inspect.signature(model.forward).parameters else None
        self._read = with_source(model, source, source_keep, copies)

    def check_room(self, new_tokens: int) -> None:
        """Raises ValueError when the model has no positions for so many new tokens (the last is never read)."""
        prompt_length = self._keep_RP.shape[1]
        try:
            for part in self._writer.modules():
                if isinstance(part, Positional):
                    part.reach(prompt_length + new_tokens - 1)
        except ValueError as error:
            raise ValueError(
                f"a prompt of {prompt_length} tokens and max_new_tokens={new_tokens} do not fit; lower one of them "
                f"(the last token needs no position). {error}"
            ) from None

    def next_logits(self, tokens_RT: Tensor) -> Tensor:
        """float32 (R, V) after tokens_RT, which continue what was read before (int64; new tokens at the end).

        Raises:
            ValueError: the model is a classifier, or gives logits that are not numbers.
        """
        known = 0 if self._cache is None else self._cache.length
        extra: dict[str, Any] = {} if self._cache is None else {"cache": self._cache}
        if self._padded:
            extra["keep"] = self.keep(tokens_RT.shape[1])
        logits_RLV = self._read(tokens_RT[:, known:], **extra)
        if logits_RLV.dim() != 3:
            raise ValueError("this model says one thing of a whole text, as classifiers do; it cannot write one")
        logits_RV = logits_RLV[:, -1].float()
        if logits_RV.isnan().any():
            raise ValueError("the model's logits are not numbers (NaN): it diverged in training, or is damaged")
        return logits_RV

    def keep(self, length: int) -> Tensor:
        """bool (R, length): which of the first tokens are real."""
        new = self._keep_RP.new_ones(len(self._keep_RP), length - self._keep_RP.shape[1])
        return torch.cat([self._keep_RP, new], 1)

    def reorder(self, rows_R: Tensor) -> None:
        """Row i of the next tokens continues what was row rows_R[i]; only among the copies of one prompt."""
        if self._cache is not None:
            self._cache.reorder(rows_R)


def with_source(
    model: nn.Module, source: Tensor | None, source_keep: Tensor | None, copies: int = 1
) -> Callable[..., Tensor]:
    """A function (tokens, keep=, cache=) -> logits: the model, or its decoder with what its encoder made of the source.

    Raises:
        ValueError: an encoder-decoder without a source, or another model with one.
    """
    if source is None:
        if hasattr(model, "encode"):
            raise ValueError("an encoder-decoder needs a source to write from: pass source=")
        return model
    if not hasattr(model, "encode"):
        raise ValueError("a source was given, but this model is no encoder-decoder and would not read it")
    memory = model.encode(source, source_keep).repeat_interleave(copies, 0)  # type: ignore[operator]
    keep = None if source_keep is None else source_keep.repeat_interleave(copies, 0)
    return partial(model, source.repeat_interleave(copies, 0), source_keep=keep, memory=memory)
