"""Whole layers and stacks against torch.nn.TransformerEncoder(Layer) and DecoderLayer, in float64, forward and backward."""

import pytest
import torch
from torch import nn

from transformer import Dims, ModelConfig, Spec
from transformer.attention.masks import cross_pattern, self_pattern
from transformer.blocks import CrossLayer, Embedding, Layer, Stack

D, H, F = 12, 3, 20
SELF = {"query": 0, "key": 1, "value": 2}


@pytest.fixture(autouse=True)
def slow_path_and_fixed_numbers():
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it zeroes padded rows in eval
    with torch.random.fork_rng():
        torch.random.manual_seed(0)
        yield
    torch.backends.mha.set_fastpath_enabled(before)


def config(placement, activation):
    return ModelConfig(
        d_model=D, n_heads=H, d_ff=F, n_layers=2, positional=Spec("none"), feedforward=Spec(activation),
        placement=Spec(placement),
    )


def dims(causal):
    return Dims(D, H, n_layers=2, d_ff=F, vocab_size=7, max_len=16, causal=causal)


def randomised(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module.double()


def attention_state(theirs, name):
    weight, bias = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    for part, i in SELF.items():
        yield f"{name}.{part}.weight", weight[i]
        yield f"{name}.{part}.bias", bias[i]
    yield f"{name}.output.weight", theirs.out_proj.weight
    yield f"{name}.output.bias", theirs.out_proj.bias


def layer_state(theirs, cross):
    yield from attention_state(theirs.self_attn, "self_attention")
    norms = ["join_self", "join_cross", "join_feedforward"] if cross else ["join_self", "join_feedforward"]
    if cross:
        yield from attention_state(theirs.multihead_attn, "cross_attention")
    for i, join in enumerate(norms, 1):
        norm = getattr(theirs, f"norm{i}")
        yield from ((f"{join}.norm.weight", norm.weight), (f"{join}.norm.bias", norm.bias))
    for ours, linear in (("up", theirs.linear1), ("down", theirs.linear2)):
        yield from ((f"feedforward.{ours}.weight", linear.weight), (f"feedforward.{ours}.bias", linear.bias))


def pattern(x, causal, key_keep):
    layer = Layer(config("pre", "relu"), dims(causal)).self_attention.attention
    none = Stack(config("pre", "relu"), dims(causal), Embedding(7, D, 1.0)).positional
    return self_pattern(
        none, layer, causal=causal, length=x.shape[1], past=0, key_keep=key_keep, like=x
    )[0]


def gradients_agree(ours, theirs, cross):
    named = dict(ours.named_parameters())
    for name, parameter in layer_state(theirs, cross):
        if parameter.is_leaf:
            torch.testing.assert_close(named[name].grad, parameter.grad, atol=1e-10, rtol=0)
    for attention in ["self_attn", "multihead_attn"] if cross else ["self_attn"]:
        name = {"self_attn": "self_attention", "multihead_attn": "cross_attention"}[attention]
        packed = torch.cat([named[f"{name}.{part}.weight"].grad for part in SELF])
        torch.testing.assert_close(packed, getattr(theirs, attention).in_proj_weight.grad, atol=1e-10, rtol=0)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("padded", [False, True])
def test_an_encoder_layer(placement, activation, padded):
    theirs = randomised(nn.TransformerEncoderLayer(
        D, H, F, dropout=0.0, activation=activation, batch_first=True, norm_first=placement == "pre"
    ))
    ours = Layer(config(placement, activation), dims(causal=False)).double()
    ours.load_state_dict(dict(layer_state(theirs, cross=False)))
    keep = torch.arange(6) < torch.tensor([[6], [4]]) if padded else torch.ones(2, 6, dtype=torch.bool)
    x, y = (torch.randn(2, 6, D, dtype=torch.float64).requires_grad_() for _ in range(2))
    y.data = x.data.clone()
    a = ours(x, pattern(x, False, keep if padded else None))
    b = theirs(y, src_key_padding_mask=~keep if padded else None)
    torch.testing.assert_close(a[keep], b[keep], atol=1e-12, rtol=0)
    a[keep].square().sum().backward()
    b[keep].square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, atol=1e-10, rtol=0)
    gradients_agree(ours, theirs, cross=False)


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_a_decoder_layer_with_a_padded_source(placement):
    theirs = randomised(nn.TransformerDecoderLayer(
        D, H, F, dropout=0.0, batch_first=True, norm_first=placement == "pre"
    ))
    ours = CrossLayer(config(placement, "relu"), dims(causal=True)).double()
    ours.load_state_dict(dict(layer_state(theirs, cross=True)))
    keep = torch.arange(8) < torch.tensor([[8], [5]])
    x, memory = torch.randn(2, 6, D, dtype=torch.float64), torch.randn(2, 8, D, dtype=torch.float64)
    inputs = [x.clone().requires_grad_(), memory.clone().requires_grad_()]
    others = [x.clone().requires_grad_(), memory.clone().requires_grad_()]
    a = ours(inputs[0], pattern(x, True, None), inputs[1], cross_pattern(keep))
    causal = nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.float64)
    b = theirs(*others, tgt_mask=causal, memory_key_padding_mask=~keep)
    torch.testing.assert_close(a, b, atol=1e-12, rtol=0)
    a.square().sum().backward()
    b.square().sum().backward()
    for mine, other in zip(inputs, others, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, atol=1e-10, rtol=0)
    gradients_agree(ours, theirs, cross=True)


@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("cross", [False, True], ids=["encoder", "decoder"])
def test_a_whole_stack(placement, cross):
    """torch adds a final norm only when told to: for pre-norm and not for post-norm."""
    kind, layers = (nn.TransformerDecoderLayer, nn.TransformerDecoder) if cross else (
        nn.TransformerEncoderLayer, nn.TransformerEncoder
    )
    layer = kind(D, H, F, dropout=0.0, batch_first=True, norm_first=placement == "pre")
    final = nn.LayerNorm(D) if placement == "pre" else None
    options = {} if cross else {"enable_nested_tensor": False}
    theirs = randomised(layers(layer, 2, norm=final, **options))
    ours = Stack(config(placement, "relu"), dims(causal=cross), Embedding(7, D, 1.0), crosses=cross).double()
    state = {"embedding.weight": torch.randn(7, D, dtype=torch.float64)}
    for i, one in enumerate(theirs.layers):
        state |= {f"layers.{i}.{name}": value for name, value in layer_state(one, cross)}
    if final is not None:
        state |= {"final_norm.weight": theirs.norm.weight, "final_norm.bias": theirs.norm.bias}
    ours.load_state_dict(state)
    tokens = torch.randint(0, 7, (2, 6))
    x, memory = state["embedding.weight"][tokens], torch.randn(2, 5, D, dtype=torch.float64)
    if cross:
        mask = nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.float64)
        torch.testing.assert_close(ours(tokens, memory_BSD=memory), theirs(x, memory, tgt_mask=mask), atol=1e-12, rtol=0)
    else:
        torch.testing.assert_close(ours(tokens), theirs(x), atol=1e-12, rtol=0)
