"""Small models for the tests of decoding: tables whose every probability is known, and transformers with large weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transformer import ModelConfig, build

torch.set_num_threads(1)  # tensors this small wait for threads longer than they compute

class Table(nn.Module):
    """Logits after ... a b are table[a, b] + T lean, T tokens so far; the token before the first counts as 0.

    With a lean, two texts that take the same steps in another order have different probabilities: no ties.
    """

    def __init__(self, table_VVV: Tensor, lean_V: Tensor | None = None) -> None:
        super().__init__()
        self.table, self.lean, self.dropout = table_VVV, lean_V, nn.Dropout(0.5)
        self.calls: list[tuple[bool, bool]] = []

    def forward(self, tokens_BL: Tensor) -> Tensor:
        self.calls.append((self.training, torch.is_grad_enabled()))
        before_BL = torch.cat([torch.zeros_like(tokens_BL[:, :1]), tokens_BL[:, :-1]], 1)
        logits_BLV = self.table[before_BL, tokens_BL]
        if self.lean is None:
            return logits_BLV
        return logits_BLV + torch.arange(1, tokens_BL.shape[1] + 1)[:, None] * self.lean


def table(seed: int, vocab: int, spread: float = 2.0, lean: float = 0.0) -> Table:
    noise = torch.randn(vocab + 1, vocab, vocab, generator=torch.Generator().manual_seed(seed))
    return Table(spread * noise[:-1], lean * noise[-1, 0] if lean else None)


def transformer(*, vocab: int = 11, max_len: int = 40, seed: int = 0, growth: float = 6.0, **changes: object) -> nn.Module:
    """An untrained transformer whose weights are large enough that its next token depends on all before it."""
    config = ModelConfig(d_model=16, n_layers=2, n_heads=2).replace(changes)
    model = build(config, vocab_size=vocab, max_len=max_len, seed=seed, source_vocab_size=None)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(growth)
    return model
