"""Tensors that two variants share start bit-equal, whatever else differs."""

import pytest
import torch

from tests.contracts.cases import ARCHITECTURES, COMPONENTS, config, model

pytestmark = pytest.mark.filterwarnings("ignore:norm .* leaks across time")


def shared(a, b):
    a, b = dict(a.named_parameters()), dict(b.named_parameters())
    return [(name, a[name], b[name]) for name in a if name in b and a[name].shape == b[name].shape]


@pytest.mark.parametrize("slot,name", [c for c in COMPONENTS if c[0] != "init"], ids=lambda part: part)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_swapping_a_component_moves_no_shared_tensor(slot, name, architecture):
    pairs = shared(model(config(architecture=architecture)), model(config(**{slot: name}, architecture=architecture)))
    assert len(pairs) >= 10
    assert [key for key, a, b in pairs if not torch.equal(a, b)] == []


@pytest.mark.parametrize("change", [
    {"tied": False}, {"bias": False}, {"n_layers": 3}, {"n_heads": 4}, {"dropout": 0.3}, {"embedding_scale": 2.0},
    {"d_ff": 40}, {"max_len": 99}, {"logit_scale": 0.5},
], ids=str)
def test_other_settings_move_no_shared_tensor_either(change):
    pairs = shared(model(config(init="xavier")), model(config(init="xavier", **change)))
    assert len(pairs) >= 5
    assert [key for key, a, b in pairs if not torch.equal(a, b)] == []


def test_layers_start_different_from_each_other():
    made = model(config())
    first, second = (layer.feedforward.up.weight for layer in made.decoder.layers)
    assert not torch.equal(first, second)


def test_another_seed_gives_other_values_everywhere():
    pairs = shared(model(config(), seed=0), model(config(), seed=1))
    assert not any(torch.equal(a, b) for _, a, b in pairs if a.dim() > 1)
