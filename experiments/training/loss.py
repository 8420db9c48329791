"""Cross-entropy as a sum, so that micro-batches of any size add up to exactly the loss of the whole batch.

B batch, L positions, V vocabulary (or classes).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.tasks import IGNORE


def summed_loss(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Sum over asked tokens of -sum_v q_v log p_v, q = (1 - smoothing) onehot + smoothing / V over all classes; nats.

    Args:
        logits: (B, L, V) or (B, V); half precision is raised to float32 first.
        targets: int64, the shape of logits without its last axis; IGNORE where nothing is asked.
        smoothing: share of the target spread over all V classes.

    Returns:
        A scalar, float32 or wider; 0 (with zero gradients) when every target is IGNORE.

    Source: Szegedy et al. 2016, arXiv:1512.00567, in torch's form (some libraries spread over the V - 1 others).
    """
    return F.cross_entropy(
        _wide(logits).flatten(0, -2), targets.flatten(), ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing
    )


def token_losses(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """-log p(target) of every position in nats, 0 where the target is IGNORE; the shape of `targets`."""
    flat = F.cross_entropy(
        _wide(logits).flatten(0, -2), targets.flatten(), ignore_index=IGNORE, reduction="none",
        label_smoothing=smoothing,
    )
    return flat.view_as(targets)


def asked_tokens(targets: Tensor) -> int:
    """How many targets count."""
    return int((targets != IGNORE).sum())


def _wide(logits: Tensor) -> Tensor:
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
