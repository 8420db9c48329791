"""Text that a trained model writes, and its scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from experiments.check import build_task
from experiments.config import Spec
from experiments.tasks import IGNORE, Batch
from experiments.tasks.spelling import Spelling
from experiments.training.answers import answers, prompts
from experiments.training.checkpoint import load_weights
from experiments.training.evaluate import metric_names
from tests.experiments.training_runs import config, run
from transformer.models import build


def test_a_prompt_ends_where_the_first_answer_is_asked_and_is_padded_on_the_left() -> None:
    inputs = torch.tensor([[5, 6, 7, 8, 0], [5, 9, 9, 9, 9], [5, 6, 0, 0, 0]])
    targets = torch.tensor([[IGNORE, IGNORE, 8, 9, IGNORE], [4] * 5, [IGNORE, 6, IGNORE, IGNORE, IGNORE]])
    tokens, keep = prompts(Batch(inputs, targets))
    assert tokens.tolist() == [[5, 6, 7], [0, 0, 5], [0, 5, 6]]
    assert keep.int().tolist() == [[1, 1, 1], [0, 0, 1], [0, 1, 1]]


@pytest.mark.parametrize("name, options, architecture", [
    ("copy", {"max_length": 4, "n_symbols": 12, "eval_rows": 8}, "decoder"),
    ("spelling", {"eval_rows": 8}, "encoder_decoder"),
])
def test_a_model_that_knows_a_batch_by_heart_writes_its_answers(
    name: str, options: dict[str, int], architecture: str, tmp_path: Path
) -> None:
    tiny = config(
        task=Spec(name, **options), model={"architecture": architecture, "d_model": 32}, steps=150, eval_every=150,
        lr=1e-2, overfit_one_batch=True,
    )
    result = run(tiny, tmp_path / "a")
    assert result["metrics"].keys() == set(metric_names(build_task(tiny.task)))
    task = build_task(tiny.task)
    model = build(
        tiny.model, vocab_size=task.vocab_size, source_vocab_size=task.source_vocab_size, max_len=task.max_len, seed=9,
    )
    load_weights(tmp_path / "a" / "weights.safetensors", model)
    batch = task.train_batch(0, 0, 4)
    assert answers(model, task, batch) == task.references(batch)


def test_a_metric_whose_package_is_missing_costs_a_warning_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(self: Spelling, references: Sequence[str], hypotheses: Sequence[str]) -> dict[str, float]:
        raise ModuleNotFoundError("phoneme error rates need the package nothing")

    monkeypatch.setattr(Spelling, "score_text", missing)
    tiny = config(task=Spec("spelling", eval_rows=8), model={"architecture": "encoder_decoder"}, steps=2)
    with pytest.warns(RuntimeWarning, match="phoneme_error_rate left out: phoneme error rates need the package"):
        result = run(tiny, tmp_path / "a")
    assert "test/loss" in result["metrics"]
    assert "test/phoneme_error_rate" not in metric_names(build_task(tiny.task))
