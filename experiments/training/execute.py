"""One run for the runner: a job goes in, a run directory comes out."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from experiments import records
from experiments.check import build_task
from experiments.config import RunConfig, digest
from experiments.experiment import Run
from experiments.files import import_file
from experiments.training.session import Moment, Watchers
from experiments.training.trackers import About, Guarded
from experiments.training.train import Interrupted, train
from experiments.training.wandb_mirror import Mode, WandbMirror


@dataclass(frozen=True)
class Job:
    """A run as it travels to the process that trains it; plain values only, so it pickles.

    Attributes:
        run_id, experiment, variant, seed, hash, changes, config, identity: the run, as in config.json.
        directory: where its files go. results: the results folder.
        wandb: off, offline or online. tags: for wandb.
        imports: files of the user's own parts, imported first.
        threads: compute threads. On CPU the bits of a result hold for a number of threads.
        checkpoint_seconds, checkpoint_steps: how often it is saved, by time and by steps; None = not.
        layers: whether inside.jsonl is written; see recorder.py.
    """

    run_id: str
    experiment: str
    variant: str
    seed: int
    hash: str
    changes: Mapping[str, Any]
    config: Mapping[str, Any]
    identity: Mapping[str, Any]
    directory: str
    results: str
    wandb: Mode = "off"
    tags: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    threads: int = 1
    checkpoint_seconds: float | None = 30.0
    checkpoint_steps: int | None = None
    layers: bool = False

    @classmethod
    def of(cls, run: Run, results: Path, **settings: Any) -> Job:
        """The job of a planned run; `settings` are the fields from `wandb` on."""
        return cls(
            run.id, run.experiment, run.variant, run.config.seed, run.hash, dict(run.changes), run.config.to_dict(),
            dict(run.identity), str(records.run_directory(results, run.experiment, run.id)), str(results), **settings,
        )

    def record(self) -> dict[str, Any]:
        """What config.json holds."""
        names = ("run_id", "experiment", "variant", "seed", "hash", "changes", "config", "identity")
        return {"schema": records.SCHEMA, **{name: getattr(self, name) for name in names}}


def execute(
    job: Job, *, device: str = "cpu", stop: Callable[[], bool] = lambda: False,
    report: Callable[..., None] = lambda **progress: None,
) -> dict[str, Any]:
    """Trains a job and writes its directory: config.json first, result.json last.

    Args:
        device: `cpu`, `cuda`, `cuda:1`, `mps`; recorded, never part of the run's identity.
        stop: asked after every step; True = checkpoint and stop.
        report: told `step`, `steps`, `loss`, `tokens_per_second` and, once there is one, `validation_loss`.

    Returns:
        The content of result.json.

    Raises:
        Interrupted: `stop` said so; the same job goes on from its checkpoint.
        RuntimeError: this process resolves the configuration to another identity than the plan did.
        Exception: whatever else goes wrong; there is then no result.json.
    """
    started = now()
    config = begin(job)
    outcome = _mirrored(job, config, Path(job.directory), device, stop, report)
    return end(job, outcome, environment(config, device), started)


def begin(job: Job) -> RunConfig:
    """Makes this process and the run's directory ready; writes config.json.

    Raises:
        RuntimeError: this process resolves the configuration to another identity than the plan did.
    """
    torch.set_num_threads(job.threads)
    for path in job.imports:
        import_file(Path(path))
    config = _config(job)
    directory = Path(job.directory)
    directory.mkdir(parents=True, exist_ok=True)
    _write_config(directory / records.CONFIG, job.record())
    return config


def end(job: Job, outcome: Mapping[str, Any], where: Mapping[str, Any], started: str) -> dict[str, Any]:
    """Writes result.json, the last of a run's files, and returns its content. where: see `environment`."""
    result = {
        "schema": records.SCHEMA, "run_id": job.run_id, "experiment": job.experiment, "variant": job.variant,
        "seed": job.seed, "hash": job.hash, **outcome, "environment": dict(where), "started": started,
        "finished": now(),
    }
    directory = Path(job.directory)
    records.write_json(directory / records.RESULT, result)
    (directory / records.CHECKPOINT).unlink(missing_ok=True)
    return result


def environment(config: RunConfig, device: str) -> dict[str, Any]:
    """Where a run was trained, and on which data."""
    cuda = device.startswith("cuda")
    return {
        "python": platform.python_version(), "torch": torch.__version__, "device": device,
        "device_name": torch.cuda.get_device_name(device) if cuda else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(), "platform": platform.platform(),
        "data_files": dict(build_task(config.task).data_files),
    }


def _config(job: Job) -> RunConfig:
    config = RunConfig(**job.config)
    if digest(config.identity()) != job.hash:
        raise RuntimeError(
            f"run {job.run_id} was planned as {job.hash[:8]}, but here its configuration means "
            f"{digest(config.identity())[:8]}: the code that plans and the code that trains differ; restart the launch"
        )
    return config


def _write_config(path: Path, content: dict[str, Any]) -> None:
    try:
        same = records.seal(records.read_json(path)) == records.seal(content)
    except (FileNotFoundError, records.Damaged):
        same = False
    if not same:
        records.write_json(path, content)


def _mirrored(
    job: Job, config: RunConfig, directory: Path, device: str, stop: Callable[[], bool], report: Callable[..., None]
) -> dict[str, Any]:
    mirrors = mirrors_of(job)
    watchers = Watchers(
        on_progress=lambda moment: report(**told(moment)), should_stop=stop, mirrors=mirrors,
        checkpoint_seconds=job.checkpoint_seconds, checkpoint_steps=job.checkpoint_steps,
        layers=job.layers,
    )
    try:
        outcome = train(config, directory, run_hash=job.hash, device=device, watchers=watchers)
    except BaseException as error:
        mirrors.finish("interrupted" if isinstance(error, Interrupted) else "failed")
        raise
    mirrors.finish(outcome["status"])
    return outcome


def mirrors_of(job: Job) -> Guarded:
    """The run's mirrors, started."""
    mirrors = Guarded([] if job.wandb == "off" else [WandbMirror(job.wandb, Path(job.results))])
    mirrors.start(About(job.run_id, job.experiment, job.variant, job.seed, job.config, job.tags))
    return mirrors


def told(moment: Moment) -> dict[str, Any]:
    """What a `report` is told."""
    found: dict[str, Any] = {
        "step": moment.step, "steps": moment.total, "loss": moment.loss, "tokens_per_second": moment.tokens_per_second,
    }
    if "validation/loss" in moment.scores:
        found["validation_loss"] = moment.scores["validation/loss"]
    return found


def now() -> str:
    """The time, as files hold it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
