"""Query, key and value of one input are one product where that is cheaper, and never another number."""

import pytest
import torch

from transformer.attention import MultiHeadAttention


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("length, joined", [(24, True), (23, False)])  # 2 rows of 24 tokens are 3 * d_model
def test_weights_are_joined_for_inputs_that_are_longer_than_they_are(length, joined, bias, monkeypatch):
    attention = MultiHeadAttention(16, 4, bias=bias).double()
    x = torch.linspace(-1, 1, 32 * length, dtype=torch.float64).view(2, length, 16)
    calls, packed = [], attention._packed
    monkeypatch.setattr(attention, "_packed", lambda given: calls.append(1) or packed(given))
    out, _ = attention(x, x, x)
    assert bool(calls) is joined
    attention.packed = False
    torch.testing.assert_close(attention(x, x, x)[0], out, atol=1e-14, rtol=0)
