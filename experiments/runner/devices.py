"""Which device each worker trains on. The device is recorded with a result and never part of a run's identity."""

from __future__ import annotations

from experiments.config import ConfigError
from transformer.registry import unknown

MOST_PER_CORE = 32  # each worker is a process of its own with its own copy of torch
KINDS = ("auto", "cpu", "cuda", "mps")


def slots(device: str = "auto", workers: int | None = None, per_gpu: int = 1) -> list[str]:
    """The device of every worker, such as `["cpu", "cpu"]` or `["cuda:0", "cuda:0", "cuda:1", "cuda:1"]`.

    Args:
        device: auto (every GPU when there is one, else the CPU), cpu, cuda, cuda:<i> or mps.
        workers: how many; None = one per CPU core, `per_gpu` per GPU, one for mps.
        per_gpu: workers that share one GPU.

    Raises:
        ConfigError: no such device here, or fewer than one worker.
    """
    kind, _, index = device.partition(":")
    if kind not in KINDS or (index and (kind != "cuda" or not index.isdigit())):
        raise ConfigError([("--device", unknown("device", device, [*KINDS, "cuda:0"]))])
    for option, value in (("--workers", workers), ("--per-gpu", per_gpu)):
        if value is not None and value < 1:
            raise ConfigError([(option, f"{value} is fewer than 1 worker")])
    if workers is not None and workers > MOST_PER_CORE * _cores():
        most = MOST_PER_CORE * _cores()
        raise ConfigError([("--workers", f"{workers} is more than this machine can hold; at most {most}")])
    found = _found(kind, index)
    each = [name for name in found for _ in range(per_gpu)] if found[0].startswith("cuda") else found
    if workers is None:
        return each if found != ["cpu"] else ["cpu"] * _cores()
    return [each[i % len(each)] for i in range(workers)]


def _found(kind: str, index: str) -> list[str]:
    if kind == "cpu":
        return ["cpu"]
    import torch

    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if kind == "auto":
        return gpus or ["cpu"]
    if kind == "mps":
        if not torch.backends.mps.is_available():
            raise ConfigError([("--device", "mps is not available here; use --device cpu")])
        return ["mps"]
    wanted = [f"cuda:{int(index)}"] if index else gpus
    if not wanted or not set(wanted) <= set(gpus):
        there = ", ".join(gpus) or "no CUDA device"
        raise ConfigError([("--device", f"{device_name(kind, index)} is not here; this machine has {there}")])
    return wanted


def device_name(kind: str, index: str) -> str:
    """`cuda` or `cuda:1`."""
    return f"{kind}:{index}" if index else kind


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
