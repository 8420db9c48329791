"""An interrupted run equals an undisturbed one bit for bit, and a bad checkpoint costs a warning and time, no more."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.config import Spec
from experiments.records import CHECKPOINT, METRICS
from experiments.training.checkpoint import load_checkpoint, load_weights, save_weights
from experiments.training.optimisers import adamw
from experiments.training.session import Watchers
from experiments.training.train import Interrupted
from tests.experiments.training_runs import (
    asked_at,
    assert_same_run,
    config,
    planned,
    rows,
    run,
    run_in_pieces,
    timeless,
    weights,
)
from transformer.models import build

RECALL = Spec("recall", length=12, n_pairs=2, vocab=16, eval_rows=16)
COPY = Spec("copy", max_length=4, n_symbols=12, eval_rows=16)
FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "dropout": {"model": {"dropout": 0.2}},
    "accumulation": {"accumulate": 2, "model": {"dropout": 0.1}},
    "bf16": {"precision": "bf16", "model": {"dropout": 0.1}},
    "recomputed activations": {"checkpoint_activations": True, "model": {"dropout": 0.1}},
    "scheduled sampling": {"scheduled_sampling": Spec("linear", start=0.5), "model": {"dropout": 0.1}},
    "label smoothing, noam": {"label_smoothing": 0.1, "schedule": Spec("noam")},
    "recall, rope and rmsnorm": {"task": RECALL, "model": {"dropout": 0.1, "norm": "rmsnorm", "positional": "rope"}},
    "uneven rows": {"task": COPY, "accumulate": 4},
}


@pytest.mark.parametrize("name", FEATURES)
def test_a_run_interrupted_twice_equals_one_that_was_not(name: str, tmp_path: Path) -> None:
    tiny = config(**FEATURES[name])
    straight = run(tiny, tmp_path / "straight")
    pieces = run_in_pieces(tiny, tmp_path / "pieces", 3, 8)
    assert timeless(pieces) == timeless(straight)
    assert_same_run(tmp_path / "straight", tmp_path / "pieces")


def test_early_stopping_remembers_how_long_it_has_waited(tmp_path: Path) -> None:
    tiny = config(steps=60, eval_every=2, patience=3, lr=0.5, warmup=0, clip=None)
    straight = run(tiny, tmp_path / "straight")
    assert straight["stopped_early"]
    stopped_at = straight["cost"]["steps"]
    pieces = run_in_pieces(tiny, tmp_path / "pieces", stopped_at - 1)
    assert timeless(pieces) == timeless(straight)
    assert_same_run(tmp_path / "straight", tmp_path / "pieces")


def test_the_same_command_gives_the_same_bits(tmp_path: Path) -> None:
    tiny = config(model={"dropout": 0.1})
    assert timeless(run(tiny, tmp_path / "a")) == timeless(run(tiny, tmp_path / "b"))
    assert_same_run(tmp_path / "a", tmp_path / "b")


def test_another_seed_gives_other_bits(tmp_path: Path) -> None:
    run(config(), tmp_path / "a")
    run(config(seed=1), tmp_path / "b")
    assert rows(tmp_path / "a")[0]["train/loss"] != rows(tmp_path / "b")[0]["train/loss"]


def _killed(directory: str) -> None:
    path = Path(directory)
    ask = asked_at(7, path)
    watchers = Watchers(checkpoint_steps=4, checkpoint_seconds=None, should_stop=lambda: bool(ask() and os._exit(9)))
    run(config(model={"dropout": 0.1}), path, watchers)


def test_a_killed_process_goes_on_from_its_last_checkpoint_and_writes_no_line_twice(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_killed, args=(str(tmp_path / "killed"),))
    (tmp_path / "killed").mkdir()
    process.start()
    process.join()
    assert process.exitcode == 9
    assert (tmp_path / "killed" / CHECKPOINT).exists()
    run(config(model={"dropout": 0.1}), tmp_path / "killed")
    run(config(model={"dropout": 0.1}), tmp_path / "straight")
    assert_same_run(tmp_path / "killed", tmp_path / "straight")


def interrupted(directory: Path) -> Path:
    """A checkpoint at step 5."""
    with pytest.raises(Interrupted, match="stopped at step 5 of 12"):
        run(config(), directory, Watchers(should_stop=asked_at(5, directory)))
    return directory / CHECKPOINT


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def without_its_metrics(path: Path) -> None:
    path.with_name(METRICS).unlink()


@pytest.mark.parametrize("damage, says", [
    (torn, "torn or was altered"), (flipped, "torn or was altered"), (emptied, "torn or was altered"),
    (without_its_metrics, "metrics.jsonl is shorter than when the checkpoint was written"),
])
def test_a_damaged_checkpoint_costs_one_warning_and_the_run_starts_over(
    damage: Any, says: str, tmp_path: Path
) -> None:
    damage(interrupted(tmp_path / "damaged"))
    with pytest.warns(RuntimeWarning, match=f"{says}.*; the run starts from step 0") as caught:
        run(config(), tmp_path / "damaged")
    assert len(caught) == 1
    run(config(), tmp_path / "straight")
    assert_same_run(tmp_path / "damaged", tmp_path / "straight")


def test_a_checkpoint_of_another_configuration_is_not_used(tmp_path: Path) -> None:
    interrupted(tmp_path / "a")
    other = config(lr=1e-3)
    with pytest.warns(RuntimeWarning, match="of another configuration; the run starts from step 0"):
        run(other, tmp_path / "a")
    run(other, tmp_path / "b")
    assert_same_run(tmp_path / "a", tmp_path / "b")


def test_a_checkpoint_loads_without_trusting_it_and_holds_everything(tmp_path: Path) -> None:
    content = torch.load(interrupted(tmp_path / "a"), weights_only=True)
    assert content["progress"]["step"] == 5
    assert content["hash"] == planned(config()).hash
    assert {"model", "optimiser", "rng", "progress", "format"} <= content.keys()


def test_a_checkpoint_is_never_half_written_over_a_good_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = interrupted(tmp_path / "a")
    before = path.read_bytes()

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        run(config(), tmp_path / "a", Watchers(checkpoint_steps=1))
    assert path.read_bytes() == before
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == [CHECKPOINT, METRICS]


def test_a_disk_that_fills_up_in_mid_checkpoint_is_told_and_the_one_before_stays(tmp_path: Path) -> None:
    path = interrupted(tmp_path / "a")
    before = path.read_bytes()
    with pytest.raises(OSError, match="File too large"), files_of_at_most(len(before) // 2):
        run(config(), tmp_path / "a", Watchers(checkpoint_steps=1))
    assert path.read_bytes() == before
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == [CHECKPOINT, METRICS]


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The kernel refuses to let a file grow beyond a size, as it would on a full disk."""
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("tied", [True, False])
def test_the_final_weights_load_back_into_a_model_and_a_tied_tensor_is_stored_once(tied: bool, tmp_path: Path) -> None:
    tiny = config(model={"tied": tied})
    run(tiny, tmp_path / "a")
    names = weights(tmp_path / "a").keys()
    assert ("head.weight" in names and "decoder.embedding.weight" in names) is not tied
    model = build(tiny.model, vocab_size=vocabulary(tmp_path / "a"), max_len=12, seed=5)
    load_weights(tmp_path / "a" / "weights.safetensors", model)
    state = model.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in weights(tmp_path / "a").items())


def vocabulary(directory: Path) -> int:
    return next(t.shape[0] for name, t in weights(directory).items() if name in ("decoder.embedding.weight", "head.weight"))


def test_weights_of_another_model_are_refused_by_name(tmp_path: Path) -> None:
    run(config(), tmp_path / "a")
    path = tmp_path / "a" / "weights.safetensors"
    other = build(config(model={"d_model": 8}).model, vocab_size=30, max_len=12, seed=0)
    with pytest.raises(ValueError, match=r"weights\.safetensors: weights of another model"):
        load_weights(path, other)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"weights\.safetensors: unreadable weights"):
        load_weights(path, other)


def test_a_refused_checkpoint_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    path = interrupted(tmp_path / "a")
    model = build(config(model={"d_model": 8}).model, vocab_size=30, max_len=12, seed=0)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.warns(RuntimeWarning, match="built differently"):
        progress = load_checkpoint(path, planned(config()).hash, model, adamw(model, config().train))
    assert progress.step == 0
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_equal_weights_make_equal_files(tmp_path: Path) -> None:
    model = torch.nn.LayerNorm(3)
    for i in range(16):  # the library draws its order of the header's keys anew each time
        save_weights(tmp_path / str(i), model, run_hash="a")
    assert len({(tmp_path / str(i)).read_bytes() for i in range(16)}) == 1
