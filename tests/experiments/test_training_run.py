"""Whole runs: what is logged is what was used, divergence is a result, every variant trains on the same tokens."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.check import build_task, run_problems
from experiments.config import RunConfig, Spec
from experiments.tasks import TASKS, Batch, Evaluation, Task
from experiments.tasks.text import Text
from experiments.training import divergence, schedules
from experiments.training.checkpoint import Progress
from experiments.training.evaluate import evaluate, metric_names
from experiments.training.loss import summed_loss
from experiments.training.overlap import Overlap, check_overlap
from experiments.training.session import Moment, Watchers
from experiments.training.smoke import smoke
from tests.experiments.training_runs import config, rows, run, weights
from transformer.config import SLOTS
from transformer.models import build
from transformer.slots import REGISTRIES, clashes


@pytest.mark.parametrize("name", schedules.SCHEDULES.names())
@pytest.mark.parametrize("accumulate", [1, 4])
def test_the_logged_rate_is_the_schedule_whatever_the_number_of_micro_batches(
    name: str, accumulate: int, tmp_path: Path
) -> None:
    tiny = config(schedule=Spec(name), accumulate=accumulate, warmup=3, lr=0.01)
    run(tiny, tmp_path / "a")
    schedule = schedules.SCHEDULES.build(Spec(name), schedules.Horizon(0.01, 3, 12, 16))
    logged = {row["step"]: row["train/lr"] for row in rows(tmp_path / "a") if "train/lr" in row}
    assert logged == {step: schedule.lr(step) for step in range(1, 13)}


def test_the_logged_rate_is_the_one_that_moved_the_weights(tmp_path: Path) -> None:
    moved = []
    for lr in (1e-3, 2e-3):  # AdamW's first step moves every weight by about the rate
        tiny = config(steps=1, warmup=0, lr=lr, weight_decay=0.0, schedule=Spec("constant"))
        run(tiny, tmp_path / str(lr))
        moved.append(weights(tmp_path / str(lr)))
    task = build_task(config().task)
    start = build(config().model, vocab_size=task.vocab_size, max_len=task.max_len, seed=0).state_dict()
    name = "decoder.layers.0.feedforward.up.weight"
    steps = [(end[name] - start[name]).abs().median().item() for end in moved]
    assert steps == pytest.approx([1e-3, 2e-3], rel=0.02)


def test_the_first_step_of_a_warmup_already_moves_the_weights(tmp_path: Path) -> None:
    tiny = config(steps=1, warmup=1, schedule=Spec("cosine"))
    run(tiny, tmp_path / "a")
    task = build_task(tiny.task)
    start = build(tiny.model, vocab_size=task.vocab_size, max_len=task.max_len, seed=0).state_dict()
    assert all(not torch.equal(start[name], end) for name, end in weights(tmp_path / "a").items())


def test_every_metric_that_is_promised_is_recorded_and_no_other(tmp_path: Path) -> None:
    task = Spec("copy", max_length=4, n_symbols=12, eval_rows=16)
    result = run(config(task=task), tmp_path / "a")
    assert sorted(result["metrics"]) == metric_names(build_task(task))
    sets = {name.split("/")[1] for name in result["metrics"] if name.count("/") == 2}
    assert result["lengths"].keys() - {""} == sets  # "" is the length that was trained, where a task has one
    assert rows(tmp_path / "a")[-1].items() >= {k: v for k, v in result["metrics"].items() if "test/" in k}.items()


def test_scores_do_not_depend_on_the_size_of_evaluation_batches() -> None:
    task = build_task(Spec("copy", max_length=6, n_symbols=12, eval_rows=24))
    model = build(config().model, vocab_size=task.vocab_size, max_len=task.max_len, seed=0)
    whole = next(iter(task.evaluations("test", 0))).batches
    found = []
    for size in (1, 3, 8):
        pieces = [piece for batch in whole for piece in in_pieces(batch, size)]
        found.append(evaluate(model, [Evaluation("", pieces)], "test", sequences=True))
    for scores in found[1:]:
        assert scores == pytest.approx(found[0], abs=1e-6)


def in_pieces(batch: Batch, size: int) -> list[Batch]:
    def part(tensor: torch.Tensor | None, i: int) -> torch.Tensor | None:
        return None if tensor is None else tensor[i : i + size]

    return [
        replace(batch, inputs=batch.inputs[i : i + size], targets=batch.targets[i : i + size], keep=part(batch.keep, i))
        for i in range(0, len(batch), size)
    ]


def test_evaluation_scores_the_plain_loss_and_leaves_the_model_in_its_mode() -> None:
    task = build_task(Spec("text", context=12, eval_tokens=48, test_tokens=48))
    model = build(config(model={"dropout": 0.5}).model, vocab_size=task.vocab_size, max_len=12, seed=0).train()
    sets = task.evaluations("validation", 0)
    scores = evaluate(model, sets, "validation")
    assert model.training
    model.eval()
    batches = sets[0].batches
    nats = sum(summed_loss(model(b.inputs), b.targets).item() for b in batches)
    mean = nats / sum(b.targets.numel() for b in batches)
    assert scores["validation/loss"] == pytest.approx(mean, abs=1e-6)
    assert scores["validation/perplexity"] == pytest.approx(math.exp(mean))
    assert scores["validation/bits_per_token"] == pytest.approx(mean / math.log(2))


def test_exact_match_needs_every_asked_token_of_a_row() -> None:
    class Parrot(torch.nn.Module):
        def forward(self, tokens: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
            return torch.nn.functional.one_hot(tokens, 5).float()

    inputs = torch.tensor([[1, 2, 3], [1, 2, 3], [1, 2, 3]])
    targets = torch.tensor([[1, 2, -100], [1, 4, 3], [-100, -100, -100]])
    scores = evaluate(Parrot(), [Evaluation("", [Batch(inputs, targets)])], "test", sequences=True)
    assert scores["test/exact_match"] == 0.5
    assert scores["test/accuracy"] == pytest.approx(4 / 5)


def test_a_rate_that_is_far_too_large_ends_as_a_recorded_result(tmp_path: Path) -> None:
    tiny = config(lr=1e30, warmup=0, clip=None, steps=20, model={"norm": "none"})
    result = run(tiny, tmp_path / "a")
    assert result["status"] == "diverged"
    assert result["diverged"]["step"] <= 20
    assert result["diverged"]["metric"] in ("train/loss", "train/grad_norm", "validation/loss")
    assert result["diverged"]["reason"].startswith(result["diverged"]["metric"])
    assert all(math.isfinite(value) for value in result["metrics"].values())
    assert not any(name.startswith("test/") for name in result["metrics"])
    assert all(math.isfinite(value) for row in rows(tmp_path / "a") for value in row.values())


def test_a_diverged_run_keeps_the_last_scores_that_were_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def at_step_six(step: int, loss: float, grad_norm: float, progress: Progress) -> dict[str, Any] | None:
        return divergence.step_trouble(step, math.nan if step == 6 else loss, grad_norm, progress)

    monkeypatch.setattr("experiments.training.train.step_trouble", at_step_six)
    result = run(config(), tmp_path / "a")
    assert result["diverged"] == {"step": 6, "metric": "train/loss", "reason": "train/loss is nan at step 6"}
    fourth = next(row for row in rows(tmp_path / "a") if row["step"] == 4)
    assert result["metrics"] == {name: value for name, value in fourth.items() if name.startswith("validation/")}
    assert result["best"]["step"] == 4


def test_a_loss_far_above_the_first_one_for_long_has_diverged_and_a_short_spike_has_not() -> None:
    progress = Progress()
    losses = [4.0] + [9.0] * 49 + [3.0] + [9.0] * 49
    assert all(divergence.step_trouble(i + 1, loss, 1.0, progress) is None for i, loss in enumerate(losses))
    found = divergence.step_trouble(101, 9.0, 1.0, progress)
    assert found is not None
    assert found["reason"] == "train/loss stayed above 8 for 50 steps; it began at 4"


def test_early_stopping_tests_the_weights_of_the_stop_and_records_the_best_step(tmp_path: Path) -> None:
    result = run(config(steps=60, eval_every=2, patience=2, lr=0.5, warmup=0, clip=None), tmp_path / "a")
    assert result["stopped_early"]
    assert result["status"] == "done"
    assert result["best"]["step"] == result["cost"]["steps"] - 4
    assert result["best"]["validation/loss"] < result["metrics"]["validation/loss"]
    assert "test/loss" in result["metrics"]


def test_overfitting_one_batch_repeats_it_and_gets_below_what_other_batches_allow(tmp_path: Path) -> None:
    seen = recorded(config(overfit_one_batch=True, steps=60, lr=1e-2), tmp_path / "a")
    assert all(torch.equal(tokens, seen[0]) for tokens in seen)
    last = [row["train/loss"] for row in rows(tmp_path / "a") if "train/loss" in row][-1]
    assert last < 1.0 < run(config(steps=60, lr=1e-2), tmp_path / "b")["metrics"]["test/loss"]


def recorded(tiny: RunConfig, directory: Path) -> list[torch.Tensor]:
    """The inputs and targets of every training batch that a run really read."""
    task, seen = build_task(tiny.task), []
    original = type(task).train_batch

    def spied(self: Task, seed: int, step: int, batch_size: int) -> Batch:
        batch = original(self, seed, step, batch_size)
        seen.append(torch.cat([batch.inputs, batch.targets]))
        return batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(task), "train_batch", spied)
        patch.setattr("experiments.training.session.check_overlap", lambda task, seed: None)
        run(tiny, directory)
    return seen


SWAPS = [(slot, name) for slot in SLOTS for name in REGISTRIES[slot].names()]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("slot, name", SWAPS)
def test_swapping_a_component_changes_no_token_that_the_model_trains_on(slot: str, name: str, tmp_path: Path) -> None:
    swapped = config(steps=3, model={slot: name})
    if clashes(swapped.model):
        swapped = config(steps=3, model={slot: name, "positional": "none"})
    expected = recorded(config(steps=3), tmp_path / "baseline")
    assert len(expected) == 3
    assert all(map(torch.equal, recorded(swapped, tmp_path / "swapped"), expected))


def test_progress_is_told_at_every_validation_with_its_scores(tmp_path: Path) -> None:
    told: list[Moment] = []
    run(config(), tmp_path / "a", Watchers(on_progress=told.append, progress_seconds=1e9))
    assert [(m.step, m.total) for m in told] == [(4, 12), (8, 12), (12, 12)]
    assert all("validation/loss" in m.scores and m.tokens_per_second > 0 for m in told)


def test_watching_and_saving_change_no_number(tmp_path: Path) -> None:
    run(config(model={"dropout": 0.1}), tmp_path / "a")
    run(config(model={"dropout": 0.1}), tmp_path / "b", Watchers(checkpoint_steps=1, progress_seconds=0.0))
    assert rows(tmp_path / "a") == rows(tmp_path / "b")


@pytest.mark.parametrize("name", [name for name in TASKS.names() if "decoder" in TASKS.entry(name).cls.architectures])
def test_a_smoke_run_is_a_batch_of_one_and_short_and_goes_through_everything(name: str, tmp_path: Path) -> None:
    small = smoke(config(task=Spec(name), steps=500, batch_size=32, accumulate=4, warmup=50))
    assert (small.train.batch_size, small.train.accumulate, small.train.steps) == (1, 1, 3)
    assert run(small, tmp_path / "a")["status"] == "done"


def test_a_smoke_run_reads_ten_tokens_of_a_text() -> None:
    small = smoke(RunConfig())
    batch = build_task(small.task).train_batch(0, 0, small.train.batch_size)
    assert batch.inputs.shape == (1, 10)


def test_a_long_run_logs_a_bounded_number_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.training.train.LOGGED_STEPS", 4)
    run(config(eval_every=5), tmp_path / "a")
    assert [row["step"] for row in rows(tmp_path / "a")] == [1, 3, 5, 6, 9, 10, 12, 12]


class Leaky(Text):
    def overlap(self, seed: int) -> int:
        return 2


def test_a_task_that_tests_on_what_it_trains_on_fails_the_run() -> None:
    with pytest.raises(Overlap, match="Leaky: 2 evaluation examples of seed 3 also occur in training"):
        check_overlap(Leaky(), 3)


@pytest.mark.parametrize("train, path, sentence", [
    ({"schedule": Spec("cosine", final=2.0)}, "train.schedule", "schedule 'cosine': final=2.0 must be in [0, 1]"),
    ({"scheduled_sampling": Spec("exponential", k=1.5)}, "train.scheduled_sampling",
     "scheduled_sampling 'exponential': k=1.5 must be in (0, 1]"),
])
def test_training_options_out_of_range_are_found_before_anything_trains(
    train: dict[str, Any], path: str, sentence: str
) -> None:
    assert run_problems(config(**train)) == [(path, sentence)]


def test_a_classifier_has_no_answers_to_sample() -> None:
    classifier = config(
        task=Spec("language_id"), model={"architecture": "encoder"}, scheduled_sampling=Spec("linear"),
    )
    assert run_problems(classifier) == [(
        "train.scheduled_sampling",
        "an encoder reads no answer of its own, so there is nothing to sample; leave it out",
    )]


def test_a_classifier_learns_its_batch_and_is_scored(tmp_path: Path) -> None:
    tiny = config(
        task=Spec("language_id", eval_rows=64), model={"architecture": "encoder"}, steps=60, eval_every=60, lr=1e-2,
        overfit_one_batch=True,
    )
    result = run(tiny, tmp_path / "a")
    assert result["metrics"].keys() == set(metric_names(build_task(tiny.task)))
    losses = [row["train/loss"] for row in rows(tmp_path / "a") if "train/loss" in row]
    assert losses[-1] < 0.1 < 2.0 < losses[0]
