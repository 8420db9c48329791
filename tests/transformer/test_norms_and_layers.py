"""Norms, placements and feed-forward layers."""

import pytest
import torch

from tests.transformer.tiny import config, dims, model, rand, tokens
from transformer import ModelConfig, Spec
from transformer.feedforward import GELU, Bilinear, GeGLU, ReGLU, SwiGLU
from transformer.norms import BatchNorm, LayerNorm, RMSNorm
from transformer.placement import NoResidual, PostNorm, PreNorm, Sandwich
from transformer.slots import FEEDFORWARD, Norm


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_normalised_in_float32_and_comes_back_in_its_dtype(kind, dtype):
    x = 300 * rand(4, 3, 16)
    norm = kind(dims())
    for module in (norm, kind(dims()).to(dtype)):
        out = module(x.to(dtype))
        assert out.dtype == dtype
        torch.testing.assert_close(out.double(), kind(dims()).double()(x), atol=2e-2, rtol=1e-2)


def test_layernorm_has_a_bias_only_where_layers_have():
    assert LayerNorm(dims(bias=False)).bias is None
    assert set(LayerNorm(dims()).state_dict()) == {"weight", "bias"}
    assert set(RMSNorm(dims()).state_dict()) == {"weight"}


def test_batchnorm_is_torchs_over_batch_and_positions():
    ours, theirs = BatchNorm(dims()), torch.nn.BatchNorm1d(16)
    for seed in range(3):
        x = rand(4, 5, 16, seed=seed, dtype=torch.float32)
        torch.testing.assert_close(ours(x), theirs(x.mT).mT, atol=1e-6, rtol=1e-5)
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x), theirs(x.mT).mT, atol=1e-6, rtol=1e-5)


class Double(Norm):
    def forward(self, x):
        return 2 * x


@pytest.mark.parametrize("kind,expected", [
    (PostNorm, lambda x: 2 * (x + (x + 1))), (PreNorm, lambda x: x + (2 * x + 1)),
    (Sandwich, lambda x: x + 2 * (2 * x + 1)), (NoResidual, lambda x: 2 * x + 1),
])
def test_placements_are_their_equations(kind, expected):
    x = rand(1, 2, 16)
    made = kind(dims(), lambda: Double(dims()))
    torch.testing.assert_close(made(x, lambda h: h + 1), expected(x))


@pytest.mark.parametrize("placement,per_sublayer,final", [("post", 1, 0), ("pre", 1, 1), ("sandwich", 2, 1), ("none", 1, 1)])
def test_every_stack_has_the_right_number_of_norms(placement, per_sublayer, final):
    made = model(architecture="encoder_decoder", placement=placement, n_layers=3)
    counts = [sum(isinstance(m, LayerNorm) for m in stack.modules()) for stack in (made.encoder, made.decoder)]
    assert counts == [3 * 2 * per_sublayer + final, 3 * 3 * per_sublayer + final]


@pytest.mark.parametrize("depth", [2, 24])
def test_a_pre_norm_stack_ends_at_unit_size_at_any_depth(depth):
    made = model(n_layers=depth, init="xavier")
    rms = made.decoder(tokens()).square().mean(-1).sqrt()
    torch.testing.assert_close(rms, torch.ones_like(rms), atol=1e-2, rtol=0)


@pytest.mark.parametrize("kind,act", [
    (SwiGLU, torch.nn.functional.silu), (GeGLU, torch.nn.functional.gelu), (ReGLU, torch.relu), (Bilinear, lambda x: x),
])
def test_gated_layers_pass_the_gate_and_not_the_other_half_through_their_activation(kind, act):
    made, x = kind(dims()).double(), rand(2, 3, 16)
    right = made.down(act(made.gate(x)) * made.up(x))
    torch.testing.assert_close(made(x), right, atol=1e-13, rtol=0)
    if kind is not Bilinear:
        assert not torch.allclose(made(x), made.down(act(made.up(x)) * made.gate(x)))


@pytest.mark.parametrize("d_model", [64, 128, 256, 512])
@pytest.mark.parametrize("name", [name for name in FEEDFORWARD.names() if FEEDFORWARD.entry(name).cls.gated])
def test_a_matched_gated_layer_has_the_parameters_of_the_ungated_one(d_model, name):
    counts = []
    for spec in ("gelu", name):
        made = ModelConfig(d_model=d_model, n_heads=1, feedforward=Spec(spec))
        layer = FEEDFORWARD.build(Spec(spec), made.dims(vocab_size=5, max_len=5))
        counts.append(sum(p.numel() for p in layer.parameters()))
    assert abs(counts[1] - counts[0]) <= 0.03 * counts[0]


def test_an_explicit_width_is_honoured():
    assert config(feedforward="swiglu", d_ff=40).hidden_width() == 40
    assert GELU(dims(d_ff=40)).up.weight.shape == (40, 16)
