"""Feed-forward layers and norms against torch and public implementations."""

import pytest
import torch

from tests.reference.golden_arrays import Case
from transformer import Dims, ModelConfig, Spec
from transformer.feedforward import GELU, ReLU, SiLU, SwiGLU
from transformer.norms import LayerNorm, RMSNorm

FILE = "ffn_norm.npz"


def dims(d_model=6, d_ff=16, bias=True):
    return Dims(d_model, 1, n_layers=1, d_ff=d_ff, vocab_size=8, max_len=8, bias=bias)


@pytest.mark.parametrize("layer,field", [
    (ReLU(dims()), "relu"), (GELU(dims()), "gelu_erf"), (GELU(dims(), approximate="tanh"), "gelu_tanh"),
    (SiLU(dims()), "silu"), (SwiGLU(dims()), "silu"),
])
def test_activations(layer, field):
    case = Case(FILE, "activations")
    case.expect(layer.act(case("x")), field)


def test_swiglu_and_its_gradient():
    case = Case(FILE, "swiglu")
    layer = SwiGLU(dims(bias=False)).double()
    layer.load_state_dict({f"{part}.weight": case(f"p.{part}_proj.weight") for part in ("gate", "up", "down")})
    x = case("x").requires_grad_()
    out = layer(x)
    case.expect(out, "out")
    out.square().sum().backward()
    case.expect(x.grad, "dx")


def test_gpt2_feedforward():
    case = Case(FILE, "gpt2_mlp")
    layer = GELU(dims(), approximate="tanh").double()
    layer.load_state_dict({
        f"{ours}.{kind}": case(f"p.{theirs}.{kind}").t()
        for ours, theirs in (("up", "c_fc"), ("down", "c_proj")) for kind in ("weight", "bias")
    })
    case.expect(layer(case("x")), "out")


@pytest.mark.parametrize("row", range(7))
def test_a_matched_gated_width_is_eight_thirds_to_the_nearest_multiple_of_eight(row):
    d_model, plain, meta, _ = Case(FILE, "swiglu_hidden")("table")[row].tolist()
    ours = ModelConfig(d_model=d_model, n_heads=1, feedforward=Spec("swiglu")).hidden_width()
    assert abs(ours - meta) <= 4
    assert ours % 8 == 0
    assert ModelConfig(d_model=d_model, n_heads=1, feedforward=Spec("gelu")).hidden_width() == plain


@pytest.mark.parametrize("name", ["layernorm", "layernorm_nobias", "rmsnorm"])
def test_norms_and_their_gradients(name):
    case = Case(FILE, name)
    kind = RMSNorm if name == "rmsnorm" else LayerNorm
    norm = kind(dims(10, bias=case.has("bias"))).double()
    norm.load_state_dict({field: case(field) for field in ("weight", "bias") if case.has(field)})
    x = case("x").requires_grad_()
    out = norm(x)
    case.expect(out, "out")
    if case.has("dx"):
        out.square().sum().backward()
        case.expect(x.grad, "dx")


@pytest.mark.parametrize("eps,field", [
    (1e-6, "out_1e6"), (1e-5, "out_1e5"), (torch.finfo(torch.float64).eps, "out_none"),
])
def test_rmsnorm_eps_stands_inside_the_root(eps, field):
    case = Case(FILE, "rmsnorm_eps")
    norm = RMSNorm(dims(10), eps=eps).double()
    norm.load_state_dict({"weight": case("weight")})
    case.expect(norm(case("x")), field)


@pytest.mark.parametrize("rounds", ["end", "gain"])
def test_rmsnorm_in_float32_equals_llama_and_t5(rounds):
    case = Case(FILE, "rmsnorm_hf32")
    norm = RMSNorm(dims(10), rounds=rounds)
    norm.load_state_dict({"weight": case("weight")})
    for field in ("llama", "t5"):
        case.expect(norm(case("x")), field)


@pytest.mark.parametrize("rounds, field", [("end", "mulcast"), ("gain", "llama")])
def test_rmsnorm_in_bf16_has_the_gain_in_float32_unless_it_rounds_before(rounds, field):
    case = Case(FILE, "rmsnorm_bf16")
    norm = RMSNorm(dims(10), rounds=rounds).bfloat16()
    norm.load_state_dict({"weight": case("weight")})
    out = norm(case("x").bfloat16())
    assert out.dtype == torch.bfloat16
    case.expect(out, field)
    assert not torch.equal(out.float(), case("naive"))
