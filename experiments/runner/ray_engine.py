"""The engine for a Ray cluster: every run is one Ray task; results land in a folder that all nodes share.

Ray itself never retries: a worker or node that dies ends the attempt as `killed`, and `run` tries again, so that the
rules about leases, checkpoints and how often are the same on every engine.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import experiments
from experiments.config import ConfigError
from experiments.runner.attempt import Ended, Stop, Task, attempt
from experiments.runner.events import Event
from experiments.runner.local import event_of
from experiments.runner.worker import THREAD_VARIABLES, Setup, prepare

NEEDS_RAY = "needs Ray, which is not installed: pip install 'ray>=2.60,<3'  (or use --engine local)"
BEAT_SECONDS = 1.0
DESERTED_SECONDS = 60.0  # without news, after which the cluster is asked whether it still has nodes


@dataclass
class _Given:
    task: Task
    slot: int
    started: bool = False


class RayEngine:
    """Trains runs on a Ray cluster.

    Args:
        target, imports, threads: as for the local engine.
        address: of a running cluster, such as `auto` or `10.0.0.1:6379`; None = start one on this machine.
        device: auto (GPUs when the cluster has any), cpu or cuda. per_gpu: runs that share one GPU.
        workers: runs at a time; None = as many as the cluster has room for.

    Raises:
        ConfigError: Ray is not installed, the cluster does not answer, or it lacks what the runs need.
    """

    name = "ray"

    def __init__(
        self, *, target: str, imports: tuple[str, ...] = (), threads: int = 1, address: str | None = None,
        device: str = "auto", per_gpu: int = 1, workers: int | None = None,
    ) -> None:
        self.ray = _connect(address, workers, threads)
        try:
            on_gpu, room = _room(self.ray.cluster_resources(), device, per_gpu, threads)
        except ConfigError:
            self.ray.shutdown()
            raise
        self.slots = workers or room
        self.setup = Setup(target, imports, "cuda:0" if on_gpu else "cpu", threads)
        resources = {"num_gpus": 1 / per_gpu} if on_gpu else {}
        self._train = self.ray.remote(_train).options(num_cpus=threads, max_retries=0, **resources)
        self._board = self._beside_us(self.ray.remote(_Board))
        self._given: dict[Any, _Given] = {}
        self._looked, self._moved = 0.0, time.monotonic()

    def _beside_us(self, actor: Any) -> Any:
        """An actor on the node of the launcher: it must not die with any other."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(self.ray.get_runtime_context().get_node_id(), soft=False)
        return actor.options(num_cpus=0, scheduling_strategy=here).remote()

    @property
    def free(self) -> int:
        """How many more runs can be given out now."""
        return self.slots - len(self._given)

    def submit(self, task: Task) -> None:
        """Hands a run to Ray, which finds a node for it."""
        taken = {given.slot for given in self._given.values()}
        slot = next(number for number in range(self.slots) if number not in taken)
        self._given[self._train.remote(task, self.setup, self._board)] = _Given(task, slot)

    def wait(self, seconds: float) -> list[Event]:
        """What has happened in at most `seconds`."""
        if not self._given:
            time.sleep(seconds)
            return []
        finished, _ = self.ray.wait(list(self._given), timeout=seconds)
        events = list(self._news())
        if finished or events:
            self._moved = time.monotonic()
        elif time.monotonic() - self._moved > DESERTED_SECONDS:
            self._moved = time.monotonic()
            return list(self._deserted())
        for reference in finished:
            given = self._given.pop(reference)
            if not given.started:
                events.append(event_of(given.task, "started", given.slot))
            ended = self._end_of(reference)
            events.append(event_of(given.task, ended.kind, given.slot, error=ended.error, seconds=ended.seconds,
                                   metrics=ended.metrics))
        return events

    def stop(self) -> None:
        """Asks every run to write its checkpoint and stop; those that still wait for a node end when they get one."""
        self._board.stop.remote()

    def cancel(self, run_id: str) -> None:
        """Asks one run to write its checkpoint and stop."""
        self._board.cancel.remote(run_id)

    def close(self, *, now: bool = False) -> None:
        """Leaves the cluster; ends it when it was ours."""
        if now:
            for reference in self._given:
                self.ray.cancel(reference, force=True)
        self.ray.shutdown()

    def _news(self) -> Iterator[Event]:
        if time.monotonic() - self._looked < BEAT_SECONDS:
            return
        self._looked = time.monotonic()
        try:
            news: dict[str, dict[str, Any]] = self.ray.get(self._board.read.remote(), timeout=5)
        except self.ray.exceptions.RayError:
            return
        for given in self._given.values():
            progress = news.get(given.task.id)
            if progress is not None and not given.started:
                given.started = True
                yield event_of(given.task, "started", given.slot)
            if progress:
                yield event_of(given.task, "progress", given.slot, **progress)

    def _deserted(self) -> Iterator[Event]:
        """Ray waits for ever when every node that could train is gone; we do not."""
        if self.ray.cluster_resources().get("CPU", 0) >= self.setup.threads:
            return
        for reference, given in self._given.items():
            self.ray.cancel(reference, force=True)
            yield event_of(given.task, "broken", given.slot, error="the Ray cluster has lost every node that can train")
        self._given.clear()

    def _end_of(self, reference: Any) -> Ended:
        known = self.ray.exceptions
        try:
            ended: Ended = self.ray.get(reference)
            return ended
        except known.RayTaskError as error:  # `attempt` never raises: it could not even be prepared
            return Ended("broken", str(error.cause) if getattr(error, "cause", None) else str(error))
        except known.OutOfMemoryError:
            return Ended("out_of_memory", "Ray killed its worker because the node ran out of memory")
        except known.RayError as error:
            return Ended("killed", f"its worker or node was lost ({type(error).__name__})")


class _Board:
    """What workers and launcher tell each other: progress one way, the request to stop the other."""

    def __init__(self) -> None:
        self.progress: dict[str, dict[str, Any]] = {}
        self.stopped = False
        self.cancelled: set[str] = set()

    def beat(self, run_id: str, progress: dict[str, Any]) -> str:
        """A run's progress; returns why it should stop, or an empty string."""
        self.progress[run_id] = progress
        return "interrupted" if self.stopped else "pruned" if run_id in self.cancelled else ""

    def read(self) -> dict[str, dict[str, Any]]:
        """Progress since the last look, by run id."""
        news, self.progress = self.progress, {}
        return news

    def stop(self) -> None:
        """From now on, every beat says stop."""
        self.stopped = True

    def cancel(self, run_id: str) -> None:
        """From now on, the beats of one run say stop."""
        self.cancelled.add(run_id)


def _train(task: Task, setup: Setup, board: Any) -> Ended:
    """Runs in a Ray worker process, which Ray keeps over many runs."""
    import ray

    prepare(setup)
    if ray.get(board.beat.remote(task.id, {})):
        return Ended("interrupted")
    stop, done, latest = Stop(), threading.Event(), dict[str, Any]()
    beat = threading.Thread(target=_beat, args=(task.id, board, stop, done, latest), daemon=True)
    beat.start()
    try:
        return attempt(task, device=setup.device, stop=stop, report=lambda **progress: latest.update(progress))
    finally:
        done.set()
        beat.join(BEAT_SECONDS)


def _beat(run_id: str, board: Any, stop: Stop, done: threading.Event, latest: dict[str, Any]) -> None:
    import ray

    while True:
        try:
            reason = ray.get(board.beat.remote(run_id, dict(latest)), timeout=30)
            if reason:
                stop.ask(reason)
        except ray.exceptions.GetTimeoutError:
            continue
        except Exception:  # the board went with its launcher: nobody waits for this run any more
            stop.ask("interrupted")
            return
        if done.wait(BEAT_SECONDS):
            return


def _connect(address: str | None, workers: int | None, threads: int) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise ConfigError([("--engine ray", NEEDS_RAY)]) from None
    if address:
        _answers(address)
    root = str(Path(experiments.__file__).resolve().parent.parent)
    path = os.pathsep.join(dict.fromkeys([root, *(os.path.abspath(entry) for entry in sys.path)]))
    variables = {"PYTHONPATH": path, **{name: str(threads) for name in THREAD_VARIABLES}}
    own: dict[str, Any] = {} if address else {"include_dashboard": False, "object_store_memory": 200 * 2**20}
    if workers and not address:
        own["num_cpus"] = workers * threads
    try:
        ray.init(
            address=address or "local", log_to_driver=False, logging_level=logging.ERROR,
            runtime_env={"env_vars": variables}, **own,
        )
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        raise _unreachable(address, error) from None
    return ray


def _answers(address: str) -> None:
    """Ray itself tries for minutes where nobody listens."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return  # a word such as `auto`: Ray looks it up at once
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str | None, error: Exception) -> ConfigError:
    where = f"--ray-address {address}" if address else "--engine ray"
    return ConfigError([(where, f"no Ray cluster could be reached: {' '.join(str(error).split())[:200]}")])


def _room(resources: dict[str, float], device: str, per_gpu: int, threads: int) -> tuple[bool, int]:
    """Whether to use GPUs, and how many runs fit on the cluster at a time."""
    cpus, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
    if device not in ("auto", "cpu", "cuda"):
        raise ConfigError([("--device", f"'{device}' cannot be asked of a Ray cluster. Known: auto, cpu, cuda")])
    if device == "cuda" and not gpus:
        raise ConfigError([("--device cuda", f"the Ray cluster has no GPU (it has {cpus} CPUs); use --device cpu")])
    if cpus < threads:
        raise ConfigError([("--engine ray", f"one run needs {threads} CPUs, the cluster has {cpus} in all")])
    on_gpu = gpus > 0 and device != "cpu"
    return on_gpu, min(cpus // threads, gpus * per_gpu) if on_gpu else cpus // threads
