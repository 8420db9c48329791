"""What a person asks of a tuner. Torch-free."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from transformer.spec import Spec


@dataclass(frozen=True)
class Request:
    """How an experiment is to be tuned.

    Attributes:
        trials: wanted of each variant, earlier sessions included.
        sampler, pruner: by name, with options.
        seeds: how many of the experiment's seeds a trial's score is averaged over, from the first.
        cost: a second objective, to be small, such as `flops_per_token`; None = the score alone.
        seed: of the sampler.
        storage: URL; None = a SQLite file beside the runs.
        study: part of the name under which trials lie: `<experiment>-<study>`.
        variants: which to tune; () = all.
    """

    trials: int = 20
    sampler: Spec = field(default_factory=lambda: Spec("tpe"))
    pruner: Spec = field(default_factory=lambda: Spec("none"))
    seeds: int = 1
    cost: str | None = None
    seed: int = 0
    storage: str | None = None
    study: str = "tune"
    variants: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for records; without the storage, whose URL may hold a password."""
        plain = {key: value for key, value in vars(self).items() if key != "storage"}
        return {**plain, "sampler": self.sampler.to_dict(), "pruner": self.pruner.to_dict(),
                "variants": list(self.variants)}  # fmt: skip


def store_name(experiment: str, study: str) -> str:
    """Name under which a study's trials and files lie among the results."""
    return f"{experiment[: 63 - len(study)]}-{study}"
