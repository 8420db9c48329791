"""Linear attention: a positive feature map in place of the softmax, so that sums over keys become a state.

B batch, H heads, L positions, K d_head, N chunks, C positions a chunk.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer.slots import ATTENTION, Attention, Pattern
from transformer.spec import Dims

if TYPE_CHECKING:
    from transformer.generation.cache import LayerCache


CHUNK = 64  # positions whose pairs are written out; between chunks only the state travels


def elu_plus_one(x: Tensor) -> Tensor:
    """elu(x) + 1 = max(x, 0) + exp(min(x, 0)), which stays positive where elu(x) rounds to -1."""
    return x.relu() + x.clamp_max(0.0).exp()


@ATTENTION.register("linear", paper="arXiv:2006.16236")
class Linear(Attention):
    """out_i = phi(q_i) sum_j phi(k_j) v_j^T / (phi(q_i) sum_j phi(k_j)), phi = elu + 1; causal: j <= i.

    Costs L K^2 and not L^2 K; the state of a decoder is one (K, K) matrix a head. Has no softmax, hence no
    scaling, no bias and no dropout of weights. Computed in float32.

    Source: Katharopoulos et al. 2020, arXiv:2006.16236, equations 7 to 12.
    """

    takes_bias: ClassVar[bool] = False
    products: ClassVar[tuple[str, ...]] = ()

    def __init__(self, dims: Dims) -> None:
        super().__init__(dims)
        self.causal = dims.causal

    def past(self, k_BHLK: Tensor, v_BHLK: Tensor, cache: LayerCache | None) -> tuple[Tensor, Tensor]:
        return k_BHLK, v_BHLK  # the state stands for what came before

    def forward(
        self, q_BHLK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, pattern: Pattern, *,
        scale: float, cache: LayerCache | None = None, need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if pattern.given:
            raise ValueError("linear attention cannot apply a mask over pairs; it knows causal order and padding only")
        precise = torch.promote_types(q_BHLK.dtype, torch.float32)
        with _full_precision(q_BHLK.device.type):
            q, k, v = elu_plus_one(q_BHLK.to(precise)), elu_plus_one(k_BHSK.to(precise)), v_BHSK.to(precise)
            if pattern.key_keep is not None:  # after phi, since phi(0) = 1
                k = k * pattern.key_keep[:, None, -k.shape[-2]:, None]
            v = F.pad(v, (0, 1), value=1.0)  # a column of ones: its sum is the denominator
            out = self._causal(q, k, v, cache) if self.causal else q @ (k.transpose(-2, -1) @ v)
            weights = self._weights(q, k) if need_weights else None
        return _divided(out[..., :-1], out[..., -1:]).to(v_BHSK.dtype), weights

    def _causal(self, q: Tensor, k: Tensor, v: Tensor, cache: LayerCache | None) -> Tensor:
        length = q.shape[-2]
        if length <= CHUNK and cache is None:
            return _within(q, k, v)
        q, k, v = _chunks(q), _chunks(k), _chunks(v)
        sums_BHNKV = k.transpose(-2, -1) @ v
        start = torch.zeros_like(sums_BHNKV[:, :, 0]) if cache is None or cache.state is None else cache.state
        before_BHNKV = torch.cat([start[:, :, None], sums_BHNKV[:, :, :-1]], dim=2).cumsum(2)
        if cache is not None:
            cache.state = before_BHNKV[:, :, -1] + sums_BHNKV[:, :, -1]
        return (_within(q, k, v) + q @ before_BHNKV).flatten(2, 3)[:, :, :length]

    def _weights(self, q: Tensor, k: Tensor) -> Tensor:
        scores_BHLS = q @ k.transpose(-2, -1)
        scores_BHLS = scores_BHLS.tril() if self.causal else scores_BHLS
        return _divided(scores_BHLS, scores_BHLS.sum(-1, keepdim=True))


def _full_precision(device: str) -> AbstractContextManager[object]:
    """No autocast: in bf16 the sums over keys would lose their small terms."""
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()


def _within(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """sum over j <= i of (q_i k_j) v_j, pair by pair."""
    return (q @ k.transpose(-2, -1)).tril() @ v


def _chunks(x_BHLK: Tensor) -> Tensor:
    """(B, H, L, K) -> (B, H, N, C, K), with zeros at the end: they add nothing to any sum."""
    size = min(CHUNK, x_BHLK.shape[2])
    return F.pad(x_BHLK, (0, 0, 0, -x_BHLK.shape[2] % size)).unflatten(2, (-1, size))


def _divided(over: Tensor, under: Tensor) -> Tensor:
    """over / under, and 0 where no key is kept."""
    return over / under.clamp_min(torch.finfo(under.dtype).tiny)
