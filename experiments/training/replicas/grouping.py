"""Which runs may train together, and how many: what the runner asks. Imports torch only when it is asked how many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from experiments.config import ConfigError, digest

if TYPE_CHECKING:
    from experiments.experiment import Run
    from experiments.training.execute import Job

Replicas = int | Literal["auto"]

OWN = (  # fields of `train` that a replica keeps to itself; any other must be equal, since it shapes the computation
    "steps", "lr", "schedule", "warmup", "weight_decay", "beta1", "beta2", "clip", "eval_every", "patience",
    "overfit_one_batch",
)
MOST_ON_GPU = 128
ON_CPU, LEAST_GAIN = 8, 1.15
LARGEST_ON_CPU = 2**16  # batch_size * longest input * d_model of a step; above it no CPU gained when this was measured
FEWEST_STEPS = 200  # a shorter run is over before a measurement would have paid


@dataclass(frozen=True)
class Grouping:
    """How runs of one shape are put together.

    Args:
        replicas: at most this many train together; `auto` = on a GPU as many as fit, on a CPU several where a step
            is small and a measurement of a few steps says that it pays.
        device: where the workers train, such as `cpu` or `cuda:0`.
    """

    replicas: Replicas = "auto"
    device: str = "cpu"
    target: str = "experiments.training.replicas.execute:execute_group"

    def key(self, run: Run) -> str | None:
        """Equal for runs that may train together; None = this one trains alone."""
        train = dict(run.identity["train"])
        if self.replicas == 1 or train["scheduled_sampling"] is not None or train["checkpoint_activations"]:
            return None
        shared = {name: value for name, value in train.items() if name not in OWN}
        return digest({"model": run.identity["model"], "task": run.identity["task"], "train": shared})

    def most(self, run: Run) -> int:
        """How many runs like this one a worker is given at once."""
        if self.replicas != "auto":
            return self.replicas
        if self.device.startswith("cuda"):
            return MOST_ON_GPU
        if self.device != "cpu" or run.config.train.steps < FEWEST_STEPS or _work(run) > LARGEST_ON_CPU:
            return 1
        from experiments.training.replicas.sizes import gain

        return ON_CPU if gain(run.config, ON_CPU) >= LEAST_GAIN else 1

    def job(self, jobs: Sequence[Job]) -> Any:
        """What `target` is called with."""
        from experiments.training.replicas.execute import GroupJob

        return GroupJob(tuple(jobs), fit=self.replicas == "auto")


def _work(run: Run) -> int:
    from experiments.check import build_task

    return run.config.train.batch_size * build_task(run.config.task).max_len * run.config.model.d_model


def replicas_of(text: str) -> Replicas:
    """`auto`, or a count of at least 1.

    Raises:
        ConfigError: anything else.
    """
    if text == "auto":
        return "auto"
    if not text.isdigit() or int(text) < 1:
        raise ConfigError([("--replicas", f"{text!r} must be auto, or how many runs train together, at least 1")])
    return int(text)
