"""choice.json: which of several tuned runs stand for a variant. Without one, a variant has one run a seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.words import setting
from experiments import records

CHOICE = "choice.json"


@dataclass(frozen=True)
class Choice:
    """A choice of hyper-parameters, one a variant, made on validation scores.

    Attributes:
        metric: the validation metric it was made on.
        final: whether every run that it is made from had ended.
        values: variant -> {path: chosen value}; empty where nothing could be chosen.
        runs: ids of the runs at the choices. tried: run id -> {path: value it was trained with}.
        warnings: variant -> why nothing was chosen, or that the choice lies at the edge of what was tried.
    """

    metric: str
    final: bool
    values: Mapping[str, Mapping[str, Any]]
    runs: frozenset[str]
    tried: Mapping[str, Mapping[str, Any]]
    warnings: Mapping[str, str]


def read_choice(folder: Path) -> Choice | None:
    """The choice of the experiment in this folder; None where there is none that can be trusted."""
    try:
        content = records.read_json(folder / CHOICE)
    except (FileNotFoundError, records.Damaged):
        return None
    variants = {str(name): of for name, of in (content.get("variants") or {}).items() if isinstance(of, Mapping)}
    return Choice(
        str(content.get("metric") or ""), bool(content.get("final")),
        {name: dict(of.get("values") or {}) for name, of in variants.items()},
        frozenset(run for of in variants.values() for run in of.get("runs") or ()),
        {str(run): dict(values) for run, values in (content.get("tried") or {}).items()},
        {name: str(of["warning"]) for name, of in variants.items() if of.get("warning")},
    )  # fmt: skip


def mark(runs: pd.DataFrame, choice: Choice | None) -> pd.DataFrame:
    """Adds `chosen` (whether the run stands for its variant) and `tuned` (its tuned values in words).

    Several runs of a variant with one seed are never mixed: while no choice names one of them, none is chosen.
    """
    if choice is None:
        chosen = ~runs.duplicated(["variant", "seed"], keep=False)
        return runs.assign(chosen=chosen, tuned="")
    words = [", ".join(f"{p}={setting(v)}" for p, v in choice.tried.get(run, {}).items()) for run in runs["run_id"]]
    return runs.assign(chosen=runs["run_id"].isin(choice.runs), tuned=words)
