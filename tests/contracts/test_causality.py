"""Nothing that comes later changes what comes before: the gradient is exactly 0, for every combination of slots."""

import pytest
import torch

from tests.contracts.cases import BUILT_IN, NAMES, combinations, config, inputs, model
from transformer import build

SEEN = 4  # logits at positions below this may not feel positions from here on

pytestmark = pytest.mark.filterwarnings("ignore:norm .* leaks across time")


def gradient_on_embeddings(made, x, up_to=SEEN):
    """Gradient of the logits of the first positions with respect to every token's embedding, (B, L, D)."""
    held = []
    embedding = made.decoder.embedding
    handle = embedding.register_forward_hook(lambda module, args, out: held.append(out))
    logits = made(*x)
    handle.remove()
    weights = torch.linspace(1, 2, logits.shape[-1])  # a plain sum of normed features would have no gradient at all
    (gradient,) = torch.autograd.grad((logits[:, :up_to] * weights).sum(), held[-1])
    return gradient


def assert_causal(fields, length=7):
    made = build(
        config(**{"n_layers": 1, "d_model": 8, "d_ff": 8, **fields}), vocab_size=13, max_len=length + 2, seed=0
    ).eval()  # in training, a norm over positions leaks: see below
    architecture = fields.get("architecture", "decoder")
    gradient = gradient_on_embeddings(made, inputs(architecture, length))
    assert torch.equal(gradient[:, SEEN:], torch.zeros_like(gradient[:, SEEN:])), fields
    assert gradient[:, :SEEN].abs().sum() > 0, fields


@pytest.mark.parametrize("positional", NAMES["positional"])
@pytest.mark.parametrize("attention", NAMES["attention"])
def test_future_tokens_cannot_change_the_past(positional, attention):
    names = {**NAMES, "positional": [positional], "attention": [attention]}
    for fields in combinations("positional", "attention", "norm", "placement", names=names):
        assert_causal(fields)


@pytest.mark.slow
@pytest.mark.parametrize("positional", BUILT_IN["positional"])
@pytest.mark.parametrize("attention", BUILT_IN["attention"])
def test_future_tokens_cannot_change_the_past_in_any_combination(positional, attention):
    names = {**BUILT_IN, "positional": [positional], "attention": [attention]}
    for fields in combinations(*BUILT_IN, names=names):
        assert_causal(fields)


@pytest.mark.parametrize("slot", ["scaling", "feedforward", "init"])
def test_future_tokens_cannot_change_the_past_whatever_the_rest(slot):
    for fields in combinations(slot):
        assert_causal({**fields, "n_layers": 2})


@pytest.mark.parametrize("attention", NAMES["attention"])
def test_the_decoder_of_an_encoder_decoder_is_causal(attention):
    for fields in combinations("attention", "positional", names={**NAMES, "attention": [attention]}):
        assert_causal({**fields, "architecture": "encoder_decoder"})


@pytest.mark.parametrize("attention", NAMES["attention"])
def test_causality_is_exact_over_chunks_in_training_and_with_recomputed_layers(attention):
    made = model(config(attention=attention), max_len=200)
    made.decoder.recompute = True
    x = torch.randint(0, 13, (1, 200), generator=torch.Generator().manual_seed(0))
    held = []
    made.decoder.embedding.register_forward_hook(lambda module, args, out: held.append(out))
    made(x)[:, :100].square().sum().backward(inputs=[*made.parameters()])
    again = gradient_through(made, held, x, 100)
    assert torch.equal(again[:, 100:], torch.zeros_like(again[:, 100:]))


def gradient_through(made, held, x, up_to):
    logits = made(x)
    logits_part = logits[:, :up_to].square().sum()
    held[-1].retain_grad()
    logits_part.backward()
    return held[-1].grad


@pytest.mark.parametrize("attention", NAMES["attention"])
def test_an_encoder_sees_both_ways(attention):
    made = model(config(architecture="encoder", attention=attention, pooling="first"))
    x = inputs("encoder")[0].repeat(2, 1)
    x[2:, 2] = (x[2:, 2] + 1) % 13
    logits = made(x)
    assert not torch.equal(logits[:2], logits[2:])


def test_batchnorm_leaks_in_training_which_is_what_its_warning_says():
    made = model(config(norm="batchnorm")).train()
    assert gradient_on_embeddings(made, inputs("decoder"))[:, SEEN:].abs().max() > 0
