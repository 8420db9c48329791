"""The loss against torch, published label smoothing, and the sum that micro-batches must add up to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.tasks import IGNORE
from experiments.training.loss import asked_tokens, summed_loss, token_losses

GOLDEN = np.load(Path(__file__).parents[1] / "reference" / "golden" / "loss_sched.npz")


def golden(key: str) -> torch.Tensor:
    return torch.from_numpy(np.asarray(GOLDEN[key]))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_label_smoothing_spreads_over_all_classes_and_divides_by_asked_tokens(smoothing: float) -> None:
    logits = golden("label_smoothing/logits").requires_grad_()
    labels = golden("label_smoothing/labels")
    total = summed_loss(logits, labels, smoothing=smoothing)
    mean = total / asked_tokens(labels)
    mean.backward()
    assert total.item() == pytest.approx(float(GOLDEN[f"label_smoothing/torch_sum_{smoothing}"]), abs=1e-9)
    assert mean.item() == pytest.approx(float(GOLDEN[f"label_smoothing/torch_{smoothing}"]), abs=1e-9)
    torch.testing.assert_close(logits.grad, golden(f"label_smoothing/dlogits_{smoothing}"), atol=1e-9, rtol=0)


def test_the_other_definition_of_label_smoothing_is_ours_at_a_rescaled_share() -> None:
    logits, labels = golden("label_smoothing/logits"), golden("label_smoothing/labels")
    classes = logits.shape[-1]
    ours = summed_loss(logits, labels, smoothing=0.1 * classes / (classes - 1))
    assert ours.item() == pytest.approx(float(GOLDEN["label_smoothing/fairseq_sum_0.1"]), abs=1e-9)


def test_micro_batches_of_uneven_length_add_up_to_the_whole_batch_and_not_to_the_mean_of_means() -> None:
    logits = golden("grad_accum/logits").requires_grad_()
    labels = golden("grad_accum/labels")
    total = asked_tokens(labels)
    parts = [summed_loss(logits[row : row + 1], labels[row : row + 1]) / total for row in range(3)]
    for part in parts:
        part.backward(retain_graph=True)
    assert total == int(GOLDEN["grad_accum/n_items"])
    assert sum(part.item() for part in parts) == pytest.approx(float(GOLDEN["grad_accum/loss_right"]), abs=1e-10)
    assert sum(part.item() for part in parts) != pytest.approx(float(GOLDEN["grad_accum/loss_naive"]), abs=1e-3)
    torch.testing.assert_close(logits.grad, golden("grad_accum/dlogits_right"), atol=1e-10, rtol=0)


def test_position_t_is_scored_on_token_t_plus_one() -> None:
    logits, ids = golden("causal_shift/logits"), golden("causal_shift/ids")
    targets = torch.full_like(ids, IGNORE)
    targets[:, :-1] = ids[:, 1:]
    mean = summed_loss(logits, targets) / asked_tokens(targets)
    assert mean.item() == pytest.approx(float(GOLDEN["causal_shift/loss"]), abs=2e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_batch_that_asks_nothing_costs_nothing_and_moves_nothing(smoothing: float) -> None:
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    loss = summed_loss(logits, torch.full((2, 3), IGNORE), smoothing=smoothing)
    loss.backward()
    assert loss.item() == 0.0
    assert logits.grad is not None
    assert not logits.grad.any()


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_rows_of_padding_change_neither_loss_nor_gradients(smoothing: float) -> None:
    logits = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(1)).requires_grad_()
    targets = torch.tensor([[1, 2, 3, 0], [5, 4, IGNORE, IGNORE], [IGNORE] * 4])
    alone = summed_loss(logits[:2], targets[:2], smoothing=smoothing)
    padded = summed_loss(logits, targets, smoothing=smoothing)
    (without,) = torch.autograd.grad(alone, logits, retain_graph=True)
    (grads,) = torch.autograd.grad(padded, logits)
    assert alone.item() == pytest.approx(padded.item(), abs=1e-6)
    torch.testing.assert_close(grads, without)


def test_half_precision_logits_are_scored_in_float32() -> None:
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(2)).bfloat16()
    targets = torch.tensor([[0, 1, 2], [3, 4, IGNORE]])
    assert summed_loss(logits, targets).dtype == torch.float32
    assert token_losses(logits, targets).dtype == torch.float32


def test_token_losses_sum_to_the_unsmoothed_loss_and_are_zero_where_nothing_is_asked() -> None:
    logits, labels = golden("label_smoothing/logits"), golden("label_smoothing/labels")
    each = token_losses(logits, labels)
    assert each.sum().item() == pytest.approx(summed_loss(logits, labels).item(), abs=1e-9)
    assert not each[labels == IGNORE].any()
    assert each.shape == labels.shape


def test_class_logits_without_a_position_axis_are_scored_too() -> None:
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(3))
    targets = torch.tensor([0, 2, 1, 1])
    assert summed_loss(logits, targets).item() == pytest.approx(
        torch.nn.functional.cross_entropy(logits, targets, reduction="sum").item()
    )
