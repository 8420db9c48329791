"""Runs that train in a group end as they would have ended alone, and land as ordinary runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.config import ConfigError, RunConfig, Spec
from experiments.records import CHECKPOINT, FAILURE, LEASE, LOG, RESULT, read_run, run_directory
from experiments.runner import engine, lease
from experiments.runner.attempt import Ended, Stop, Task, attempt
from experiments.runner.events import Event, Outcome
from experiments.runner.local import event_of
from experiments.runner.options import training_jobs
from experiments.runner.plan import plan
from experiments.training.execute import execute
from experiments.training.replicas.execute import GroupJob, execute_group
from experiments.training.replicas.group import WINDOWS, train_together
from experiments.training.replicas.grouping import Grouping, replicas_of
from experiments.training.session import Watchers, prepare
from experiments.training.train import Interrupted
from tests.experiments.training_runs import config, job, planned, rows, run, timeless, weights

SAME = {"eval_every": 25, "steps": 50}


def group_of(configs: list[RunConfig], place: Path, watchers: Watchers | None = None) -> dict[str, dict[str, Any]]:
    """Trains in `place`/0, 1, ... and returns what `train` would have, by folder."""
    found: dict[str, dict[str, Any]] = {}
    sessions = []
    for number, one in enumerate(configs):
        folder = place / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        sessions.append(prepare(one, folder, planned(one).hash, "cpu", Watchers()))
    train_together(
        sessions, watchers or Watchers(), lambda session, outcome: found.update({session.directory.name: outcome})
    )
    return found


def assert_close(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], tolerance: float = 1e-5) -> None:
    assert [row.keys() for row in ours] == [row.keys() for row in theirs]
    for one, other in zip(ours, theirs, strict=True):
        for name, value in one.items():
            loose = tolerance if name.endswith("/loss") or name == "train/lr" else 1e-2
            assert value == pytest.approx(other[name], rel=loose, abs=1e-7), f"{name} at step {one['step']}"


SHAPES = {
    "decoder": config(**SAME),
    "deep rope decoder": config(model={"positional": "rope", "norm": "rmsnorm", "feedforward": "swiglu"}, **SAME),
    "classifier": config(task=Spec("word_order", eval_rows=64), model={"architecture": "encoder"}, **SAME),
    "encoder-decoder": config(task=Spec("scan", eval_rows=40), model={"architecture": "encoder_decoder"}, **SAME),
    "micro-batches": config(accumulate=2, label_smoothing=0.1, **SAME),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_fifty_steps_together_are_fifty_steps_alone(shape: str, tmp_path: Path) -> None:
    own = [
        {"seed": 0, "train.lr": 3e-3, "train.clip": 0.2}, {"seed": 1, "train.lr": 1e-2, "train.clip": None},
        {"seed": 2, "train.weight_decay": 0.0, "train.schedule": "constant", "train.beta2": 0.99},
    ]
    configs = [SHAPES[shape].replace(changes) for changes in own]
    together = group_of(configs, tmp_path / "group")
    for number, one in enumerate(configs):
        alone = run(one, tmp_path / str(number))
        assert_close(rows(tmp_path / "group" / str(number)), rows(tmp_path / str(number)))
        assert together[str(number)].keys() == alone.keys()
        assert together[str(number)]["clipped_share"] == alone["clipped_share"]
        for name in ("parameters", "flops_per_token", "tokens", "steps", "peak_memory_bytes", "peak_memory_measure"):
            assert together[str(number)]["cost"][name] == alone["cost"][name], name


def test_half_precision_trains_together_about_as_it_does_alone(tmp_path: Path) -> None:
    configs = [config(seed=seed, precision="bf16") for seed in range(2)]
    together = group_of(configs, tmp_path / "group")
    for number, one in enumerate(configs):
        alone = run(one, tmp_path / str(number))
        assert together[str(number)]["metrics"]["test/loss"] == pytest.approx(alone["metrics"]["test/loss"], rel=3e-3)


def test_memory_that_runs_out_halves_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.training.replicas import execute as module

    tried: list[int] = []

    def scarce(runs: Any, *rest: Any) -> None:
        tried.append(len(runs))
        if len(runs) > 2:
            raise torch.OutOfMemoryError("out of memory")
        train_together(runs, *rest)

    monkeypatch.setattr(module, "train_together", scarce)
    jobs = [job(config(seed=seed, steps=4), tmp_path) for seed in range(5)]
    execute_group(GroupJob(tuple(jobs)))
    assert tried == [5, 2, 2]
    found = [read_run(Path(one.directory)).result for one in jobs]
    assert [bool(result) for result in found] == [True, True, True, True, False]


def test_replicas_end_at_their_own_step_and_stop_early_by_themselves(tmp_path: Path) -> None:
    configs = [
        config(steps=6, eval_every=3), config(steps=14, eval_every=4, seed=1),
        config(steps=40, eval_every=2, seed=2, patience=1, lr=0.2, warmup=0, clip=None),
    ]
    together = group_of(configs, tmp_path / "group")
    for number, one in enumerate(configs):
        alone = run(one, tmp_path / str(number))
        assert together[str(number)]["cost"]["steps"] == alone["cost"]["steps"]
        assert together[str(number)]["stopped_early"] == alone["stopped_early"]
    assert together["2"]["stopped_early"]
    assert together["2"]["cost"]["steps"] < 40


def test_a_diverged_replica_is_a_result_and_touches_nobody(tmp_path: Path) -> None:
    calm, wild = [config(seed=0), config(seed=1)], config(seed=2, lr=1e30, warmup=0, clip=None, weight_decay=0.0)
    together = group_of([calm[0], wild, calm[1]], tmp_path / "mixed")
    assert [together[name]["status"] for name in "012"] == ["done", "diverged", "done"]
    assert together["1"]["diverged"]["step"] < 12
    assert "test/loss" not in together["1"]["metrics"]
    apart = group_of([calm[0], config(seed=2), calm[1]], tmp_path / "calm")
    for name in "02":
        assert_close(rows(tmp_path / "mixed" / name), rows(tmp_path / "calm" / name))
        assert together[name]["metrics"] == pytest.approx(apart[name]["metrics"], rel=1e-5)
    alone = run(wild, tmp_path / "alone")
    assert alone["diverged"] == together["1"]["diverged"]


def test_an_interrupted_group_goes_on_alone_or_in_another_group(tmp_path: Path) -> None:
    configs = [config(seed=seed) for seed in range(3)]
    calls = iter(range(100))
    with pytest.raises(Interrupted, match="with 3 runs of a group unfinished"):
        group_of(configs, tmp_path / "group", Watchers(should_stop=lambda: next(calls) >= 4))
    assert all((tmp_path / "group" / name / CHECKPOINT).exists() for name in "012")
    run(configs[0], tmp_path / "group" / "0")
    (tmp_path / "pair").mkdir()
    for folder in ("1", "2"):
        (tmp_path / "group" / folder).rename(tmp_path / "pair" / str(int(folder) - 1))
    group_of(configs[1:], tmp_path / "pair")
    for number, place in enumerate(["group/0", "pair/0", "pair/1"]):
        run(configs[number], tmp_path / str(number))
        assert_close(rows(tmp_path / place), rows(tmp_path / str(number)))


def test_looking_at_the_losses_seldom_changes_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wild = config(seed=2, lr=1e30, warmup=0, clip=None, weight_decay=0.0)
    configs = [config(seed=0, steps=9), config(seed=1), wild]
    often = group_of(configs, tmp_path / "often")
    monkeypatch.setitem(WINDOWS, "cpu", 3)
    seldom = group_of(configs, tmp_path / "seldom")
    for name in "012":
        assert rows(tmp_path / "often" / name) == rows(tmp_path / "seldom" / name)
        assert timeless(often[name]) == timeless(seldom[name])
        ours, theirs = weights(tmp_path / "often" / name), weights(tmp_path / "seldom" / name)
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_a_group_does_what_has_no_result_and_nobody_else_trains(tmp_path: Path) -> None:
    jobs = [job(config(seed=seed), tmp_path) for seed in range(4)]
    done = execute(jobs[1])
    Path(jobs[2].directory).mkdir(parents=True)
    held = lease.acquire(Path(jobs[2].directory))
    assert held is not None
    execute_group(GroupJob(tuple(jobs)))
    held.release()
    results = [read_run(Path(one.directory), verify_metrics=True).result for one in jobs]
    assert results[1] == done
    assert results[2] is None
    assert [result and result["environment"].get("replicas") for result in results] == [2, None, None, 2]
    assert not [*tmp_path.rglob(LEASE), *tmp_path.rglob(CHECKPOINT)]
    assert f"trains in the group of {jobs[0].run_id}" in (Path(jobs[3].directory) / LOG).read_text()


@pytest.mark.filterwarnings("ignore:norm 'batchnorm' leaks")
def test_what_cannot_be_stacked_trains_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [job(config(seed=seed, model={"norm": "batchnorm"}), tmp_path) for seed in range(2)]
    execute_group(GroupJob(tuple(jobs)))
    found = [read_run(Path(one.directory)).result for one in jobs]
    assert found[0] is not None
    assert "replicas" not in found[0]["environment"]
    assert found[1] is None, "the other is left to whoever planned it"
    assert "not trained as a group of 2 (NotTogether); one by one instead" in capsys.readouterr().out
    assert not list(tmp_path.rglob(LEASE))


class InThisProcess:
    """An engine whose one worker is the test."""

    name = "here"

    def __init__(self) -> None:
        self.tasks: deque[Task] = deque()
        self.given: list[int] = []

    @property
    def free(self) -> int:
        return 1 - len(self.tasks)

    def submit(self, task: Task) -> None:
        self.tasks.append(task)
        self.given.append(len(task.job.jobs) if isinstance(task.job, GroupJob) else 1)

    def wait(self, seconds: float) -> list[Event]:
        if not self.tasks:
            return []
        task = self.tasks.popleft()
        ended: Ended = attempt(task, device="cpu", stop=Stop(), report=lambda **progress: None)
        return [event_of(task, ended.kind, 0, error=ended.error, metrics=ended.metrics)]

    def stop(self) -> None:
        """Its runs end before anybody can ask."""

    def cancel(self, run_id: str) -> None:
        """Likewise."""

    def close(self, *, now: bool = False) -> None:
        """There is no worker to end."""


def launch(
    configs: list[RunConfig], results: Path, groups: Grouping | None, **options: Any
) -> tuple[Outcome, list[int]]:
    """How a launch of these runs ended, and how many runs the worker was given at a time."""
    runs, here = [planned(one, variant=f"v{number}") for number, one in enumerate(configs)], InThisProcess()
    chosen = engine.Options(training_jobs(results), groups=groups, **options)
    return engine.run(plan("tiny", runs, results), here, chosen), here.given


def test_the_runner_groups_seeds_and_rates_of_one_shape_and_nothing_else(tmp_path: Path) -> None:
    short = {"steps": 4, "eval_every": 4}
    configs = [config(seed=seed, lr=lr, **short) for seed in range(2) for lr in (1e-3, 1e-2)]
    configs.insert(1, config(model={"positional": "alibi"}, **short))
    outcome, given = launch(configs, tmp_path, Grouping(3))
    assert given == [3, 1, 1]
    assert (len(outcome.done), outcome.exit_code) == (5, 0)
    again, given = launch(configs, tmp_path, Grouping(3))
    assert (again.done, given) == ((), [])


@pytest.mark.filterwarnings("ignore:norm 'batchnorm' leaks")
def test_runs_whose_group_fails_are_trained_one_by_one(tmp_path: Path) -> None:
    configs = [config(seed=seed, steps=4, model={"norm": "batchnorm"}) for seed in range(3)]
    outcome, given = launch(configs, tmp_path, Grouping(3))
    assert given == [3, 1, 1]
    assert len(outcome.done) == 3
    assert not list(tmp_path.rglob(FAILURE))


def test_a_failing_member_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.tasks.text import Text

    overlap = Text.overlap
    monkeypatch.setattr(Text, "overlap", lambda self, seed: 3 if seed == 501 else overlap(self, seed))
    configs = [config(seed=seed, steps=4) for seed in (500, 501, 502)]
    outcome, given = launch(configs, tmp_path, Grouping(3))
    assert len(outcome.done) == 2
    assert [run_id.rsplit("-", 2)[1] for run_id in outcome.failed] == ["s501"]
    assert given[0] == 3


def test_redone_runs_are_grouped_too(tmp_path: Path) -> None:
    configs = [config(seed=seed, steps=4) for seed in range(2)]
    first, _ = launch(configs, tmp_path, None)
    stamp = {p: p.stat().st_mtime_ns for p in tmp_path.rglob(RESULT)}
    outcome, given = launch(configs, tmp_path, Grouping(2), redo=frozenset(first.done))
    assert (given, len(outcome.done)) == ([2], 2)
    assert all(p.stat().st_mtime_ns != before for p, before in stamp.items())
    place = run_directory(tmp_path, "tiny", first.done[1])
    result = read_run(place).result
    assert result is not None
    assert result["environment"]["replicas"] == 2


def test_what_makes_a_group_is_the_shape_of_the_computation() -> None:
    key: Callable[[RunConfig], str | None] = lambda one: Grouping(4).key(planned(one))  # noqa: E731
    same = [config(), config(seed=3, lr=0.5, clip=None, weight_decay=0.0, beta1=0.5, steps=9, warmup=2, patience=3)]
    assert len({key(one) for one in same}) == 1
    others = [
        config(batch_size=8), config(accumulate=2), config(label_smoothing=0.1), config(model={"dropout": 0.1}),
        config(task=Spec("text", context=13)), config(precision="bf16"), config(model={"norm": "rmsnorm"}),
    ]
    assert len({key(one) for one in [same[0], *others]}) == 8
    assert key(config(scheduled_sampling=Spec("linear"))) is None
    assert key(config(checkpoint_activations=True)) is None
    assert Grouping(1).key(planned(config())) is None


def test_auto_measures_small_steps_on_a_cpu_alone_and_fills_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.training.replicas import sizes

    gains: list[float] = [1.4, 1.0]
    monkeypatch.setattr(sizes, "gain", lambda config, replicas: gains.pop(0))
    small, short = planned(config(steps=500)), planned(config(steps=20))
    large = planned(RunConfig())
    assert [Grouping().most(one) for one in (large, short, small, small)] == [1, 1, 8, 1]
    assert Grouping(device="cuda:1").most(large) > 8
    assert Grouping(device="mps").most(small) == 1
    assert Grouping(5).most(large) == 5


def test_a_trial_measures_steps_and_leaves_nothing(tmp_path: Path) -> None:
    from experiments.training.replicas.sizes import gain

    assert 0.1 < gain(config(), 2) < 10


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", ""])
def test_replicas_is_auto_or_a_count(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        replicas_of(text)
    assert caught.value.problems == [
        ("--replicas", f"{text!r} must be auto, or how many runs train together, at least 1")
    ]
    assert (replicas_of("auto"), replicas_of("3")) == ("auto", 3)
