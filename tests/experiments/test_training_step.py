"""One optimiser step: micro-batches, clipping, precision, recomputed activations, scheduled sampling, parameter groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from experiments.config import ModelConfig, TrainConfig
from experiments.seeds import seed_dropout, torch_stream
from experiments.tasks import IGNORE, Batch
from experiments.training import step as step_module
from experiments.training.forward import logits_of, precision_context, recompute_activations
from experiments.training.loss import summed_loss
from experiments.training.memory import Kept
from experiments.training.optimisers import adamw, parameter_groups
from experiments.training.sampling import coins, mixed
from experiments.training.step import Recipe, StepResult, split, take_step
from transformer.models import build
from transformer.slots import NORM, POSITIONAL

torch.set_num_threads(1)
VOCAB, LENGTH, ROWS = 17, 9, 12
PLAIN = Recipe()


def model(**changes: Any) -> nn.Module:
    sizes = {"d_model": 16, "n_layers": 2, "n_heads": 2, **changes}
    return build(ModelConfig(**sizes), vocab_size=VOCAB, max_len=LENGTH, seed=0).train()


def batch(rows: int = ROWS) -> Batch:
    """Rows of 1 to LENGTH asked tokens; row i has 1 + i % LENGTH of them, padding after."""
    tokens = torch.from_numpy(np.random.Generator(np.random.PCG64(3)).integers(2, VOCAB, (rows, LENGTH + 1)))
    keep = torch.arange(LENGTH)[None] < 1 + torch.arange(rows)[:, None] % LENGTH
    return Batch(tokens[:, :-1].masked_fill(~keep, 0), tokens[:, 1:].masked_fill(~keep, IGNORE), keep)


def stepped(
    net: nn.Module, micro: list[Batch], recipe: Recipe = PLAIN, **how: Any
) -> tuple[StepResult, dict[str, Tensor]]:
    """The report of a step and the gradients that it left."""
    result = take_step(net, adamw(net, TrainConfig()), micro, recipe, lr=1e-3, **how)
    return result, {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("parts", [2, 4, 12])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_micro_batches_of_uneven_length_give_the_gradients_of_the_whole_batch(parts: int, smoothing: float) -> None:
    recipe = Recipe(smoothing=smoothing)
    whole, expected = stepped(model(), [batch()], recipe)
    pieces, found = stepped(model(), split(batch(), parts), recipe)
    assert pieces.loss == pytest.approx(whole.loss, abs=1e-6)
    assert pieces.grad_norm == pytest.approx(whole.grad_norm, abs=1e-6)
    assert found.keys() == expected.keys()
    for name, grad in expected.items():
        torch.testing.assert_close(found[name], grad, atol=1e-6, rtol=1e-5)


def test_seven_micro_batches_four_to_a_step_make_two_steps_and_the_second_is_weighted_by_its_own_tokens() -> None:
    micro = split(batch(7), 7)
    windows = [micro[:4], micro[4:]]
    losses = []
    for window in windows:
        net = model()
        losses.append(stepped(net, window)[0].loss)
    asked = [sum(int((b.targets != IGNORE).sum()) for b in window) for window in windows]
    sums = [sum(summed_loss(logits_of(model(), b), b.targets).item() for b in window) for window in windows]
    assert losses == pytest.approx([total / n for total, n in zip(sums, asked, strict=True)], abs=1e-6)


def test_a_batch_that_asks_nothing_moves_no_weight_by_its_gradient() -> None:
    empty = replace(batch(), targets=torch.full_like(batch().targets, IGNORE))
    result, grads = stepped(model(), [empty])
    assert result == StepResult(0.0, 0.0, False)
    assert not any(grad.any() for grad in grads.values())


def test_clipping_reports_the_norm_before_it_and_leaves_a_gradient_of_the_given_length() -> None:
    free, grads = stepped(model(), [batch()])
    clipped, cut = stepped(model(), [batch()], Recipe(clip=free.grad_norm / 2))
    assert clipped.grad_norm == free.grad_norm
    assert (free.clipped, clipped.clipped) == (False, True)
    for name, grad in grads.items():
        torch.testing.assert_close(cut[name], grad / 2, atol=1e-6, rtol=1e-4)


def test_a_gradient_shorter_than_the_limit_is_left_alone_bit_for_bit() -> None:
    free, grads = stepped(model(), [batch()])
    loose, same = stepped(model(), [batch()], Recipe(clip=free.grad_norm * 1.01))
    assert not loose.clipped
    assert all(torch.equal(same[name], grad) for name, grad in grads.items())


def test_a_step_that_is_not_finite_leaves_the_weights_as_they_were() -> None:
    net = model()
    with torch.no_grad():
        next(net.parameters())[3, 0] = float("inf")
    before = [p.clone() for p in net.parameters()]
    result, _ = stepped(net, [batch()])
    assert not np.isfinite(result.loss)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


@pytest.mark.parametrize("positional", POSITIONAL.names())
def test_recomputed_activations_give_the_same_gradients_bit_for_bit_with_dropout(positional: str) -> None:
    nets = [model(dropout=0.1, positional=positional) for _ in range(2)]
    recompute_activations(nets[1])
    grads = []
    for net in nets:
        seed_dropout(0, 1)
        grads.append(stepped(net, [batch()])[1])
    assert grads[0].keys() == grads[1].keys()
    assert all(torch.equal(grads[0][name], grads[1][name]) for name in grads[0])


def test_recomputed_activations_keep_less_for_the_backward_pass() -> None:
    kept = []
    for recompute in (False, True):
        net = model()
        if recompute:
            recompute_activations(net)
        watch = Kept(net)
        stepped(net, [batch()], watch=watch)
        kept.append(watch.nbytes())
    assert 0 < kept[1] < 0.6 * kept[0]


def test_bf16_agrees_with_fp32_to_its_precision_and_every_parameter_gets_a_float32_gradient() -> None:
    full, _ = stepped(model(), [batch()])
    half, grads = stepped(model(), [batch()], Recipe(precision="bf16"))
    assert half.loss == pytest.approx(full.loss, abs=1e-2)
    assert half.loss != full.loss
    assert {grad.dtype for grad in grads.values()} == {torch.float32}
    with precision_context("bf16", "cpu"):
        assert logits_of(model(), batch()).dtype == torch.bfloat16


def test_every_parameter_gets_a_gradient_in_a_step_with_scheduled_sampling_in_bf16() -> None:
    net = model()
    _, grads = stepped(
        net, [batch()], Recipe(precision="bf16"), teacher_forcing=0.5, generator=torch_stream("coins"),
    )
    assert grads.keys() == dict(net.named_parameters()).keys()
    assert all(grad.any() for name, grad in grads.items() if not name.endswith("key.bias"))  # softmax ignores those


def counted_passes(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The inputs of every forward pass from here on."""
    seen: list[Tensor] = []

    def watched(net: nn.Module, b: Batch) -> Tensor:
        seen.append(b.inputs)
        return logits_of(net, b)

    monkeypatch.setattr(step_module, "logits_of", watched)
    return seen


def test_always_gold_is_teacher_forcing_bit_for_bit_in_a_single_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, grads = stepped(model(), [batch()])
    passes = counted_passes(monkeypatch)
    forced, same = stepped(model(), [batch()], teacher_forcing=1.0, generator=torch_stream("coins"))
    assert len(passes) == 1
    assert forced == plain
    assert all(torch.equal(same[name], grad) for name, grad in grads.items())


def fed_back(rows: int = 64) -> Batch:
    """A padded text whose every input is the target before it, as in a language model."""
    source = batch(rows)
    targets = torch.cat([source.inputs[:, 1:], torch.zeros(rows, 1, dtype=torch.int64)], 1)
    assert source.keep is not None
    asked = torch.cat([source.keep[:, 1:], torch.zeros(rows, 1, dtype=torch.bool)], 1)
    return replace(source, targets=targets.masked_fill(~asked, IGNORE))


def test_never_gold_feeds_the_shifted_answers_of_the_first_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    text, net = fed_back(), model()
    answers = logits_of(net.eval(), text).argmax(-1)
    passes = counted_passes(monkeypatch)
    stepped(net.train(), [text], teacher_forcing=0.0, generator=torch_stream("coins"))
    assert len(passes) == 2
    first, second = passes
    assert torch.equal(first, text.inputs)
    replaceable = text.targets[:, :-1] != IGNORE
    assert torch.equal(second[:, 1:][replaceable], answers[:, :-1][replaceable])


def test_first_tokens_padding_prompts_and_targets_are_never_replaced() -> None:
    text = fed_back()
    prompt = replace(text, targets=text.targets.index_fill(1, torch.arange(3), IGNORE))  # nothing asked at 0, 1, 2
    other = torch.full_like(text.inputs, 1)  # a token that the text does not use
    changed = mixed(prompt, other, torch.zeros_like(text.inputs, dtype=torch.bool))
    assert text.keep is not None
    assert torch.equal(changed.inputs[:, :4], text.inputs[:, :4])
    assert torch.equal(changed.inputs[~text.keep], text.inputs[~text.keep])
    assert (changed.inputs[:, 4:][text.keep[:, 4:]] == 1).all()
    assert changed.targets is prompt.targets


def test_coins_fall_for_each_token_at_the_asked_rate_and_come_again_from_the_same_stream() -> None:
    text = fed_back(400)
    gold = coins(text, 0.7, torch_stream(0, "sampling", 1))
    n = gold.numel()
    assert abs(gold.float().mean().item() - 0.7) < 3 * (0.21 / n) ** 0.5
    assert gold.float().std(1).mean() > 0  # not one coin for a whole row
    assert torch.equal(gold, coins(text, 0.7, torch_stream(0, "sampling", 1)))
    assert not torch.equal(gold, coins(text, 0.7, torch_stream(0, "sampling", 2)))


@pytest.mark.parametrize("norm", NORM.names())
@pytest.mark.parametrize("positional", POSITIONAL.names())
@pytest.mark.filterwarnings("ignore::UserWarning")  # batchnorm says that it leaks; that is not the matter here
def test_only_matrices_decay_and_the_groups_hold_every_parameter_once(norm: str, positional: str) -> None:
    net = model(norm=norm, positional=positional, tied=True)
    groups = parameter_groups(net, 0.1)
    held = [p for group in groups for p in group["params"]]
    assert {id(p) for p in held} == {id(p) for p in net.parameters()}
    assert len(held) == len({id(p) for p in held})
    for group in groups:
        assert {p.dim() >= 2 for p in group["params"]} == {group["weight_decay"] > 0}


def test_splitting_keeps_every_row_in_order() -> None:
    parts = split(batch(), 3)
    assert [len(part) for part in parts] == [4, 4, 4]
    assert torch.equal(torch.cat([part.inputs for part in parts]), batch().inputs)
    assert torch.equal(torch.cat([part.keep for part in parts if part.keep is not None]), batch().keep)
