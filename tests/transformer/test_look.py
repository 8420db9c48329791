"""Looking inside: weights of every head, statistics of every layer, and nothing left behind."""

import pytest
import torch

from tests.transformer.tiny import model, tokens
from transformer.look import look


def test_weights_of_every_head_of_every_layer():
    made = model(dropout=0.3, init="xavier")
    inside = look(made, tokens())
    assert list(inside.weights) == ["decoder.layers.0.self_attention", "decoder.layers.1.self_attention"]
    for weights in inside.weights.values():
        assert weights.shape == (2, 2, 10, 10)
        assert not weights.triu(1).any()
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 10))


def test_logits_are_those_of_a_plain_pass_in_eval_mode():
    made = model(dropout=0.3).train()
    logits = look(made, tokens()).logits
    assert made.training
    assert not logits.requires_grad
    torch.testing.assert_close(logits, made.eval()(tokens()), atol=1e-6, rtol=1e-5)


def test_an_encoder_decoder_shows_all_three_kinds():
    made = model(architecture="encoder_decoder", n_layers=1)
    keep = torch.arange(8) < torch.tensor([[8], [3]])
    inside = look(made, tokens(length=8), tokens(length=5), source_keep=keep)
    shapes = {name: tuple(weights.shape) for name, weights in inside.weights.items()}
    assert shapes == {
        "encoder.layers.0.self_attention": (2, 2, 8, 8), "decoder.layers.0.self_attention": (2, 2, 5, 5),
        "decoder.layers.0.cross_attention": (2, 2, 5, 8),
    }
    assert not inside.weights["decoder.layers.0.cross_attention"][1, :, :, 3:].any()


@pytest.mark.parametrize("attention", ["linear", "window", "softmax"])
def test_every_attention_can_be_looked_at(attention):
    for weights in look(model(attention=attention), tokens()).weights.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 10), atol=1e-5, rtol=0)


def test_statistics_describe_branches_and_the_stream():
    made = model()
    held = []
    made.decoder.layers[1].register_forward_hook(lambda module, inputs, out: held.append(out))
    found = look(made, tokens()).activations
    assert {name.removeprefix("decoder.layers.") for name in found} == {
        f"{i}{part}" for i in (0, 1) for part in ("", ".self_attention", ".feedforward")
    }
    x, stats = held[0].double(), found["decoder.layers.1"]
    assert stats.mean == pytest.approx(float(x.mean()))
    assert stats.std == pytest.approx(float(x.std(unbiased=False)))
    assert stats.rms == pytest.approx(float((x**2).mean() ** 0.5))
    assert stats.largest == pytest.approx(float(x.abs().max()))


def test_nothing_is_left_behind():
    made = model()
    look(made, tokens())
    with pytest.raises(ValueError, match="positions are more than"):
        look(made, tokens(length=400))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in made.modules())
