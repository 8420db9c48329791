"""What a tuner left (tuning.json, trials.csv, choice.json) as tables and sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.load import Loaded, ReportError
from analysis.statistics import Goal, expected_best
from analysis.statistics.samples import Floats
from analysis.words import metric_name, setting
from experiments import records

TUNING, TRIALS = "tuning.json", "trials.csv"


@dataclass(frozen=True)
class Axis:
    """A tuned parameter: its dotted path, how it is spread (`log`, `linear` or `choice`), and its condition."""

    path: str
    scale: str
    when: str | None


@dataclass(frozen=True)
class StudyTable:
    """One study.

    Attributes:
        variant: whose values were tuned.
        objectives: (metric, goal) of each; the first is the score.
        axes: what was varied. importance: path -> share of the score's variation that it explains; may be empty.
        trials: one row per told trial: number, status (done, diverged, pruned, failed), score, second (with two
            objectives), one column per path (NaN or "" where it did not exist), and `cost.NAME` columns.
        best: numbers of the best trials, the best score first.
        warning, set_line, file: words on the edge of the range, the winner as options, the file that holds it.
    """

    variant: str
    objectives: tuple[tuple[str, Goal], ...]
    axes: tuple[Axis, ...]
    importance: Mapping[str, float]
    trials: pd.DataFrame
    best: tuple[int, ...]
    warning: str
    set_line: str
    file: str | None

    @property
    def metric(self) -> str:
        """What decides."""
        return self.objectives[0][0]

    @property
    def goal(self) -> Goal:
        """Whether less or more of it is better."""
        return self.objectives[0][1]

    def best_so_far(self) -> Floats:
        """Best score of a done trial up to each trial, shape (trials,); NaN before the first."""
        scores = self.trials["score"].where(self.trials["status"] == "done")
        worst = math.inf if self.goal == "min" else -math.inf
        filled = scores.fillna(worst).to_numpy(dtype=np.float64)
        reached = np.minimum.accumulate(filled) if self.goal == "min" else np.maximum.accumulate(filled)
        return np.where(np.isfinite(reached), reached, np.nan)

    def expected(self) -> Floats:
        """Expected best of B of the trials, B = 1..n, had they come in random order; what a smaller budget buys.

        Diverged trials count with the finite score that the sampler was told. It describes random search; a sampler
        that learns comes sooner to the same end.
        """
        scores = self.trials.loc[self.trials["status"].isin(["done", "diverged"]), "score"].dropna()
        return expected_best(scores.to_numpy(dtype=np.float64), goal=self.goal) if len(scores) else np.empty(0)


@dataclass(frozen=True)
class Tuning:
    """A session's studies. `final`: whether every study has all the trials that were asked for."""

    experiment: str
    final: bool
    settings: Mapping[str, Any]
    studies: tuple[StudyTable, ...]


def read_tuning(results: Path | str, experiment: str) -> Tuning | None:
    """What a tuner left under `results/<experiment>`; None where nothing was tuned.

    Raises:
        ReportError: its files cannot be trusted.
    """
    folder = Path(results) / experiment
    try:
        content = records.read_json(folder / TUNING)
        table = pd.read_csv(folder / TRIALS, keep_default_na=False, na_values=[""], dtype={"variant": str, "runs": str})
    except FileNotFoundError:
        return None
    except (records.Damaged, ValueError) as error:
        raise ReportError(f"{error}; run the tune command again to rewrite it (finished trials are kept)") from None
    studies = tuple(_study(one, table[table["study"] == one["name"]]) for one in content["studies"])
    return Tuning(experiment, bool(content["final"]), content["settings"], studies)


def _study(one: Mapping[str, Any], trials: pd.DataFrame) -> StudyTable:
    objectives = tuple((str(o["metric"]), o["goal"]) for o in one["objectives"])
    names = {metric: name for (metric, _), name in zip(objectives, ("score", "second"), strict=False)}
    axes = {axis["path"]: Axis(axis["path"], axis["scale"], axis["when"]) for axis in one["space"]}
    return StudyTable(
        str(one["variant"]), objectives, tuple(axes.values()), one["importance"],
        trials.rename(columns=names).sort_values("number", ignore_index=True),
        tuple(int(best["number"]) for best in one["best"]), one["warning"], one["set"], one["file"],
    )  # fmt: skip


def sensitivity(loaded: Loaded) -> pd.DataFrame | None:
    """Score at every learning rate that was tried, one row per run: variant, learning_rate, seed, status, value (NaN
    unless done), chosen. None where no common grid was tried.

    The score is the one the choice was made on, so that the curve shows what the choice saw.
    """
    if loaded.choice is None or not loaded.choice.tried:
        return None
    rates = {run: values["train.lr"] for run, values in loaded.choice.tried.items() if set(values) == {"train.lr"}}
    table = loaded.runs[loaded.runs["run_id"].isin(rates)]
    if table.empty:
        return None
    scores = loaded.scores[loaded.scores["metric"] == loaded.choice.metric]
    value = dict(zip(scores["run_id"], scores["value"], strict=True))
    return pd.DataFrame({
        "variant": table["variant"], "learning_rate": table["run_id"].map(rates), "seed": table["seed"],
        "status": table["status"], "chosen": table["chosen"],
        "value": table["run_id"].map(value).where(table["status"] == "done"),
    }).reset_index(drop=True)  # fmt: skip


def answers(tuning: Tuning) -> list[str]:
    """One sentence per variant: its best trial, and a warning where that lies on the edge of what was searched."""
    found = []
    for study in tuning.studies:
        if not study.best:
            found.append(f"{study.variant}: none of {len(study.trials)} trials is done.")
            continue
        row = study.trials[study.trials["number"] == study.best[0]].iloc[0]
        values = ", ".join(f"{axis.path}={setting(row[axis.path])}" for axis in study.axes if _there(row[axis.path]))
        score = f"{metric_name(study.metric)} {row['score']:.4g}"
        text = f"{study.variant}: {score} with {values}, best of {len(study.trials)}."
        found.append(f"{text} Warning: {study.warning}." if study.warning else text)
    return found


def _there(value: Any) -> bool:
    return not (isinstance(value, float) and math.isnan(value))


def caution(tuning: Tuning) -> str:
    """What the scores of winners are not."""
    most = max(len(study.trials) for study in tuning.studies)
    return (
        f"The compared runs are each variant's best of up to {most} trials, on the seeds that they were chosen on, "
        "which flatters them. For a comparison train the winners on fresh seeds: protocol `search` does."
    )
