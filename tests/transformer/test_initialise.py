"""Initial values: which law, on which matrix, from which stream."""

import copy
import io
import math

import pytest
import torch
from torch import nn

from tests.transformer.tiny import config, model
from transformer import ModelConfig, Spec, build
from transformer.initialise import initialise, stream
from transformer.slots import INIT

V = 1000


def initial_loss(d_model, length=32, **fields):
    made = build(
        ModelConfig(d_model=d_model, n_heads=4, n_layers=2, **fields), vocab_size=V, max_len=length, seed=0
    )
    x = torch.randint(0, V, (8, length + 1), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return float(nn.functional.cross_entropy(made(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten()))


@pytest.mark.parametrize("d_model", [64, 512])
@pytest.mark.parametrize("tied", [True, False])
def test_gpt_init_starts_near_a_uniform_guess(d_model, tied):
    assert 0 <= initial_loss(d_model, tied=tied) - math.log(V) < 0.3


PAPER = {"init": Spec("xavier"), "embedding_scale": "sqrt_d_model", "positional": Spec("sinusoidal")}


@pytest.mark.parametrize("d_model", [64, 512])
def test_the_papers_init_starts_near_a_uniform_guess_with_a_head_of_its_own(d_model):
    assert abs(initial_loss(d_model, tied=False, **PAPER) - math.log(V)) < 0.8


def test_the_papers_init_with_a_tied_head_repeats_its_input_the_more_so_the_wider():
    small, large = (initial_loss(d, **PAPER) - math.log(V) for d in (64, 512))
    assert 0.3 < small < 2
    assert large > 5


@pytest.mark.parametrize("d_model", [64, 512])
def test_a_logit_scale_cures_the_repeating(d_model):
    assert abs(initial_loss(d_model, logit_scale="inverse_sqrt_d_model", **PAPER) - math.log(V)) < 0.3


def test_scaled_embeddings_of_the_paper_are_of_the_size_of_its_sinusoids():
    made = build(ModelConfig(d_model=256, n_heads=4, n_layers=1, **PAPER), vocab_size=V, max_len=8, seed=0)
    assert 0.9 < float(made.decoder.embedding(torch.arange(V)).detach().std()) < 1.1


@pytest.mark.parametrize("architecture,stack,branches", [("decoder", "decoder", 2), ("encoder_decoder", "encoder", 2),
                                                         ("encoder_decoder", "decoder", 3)])
@pytest.mark.parametrize("feedforward", ["gelu", "swiglu"])
def test_what_writes_to_the_residual_stream_is_scaled_by_its_branches(architecture, stack, branches, feedforward):
    made = build(
        ModelConfig(architecture=architecture, d_model=512, n_heads=8, n_layers=2, feedforward=Spec(feedforward)),
        vocab_size=50, max_len=8, seed=0,
    )
    small = 0.02 / math.sqrt(branches * 2)
    for name, module in getattr(made, stack).named_modules():
        if isinstance(module, nn.Linear):
            expected = small if name.endswith(("output", "down")) else 0.02
            assert abs(float(module.weight.detach().std()) / expected - 1) < 0.05, name
            assert not module.bias.any()


def test_xavier_is_over_each_matrix_alone():
    made = model(d_model=128, n_heads=4, init={"name": "xavier", "gain": 0.5})
    for linear in (made.decoder.layers[0].self_attention.query, made.decoder.layers[0].feedforward.up):
        edge = 0.5 * math.sqrt(6 / sum(linear.weight.shape))
        assert 0.95 * edge < float(linear.weight.detach().abs().max()) <= edge


def tied_everywhere(made):
    assert made.head.weight is made.decoder.embedding.weight
    assert [name for name, _ in made.named_parameters() if "head" in name] == []


def test_a_tied_head_stays_tied():
    made = model()
    tied_everywhere(made)
    tied_everywhere(made.to(torch.float64))
    tied_everywhere(copy.deepcopy(made))
    file = io.BytesIO()
    torch.save(made.state_dict(), file)
    file.seek(0)
    other = model(seed=1).double()
    other.load_state_dict(torch.load(file))
    tied_everywhere(other)
    assert torch.equal(other.head.weight, made.head.weight)


def test_source_and_target_share_an_embedding_when_they_share_a_vocabulary():
    shared = build(config(architecture="encoder_decoder"), vocab_size=13, max_len=8, seed=0)
    assert shared.encoder.embedding.weight is shared.decoder.embedding.weight is shared.head.weight
    apart = build(config(architecture="encoder_decoder"), vocab_size=13, source_vocab_size=11, max_len=8, seed=0)
    assert apart.encoder.embedding.weight.shape == (11, 16)
    assert apart.decoder.embedding.weight is apart.head.weight


def test_no_embedding_has_a_padding_row():
    assert model().decoder.embedding.padding_idx is None
    assert model().decoder.embedding.weight.abs().sum(1).min() > 0


def test_a_value_comes_from_seed_and_name_alone():
    assert torch.equal(torch.rand(3, generator=stream(0, "a")), torch.rand(3, generator=stream(0, "a")))
    assert not torch.equal(torch.rand(3, generator=stream(0, "a")), torch.rand(3, generator=stream(0, "b")))
    assert not torch.equal(torch.rand(3, generator=stream(0, "a")), torch.rand(3, generator=stream(1, "a")))
    first = model().decoder.layers[0].self_attention.query.weight
    expected = torch.empty(16, 16).normal_(0, 0.02, generator=stream(0, "decoder.layers.0.self_attention.query.weight"))
    assert torch.equal(first, expected)


class Wild(nn.Module):
    def __init__(self):
        super().__init__()
        self.noise = nn.Parameter(torch.arange(4.0))


class Tame(Wild):
    def reset(self, generator):
        self.noise.normal_(generator=generator)


def test_random_values_that_no_seed_governs_are_refused():
    init = INIT.build(Spec("gpt"), config().dims(vocab_size=5, max_len=5))
    with pytest.raises(ValueError) as caught:
        initialise(nn.ModuleDict({"part": Wild()}), init, 0)
    assert str(caught.value) == (
        "parameter 'part.noise' of Wild starts at random values that no seed governs; give the module a method "
        "reset(generator) that draws them"
    )
    tame = nn.ModuleDict({"part": Tame()})
    initialise(tame, init, 0)
    assert torch.equal(tame["part"].noise, torch.empty(4).normal_(generator=stream(0, "part")))
