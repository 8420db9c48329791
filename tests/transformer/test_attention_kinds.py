"""Linear and windowed attention against their definitions written out."""

import pytest
import torch

from tests.transformer.tiny import config, dims, model, rand, tokens
from transformer import MultiHeadAttention, build
from transformer.attention import Linear, Softmax, Window
from transformer.attention.linear import elu_plus_one
from transformer.attention.masks import self_pattern
from transformer.costs import costs
from transformer.slots import Pattern, Positional


def quadratic(q, k, v, keep):
    scores = (torch.nn.functional.elu(q) + 1) @ (torch.nn.functional.elu(k) + 1).mT * keep
    return scores / scores.sum(-1, keepdim=True) @ v


def run(attention, q, k, v, pattern=None, **options):
    return attention(q, k, v, pattern or Pattern(), scale=1.0, **options)


@pytest.mark.parametrize("length", [1, 5, 64, 65, 200])
@pytest.mark.parametrize("causal", [True, False])
def test_linear_attention_is_its_quadratic_form(length, causal):
    q, k, v = (rand(2, 3, length, 4, seed=i).requires_grad_() for i in range(3))
    keep = torch.ones(length, length, dtype=torch.float64)
    expected = quadratic(q, k, v, keep.tril() if causal else keep)
    out, weights = run(Linear(dims(causal=causal)), q, k, v, need_weights=True)
    torch.testing.assert_close(out, expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(weights @ v, expected, atol=1e-12, rtol=0)
    ours = torch.autograd.grad(out.square().sum(), (q, k, v))
    theirs = torch.autograd.grad(expected.square().sum(), (q, k, v))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-11, rtol=0)


def test_the_feature_map_is_elu_plus_one_and_stays_positive():
    x = torch.linspace(-5, 5, 101, dtype=torch.float64)
    torch.testing.assert_close(elu_plus_one(x), torch.nn.functional.elu(x) + 1, atol=1e-15, rtol=0)
    assert (elu_plus_one(torch.tensor([-20.0, -60.0])) > 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("causal", [True, False])
def test_linear_attention_stays_finite_where_every_feature_is_tiny(dtype, causal):
    q, k = (torch.full((1, 1, 70, 4), -20.0, dtype=dtype).requires_grad_() for _ in range(2))
    v = rand(1, 1, 70, 4, dtype=dtype)
    out, _ = run(Linear(dims(causal=causal)), q, k, v)
    assert out.dtype == dtype
    out.sum().backward()
    assert all(x.isfinite().all() for x in (out, q.grad, k.grad))
    torch.testing.assert_close(out[0, 0, -1].float(), v[0, 0].float().mean(0), atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("causal", [True, False])
def test_linear_attention_zeroes_padded_keys_after_the_feature_map(causal):
    q, k, v = (rand(1, 1, 9, 4, seed=i) for i in range(3))
    keep = torch.arange(9)[None] >= 3
    out, _ = run(Linear(dims(causal=causal)), q, k, v, Pattern(key_keep=keep))
    alone, _ = run(Linear(dims(causal=causal)), q[:, :, 3:], k[:, :, 3:], v[:, :, 3:])
    torch.testing.assert_close(out[:, :, 3:], alone, atol=1e-12, rtol=0)
    nothing, _ = run(Linear(dims(causal=causal)), q, k, v, Pattern(key_keep=torch.zeros_like(keep)))
    assert not nothing.any()


def test_linear_attention_refuses_a_mask_over_pairs():
    made = MultiHeadAttention(16, 2, attention=Linear(dims(causal=False)))
    x = rand(1, 4, 16, dtype=torch.float32)
    with pytest.raises(ValueError, match="linear attention cannot apply a mask over pairs"):
        made(x, x, x, torch.ones(4, 4).tril())


def test_the_memory_of_linear_attention_grows_with_length_and_not_with_its_square():
    made = build(config(attention="linear", positional="none"), vocab_size=13, max_len=2048, seed=0, device="meta")
    short, long = (costs(made, length=n).activation_bytes_by_part["attention"] for n in (256, 2048))
    assert long < 8.5 * short


def windowed(length, window, causal):
    at = torch.arange(length)
    back = at[:, None] - at
    return ((back >= 0) & (back < window)) if causal else back.abs() <= window


@pytest.mark.parametrize("window", [1, 2, 3, 4, 100])
@pytest.mark.parametrize("causal", [True, False])
def test_windowed_attention_sees_its_window(window, causal):
    attention = Window(dims(causal=causal), window=window)
    x = rand(1, 9, 16)
    pattern, _ = self_pattern(Positional(dims()), attention, causal=causal, length=9, past=0, key_keep=None, like=x)
    q, k, v = (rand(1, 2, 9, 8, seed=i) for i in range(3))
    out, _ = run(attention, q, k, v, pattern)
    again, weights = run(attention, q, k, v, pattern, need_weights=True)
    keep = windowed(9, window, causal)
    assert torch.equal(weights > 0, keep.expand(1, 2, 9, 9))
    torch.testing.assert_close(out, (q @ k.mT).masked_fill(~keep, -torch.inf).softmax(-1) @ v, atol=1e-12, rtol=0)
    torch.testing.assert_close(out, again, atol=1e-12, rtol=0)


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder_decoder"])
def test_a_window_as_wide_as_the_text_is_full_attention(architecture):
    x = (tokens(), tokens(seed=1)) if architecture == "encoder_decoder" else (tokens(),)
    plain = model(architecture=architecture).double()
    wide = model(architecture=architecture, attention={"name": "window", "window": 10}).double()
    torch.testing.assert_close(wide(*x), plain(*x), atol=1e-12, rtol=0)


def test_a_window_does_not_limit_cross_attention():
    made = model(architecture="encoder_decoder", attention={"name": "window", "window": 1}, n_layers=1)
    source, x = tokens(length=12), tokens(seed=1)
    memory = made.encode(source).detach().requires_grad_()
    made(None, x, memory=memory)[:, 0].sum().backward()
    assert (memory.grad.abs().sum(-1) > 0).all()


@pytest.mark.parametrize("window", [0, -3])
def test_a_window_of_nothing_is_refused_at_declaration(window):
    assert config(attention={"name": "window", "window": window}).problems() == [
        ("", f"window={window} must be at least 1: a query sees at least itself")
    ]


def test_softmax_is_the_attention_of_a_plain_multi_head_attention():
    assert type(MultiHeadAttention(8, 2).attention) is Softmax
