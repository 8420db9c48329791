"""Models go through torch's transforms: compile without a graph break, stacked replicas, per-replica gradients."""

import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.contracts.cases import COMPONENTS, config, model, tokens

pytestmark = pytest.mark.filterwarnings("ignore:norm .* leaks across time", "ignore::DeprecationWarning")
each_component = pytest.mark.parametrize("slot,name", COMPONENTS, ids=lambda part: part)


def compiles(made):
    torch._dynamo.reset()
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    x = tokens()
    torch.testing.assert_close(compiled(x), made(x), atol=1e-6, rtol=1e-5)
    compiled(x).sum().backward()
    assert made.head.weight.grad.abs().sum() > 0


def test_a_decoder_compiles_into_one_graph():
    compiles(model(config()).eval())


@pytest.mark.slow
@each_component
def test_a_decoder_compiles_into_one_graph_with_every_component(slot, name):
    compiles(model(config(**{slot: name})).eval())


@each_component
def test_stacked_replicas_train_as_each_does_alone(slot, name):
    made = [model(config(**{slot: name}), seed=seed).eval() for seed in range(3)]
    parameters, buffers = stack_module_state(made)
    x = torch.stack([tokens(seed=seed) for seed in range(3)])

    def loss(parameters, buffers, x):
        return F.cross_entropy(functional_call(made[0], (parameters, buffers), (x,)).flatten(0, 1), x.flatten())

    with sdpa_kernel(SDPBackend.MATH):  # the fused kernels have no rule for a batch of batches
        gradients = vmap(grad(loss))(parameters, buffers, x)
    for i, one in enumerate(made):
        F.cross_entropy(one(x[i]).flatten(0, 1), x[i].flatten()).backward()
        for key, parameter in one.named_parameters():
            torch.testing.assert_close(gradients[key][i], parameter.grad, atol=1e-5, rtol=1e-4)


@each_component
def test_recomputed_activations_give_bit_equal_gradients_with_dropout(slot, name):
    gradients = []
    for recompute in (False, True):
        made = model(config(**{slot: name}, dropout=0.1)).train()
        made.decoder.recompute = recompute
        with torch.random.fork_rng():
            torch.random.manual_seed(0)
            made(tokens()).square().sum().backward()
        gradients.append([p.grad for p in made.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
