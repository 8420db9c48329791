"""Calling a model with other values leaves its own where they were."""

import pytest
import torch

from tests.contracts.cases import ARCHITECTURES, COMPONENTS, config, model, users_file_imported
from transformer.costs import costs, forward_flops
from transformer.stateless import call, places


@pytest.fixture(autouse=True)
def _users_components():
    with users_file_imported():
        yield


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_other_values_are_used_everywhere_and_then_gone(architecture):
    one, other = (model(config(architecture=architecture), seed).eval() for seed in (0, 1))
    tokens = tuple(torch.arange(1, 9).view(1, 8) for _ in one.dry_inputs(1, 8))
    before, wanted = one(*tokens), other(*tokens)
    for _ in range(2):  # the second call is where a wrongly restored tensor shows
        assert torch.equal(call(one, places(one), dict(other.named_parameters()), tokens), wanted)
    assert torch.equal(one(*tokens), before)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_counting_leaves_a_model_as_it_was(architecture):
    made = model(config(architecture=architecture))
    before = {name: id(tensor) for name, tensor in made.named_parameters(remove_duplicate=False)}
    costs(made, length=8)
    forward_flops(made, length=8)
    assert {name: id(tensor) for name, tensor in made.named_parameters(remove_duplicate=False)} == before
    assert not any(tensor.is_meta for tensor in made.state_dict().values())


@pytest.mark.filterwarnings("ignore:norm .* leaks across time")
@pytest.mark.parametrize("slot, name", COMPONENTS)
def test_a_real_pass_counts_what_a_pass_of_shapes_counts(slot, name):
    made = model(config(**{slot: name}))
    state = {key: tensor.clone() for key, tensor in made.state_dict().items()}
    assert forward_flops(made, length=12) == pytest.approx(costs(made, length=12).flops_per_token)
    assert all(torch.equal(state[key], tensor) for key, tensor in made.state_dict().items())
