"""Scaled dot-product and multi-head attention: masks, precision, scaling, heads."""

import pytest
import torch
import torch.nn.functional as F

from tests.transformer.tiny import model, rand, tokens
from transformer import MultiHeadAttention, scaled_dot_product_attention

both_paths = pytest.mark.parametrize("need_weights", [True, False], ids=["written_out", "fused"])
B, H, L, S, K = 2, 3, 5, 7, 4


def qkv(dtype=torch.float64, scale=1.0):
    return (scale * rand(B, H, L, K, dtype=dtype), rand(B, H, S, K, seed=1, dtype=dtype), rand(B, H, S, K, seed=2, dtype=dtype))


def some_mask():
    mask = torch.rand(B, 1, L, S, generator=torch.Generator().manual_seed(3)) > 0.4
    mask[..., 0] = True
    return mask


@both_paths
def test_a_key_changes_only_the_queries_that_keep_it(need_weights):
    q, k, v = qkv()
    mask = some_mask()
    before, _ = scaled_dot_product_attention(q, k, v, mask, need_weights=need_weights)
    for j in range(S):
        k2, v2 = k.clone(), v.clone()
        k2[:, :, j] += 1
        v2[:, :, j] += 1
        after, _ = scaled_dot_product_attention(q, k2, v2, mask, need_weights=need_weights)
        changed = (after != before).any(-1)
        assert torch.equal(changed, mask[..., j].expand(B, H, L))


@both_paths
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32, torch.float64], ids=str)
def test_masks_of_any_dtype_mean_the_same(need_weights, dtype):
    q, k, v = qkv()
    expected, _ = scaled_dot_product_attention(q, k, v, some_mask(), need_weights=need_weights)
    out, _ = scaled_dot_product_attention(q, k, v, some_mask().to(dtype), need_weights=need_weights)
    assert torch.equal(out, expected)


def test_an_additive_mask_is_refused():
    q, k, v = qkv()
    additive = torch.zeros(L, S).masked_fill(torch.ones(L, S).triu(1).bool(), -torch.inf)
    with pytest.raises(ValueError, match=r"a mask holds 1 \(keep\) and 0 \(block\) only; pass scores to add as `bias`"):
        scaled_dot_product_attention(q, k, v, additive)


@both_paths
def test_a_query_that_may_see_nothing_gets_zero_and_finite_gradients(need_weights):
    q, k, v = (x.requires_grad_() for x in qkv())
    mask = some_mask().clone()
    mask[1, 0, 2] = False
    out, weights = scaled_dot_product_attention(q, k, v, mask, need_weights=need_weights)
    assert not out[1, :, 2].any()
    if need_weights:
        assert not weights[1, :, 2].any()
    out.sum().backward()
    assert all(x.grad.isfinite().all() for x in (q, k, v))
    assert not q.grad[1, :, 2].any()


@both_paths
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_causal_order_and_padding_together_survive_huge_negative_scores_in_half_precision(need_weights, dtype):
    q, k, v = torch.full((1, 1, 6, 4), -30.0), torch.full((1, 1, 6, 4), 30.0), rand(1, 1, 6, 4)
    keep = torch.tensor([0, 0, 1, 1, 1, 1])
    out, weights = scaled_dot_product_attention(
        q.to(dtype), k.to(dtype), v.to(dtype), keep, causal=True, need_weights=need_weights
    )
    assert out.isfinite().all()
    assert not out[0, 0, :2].any()
    if need_weights:
        torch.testing.assert_close(weights[0, 0, 5].float(), torch.tensor([0, 0, 0.25, 0.25, 0.25, 0.25]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_blocked_weights_are_exactly_zero(dtype):
    q, k, v = qkv(dtype, scale=8)
    _, weights = scaled_dot_product_attention(q, k, v, some_mask())
    assert weights.dtype == dtype
    assert not weights[~some_mask().expand_as(weights)].any()
    torch.testing.assert_close(weights.double().sum(-1), torch.ones(B, H, L, dtype=torch.float64), atol=1e-2, rtol=0)


@both_paths
def test_both_paths_agree_to_float64_precision_with_everything_on(need_weights):
    q, k, v = (x.requires_grad_() for x in qkv())
    bias, mask = rand(H, L, S, seed=4), some_mask()
    out, _ = scaled_dot_product_attention(q, k, v, mask, bias=bias, causal=True, scale=0.7, need_weights=need_weights)
    keep = mask & torch.ones(L, S).tril(S - L).bool()
    expected = (q @ k.mT * 0.7 + bias).masked_fill(~keep, -torch.inf).softmax(-1) @ v
    torch.testing.assert_close(out, expected, atol=1e-12, rtol=0)
    ours = torch.autograd.grad(out.square().sum(), (q, k, v))
    theirs = torch.autograd.grad(expected.square().sum(), (q, k, v))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


@both_paths
def test_bf16_is_near_float64(need_weights):
    q, k, v = qkv(torch.bfloat16)
    out, _ = scaled_dot_product_attention(q, k, v, need_weights=need_weights)
    exact, _ = scaled_dot_product_attention(q.double(), k.double(), v.double())
    assert (out.double() - exact).abs().max() < 2e-2


@both_paths
def test_no_scaling_is_scaling_by_one(need_weights):
    q, k, v = qkv()
    unscaled, _ = scaled_dot_product_attention(q * K**-0.5, k, v, scale=1.0, need_weights=need_weights)
    scaled, _ = scaled_dot_product_attention(q, k, v, need_weights=need_weights)
    torch.testing.assert_close(unscaled, scaled, atol=1e-12, rtol=0)


@both_paths
def test_queries_are_scaled_before_the_product_so_float16_does_not_overflow(need_weights):
    q, k = (40 * rand(1, 2, 8, 64, seed=seed, dtype=torch.float16) for seed in (0, 1))
    out, _ = scaled_dot_product_attention(q, k, rand(1, 2, 8, 64, dtype=torch.float16), need_weights=need_weights)
    assert out.isfinite().all()


@both_paths
def test_dropout_acts_in_training_only(need_weights):
    q, k, v = qkv()
    plain, _ = scaled_dot_product_attention(q, k, v, need_weights=need_weights)
    with torch.random.fork_rng():
        calm, _ = scaled_dot_product_attention(q, k, v, dropout=0.5, training=False, need_weights=need_weights)
        wild, _ = scaled_dot_product_attention(q, k, v, dropout=0.5, need_weights=need_weights)
    assert torch.equal(calm, plain)
    assert not torch.equal(wild, plain)


def test_weights_are_those_before_dropout():
    q, k, v = qkv()
    _, plain = scaled_dot_product_attention(q, k, v)
    with torch.random.fork_rng():
        _, dropped = scaled_dot_product_attention(q, k, v, dropout=0.5)
    assert torch.equal(plain, dropped)
    assert plain.shape == (B, H, L, S)


def test_fused_attention_never_gets_a_mask_together_with_its_own_causal_rule(monkeypatch):
    calls, real = [], F.scaled_dot_product_attention

    def spy(*args, **options):
        calls.append((options["attn_mask"] is not None, options["is_causal"]))
        return real(*args, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    keep = torch.arange(10) >= torch.tensor([[0], [3]])
    for positional in ("learned", "alibi"):
        for attention in ("softmax", "window"):
            model(positional=positional, attention=attention)(tokens(), keep)
            model(positional=positional, attention=attention)(tokens())
    scaled_dot_product_attention(*qkv(), some_mask(), causal=True, need_weights=False)
    assert (False, True) in calls
    assert (True, True) not in calls


def test_heads_may_be_permuted_with_their_weights():
    made = MultiHeadAttention(12, 3).double()
    x = rand(2, 5, 12)
    before, weights = made(x, x, x)
    order = torch.tensor([2, 0, 1])
    rows = torch.arange(12).view(3, 4)[order].flatten()
    with torch.no_grad():
        for linear in (made.query, made.key, made.value):
            linear.weight.copy_(linear.weight[rows])
            linear.bias.copy_(linear.bias[rows])
        made.output.weight.copy_(made.output.weight[:, rows])
    after, permuted = made(x, x, x)
    torch.testing.assert_close(after, before, atol=1e-12, rtol=0)
    torch.testing.assert_close(permuted, weights[:, order], atol=1e-12, rtol=0)


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="d_model=65 is not divisible by n_heads=4"):
        MultiHeadAttention(65, 4)


def test_multi_head_attention_takes_a_mask_for_each_row_of_the_batch():
    made, x = MultiHeadAttention(12, 3).double(), rand(2, 5, 12)
    mask = torch.ones(2, 5, 5).tril()
    out, weights = made(x, x, x, mask)
    assert out.shape == (2, 5, 12)
    assert weights.shape == (2, 3, 5, 5)
    assert torch.equal(out, made(x, x, x, mask[:, None])[0])
    assert not weights.triu(1).any()


def test_cross_attention_takes_sources_of_another_length():
    made = MultiHeadAttention(12, 3).double()
    out, weights = made(rand(2, 5, 12), rand(2, 7, 12), rand(2, 7, 12))
    assert out.shape == (2, 5, 12)
    assert weights.shape == (2, 3, 5, 7)
