"""How probable given texts are under a model.

B texts, L tokens, T = L - 1 predictions, V vocabulary, S source length.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transformer.generation.reader import evaluating, with_source


@dataclass(frozen=True)
class Likelihood:
    """-log p of every token but the first, given all before it.

    Attributes:
        nats: float32 (B, T): -log p(token t + 1 | tokens up to t); 0 where nothing counts.
        counted: bool (B, T): token t and token t + 1 are both real.
    """

    nats: Tensor
    counted: Tensor

    def per_token(self) -> float:
        """Mean over all counted tokens of all texts, in nats; its exponential is the perplexity.

        Raises:
            ValueError: nothing counts.
        """
        n = int(self.counted.sum())
        if not n:
            raise ValueError("no text has two real tokens in a row, so nothing was predicted")
        return float(self.nats.double().sum()) / n


def negative_log_likelihood(
    model: nn.Module, tokens_BL: Tensor, keep: Tensor | None = None, *,
    source: Tensor | None = None, source_keep: Tensor | None = None,
) -> Likelihood:
    """-log p of texts under a DecoderLM, or an EncoderDecoder with a source; eval mode, no gradients.

    Args:
        tokens_BL: int64 (B, L), padded on either side.
        keep: bool (B, L), True = a real token; None = all are.
        source, source_keep: int64 and bool (B, S).
    """
    keep_BL = torch.ones_like(tokens_BL, dtype=torch.bool) if keep is None else keep.bool()
    with evaluating(model):
        read = with_source(model, source, source_keep)
        logits_BTV = read(tokens_BL[:, :-1], **({} if keep is None else {"keep": keep_BL[:, :-1]}))
        nats_BT = -logits_BTV.float().log_softmax(-1).gather(2, tokens_BL[:, 1:, None])[..., 0]
    counted_BT = keep_BL[:, 1:] & keep_BL[:, :-1]
    return Likelihood(nats_BT.masked_fill(~counted_BT, 0.0), counted_BT)
