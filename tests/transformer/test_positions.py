"""Each way to tell a model about order, and the traps of each."""

import pytest
import torch

from tests.transformer.tiny import config, dims, model, rand, tokens
from transformer.positional import ALiBi, Learned, Relative, RoPE, Sinusoidal
from transformer.slots import POSITIONAL

NAMES = ["alibi", "learned", "none", "relative", "rope", "sinusoidal"]
ENDLESS = [name for name in NAMES if name != "learned"]


def test_these_are_the_shipped_positions():
    assert POSITIONAL.names() == NAMES


def test_zero_embeddings_plus_sinusoids_are_the_table_times_its_amplitude():
    for amplitude in (1.0, 0.25):
        made, at = Sinusoidal(dims(), amplitude=amplitude), torch.arange(9)
        table = made.embed(torch.zeros(1, 9, 16), at)[0]
        torch.testing.assert_close(table[:, 0], amplitude * torch.arange(9.0).sin())
        torch.testing.assert_close(table[:, 1], amplitude * torch.arange(9.0).cos())


def test_a_bf16_model_keeps_distinct_sinusoids():
    made = Sinusoidal(dims()).bfloat16()
    made.reach(600)
    assert made.table.values.dtype == torch.float32
    assert len(made.table.values.unique(dim=0)) == 600


@pytest.mark.parametrize("name", ENDLESS)
def test_positions_without_an_end_take_longer_texts_than_max_len(name):
    short, long = (model(positional=name, max_len=n).double() for n in (8, 64))
    x = tokens(length=40)
    first = short(x[:, :5])
    torch.testing.assert_close(short(x), long(x), atol=1e-12, rtol=0)
    torch.testing.assert_close(short(x[:, :5]), first, atol=0, rtol=0)


def test_learned_positions_refuse_what_is_too_long():
    made = model(max_len=8)
    assert made(tokens(length=8)).shape == (2, 8, 13)
    with pytest.raises(ValueError) as caught:
        made(tokens(length=9))
    assert str(caught.value) == (
        "9 positions are more than max_len=8, where learned positions end; raise max_len, or use a positional that has "
        "no end, such as sinusoidal, rope, alibi, relative or none"
    )


def test_learned_positions_start_at_row_0_and_train_every_row():
    made = Learned(dims(max_len=9))
    with torch.no_grad():
        made.table.copy_(torch.arange(9.0)[:, None].expand(9, 16))
    out = made.embed(torch.zeros(1, 9, 16), torch.arange(9))
    assert torch.equal(out[0, :, 0], torch.arange(9.0))
    out.sum().backward()
    assert (made.table.grad == 1).all()


def rope(**options):
    return RoPE(dims(max_len=256), **options).double()


@pytest.mark.parametrize("options", [{}, {"layout": "interleaved"}, {"share": 0.5}, {"base": 50.0}], ids=str)
def test_rotary_scores_depend_on_distance_alone_and_keep_norms(options):
    made, q, k, at = rope(**options), rand(1, 2, 7, 8), rand(1, 2, 7, 8, seed=1), torch.arange(7)
    scores = [made.rotate(q, at + shift) @ made.rotate(k, at + shift).mT for shift in (0, 100)]
    torch.testing.assert_close(scores[0], scores[1], atol=1e-10, rtol=0)
    torch.testing.assert_close(made.rotate(q, at).norm(dim=-1), q.norm(dim=-1), atol=1e-12, rtol=0)


def test_rotary_positions_turn_queries_and_keys_but_no_values():
    x = rand(1, 6, 16).repeat(1, 1, 1)
    made = model(positional="rope").double().decoder.layers[0].self_attention
    from transformer.slots import Pattern

    same_place = Pattern(rotate=lambda x: rope().rotate(x, torch.full((6,), 9)))
    torch.testing.assert_close(made(x, x, x, same_place)[0], made(x, x, x)[0], atol=1e-12, rtol=0)


def test_a_bf16_model_keeps_precise_angles():
    made = RoPE(dims(max_len=2048)).bfloat16()
    assert made.table.values.dtype == torch.float32
    q = rand(1, 1, 1, 8, dtype=torch.bfloat16)
    exact = RoPE(dims(max_len=2048)).double().rotate(q.double(), torch.tensor([2047]))
    out = made.rotate(q, torch.tensor([2047]))
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.double(), exact, atol=1e-2, rtol=2**-7)


@pytest.mark.parametrize("d_model,n_heads,text", [
    (20, 4, "rope turns pairs, so d_head must be even, but d_model=20 / n_heads=4 = 5; the nearest n_heads that works: "
            "5, the nearest d_model that works: 16"),
    (15, 3, "rope turns pairs, so d_head must be even, but d_model=15 / n_heads=3 = 5; the nearest d_model that works: "
            "12"),
    (4, 4, "rope turns pairs, so d_head must be even, but d_model=4 / n_heads=4 = 1; the nearest n_heads that works: "
           "2, the nearest d_model that works: 8"),
])
def test_an_odd_head_is_refused_at_declaration(d_model, n_heads, text):
    assert config(positional="rope", d_model=d_model, n_heads=n_heads).problems() == [("", text)]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.35, 1.5])
def test_a_share_that_leaves_no_pairs_is_refused(share):
    (problem,) = config(positional={"name": "rope", "share": share}).problems()
    assert f"share={share} of d_head=8" in problem[1]


def test_alibi_stays_float32_in_a_bf16_model_and_tells_far_neighbours_apart():
    made = ALiBi(dims(n_heads=8)).bfloat16()
    assert made.slopes.values.dtype == torch.float32
    bias = made.bias(torch.tensor([301]), torch.arange(2))
    assert bias.dtype == torch.float32
    assert (bias[:, 0, 0] != bias[:, 0, 1]).all()
    model(positional="alibi").bfloat16()(tokens())


def test_alibi_has_no_parameters_and_a_visible_strength():
    assert not list(ALiBi(dims()).parameters())
    assert ALiBi(dims(n_heads=4), max_bias=4.0).slopes.values.tolist() == [0.5, 0.25, 0.125, 0.0625]


def test_a_relative_table_is_shared_by_the_layers_of_a_stack():
    few, many = (model(positional="relative", architecture="encoder_decoder", n_layers=n) for n in (1, 4))
    for made in (few, many):
        tables = {name: tuple(p.shape) for name, p in made.named_parameters() if "positional" in name}
        assert tables == {"encoder.positional.table": (32, 2), "decoder.positional.table": (32, 2)}


def test_relative_buckets_look_both_ways_in_an_encoder_and_back_in_a_decoder():
    at = torch.arange(4)
    both, back = (Relative(dims(causal=causal)) for causal in (False, True))
    for made in (both, back):
        made.table.data.copy_(torch.arange(32.0)[:, None].expand(32, 2))
    assert both.bias(at, at)[0].tolist() == [[0, 17, 18, 19], [1, 0, 17, 18], [2, 1, 0, 17], [3, 2, 1, 0]]
    assert back.bias(at, at)[0].tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [2, 1, 0, 0], [3, 2, 1, 0]]


@pytest.mark.parametrize("options", [{"buckets": 5}, {"buckets": 2}, {"max_distance": 32}], ids=str)
def test_relative_sizes_that_make_no_buckets_are_refused(options):
    (problem,) = config(positional={"name": "relative", **options}).problems()
    assert "must be an even number of at least 4" in problem[1]


def hidden(name):
    return model(positional=name, architecture="encoder", init="xavier").double().encoder


@pytest.mark.parametrize("name", NAMES)
def test_only_an_encoder_without_positions_sees_a_set(name):
    stack, x, order = hidden(name), tokens(), torch.randperm(10, generator=torch.Generator().manual_seed(0))
    equal = torch.allclose(stack(x[:, order]), stack(x)[:, order], atol=1e-9)
    assert equal == (name == "none")


def test_a_decoder_without_positions_still_knows_order_by_its_mask():
    made, x = model(positional="none", init="xavier").double(), tokens(1, 6)
    swapped = x[:, [1, 0, 2, 3, 4, 5]]
    assert not torch.allclose(made(x)[:, 1], made(swapped)[:, 1])


@pytest.mark.parametrize("name", NAMES)
def test_positions_act_in_self_attention_only(name):
    made = model(positional=name, architecture="encoder_decoder").double()
    memory, order = rand(2, 7, 16), torch.tensor([3, 1, 6, 0, 2, 5, 4])
    keep = torch.arange(7) < torch.tensor([[7], [4]])
    out = made(None, tokens(), keep, memory=memory)
    permuted = made(None, tokens(), keep[:, order], memory=memory[:, order])
    torch.testing.assert_close(out, permuted, atol=1e-12, rtol=0)
