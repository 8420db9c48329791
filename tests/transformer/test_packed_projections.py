"""Query, key and value of one input are one product where that is cheaper, and never another number."""

import pytest
import torch

from transformer.attention import MultiHeadAttention
from transformer.attention.multi_head import JOINED_BELOW


@pytest.mark.parametrize("d_model, joined", [(64, True), (128, True), (JOINED_BELOW, False), (768, False)])
def test_weights_are_joined_in_narrow_models_alone(d_model, joined):
    with torch.device("meta"):
        assert MultiHeadAttention(d_model, 4).packed is joined


@pytest.mark.parametrize("bias", [True, False])
def test_one_product_equals_three(bias):
    attention = MultiHeadAttention(16, 4, bias=bias).double()
    x = torch.linspace(-1, 1, 2 * 24 * 16, dtype=torch.float64).view(2, 24, 16)
    joined, _ = attention(x, x, x)
    attention.packed = False
    torch.testing.assert_close(attention(x, x, x)[0], joined, atol=1e-14, rtol=0)


def test_autocast_casts_the_input_of_three_products_once():
    attention = MultiHeadAttention(16, 4)
    attention.packed = False
    x = torch.linspace(-1, 1, 2 * 24 * 16).view(2, 24, 16).requires_grad_()
    once, out = remembered(attention, x, x, x)
    thrice, separately = remembered(attention, x, x.clone(), x.clone())
    assert thrice - once == 2 * 2 * x.numel()  # two more copies in bf16
    torch.testing.assert_close(out, separately, atol=0, rtol=0)


def remembered(attention, q, k, v):
    """(bytes that autograd keeps, output) under bf16."""
    storages = {}

    def pack(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), torch.autocast("cpu", torch.bfloat16):
        out, _ = attention(q, k, v)
    return sum(storages.values()), out
