"""Where a run can go on from, and the weights that it ends with.

checkpoint.pt is what `torch.save` writes (it loads with `weights_only=True`), followed by a sha256 of it: torch reads
the archive in front and does not notice a flipped bit, the trailer does.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch
from torch import Tensor, nn

from experiments.config import ConfigError
from experiments.records import METRICS, replacing, write_bytes

FORMAT = 1
MARK = b"\nsha256:"


@dataclass
class Progress:
    """Everything that a run has counted so far, plain numbers and text only.

    Attributes:
        step: optimiser steps done. tokens: tokens read. clipped: steps whose gradient was longer than `train.clip`.
        seconds, train_seconds: time so far, all of it and in steps alone, interruptions left out.
        start_loss: loss of the first step. high_steps: steps in a row with a loss far above it.
        best_step, best_loss: the best validation so far. worse: validations since then.
        scores: the last finite validation scores.
        length: positions of the first training batch.
        saved_bytes: what one forward pass keeps for its backward pass (see memory.py).
        metrics_bytes: length of metrics.jsonl.
    """

    step: int = 0
    tokens: int = 0
    clipped: int = 0
    seconds: float = 0.0
    train_seconds: float = 0.0
    start_loss: float | None = None
    high_steps: int = 0
    best_step: int = 0
    best_loss: float = math.inf
    worse: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    length: int = 0
    saved_bytes: int = 0
    metrics_bytes: int = 0


def save_checkpoint(
    path: Path, run_hash: str, model: nn.Module, optimiser: torch.optim.Optimizer, progress: Progress
) -> None:
    """Writes a checkpoint; a reader sees the one before or this one, never half of one.

    Raises:
        OSError: the disk is full or the folder cannot be written; the checkpoint before is untouched.
    """
    content = {
        "format": FORMAT, "hash": run_hash, "progress": dataclasses.asdict(progress), "model": model.state_dict(),
        "optimiser": optimiser.state_dict(), "rng": torch.get_rng_state(),
        "metrics": _beginning(path.with_name(METRICS), progress.metrics_bytes),
    }
    with replacing(path) as file:
        archive = _Hashed(file)
        torch.save(content, cast(IO[bytes], archive))
        file.write(MARK + archive.digest())


class _Hashed:
    """Passes on what is written and hashes it: a copy of a large model in memory would take as long again."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._sha256 = file, hashlib.sha256()
        self._error: OSError | None = None

    def write(self, part: Any) -> int:
        """Never raises: torch would call again while it unwinds. An error comes up at the end."""
        self._sha256.update(part)
        if self._error is None:
            try:
                self._file.write(part)
            except OSError as error:
                self._error = error
        return len(part)

    def flush(self) -> None:
        """The file is flushed as a whole."""

    def digest(self) -> bytes:
        """sha256 of all that was written.

        Raises:
            OSError: it could not be written.
        """
        if self._error is not None:
            raise self._error
        return self._sha256.digest()


def load_checkpoint(
    path: Path, run_hash: str, model: nn.Module, optimiser: torch.optim.Optimizer, *, device: str = "cpu"
) -> Progress:
    """Puts model, optimiser and generator back where the checkpoint left them.

    A checkpoint that is torn, altered, of another run, or that does not fit metrics.jsonl costs one warning; the run
    then starts from step 0. Nothing is touched before all of it has been checked.

    Returns:
        What the run had counted; a fresh Progress where there is nothing to go on from.
    """
    if not path.exists():
        return Progress()
    try:
        content = _read(path, device)
        progress = Progress(**content["progress"])
        _belongs(content, run_hash, model, optimiser)
        _has_its_metrics(path.with_name(METRICS), progress.metrics_bytes, content["metrics"])
    except Exception as error:  # whatever is wrong with the file, the run can be repeated
        warnings.warn(f"{path}: {error}; the run starts from step 0", RuntimeWarning, stacklevel=2)
        return Progress()
    model.load_state_dict(content["model"])
    optimiser.load_state_dict(content["optimiser"])
    torch.set_rng_state(content["rng"].cpu())
    return progress


def save_weights(path: Path, model: nn.Module, *, run_hash: str) -> None:
    """weights.safetensors: every tensor once; a tied one is listed in the metadata under `tied`.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    first: dict[tuple[Any, ...], str] = {}
    for name, tensor in model.state_dict().items():
        key = (tensor.data_ptr(), tensor.shape, tensor.stride()) if tensor.numel() else (name,)
        if key in first:
            tied[name] = first[key]
        else:
            first[key] = name
            tensors[name] = tensor.detach().cpu().contiguous()
    write_bytes(path, _in_order(save(tensors, metadata={"hash": run_hash, "tied": json.dumps(tied)})))


def _in_order(content: bytes) -> bytes:
    """The same file with its header's keys sorted: the library writes metadata in a random order, and two equal runs
    must leave equal bytes. A file is the length of its header (8 bytes, little endian), the header, the tensors."""
    length = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + length]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return b"".join([len(header).to_bytes(8, "little"), header, memoryview(content)[8 + length :]])


def load_weights(path: Path, model: nn.Module) -> None:
    """Fills a model from `save_weights`.

    Raises:
        FileNotFoundError: there is no such file.
        ConfigError: it is torn, or holds another model's weights.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            tied = json.loads((file.metadata() or {}).get("tied", "{}"))
    except SafetensorError as error:
        raise ConfigError([(str(path), f"unreadable weights ({error}); train the run again with --redo")]) from None
    try:
        model.load_state_dict({**tensors, **{name: tensors[source] for name, source in tied.items()}})
    except (RuntimeError, KeyError) as error:
        raise ConfigError([(str(path), f"weights of another model ({str(error).splitlines()[0]})")]) from None


def _read(path: Path, device: str) -> dict[str, Any]:
    raw = path.read_bytes()
    archive, mark, digest = raw[:-40], raw[-40:-32], raw[-32:]
    if mark != MARK or hashlib.sha256(archive).digest() != digest:
        raise ValueError("the checkpoint is torn or was altered")
    content = torch.load(io.BytesIO(archive), map_location=device, weights_only=True)
    if content.get("format") != FORMAT:
        raise ValueError(f"the checkpoint has format {content.get('format')}, not {FORMAT}")
    return dict(content)


def _belongs(content: dict[str, Any], run_hash: str, model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    if content["hash"] != run_hash:
        raise ValueError("the checkpoint is of another configuration")
    ours, theirs = model.state_dict(), content["model"]
    groups = [len(group["params"]) for group in optimiser.param_groups]
    if (
        ours.keys() != theirs.keys()
        or any(ours[name].shape != theirs[name].shape for name in ours)
        or groups != [len(group["params"]) for group in content["optimiser"]["param_groups"]]
    ):
        raise ValueError("the checkpoint is of a model built differently")


def _has_its_metrics(path: Path, size: int, digest: str) -> None:
    if (path.stat().st_size if path.exists() else 0) < size:
        raise ValueError(f"{path.name} is shorter than when the checkpoint was written")
    if _beginning(path, size) != digest:
        raise ValueError(f"{path.name} was altered since the checkpoint was written")


def _beginning(path: Path, size: int) -> str:
    """sha256 of the first bytes of a file, so that no altered curve is carried on."""
    if not size:
        return hashlib.sha256().hexdigest()
    with open(path, "rb") as file:
        return hashlib.sha256(file.read(size)).hexdigest()
