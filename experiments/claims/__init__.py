"""The claims that ship, by name; each lives in a file of `cards/`, listed here by hand."""

from __future__ import annotations

import importlib

from experiments.claims.card import Claim
from experiments.config import ConfigError
from transformer.registry import unknown

WHERE = {
    "mask-leak": "exact",
    "accum-equals-batch": "exact",
    "attention-memory-scaling": "exact",
    "order-needs-position": "positions",
    "sqrt-dk-saturation": "attention",
    "prenorm-warmup": "norms",
    "residual-depth": "norms",
    "pe-extrapolation": "positions",
    "rmsnorm-equals-layernorm": "norms",
    "gating-not-activation": "feedforward",
    "heads-vs-lookups": "attention",
    "greedy-repeats": "generation",
    "recomputing-trades-time": "exact",
    "amp-halves-memory": "exact",
    "uniform-attention": "exact",
    "decoding-knobs": "exact",
    "wrong-scale": "attention",
    "linear-attention": "attention",
    "causal-needs-position": "positions",
    "learned-equals-sinusoidal": "positions",
    "rope-better": "positions",
    "batchnorm-worse": "norms",
    "postnorm-better": "norms",
    "dropout-epochs": "training",
    "weight-decay": "training",
    "label-smoothing": "training",
    "clipping": "training",
    "scheduled-sampling": "training",
    "heads-language": "attention",
    "early-stopping": "training",
    "amp-quality": "training",
}


def get(name: str) -> Claim:
    """The card of a name.

    Raises:
        ConfigError: there is none; the nearest names are given.
    """
    if name not in WHERE:
        raise ConfigError([("", unknown("claim", name, WHERE))])
    found = importlib.import_module(f"experiments.claims.cards.{WHERE[name]}").claims
    return next(claim for claim in found if claim.name == name)
