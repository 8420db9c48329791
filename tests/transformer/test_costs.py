"""Parameters, FLOPs and bytes, against counting by hand."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.transformer.tiny import config, model, tokens
from transformer import ModelConfig, Spec, build
from transformer.config import ConfigError
from transformer.costs import PARTS, costs, count_parameters, match_d_ff, parameters_by_part

BASE = {"d_model": 64, "n_heads": 4, "n_layers": 2, "d_ff": 256}


def test_flops_of_a_decoder_are_those_of_the_closed_form():
    length, d, d_ff, vocab = 32, 64, 256, 13
    found = costs(model(**BASE), length=length)
    layer = 2 * (4 * d * d + 2 * d * d_ff) + 2 * 2 * length * d
    assert found.flops_per_token == 2 * layer + 2 * d * vocab
    assert found.flops_by_part == {
        "embedding": 0, "positional": 0, "attention": 2 * (2 * 4 * d * d + 4 * length * d), "norm": 0,
        "feedforward": 2 * 2 * 2 * d * d_ff, "head": 2 * d * vocab,
    }


@pytest.mark.parametrize("fields", [
    {}, {"feedforward": "swiglu"}, {"attention": "window"}, {"positional": "alibi"}, {"architecture": "encoder"},
    {"architecture": "encoder_decoder"}, {"attention": "linear"}, {"attention": "linear", "architecture": "encoder"},
], ids=str)
def test_flops_are_those_that_torch_counts(fields):
    made = model(**fields)
    inputs = made.dry_inputs(2, 10)
    with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        made(*inputs)
    assert costs(made, length=10, batch=2).flops_per_token == counter.get_total_flops() / 20


@pytest.mark.parametrize("architecture", ["decoder", "encoder_decoder"])
def test_heads_with_a_width_of_their_own_are_counted(architecture):
    plain, own = (
        build(ModelConfig(architecture=architecture, d_model=12, n_heads=3, n_layers=2, d_head=d_head), vocab_size=7,
              max_len=9, seed=0) for d_head in (4, 10)
    )
    more, per_matrix = costs(own, length=9), 12 * 3 * (10 - 4)
    less, attentions = costs(plain, length=9), {"decoder": 2, "encoder_decoder": 6}[architecture]
    assert more.parameters - less.parameters == attentions * (4 * per_matrix + 3 * 3 * 6)  # and biases of q, k, v
    assert more.flops_per_token - less.flops_per_token == attentions * 2 * (4 * per_matrix + 2 * 9 * 3 * 6)


def test_costs_do_not_depend_on_the_batch_or_the_device():
    on_cpu, on_meta = (build(config(), vocab_size=13, max_len=48, seed=0, device=d) for d in ("cpu", "meta"))
    assert costs(on_cpu, length=8, batch=1).flops_per_token == costs(on_cpu, length=8, batch=5).flops_per_token
    assert costs(on_cpu, length=8) == costs(on_meta, length=8)


def test_parameters_by_part_add_up():
    made = model(positional="learned", tied=False)
    parts = parameters_by_part(made)
    assert tuple(parts) == PARTS
    assert parts == {
        "embedding": 13 * 16, "positional": 48 * 16, "attention": 2 * 4 * (16 * 16 + 16),
        "feedforward": 2 * (2 * 16 * 24 + 24 + 16), "norm": 5 * 32, "head": 13 * 16,
    }
    assert sum(parts.values()) == sum(p.numel() for p in made.parameters())
    assert count_parameters(made)["non_embedding"] == sum(parts.values()) - parts["embedding"] - parts["positional"]


def test_a_tied_head_and_a_shared_table_count_once():
    assert parameters_by_part(model())["head"] == 0
    shared = build(config(architecture="encoder_decoder"), vocab_size=13, max_len=8, seed=0)
    assert parameters_by_part(shared)["embedding"] == 13 * 16


def saved_bytes(made, *inputs):
    seen = {p.untyped_storage()._cdata: p for p in [*made.parameters(), *made.buffers()]}
    total = 0

    def keep(tensor):
        nonlocal total
        if tensor.untyped_storage()._cdata not in seen:
            seen[tensor.untyped_storage()._cdata] = tensor
            total += tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        made(*inputs)
    return total


@pytest.mark.parametrize("length", [16, 48])
@pytest.mark.parametrize("fields", [{}, {"positional": "rope"}, {"feedforward": "swiglu"}, {"attention": "linear"}], ids=str)
def test_activation_bytes_are_near_what_autograd_saves(length, fields):
    made = model(**fields)
    estimate = costs(made, length=length, batch=4).activation_bytes
    assert abs(estimate / saved_bytes(made, tokens(4, length)) - 1) < 0.06


def test_costs_leave_the_model_alone():
    made = model()
    before = made(tokens())
    costs(made, length=40)
    assert torch.equal(made(tokens()), before)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in made.modules())
    assert all(layer.self_attention.packed for layer in made.decoder.layers)


def counted(made):
    return count_parameters(build(made, vocab_size=65, max_len=64, seed=0, device="meta"))["total"]


@pytest.mark.parametrize("feedforward", ["gelu", "swiglu", "bilinear"])
@pytest.mark.parametrize("budget", [60_000, 110_000, 500_000])
def test_a_model_is_sized_to_a_budget(feedforward, budget):
    made = match_d_ff(ModelConfig(feedforward=Spec(feedforward)), budget, counted)
    step = counted(made.replace({"d_ff": made.d_ff + 1})) - counted(made)
    assert abs(counted(made) - budget) <= step / 2


def test_a_budget_that_is_too_small_is_refused():
    with pytest.raises(ConfigError, match="a budget of 100 parameters is too small: d_ff=1 has 42562 already"):
        match_d_ff(ModelConfig(), 100, counted)
