"""What a person chose about a launch, and what follows from it: devices, the engine, which runs train together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from experiments.commands.options import writable
from experiments.config import ConfigError
from experiments.runner.devices import slots
from experiments.runner.engine import Engine
from experiments.training.replicas.grouping import Grouping, replicas_of
from transformer.registry import unknown


@dataclass(frozen=True)
class Launch:
    """What a person chose about a launch; none of it can change a number."""

    results: Path
    engine: str = "local"
    workers: int | None = None
    device: str = "auto"
    per_gpu: int = 1
    replicas: str = "auto"
    ray_address: str | None = None
    wandb: str = "offline"
    retry_failed: bool = False
    redo: bool = False
    redo_damaged: bool = False
    only: tuple[str, ...] = ()
    shard: str | None = None
    max_failures: int | None = None
    time_limit: float | None = None
    layers: bool = False
    quiet: bool = False
    as_json: bool = False


def check_launch(launch: Launch) -> None:
    """Checks what a person chose about a launch, before anything is written, printed or trained.

    Raises:
        ConfigError: a folder, device, engine, number or mode that is not here.
    """
    from experiments.training.wandb_mirror import check_wandb

    check_wandb(launch.wandb)
    writable(launch.results)
    replicas_of(launch.replicas)
    engine_maker(launch, ())


def engine_maker(launch: Launch, imports: tuple[str, ...]) -> Callable[[str], Engine]:
    """Checks the engine and devices that a person named; the result starts the engine for a target.

    Raises:
        ConfigError: no such engine or device here.
    """
    if launch.engine == "local":
        from experiments.runner.local import LocalEngine

        devices = slots(launch.device, launch.workers, launch.per_gpu)
        return lambda target: LocalEngine(devices, target=target, imports=imports)
    if launch.engine == "ray":
        from experiments.runner.ray_engine import RayEngine

        return lambda target: RayEngine(
            target=target, imports=imports, address=launch.ray_address, device=launch.device,
            per_gpu=launch.per_gpu, workers=launch.workers,
        )
    raise ConfigError([("--engine", unknown("engine", launch.engine, ["local", "ray"]))])


def grouping(launch: Launch) -> Grouping | None:
    """Which runs train together on this launch's devices; on a Ray cluster, whose devices differ, only when asked."""
    replicas = replicas_of(launch.replicas)
    if replicas == 1 or (replicas == "auto" and launch.engine != "local"):
        return None
    local = launch.engine == "local"
    return Grouping(replicas, slots(launch.device, launch.workers, launch.per_gpu)[0] if local else launch.device)
