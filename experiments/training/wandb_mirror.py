"""wandb as a mirror of a run: quiet, offline unless asked, imported only when wanted."""

from __future__ import annotations

import importlib.util
import os
import time
import warnings
from pathlib import Path
from typing import Any, Literal

from experiments.config import ConfigError
from experiments.training.trackers import FLUSH_SECONDS, About, Row
from transformer.registry import unknown

Mode = Literal["off", "offline", "online"]
MODES = ("off", "offline", "online")
INIT_SECONDS = 15.0  # a key without a network would otherwise block for 100 s
QUIET: dict[str, Any] = {
    "silent": True, "console": "off", "x_disable_stats": True, "x_disable_meta": True, "x_disable_machine_info": True,
    "x_save_requirements": False, "disable_git": True, "save_code": False, "disable_job_creation": True,
    "reinit": "create_new",  # several runs of a process may be open, since replicas train together
}
_unreachable = False  # one failed attempt to go online is enough for a process


def check_wandb(mode: str) -> None:
    """Whether runs can be mirrored in this mode; asked once, before any run.

    Raises:
        ConfigError: an unknown mode; online without wandb or without a key. Never asks on the terminal.
    """
    if mode not in MODES:
        raise ConfigError([("wandb", unknown("mode", mode, MODES))])
    if mode != "online":
        return
    if importlib.util.find_spec("wandb") is None:
        raise ConfigError([("wandb", "mode 'online' needs the package wandb: pip install wandb")])
    if not _has_key():
        text = "mode 'online' needs a key: run `wandb login`, or set WANDB_API_KEY; or use 'offline' and sync later"
        raise ConfigError([("wandb", text)])


class WandbMirror:
    """One wandb run for one of ours: group = experiment, job type = variant, name = run id.

    The id is experiment and run id, since two experiments may hold the same run.

    Args:
        mode: offline or online. When the service cannot be reached in 15 s, one warning and offline.
        results: the results folder; wandb keeps its files in `wandb/` under it.
    """

    def __init__(self, mode: Mode, results: Path) -> None:
        self.mode, self.results = mode, results
        self.run: Any = None
        self.rows: list[dict[str, Any]] = []
        self.sent = time.monotonic()

    def start(self, about: About) -> None:
        """Opens the run and makes our own `step` the x-axis, since a resumed run counts wandb's from 0 again."""
        self._prepare()
        self.run = self._open(about)
        self.run.define_metric("step", hidden=True)
        self.run.define_metric("*", step_metric="step")

    def log(self, row: Row) -> None:
        """One line of metrics, kept for the next flush: each call to wandb wakes a thread that competes with a step."""
        self.rows.append(dict(row))
        if time.monotonic() - self.sent > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Hands the rows over."""
        rows, self.rows, self.sent = self.rows, [], time.monotonic()
        for row in rows:
            self.run.log(row)

    def summary(self, scores: Row) -> None:
        """The final scores."""
        self.run.summary.update(dict(scores))

    def finish(self, status: str) -> None:
        """Closes the run; anything but a result counts as a failed wandb run."""
        if self.run is not None:
            self.flush()
            self.run.summary["status"] = status
            self.run.finish(exit_code=0 if status in ("done", "diverged") else 1)

    def _prepare(self) -> None:
        folder = self.results / "wandb"
        folder.mkdir(parents=True, exist_ok=True)
        for key in ("WANDB_CACHE_DIR", "WANDB_DATA_DIR"):  # or it writes to the home directory, which may be read-only
            os.environ.setdefault(key, str(folder / ".cache"))
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # offline then means no network at all

    def _open(self, about: About) -> Any:
        global _unreachable
        if self.mode == "online" and not _unreachable:
            try:
                return self._init(about, "online")
            except Exception as error:
                _unreachable = True
                first = (str(error).splitlines() or [""])[0][:200]
                text = f"wandb cannot be reached ({type(error).__name__}: {first}); this run is mirrored offline"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
        return self._init(about, "offline")

    def _init(self, about: About, mode: Literal["offline", "online"]) -> Any:
        import wandb

        return wandb.init(
            project=os.environ.get("WANDB_PROJECT", "transformer-ablations"), dir=str(self.results), mode=mode,
            id=f"{about.experiment}.{about.run_id}"[:128], name=about.run_id, resume="allow",
            group=about.experiment, job_type=about.variant,
            tags=[tag[:64] for tag in about.tags], config={**about.config, "variant": about.variant},
            settings=wandb.Settings(init_timeout=INIT_SECONDS, **QUIET),
        )


def _has_key() -> bool:
    import wandb

    try:
        return bool(wandb.login(prompt=False))
    except Exception:
        return False
