"""Positions against public implementations."""

import pytest
import torch

from tests.reference.golden_arrays import Case, cases
from transformer import Dims, MultiHeadAttention, scaled_dot_product_attention
from transformer.attention.masks import self_pattern
from transformer.positional import ALiBi, Relative, RoPE, Sinusoidal
from transformer.positional.alibi import slopes
from transformer.positional.relative import bucket
from transformer.positional.sinusoidal import sinusoid
from transformer.slots import Attention, Positional

FILE = "positions.npz"


def dims(d_model=16, n_heads=2, **other):
    return Dims(d_model, n_heads, n_layers=1, d_ff=8, vocab_size=8, max_len=32, **other)


@pytest.mark.parametrize("name", cases(FILE, "sin_interleaved"))
def test_sinusoids_are_interleaved_as_in_the_paper(name):
    case = Case(FILE, name)
    width = case("table").shape[1]
    case.expect(sinusoid(50, width), "table")
    made = Sinusoidal(dims(width, 1))
    made.reach(50)
    case.expect(made.embed(torch.zeros(1, 50, width), torch.arange(50))[0], "table")


@pytest.mark.parametrize("name", [*cases(FILE, "sin_concat"), *cases(FILE, "sin_t2t")])
def test_sinusoids_are_none_of_the_other_conventions(name):
    table = Case(FILE, name)("table")
    assert (sinusoid(50, table.shape[1]) - table).abs().max() > 0.1


def turned(name, **options):
    case, half = Case(FILE, name), Case(FILE, "rope_half")
    rope = RoPE(dims(16, 2), **options).double()
    rope.reach(64)
    for x in "qk":
        yield case, rope.rotate(half(x), half("positions")), f"out_{x}"


@pytest.mark.parametrize("name,options", [
    ("rope_half", {}), ("rope_interleaved", {"layout": "interleaved"}), ("rope_partial4", {"share": 0.5}),
])
def test_rotary_positions(name, options):
    for case, ours, field in turned(name, **options):
        case.expect(ours, field)


def test_rotary_positions_in_float32():
    half, rope = Case(FILE, "rope_half"), RoPE(dims(16, 2))
    for x in "qk":
        half.expect(rope.rotate(half(x).float(), half("positions")), f"out32_{x}", atol=1e-5)


def test_the_layouts_are_one_another_permuted():
    half, perm = Case(FILE, "rope_half"), Case(FILE, "rope_perm")("perm")
    a, b = RoPE(dims(16, 2)).double(), RoPE(dims(16, 2), layout="interleaved").double()
    q, at = half("q"), half("positions")
    torch.testing.assert_close(a.rotate(q[..., perm], at), b.rotate(q, at)[..., perm], atol=1e-12, rtol=0)
    assert (a.rotate(q, at) - b.rotate(q, at)).abs().max() > 0.1


@pytest.mark.parametrize("n_heads", range(1, 17))
def test_alibi_slopes(n_heads):
    case = Case(FILE, f"alibi_slopes_h{n_heads}")
    ours = torch.tensor(slopes(n_heads), dtype=torch.float64)
    case.expect(ours, "slopes")
    case.expect(ours, "slopes64")


@pytest.mark.parametrize("n_heads", [3, 8])
def test_alibi_biases_whole_and_cached_agree_and_are_symmetric(n_heads):
    made, at = ALiBi(dims(4 * n_heads, n_heads)), torch.arange(6)
    case = Case(FILE, f"alibi_symmetric_h{n_heads}")
    whole = made.bias(at, at)
    case.expect(whole, "bias_6x6")
    case.expect(made.bias(at[4:], at), "bias_2x6")
    assert torch.equal(whole, whole.mT)
    assert whole.max() == 0
    assert not whole.diagonal(dim1=1, dim2=2).any()


@pytest.mark.parametrize("n_heads", [3, 8])
def test_alibi_equals_conventions_that_shift_whole_rows_under_a_causal_mask(n_heads):
    at = torch.arange(6)
    ours = ALiBi(dims(4 * n_heads, n_heads)).bias(at, at)
    mpt = Case(FILE, f"alibi_mpt_h{n_heads}")("bias").expand(n_heads, 6, 6)
    bloom = Case(FILE, f"alibi_bloom_h{n_heads}")("bias")[0].expand(n_heads, 6, 6)
    future = torch.ones(6, 6).triu(1).bool()
    weights = [x.masked_fill(future, -torch.inf).softmax(-1) for x in (ours, mpt, bloom)]
    torch.testing.assert_close(weights[0], weights[1], atol=1e-6, rtol=0)
    torch.testing.assert_close(weights[0], weights[2], atol=1e-6, rtol=0)


@pytest.mark.parametrize("n_heads", [3, 8])
@pytest.mark.parametrize("field,causal", [("out_causal", True), ("out_bidir", False)])
def test_attention_with_alibi(n_heads, field, causal):
    case, at = Case(FILE, f"alibi_attn_h{n_heads}"), torch.arange(6)
    bias = ALiBi(dims(4 * n_heads, n_heads)).double().bias(at, at)
    for need_weights in (True, False):
        out, _ = scaled_dot_product_attention(
            case("q"), case("k"), case("v"), bias=bias, causal=causal, need_weights=need_weights
        )
        case.expect(out, field)


@pytest.mark.parametrize("name", cases(FILE, "t5_bucket"))
def test_t5_buckets(name):
    _, _, direction, buckets, distance = name.split("_")
    case = Case(FILE, name)
    ours = bucket(case("rel"), buckets=int(buckets), max_distance=int(distance), bidirectional=direction == "bi")
    case.expect(ours, "bucket")


@pytest.mark.parametrize("name,causal", [("t5_attn_enc", False), ("t5_attn_dec", True)])
def test_t5_attention(name, causal):
    case = Case(FILE, name)
    made = MultiHeadAttention(12, 3, bias=False, scale=1.0).double()
    parts = {"query": "q", "key": "k", "value": "v", "output": "o"}
    made.load_state_dict({f"{ours}.weight": case(f"p.{theirs}.weight") for ours, theirs in parts.items()})
    relative = Relative(dims(12, 3, causal=causal), buckets=8, max_distance=20).double()
    relative.load_state_dict({"table": case("p.relative_attention_bias.weight")})
    x = case("x")
    pattern, _ = self_pattern(
        relative, Attention(dims()), causal=causal, length=9, past=0, key_keep=None, like=x
    )
    theirs = case("position_bias")[0]
    ours = relative.bias(torch.arange(9), torch.arange(9))
    kept = theirs > -1e30  # their decoder's bias holds the causal mask too
    torch.testing.assert_close(ours[kept], theirs[kept], atol=case.atol, rtol=0)
    for need_weights in (True, False):
        case.expect(made(x, x, x, pattern, need_weights=need_weights)[0], "out")


def test_a_cached_query_has_the_last_row_of_the_t5_bias():
    whole, case = Case(FILE, "t5_attn_dec"), Case(FILE, "t5_bias_cached")
    relative = Relative(dims(12, 3), buckets=8, max_distance=20).double()
    relative.load_state_dict({"table": whole("p.relative_attention_bias.weight")})
    case.expect(relative.bias(torch.tensor([8]), torch.arange(9))[None], "bias")


def test_positions_that_do_nothing_do_nothing():
    plain, x, at = Positional(dims()), torch.ones(1, 2, 3, 4), torch.arange(3)
    assert plain.embed(x, at) is x
    assert plain.rotate(x, at) is x
    assert plain.bias(at, at) is None
