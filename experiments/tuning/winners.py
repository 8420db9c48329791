"""choice.json: which values were chosen for each variant, and from what. Torch-free; the analysis reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import records
from transformer.spec import Spec

if TYPE_CHECKING:
    from experiments.experiment import Experiment

CHOICE = "choice.json"


@dataclass(frozen=True)
class Winner:
    """The choice for one variant.

    Attributes:
        values: path -> chosen value; empty = nothing could be chosen.
        runs: ids of the variant's runs at that choice, one per seed.
        mean: mean validation score there.
        edge: `lower` or `upper` when the choice lies at an end of what was tried.
        warning: that in words, or why nothing was chosen; "" = nothing to warn of.
    """

    values: Mapping[str, Any]
    runs: tuple[str, ...]
    mean: float | None
    edge: str | None = None
    warning: str = ""


def write_choice(
    results: Path, experiment: Experiment, *, protocol: Spec, metric: str, final: bool,
    winners: Mapping[str, Winner], tried: Mapping[str, Mapping[str, Any]], name: str | None = None,
) -> None:
    """Writes choice.json of an experiment.

    Args:
        final: whether every run that the choice is made from has ended.
        tried: run id -> the tuned values it was trained with.
        name: where the runs lie, if not under the experiment's own name.
    """
    content = {
        "schema": records.SCHEMA, "protocol": protocol.to_dict(), "metric": metric, "goal": experiment.goal,
        "final": final, "variants": {n: asdict(w) | {"values": dict(w.values)} for n, w in winners.items()},
        "tried": {run_id: dict(values) for run_id, values in tried.items()},
    }
    folder = results / (name or experiment.name)
    folder.mkdir(parents=True, exist_ok=True)
    records.write_json(folder / CHOICE, content)
