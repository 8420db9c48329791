"""What a model refuses when it is declared, word for word."""

import pytest

from tests.transformer.tiny import config
from transformer import ModelConfig, Spec
from transformer.config import ConfigError
from transformer.slots import REGISTRIES


def test_the_shipped_names():
    assert {slot: registry.names() for slot, registry in REGISTRIES.items()} == {
        "positional": ["alibi", "learned", "none", "relative", "rope", "sinusoidal"],
        "attention": ["linear", "softmax", "window"],
        "scaling": ["d_head", "none", "sqrt_d_head", "sqrt_d_model"],
        "feedforward": ["bilinear", "geglu", "gelu", "reglu", "relu", "silu", "swiglu"],
        "norm": ["batchnorm", "layernorm", "none", "rmsnorm"],
        "placement": ["none", "post", "pre", "sandwich"],
        "init": ["gpt", "xavier"],
    }


@pytest.mark.parametrize("positional", ["alibi", "relative"])
def test_linear_attention_refuses_what_adds_a_bias(positional):
    assert config(attention="linear", positional=positional).problems() == [(
        "", f"positional '{positional}' adds a bias to the attention scores, which attention 'linear' cannot take; "
            "attentions that can: softmax, window"
    )]


def test_linear_attention_refuses_a_scaling_that_would_do_nothing():
    assert config(attention="linear", scaling="none").problems() == [(
        "", "scaling 'none' would change nothing, since attention 'linear' does not scale its scores; use sqrt_d_head, "
            "or an attention that does: softmax, window"
    )]


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder_decoder"])
def test_every_shipped_component_can_be_built(architecture):
    for slot, registry in REGISTRIES.items():
        for name in registry.names():
            assert config(architecture=architecture, **{slot: name}).problems() == []


def test_unknown_names_and_options_are_all_told_at_once():
    made = config(positional="alibbi", norm={"name": "layernorm", "epsilon": 1e-5})
    assert made.problems() == [
        ("positional", "unknown positional 'alibbi'. Did you mean 'alibi'? "
                       "Known: alibi, learned, none, relative, rope, sinusoidal"),
        ("norm", "unknown option of norm 'layernorm': 'epsilon'. Did you mean 'eps'? Known: eps"),
    ]


def test_heads_must_divide_the_width():
    with pytest.raises(ConfigError, match="d_model=65 is not divisible by n_heads=4; the nearest d_model that is: 64"):
        ModelConfig(d_model=65)


def test_heads_may_have_a_width_of_their_own():
    own, plain = ModelConfig(d_model=10, n_heads=3, d_head=8), ModelConfig(d_model=12, n_heads=3)
    assert (own.head_width(), plain.head_width()) == (8, 4)
    assert own.dims(vocab_size=5, max_len=7).d_head == 8
    assert own.replace({"d_head": None, "n_heads": 2}).head_width() == 5
    assert own.to_dict()["d_head"] == own.identity()["d_head"] == 8


def test_a_head_width_that_is_left_open_is_written_nowhere():
    assert "d_head" not in ModelConfig().to_dict()
    assert ModelConfig(d_head=16).identity() == ModelConfig().identity()
    assert ModelConfig(**ModelConfig(d_head=16).to_dict()).d_head == 16


def test_rope_in_heads_of_an_odd_width_of_their_own_is_refused():
    found = ModelConfig(d_head=5, positional=Spec("rope")).problems()
    assert found == [("", "rope turns pairs, so d_head=5 must be even; the nearest that are: 4 and 6")]


@pytest.mark.parametrize("field,value", [
    ("logit_scale", "inverse"), ("pooling", "max"), ("embedding_scale", "sqrt"), ("d_ff", "wide"),
])
def test_words_that_mean_nothing_are_refused(field, value):
    with pytest.raises(ConfigError, match=value):
        ModelConfig(**{field: value})


def test_checking_warns_of_nothing_and_leaves_random_streams_alone(recwarn):
    import torch

    before = torch.random.get_rng_state()
    assert config(norm="batchnorm").problems() == []
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not recwarn.list


def test_identity_resolves_defaults_and_scales():
    same = ModelConfig(positional=Spec("rope", base=10000.0), d_ff=256, embedding_scale=8.0, logit_scale=0.125)
    other = ModelConfig(
        positional=Spec("rope"), embedding_scale="sqrt_d_model", logit_scale="inverse_sqrt_d_model"
    )
    assert same.identity() == other.identity()
    assert same.identity() != ModelConfig(positional=Spec("rope")).identity()
