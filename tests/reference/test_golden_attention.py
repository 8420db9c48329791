"""Attention against torch's own, in float64."""

import pytest
import torch

from tests.reference.golden_arrays import Case, cases
from transformer import MultiHeadAttention, scaled_dot_product_attention

FILE = "attention.npz"
SDPA = [name for name in cases(FILE, "sdpa_") if name != "sdpa_topleft_trap"]
SCALES = {"sdpa_scale1": 1.0, "sdpa_scale_custom": 0.37}


def ways(name):
    """The same case by every argument that can say it."""
    case = Case(FILE, name)
    mask = case("mask_keep") if case.has("mask_keep") else None
    yield {"mask": mask, "causal": name == "sdpa_causal"}
    if mask is not None:
        yield {"mask": mask.double()}
        yield {"mask": mask.bool()}
    if name in ("sdpa_bias_causal", "sdpa_cache_bottom_right"):
        yield {"causal": True}


@pytest.mark.parametrize("need_weights", [True, False], ids=["written_out", "fused"])
@pytest.mark.parametrize("name", SDPA)
def test_scaled_dot_product_attention(name, need_weights):
    case = Case(FILE, name)
    bias = case("bias") if case.has("bias") else None
    for how in ways(name):
        q, k, v = (case(x).requires_grad_() for x in "qkv")
        out, weights = scaled_dot_product_attention(
            q, k, v, scale=SCALES.get(name), bias=bias, need_weights=need_weights, **how
        )
        case.expect(out, "out")
        assert (weights is not None) == need_weights
        if case.has("dq"):
            (out * case("G")).sum().backward()
            for tensor, gradient in ((q, "dq"), (k, "dk"), (v, "dv")):
                case.expect(tensor.grad, gradient)


@pytest.mark.parametrize("need_weights", [True, False])
def test_causal_is_aligned_to_the_last_key_and_not_to_the_first(need_weights):
    case = Case(FILE, "sdpa_topleft_trap")
    out, _ = scaled_dot_product_attention(case("q"), case("k"), case("v"), causal=True, need_weights=need_weights)
    assert (out - case("out")).abs().max() > 0.1


def loaded(case):
    packed = case("p.in_proj_weight")
    made = MultiHeadAttention(12, 3, bias=case.has("p.in_proj_bias")).double()
    state = {"output.weight": case("p.out_proj.weight")}
    for name, part in zip(("query", "key", "value"), packed.chunk(3), strict=True):
        state[f"{name}.weight"] = part
    if case.has("p.in_proj_bias"):
        state["output.bias"] = case("p.out_proj.bias")
        for name, part in zip(("query", "key", "value"), case("p.in_proj_bias").chunk(3), strict=True):
            state[f"{name}.bias"] = part
    made.load_state_dict(state)
    return made


def mask_of(case):
    mask = torch.ones(2, 1, 1, case("kv").shape[1], dtype=torch.uint8)
    if case.has("key_keep"):
        mask = mask & case("key_keep")[:, None, None, :]
    if case.has("causal_keep"):
        mask = mask & case("causal_keep")
    return mask


@pytest.mark.parametrize("need_weights", [True, False], ids=["written_out", "fused"])
@pytest.mark.parametrize("name", cases(FILE, "mha_"))
def test_multi_head_attention(name, need_weights):
    case = Case(FILE, name)
    made = loaded(case)
    query = case("query").requires_grad_()
    own = torch.equal(case("query"), case("kv"))
    kv = query if own else case("kv")
    out, weights = made(query, kv, kv, mask_of(case), need_weights=need_weights)
    case.expect(out, "out")
    if need_weights:
        case.expect(weights, "weights")
    out.square().sum().backward()
    case.expect(query.grad, "dquery")


@pytest.mark.parametrize("name", ["mha_self", "mha_nobias"])
def test_one_packed_product_equals_three(name):
    case = Case(FILE, name)
    made = loaded(case)
    outs = []
    for packed in (True, False):
        made.packed = packed
        outs.append(made(case("query"), case("query"), case("query"))[0])
        x = case("query")
        outs.append(made(x, x, x)[0])
    for other in outs[1:]:
        torch.testing.assert_close(outs[0], other, atol=1e-14, rtol=0)
