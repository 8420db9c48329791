"""Is a head that attends to everything alike a head that has learned nothing? Two tasks, solved by construction."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.claims.exact.models import normal, tokens
from experiments.claims.measured import Value
from transformer.attention.scaled_dot_product import scaled_dot_product_attention

ROWS, LENGTH, VOCAB = 512, 33, 4


def attention() -> list[Value]:
    """Accuracy of a head whose queries are zero, so that its entropy is ln L, where two different things are asked."""
    rows = tokens(ROWS, LENGTH, VOCAB, "uniform")
    seen, entropy = _uniform(rows)
    majority = F.one_hot(rows, VOCAB).sum(1)
    unique = majority.eq(majority.amax(1, keepdim=True)).sum(1) == 1  # ties have no right answer
    answers = seen.argmax(-1)
    chance = 1 / VOCAB
    of_majority = float((answers == majority.argmax(-1))[unique].double().mean())
    of_first = float((answers == rows[:, 0]).double().mean())
    return [
        Value("everywhere", "entropy of the head over ln L", entropy, low=0.999),
        Value("everywhere", "most frequent token asked: accuracy", of_majority, high=chance + 0.1),
        Value("retrieval", "entropy of the head over ln L", entropy, low=0.999),
        Value("retrieval", "first token asked: accuracy", of_first, high=chance + 0.1),
    ]


def _uniform(rows: Tensor) -> tuple[Tensor, float]:
    """What the head says of each row (B, V), and its entropy over ln L."""
    values = F.one_hot(rows, VOCAB).float()[:, None]
    keys = normal(*values.shape, address="keys")
    out, weights = scaled_dot_product_attention(torch.zeros_like(keys[:, :, :1]), keys, values)
    assert weights is not None
    entropy = float(torch.special.entr(weights).sum(-1).mean()) / math.log(LENGTH)
    return out[:, 0, 0], entropy
