"""A stack of models takes the steps that its models would take, each by itself."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from experiments.config import TrainConfig
from experiments.seeds import torch_stream
from experiments.tasks import IGNORE, Batch
from experiments.training.optimisers import adamw
from experiments.training.replicas.batches import stacked
from experiments.training.replicas.fold import Folded, uniform24
from experiments.training.replicas.stack import NotTogether, Stack
from experiments.training.step import Recipe, split, take_step
from tests.contracts.cases import COMPONENTS, VOCAB, config, model, users_file_imported

TRAINS = [TrainConfig(clip=0.3, weight_decay=0.5), TrainConfig(clip=None, beta2=0.99), TrainConfig(weight_decay=0.0)]
LRS = [1e-2, 3e-3, 2e-2]
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _users_components():
    with users_file_imported():
        yield


def batch(stream, length=7, *, padded=False, source=False, classes=False) -> Batch:
    rng = torch_stream("replica test", stream)

    def tokens() -> torch.Tensor:
        return torch.randint(VOCAB, (4, length), generator=rng)

    keep = torch.ones(4, length, dtype=torch.bool) if padded else None
    targets = tokens()
    if keep is not None:
        keep[0, -2:] = False
        targets[0, -2:] = IGNORE
    if classes:
        targets = torch.randint(3, (4,), generator=rng)
    return Batch(tokens(), targets, keep, tokens() if source else None, keep if source else None)


def stack_of(models: list[nn.Module], recipe=None) -> Stack:
    optimisers = [adamw(one, train) for one, train in zip(models, TRAINS, strict=True)]
    reached = {name for name, parameter in models[0].named_parameters() if parameter.requires_grad}
    return Stack(models, optimisers, TRAINS, recipe or Recipe(), reached)


def both_ways(models: list[nn.Module], batches: list[list[Batch]], *, parts: int = 1, smoothing: float = 0.0):
    """(losses and norms, weights) after the same steps, separately and together."""
    alone, optimisers = [copy.deepcopy(one) for one in models], []
    stack = stack_of(models, Recipe(smoothing=smoothing))
    apart, together = [], []
    for one, train in zip(alone, TRAINS, strict=True):
        optimisers.append(adamw(one, train))
    for step in batches:
        for row, micro in enumerate(step):
            recipe = Recipe(TRAINS[row].clip, smoothing)
            found = take_step(alone[row], optimisers[row], split(micro, parts), recipe, lr=LRS[row])
            apart.append((found.loss, found.grad_norm))
        keys = torch.zeros(len(models), dtype=torch.int64)
        together += list(zip(*stack.step(stacked(step, 0), keys, LRS, parts).tolist(), strict=True))
    for row, one in enumerate(models):
        stack.hand_back(row, one, torch.optim.AdamW(one.parameters()))
    return (apart, alone), (together, models)


def assert_equal(first, second, tolerance=2e-5):
    (apart, alone), (together, models) = first, second
    torch.testing.assert_close(torch.tensor(apart), torch.tensor(together), rtol=tolerance, atol=1e-6)
    for one, other in zip(alone, models, strict=True):
        for (name, ours), theirs in zip(one.named_parameters(), other.parameters(), strict=True):
            if not name.endswith("key.bias"):  # its gradient is 0 but for rounding, which AdamW makes large
                assert torch.allclose(ours, theirs, rtol=1e-3, atol=2e-5), name


@pytest.mark.filterwarnings("ignore:norm .* leaks across time")
@pytest.mark.parametrize("slot, name", COMPONENTS)
def test_every_component_trains_in_a_stack_as_it_does_alone(slot, name):
    made = config(**{slot: name})
    if slot == "attention" and name == "linear":
        made = made.replace({"positional": "none"})
    models = [model(made, seed).train() for seed in range(3)]
    steps = [[batch((step, row), padded=step == 1) for row in range(3)] for step in range(2)]
    if set(models[0].state_dict()) - {n for n, _ in models[0].named_parameters(remove_duplicate=False)}:
        with pytest.raises(NotTogether, match="changes while the model trains and is no parameter"):
            both_ways(models, steps)
        return
    assert_equal(*both_ways(models, steps))


@pytest.mark.parametrize("architecture, more", [("encoder", {"classes": True}), ("encoder_decoder", {"source": True})])
def test_other_architectures_train_in_a_stack_with_batches_of_different_lengths(architecture, more):
    models = [model(config(architecture=architecture), seed).train() for seed in range(3)]
    steps = [[batch((step, row), 6 + row, padded=True, **more) for row in range(3)] for step in range(2)]
    assert_equal(*both_ways(models, steps))


def test_micro_batches_and_smoothing_reach_the_same_update():
    models = [model(config(), seed).train() for seed in range(3)]
    steps = [[batch((step, row), padded=True) for row in range(3)] for step in range(2)]
    assert_equal(*both_ways(models, steps, parts=2, smoothing=0.1))


def test_a_replica_of_nan_leaves_the_others_bit_for_bit_as_they_are():
    def after(broken: bool) -> tuple[torch.Tensor, torch.Tensor]:
        models = [model(config(dropout=0.1), seed).train() for seed in range(3)]
        if broken:
            with torch.no_grad():
                next(models[1].parameters()).fill_(torch.nan)
        stack = stack_of(models)
        for step in range(3):
            found = stack.step(stacked([batch((step, row)) for row in range(3)], 0), torch.arange(3), LRS)
        return stack.weights, found

    (healthy, _), (mixed, found) = after(False), after(True)
    assert torch.equal(healthy[[0, 2]], mixed[[0, 2]])
    assert found.isfinite().all(0).tolist() == [True, False, True]


def test_weights_stay_as_they_were_from_the_first_loss_that_is_not_finite():
    models = [model(config(), seed).train() for seed in range(3)]
    stack = stack_of(models)
    steps = stacked([batch((0, row)) for row in range(3)], 0)
    with torch.no_grad():
        stack.leaves["decoder.embedding.weight"][1, 3] = torch.inf
        before = stack.weights[1].clone()
    for _ in range(2):
        stack.step(steps, torch.zeros(3, dtype=torch.int64), LRS)
    assert torch.equal(stack.weights[1], before)
    assert not torch.equal(stack.weights[0], before)


def test_dropout_of_a_replica_does_not_depend_on_its_company():
    def losses(rows: list[int]) -> list[float]:
        models = [model(config(dropout=0.3), seed).train() for seed in range(3)]
        stack = stack_of(models).rows(rows)
        keys = torch.tensor([5, 6, 7])[rows]
        found = [stack.step(stacked([batch((0, row)) for row in rows], 0), keys, [LRS[row] for row in rows])]
        return found[0][0].tolist()

    everyone = losses([0, 1, 2])
    assert losses([2, 0]) == pytest.approx([everyone[2], everyone[0]], rel=1e-6)
    assert everyone[0] != losses([0, 2])[1]


def test_dropout_keeps_the_mean_and_drops_its_share():
    x, folded = torch.ones(200, 500), Folded()
    folded.key = torch.tensor(11)
    with folded:
        first, second = nn.functional.dropout(x, 0.2), nn.functional.dropout(x, 0.2)
    assert first.unique().tolist() == [0.0, 1.25]
    assert (first == 0).float().mean().item() == pytest.approx(0.2, abs=0.006)
    both = ((first == 0) & (second == 0)).float().mean().item()
    assert both == pytest.approx(0.04, abs=0.003), "two places drop independently"


def test_the_counted_stream_is_uniform_and_keys_differ():
    one, other = (uniform24(torch.tensor(key), 100_000, torch.device("cpu")) / 2**24 for key in (1, 2))
    counts = torch.histc(one, 20, 0, 1)
    assert ((counts - 5000).abs() < 5 * 5000**0.5).all()
    assert torch.corrcoef(torch.stack([one, other]))[0, 1].abs() < 0.015
    assert torch.corrcoef(torch.stack([one[:-1], one[1:]]))[0, 1].abs() < 0.015


def test_attention_dropout_in_a_stack_leaves_blocked_keys_blocked():
    models = [model(config(dropout=0.5, positional="alibi"), seed).train() for seed in range(3)]
    stack = stack_of(models)
    tokens = [batch((0, row)) for row in range(3)]
    changed = [Batch(torch.cat([b.inputs[:, :-1], b.inputs[:, -1:] * 0 + row], 1), b.targets)
               for row, b in enumerate(tokens)]
    keys = torch.arange(3)
    before, after = (stack.logits(stacked(some, 0), keys) for some in (tokens, changed))
    assert torch.equal(before[:, :, :-1], after[:, :, :-1]), "a future token reached the past"
