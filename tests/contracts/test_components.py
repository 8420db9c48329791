"""What every component must keep, shipped or a user's own: tests run over the registries."""

import copy
import warnings

import pytest
import torch

from tests.contracts.cases import ARCHITECTURES, COMPONENTS, VOCAB, config, inputs, model
from transformer.slots import REGISTRIES

pytestmark = pytest.mark.filterwarnings("ignore:norm .* leaks across time")

each_component = pytest.mark.parametrize("slot,name", COMPONENTS, ids=lambda part: part)
each_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)


@each_component
@each_architecture
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_logits_have_the_right_shape_and_dtype_and_are_finite(slot, name, architecture, dtype):
    made = model(config(**{slot: name}, architecture=architecture)).to(dtype)
    logits = made(*inputs(architecture))
    assert logits.shape == ((2, 3) if architecture == "encoder" else (2, 10, VOCAB))
    assert logits.dtype == dtype
    assert logits.isfinite().all()


@each_component
@each_architecture
def test_low_precision_is_near_and_float64_is_the_same(slot, name, architecture):
    made = model(config(**{"init": "xavier", slot: name}, architecture=architecture))
    precise = copy.deepcopy(made).double()(*inputs(architecture))
    torch.testing.assert_close(made(*inputs(architecture)).double(), precise, atol=1e-4, rtol=1e-4)
    rough = copy.deepcopy(made).bfloat16()(*inputs(architecture)).double()
    assert (rough - precise).abs().max() < 0.1 * precise.abs().max()


@each_component
@each_architecture
def test_bf16_autocast_is_near_float32(slot, name, architecture):
    made = model(config(**{"init": "xavier", slot: name}, architecture=architecture))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = made(*inputs(architecture))
    rough.float().sum().backward()
    precise = made(*inputs(architecture))
    assert (rough - precise).abs().max() < 0.1 * precise.abs().max()


@each_component
@each_architecture
def test_gradients_reach_every_parameter(slot, name, architecture):
    made = model(config(**{slot: name}, architecture=architecture), max_len=12)
    torch.nn.functional.cross_entropy(
        made(*inputs(architecture)).flatten(0, -2), torch.ones(20 if architecture != "encoder" else 2, dtype=torch.long)
    ).backward()
    without = [key for key, p in made.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    allowed = [key for key in without if key.endswith("key.bias")]  # the softmax is blind to a shift of all scores
    assert without == allowed


@each_component
@each_architecture
def test_state_dict_copy_and_seed_give_the_same_model_back(slot, name, architecture):
    made = model(config(**{slot: name}, architecture=architecture)).eval()
    other = model(config(**{slot: name}, architecture=architecture), seed=1).eval()
    again = model(config(**{slot: name}, architecture=architecture)).eval()
    x = inputs(architecture)
    assert not torch.equal(other(*x), made(*x))
    other.load_state_dict(made.state_dict())
    for same in (other, again, copy.deepcopy(made)):
        assert torch.equal(same(*x), made(*x))


@each_component
def test_building_leaves_the_global_random_stream_alone(slot, name):
    before = torch.random.get_rng_state()
    model(config(**{slot: name}))
    assert torch.equal(torch.random.get_rng_state(), before)


@each_component
@each_architecture
def test_eval_mode_has_no_dropout_and_training_has(slot, name, architecture):
    made = model(config(**{slot: name}, architecture=architecture, dropout=0.5))
    x = inputs(architecture)
    with torch.random.fork_rng():
        made.train()
        assert not torch.equal(made(*x), made(*x))
    made.eval()
    assert torch.equal(made(*x), made(*x))


@each_component
def test_a_shape_only_model_builds_on_meta(slot, name):
    from transformer import build

    made = build(config(**{slot: name}), vocab_size=VOCAB, max_len=12, seed=0, device="meta")
    assert all(parameter.is_meta for parameter in made.parameters())
    assert made(torch.zeros(2, 5, dtype=torch.long, device="meta")).shape == (2, 5, VOCAB)


@each_component
def test_the_class_says_what_it_is(slot, name):
    assert REGISTRIES[slot].entry(name).cls.__doc__


@pytest.mark.parametrize("architecture", ["decoder", "encoder_decoder"])
def test_a_norm_that_mixes_positions_says_so_once_in_words(architecture):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model(config(norm="batchnorm", architecture=architecture))
    assert [str(one.message) for one in caught] == [
        "norm 'batchnorm' leaks across time: in training every position is normalised with the positions after it, "
        "so a causal model sees the future there, and its training loss is too good to be true"
    ]


def test_a_norm_that_mixes_positions_is_no_news_in_an_encoder():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(config(norm="batchnorm", architecture="encoder"))
