"""Small runs for the tests of training: seconds at most, and everything but time compared bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from experiments.config import ModelConfig, RunConfig, Spec, TrainConfig, digest
from experiments.experiment import Run
from experiments.records import METRICS, WEIGHTS, read_metrics
from experiments.training.execute import Job
from experiments.training.session import Watchers
from experiments.training.train import Interrupted, train

torch.set_num_threads(1)
TASK = Spec("text", context=12, eval_tokens=240, test_tokens=240)
MODEL = ModelConfig(d_model=16, n_layers=2, n_heads=2)


def config(*, task: Spec = TASK, model: dict[str, Any] | None = None, seed: int = 0, **train: Any) -> RunConfig:
    """A tiny run; `train` and `model` change its fields."""
    settings = {"steps": 12, "batch_size": 4, "eval_every": 4, **train}
    return RunConfig(
        model=MODEL.replace(model or {}), task=task, train=TrainConfig(**settings), seed=seed
    )


def planned(run_config: RunConfig, *, variant: str = "baseline") -> Run:
    identity = run_config.identity()
    return Run("tiny", variant, {}, run_config, identity, digest(identity))


def job(run_config: RunConfig, results: Path, **settings: Any) -> Job:
    return Job.of(planned(run_config), results, **settings)


def run(run_config: RunConfig, directory: Path, watchers: Watchers | None = None) -> dict[str, Any]:
    """Trains in a directory that is made if need be."""
    directory.mkdir(exist_ok=True)
    return train(run_config, directory, run_hash=planned(run_config).hash, watchers=watchers or Watchers())


def run_in_pieces(run_config: RunConfig, directory: Path, *stops: int) -> dict[str, Any]:
    """The same, interrupted at each of the given steps."""
    for stop in stops:
        with pytest.raises(Interrupted):
            run(run_config, directory, Watchers(should_stop=asked_at(stop, directory)))
        torch.rand(1000)  # another process would not find the generators where this one left them
    return run(run_config, directory)


def asked_at(step: int, directory: Path) -> Callable[[], bool]:
    """True from the call after `step` steps on; counts calls since the process asks once a step."""
    from experiments.training.checkpoint import _read

    path = directory / "checkpoint.pt"
    calls = _read(path, "cpu")["progress"]["step"] if path.exists() else 0

    def ask() -> bool:
        nonlocal calls
        calls += 1
        return bool(calls >= step)

    return ask


def rows(directory: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without the clock."""
    return [{k: v for k, v in row.items() if k != "seconds"} for row in read_metrics(directory)]


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return load_file(directory / WEIGHTS)


def timeless(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what the clock decides."""
    kept = {k: v for k, v in result.items() if k not in ("metrics_sha256", "started", "finished")}
    kept["cost"] = {k: v for k, v in result["cost"].items() if not k.endswith("seconds")}
    return kept


def assert_same_run(one: Path, other: Path) -> None:
    """Same rows, same weights, bit for bit, and no row written twice."""
    assert rows(one) == rows(other)
    assert (one / METRICS).read_bytes().count(b"\n") == len(rows(one))
    a, b = weights(one), weights(other)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
