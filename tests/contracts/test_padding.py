"""Padding never leaks: what stands in padded places changes nothing that is real."""

import pytest
import torch

from tests.contracts.cases import COMPONENTS, NAMES, VOCAB, combinations, config, model, tokens

pytestmark = pytest.mark.filterwarnings("ignore:norm .* leaks across time")
REAL = torch.tensor([6, 9])
each_component = pytest.mark.parametrize("slot,name", COMPONENTS, ids=lambda part: part)


def keep(length, side):
    at = torch.arange(length)
    return at < REAL[:, None] if side == "right" else at >= length - REAL[:, None]


def other_padding(x, mask):
    return torch.where(mask, x, (x + 5) % VOCAB)


@each_component
@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_an_encoder_ignores_padding(slot, name, pooling, side):
    made = model(config(**{slot: name}, architecture="encoder", pooling=pooling)).eval()
    x, mask = tokens(), keep(10, side)
    logits = made(x, mask)
    assert torch.equal(logits, made(other_padding(x, mask), mask))
    for row in range(2):
        alone = made(x[row][mask[row]][None])
        torch.testing.assert_close(logits[row], alone[0], atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("positional", NAMES["positional"])
def test_a_decoder_ignores_padding_on_either_side(positional, side):
    for fields in combinations("positional", "attention", "norm", names={**NAMES, "positional": [positional]}):
        made = model(config(**fields)).eval()
        x, mask = tokens(), keep(10, side)
        logits = made(x, mask)
        assert logits.isfinite().all()
        assert torch.equal(logits[mask], made(other_padding(x, mask), mask)[mask])
        for row in range(2):
            alone = made(x[row][mask[row]][None])
            torch.testing.assert_close(logits[row][mask[row]], alone[0], atol=2e-6, rtol=1e-4)


@each_component
def test_a_decoder_ignores_padding_of_the_source(slot, name):
    made = model(config(**{slot: name}, architecture="encoder_decoder")).eval()
    source, x, mask = tokens(seed=1), tokens(length=5), keep(10, "right")
    logits = made(source, x, mask)
    assert torch.equal(logits, made(other_padding(source, mask), x, mask))
    alone = made(source[:1, :6], x[:1])
    torch.testing.assert_close(logits[:1], alone, atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("attention", NAMES["attention"])
def test_a_row_of_nothing_but_padding_leaves_the_others_and_all_gradients_alone(attention):
    made = model(config(architecture="encoder_decoder", attention=attention))
    source, x, mask = tokens(seed=1), tokens(length=5), torch.ones(2, 10, dtype=torch.bool)
    made(source[:1], x[:1], mask[:1]).square().sum().backward()
    alone = {name: p.grad.clone() for name, p in made.named_parameters()}
    made.zero_grad()
    mask[1] = False
    logits = made(source, x, mask)
    assert logits.isfinite().all()
    logits[:1].square().sum().backward()
    for name, p in made.named_parameters():
        torch.testing.assert_close(p.grad, alone[name], atol=1e-6, rtol=1e-5)


def test_training_a_batch_norm_model_sees_padding_as_its_docstring_says():
    made = model(config(architecture="encoder", norm="batchnorm")).train()
    x, mask = tokens(), keep(10, "right")
    assert not torch.equal(made(x, mask), made(other_padding(x, mask), mask))


def test_a_keep_that_does_not_cover_the_cached_positions_is_refused():
    from transformer.generation.cache import Cache

    made, cache = model(config()).eval(), Cache()
    made(tokens(), torch.ones(2, 10, dtype=torch.bool), cache=cache)
    with pytest.raises(ValueError, match="keep covers 1 positions, but 10 cached and 1 new ones need it"):
        made(tokens(length=1), torch.ones(2, 1, dtype=torch.bool), cache=cache)
