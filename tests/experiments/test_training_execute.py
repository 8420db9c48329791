"""A job goes in, a whole run directory comes out, or nothing that looks like one."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.config import Spec
from experiments.records import CHECKPOINT, CONFIG, METRICS, RESULT, WEIGHTS, file_digest, read_json, read_run
from experiments.training.execute import Job, execute
from experiments.training.train import Interrupted
from tests.experiments.training_runs import config, job, timeless
from transformer.slots import NORM

KEYS = {
    "schema", "run_id", "experiment", "variant", "seed", "hash", "status", "metrics", "lengths", "cost", "diverged",
    "stopped_early", "best", "loss_floor", "clipped_share", "environment", "started", "finished", "metrics_sha256",
}
COSTS = {
    "parameters", "parameters_non_embedding", "flops_per_token", "tokens", "steps", "seconds", "train_seconds",
    "peak_memory_bytes", "peak_memory_measure",
}


def plain(one: Job) -> Any:
    """A job's record as a file gives it back: tuples are lists."""
    return json.loads(json.dumps(one.record()))


def test_a_finished_job_leaves_a_directory_that_checks_out(tmp_path: Path) -> None:
    one = job(config(), tmp_path)
    result = execute(one)
    directory = Path(one.directory)
    assert sorted(path.name for path in directory.iterdir()) == sorted([CONFIG, METRICS, RESULT, WEIGHTS])
    stored = read_run(directory, verify_metrics=True)
    assert stored.damage == ()
    assert stored.result == result
    assert stored.config == plain(one)
    assert result.keys() == KEYS
    assert result["cost"].keys() == COSTS
    assert result["metrics_sha256"] == file_digest(directory / METRICS)
    assert result["environment"]["data_files"].keys() == {"austen"}
    assert result["environment"]["threads"] == 1


def test_costs_are_those_of_the_model_and_of_the_steps_taken(tmp_path: Path) -> None:
    cost = execute(job(config(), tmp_path))["cost"]
    assert cost["steps"] == 12
    assert cost["tokens"] == 12 * 4 * 12  # steps, rows, context
    assert 0 < cost["parameters_non_embedding"] < cost["parameters"]
    assert cost["flops_per_token"] > 2 * 0.9 * cost["parameters_non_embedding"]  # two for each weight of a matrix
    assert cost["peak_memory_bytes"] > 4 * 4 * cost["parameters"]  # weights, gradients, two moments, float32
    assert cost["train_seconds"] <= cost["seconds"]


def test_memory_is_measured_alike_in_a_fresh_and_in_a_warm_worker(tmp_path: Path) -> None:
    small, large = config(), config(model={"d_model": 32}, seed=1)
    alone = execute(job(small, tmp_path / "a"))["cost"]["peak_memory_bytes"]
    bigger = execute(job(large, tmp_path / "b"))["cost"]["peak_memory_bytes"]
    after = execute(job(small, tmp_path / "c"))["cost"]["peak_memory_bytes"]
    assert after == alone < bigger


def test_a_warm_worker_gives_the_bits_of_a_fresh_one(tmp_path: Path) -> None:
    fresh = execute(job(config(model={"dropout": 0.1}), tmp_path / "a"))
    execute(job(config(seed=3), tmp_path / "b"))
    torch.rand(100)
    warm = execute(job(config(model={"dropout": 0.1}), tmp_path / "c"))
    assert timeless(warm) == timeless(fresh)


def test_a_job_travels_to_another_process(tmp_path: Path) -> None:
    one = job(config(scheduled_sampling=Spec("linear")), tmp_path, wandb="offline", tags=("a",), threads=2)
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_job_that_is_stopped_leaves_a_checkpoint_and_no_result_and_goes_on_from_it(tmp_path: Path) -> None:
    one = job(config(), tmp_path / "a")
    asked = iter([False, False, True])
    with pytest.raises(Interrupted, match="stopped at step 3 of 12"):
        execute(one, stop=lambda: next(asked))
    directory = Path(one.directory)
    assert not (directory / RESULT).exists()
    assert (directory / CHECKPOINT).exists()
    resumed = execute(one)
    assert timeless(resumed) == timeless(execute(job(config(), tmp_path / "b")))
    assert not (directory / CHECKPOINT).exists()


def test_an_exception_reaches_the_caller_and_leaves_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr("experiments.training.train.take_step", broken)
    one = job(config(), tmp_path)
    with pytest.raises(MemoryError, match="no room"):
        execute(one)
    assert read_json(Path(one.directory) / CONFIG) == plain(one)
    assert not (Path(one.directory) / RESULT).exists()


def test_progress_is_reported_as_plain_numbers(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    execute(job(config(), tmp_path), report=lambda **progress: told.append(progress))
    assert [one["step"] for one in told] == [4, 8, 12]
    assert told[-1].keys() == {"step", "steps", "loss", "tokens_per_second", "validation_loss"}


def test_code_that_means_another_run_than_the_plan_did_is_refused(tmp_path: Path) -> None:
    one = replace(job(config(), tmp_path), hash="0" * 64)
    with pytest.raises(RuntimeError, match=r"was planned as 00000000, but here .*restart the launch"):
        execute(one)
    assert not Path(one.directory).exists()


def test_a_config_that_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    one = job(config(), tmp_path)
    execute(one)
    path = Path(one.directory) / CONFIG
    before = path.stat().st_mtime_ns
    execute(one)
    assert path.stat().st_mtime_ns == before


def test_a_users_own_component_is_imported_before_the_run_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NORM, "_entries", {name: NORM.entry(name) for name in NORM.names()})  # it goes again
    own = tmp_path / "own.py"
    own.write_text(
        "from torch import nn\n"
        "from transformer.slots import NORM, Norm\n"
        "@NORM.register('own_identity_for_a_test')\n"
        "class Own(Norm):\n"
        "    def forward(self, x):\n"
        "        return x * 1.0\n"
    )
    from experiments.files import import_file

    import_file(own)
    one = job(config(model={"norm": "own_identity_for_a_test"}), tmp_path, imports=(str(own),))
    assert execute(one)["status"] == "done"


def test_the_job_of_a_planned_run_lies_where_records_says(tmp_path: Path) -> None:
    one = job(config(), tmp_path)
    assert isinstance(one, Job)
    assert one.directory == str(tmp_path / "tiny" / "runs" / one.run_id)


def test_a_run_loads_neither_the_compiler_nor_what_only_reports_need(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from experiments.experiment import Run;"
        "from experiments.config import RunConfig, TrainConfig, digest; from experiments.training.execute import *;"
        "config = RunConfig(train=TrainConfig(steps=2)); identity = config.identity();"
        f"run = Run('e', 'v', {{}}, config, identity, digest(identity)); execute(Job.of(run, Path({str(tmp_path)!r})));"
        "print(sorted({'torch._dynamo', 'sympy', 'wandb', 'pandas', 'scipy', 'optuna'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert done.stdout.strip() == "[]"
