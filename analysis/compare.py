"""Every variant of an experiment against its baseline, seed by seed; who leads, and who cannot be told apart.

A diverged run has no score here: it is counted beside the mean (k of n), keeps its variant from being best, and is
never averaged. Nobody leads on fewer than three seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis.load import COSTS, STATUSES, Loaded
from analysis.statistics import (
    MeanInterval,
    Paired,
    fisher,
    holm,
    mean_interval,
    minimal_effect,
    paired,
    seeds_needed,
    tost,
)

FEWEST = 3  # seeds below which nobody leads
ALPHA = 0.05
Verdict = Literal["baseline", "better", "worse", "same", "uncertain", "unstable", "too few seeds", "no result"]


@dataclass(frozen=True)
class Row:
    """One variant.

    Attributes:
        variant, changes: its name, and dotted path -> value (none for the baseline).
        counts: status -> number of planned runs, over all statuses.
        scores: seed -> score of the runs that are done and have the metric.
        mean: over those seeds, with its 95 % Student t interval; None without a score.
        paired: against the baseline over the seeds that both have; None for the baseline or without a pair.
        p: of the paired difference, Holm-corrected over every planned variant of the experiment.
        p_divergence: Fisher's exact p of "diverges as often as the baseline"; NaN where neither diverged.
        cost: medians over the runs that are done. spread: least and most of each over those runs.
        planned: seeds that were asked for.
        run_ids: the runs that stand for it, one a seed; none while no choice is made.
        used: those whose score is in `mean`.
    """

    variant: str
    is_baseline: bool
    changes: Mapping[str, Any]
    counts: Mapping[str, int]
    scores: Mapping[int, float]
    mean: MeanInterval | None
    paired: Paired | None
    p: float
    p_divergence: float
    equivalent: bool
    cost: Mapping[str, float]
    planned: int
    run_ids: tuple[str, ...]
    used: tuple[str, ...]
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Seeds with a score."""
        return len(self.scores)

    @property
    def n_pairs(self) -> int:
        """Seeds that it shares with the baseline."""
        return self.paired.n if self.paired else 0

    @property
    def verdict(self) -> Verdict:
        """What may be said about it against the baseline, at 5 % after correction."""
        if self.counts["diverged"]:
            return "unstable"
        if not self.n:
            return "no result"
        if self.paired is None:
            return "baseline" if self.is_baseline else "no result"
        if self.n_pairs < FEWEST:
            return "too few seeds"
        if self.p < ALPHA:
            return "better" if self.paired.difference > 0 else "worse"
        return "same" if self.equivalent else "uncertain"


@dataclass(frozen=True)
class Comparison:
    """All variants on one metric, the baseline first, the others in declared order.

    Attributes:
        smallest_effect: difference that would matter, or None; stated for the experiment's own metric only.
    """

    experiment: str
    metric: str
    goal: Literal["min", "max"]
    rows: tuple[Row, ...]
    smallest_effect: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # the baseline's value of each dotted path that varies

    @property
    def baseline(self) -> Row:
        """The row that the others are compared with."""
        return self.rows[0]

    @property
    def others(self) -> tuple[Row, ...]:
        """Every variant but the baseline."""
        return self.rows[1:]

    @property
    def complete(self) -> bool:
        """Every planned run has a result."""
        return all(row.counts["done"] + row.counts["diverged"] == row.planned for row in self.rows)

    @property
    def n_tests(self) -> int:
        """Size of the family that p values are corrected over: all planned variants, tested yet or not."""
        return len(self.others)

    def row(self, variant: str) -> Row:
        """The row of a variant."""
        return next(row for row in self.rows if row.variant == variant)

    @cached_property
    def ranked(self) -> list[Row]:
        """Rows that may lead, best mean first: enough seeds and no divergence."""
        able = [row for row in self.rows if row.mean and row.n >= FEWEST and not row.counts["diverged"]]
        return sorted(able, key=lambda row: row.mean.mean if self.goal == "min" else -row.mean.mean)  # type: ignore[union-attr]

    @cached_property
    def leaders(self) -> list[Row]:
        """The best mean and every row that cannot be told apart from it."""
        return leaders(self.ranked, self.goal)

    def best(self, most: int) -> list[Row]:
        """The baseline and the best `most` variants, in declared order: what a figure has room for."""
        if len(self.others) <= most:
            return list(self.rows)
        order = [row for row in self.ranked if row is not self.baseline]
        order += [row for row in self.others if row not in order]
        kept = {row.variant for row in order[:most]}
        return [self.baseline, *(row for row in self.others if row.variant in kept)]

    def detectable(self, row: Row) -> float:
        """Smallest true difference that these seeds would find with 80 % power, uncorrected; NaN without a spread."""
        if row.paired is None or row.n_pairs < 2 or not row.paired.sd > 0:
            return math.nan
        return minimal_effect(row.n_pairs, sd=row.paired.sd)

    def seeds_for(self, row: Row) -> int | None:
        """Seeds that would find the smallest effect that matters with 80 % power; None where it is not stated."""
        if self.smallest_effect is None or row.paired is None or not row.paired.sd > 0:
            return None
        return seeds_needed(self.smallest_effect, sd=row.paired.sd)


def compare(loaded: Loaded, metric: str | None = None, goal: Literal["min", "max"] | None = None) -> Comparison:
    """Paired comparison of every variant with the baseline.

    Args:
        loaded: the experiment.
        metric: such as `test/loss`; None = the experiment's own.
        goal: whether less or more is better; None = the experiment's own, or by the metric's name for another metric.

    Raises:
        ReportError: no run has the metric.
    """
    own = str(loaded.meta["metric"])
    metric = loaded.check_metric(metric or own)
    goal = goal or (loaded.meta["goal"] if metric == own else goal_of(metric))
    assert goal in ("min", "max"), goal
    effect = loaded.meta.get("smallest_effect") if metric == own else None
    compared = loaded.compared
    table = loaded.scores[(loaded.scores["metric"] == metric) & (loaded.scores["status"] == "done")]
    table = table[table["run_id"].isin(compared["run_id"])]
    scores = {name: dict(zip(part["seed"], part["value"], strict=True)) for name, part in table.groupby("variant")}
    names = loaded.variants
    runs = {name: compared[compared["variant"] == name] for name in names}
    base = scores.get(names[0], {}), runs[names[0]]
    rows = [_row(loaded, name, runs[name], scores.get(name, {}), base, goal, effect) for name in names]
    config = loaded.meta.get("baseline_config") or {}
    settings = {path: lookup(config, path) for row in rows for path in row.changes}
    return Comparison(loaded.experiment, metric, goal, tuple(_corrected(rows)), effect, settings)


def leaders(ranked: list[Row], goal: Literal["min", "max"]) -> list[Row]:
    """The first of the ranked rows and those that no test tells apart from it, in ranked order.

    Where one side is the baseline the experiment's own corrected p decides, so that tables and sentences agree;
    elsewhere the paired t test does, Holm-corrected over the rows below the first.
    """
    if not ranked:
        return []
    final = from_first(ranked, goal)
    return [ranked[0], *(row for row, value in zip(ranked[1:], final, strict=True) if not value < ALPHA)]


def from_first(ranked: list[Row], goal: Literal["min", "max"]) -> list[float]:
    """The p value by which each lower row is told apart from the first one, as `leaders` decides it."""
    best, rest = ranked[0], ranked[1:]
    p = holm([math.nan if _with_baseline(best, row) is not None else _p_between(best, row, goal) for row in rest])
    known = [_with_baseline(best, row) for row in rest]
    return [float(after) if direct is None else direct for direct, after in zip(known, p, strict=True)]


def between(a: Row, b: Row, goal: Literal["min", "max"]) -> Paired | None:
    """Two variants over the seeds that both have, positive where the first is better; None below two seeds."""
    return _paired(a.scores, b.scores, goal) if len(set(a.scores) & set(b.scores)) > 1 else None


def _with_baseline(a: Row, b: Row) -> float | None:
    """The p that is already known because one of the two is the baseline; else None."""
    return b.p if a.is_baseline else a.p if b.is_baseline else None


def _p_between(a: Row, b: Row, goal: Literal["min", "max"]) -> float:
    both = between(a, b, goal)
    return math.nan if both is None else both.p


def goal_of(metric: str) -> Literal["min", "max"]:
    """Whether less or more is better, by the metric's last word."""
    return "min" if metric.rsplit("/", 1)[-1] in ("loss", "perplexity", "bits_per_token") else "max"


def lookup(config: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path of a config, or None; a component's options are found by their names."""
    value: Any = config
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value[part] if part in value else (value.get("options") or {}).get(part)
    return value


def _row(
    loaded: Loaded, name: str, runs: pd.DataFrame, scores: dict[int, float],
    baseline: tuple[dict[int, float], pd.DataFrame], goal: Literal["min", "max"], effect: float | None,
) -> Row:  # fmt: skip
    base, base_runs = baseline
    planned = loaded.runs.loc[loaded.runs["variant"] == name, "seed"].nunique()
    done = runs[runs["status"] == "done"]
    is_baseline = name == loaded.variants[0]
    both = None if is_baseline or not set(scores) & set(base) else _paired(scores, base, goal)
    seeds = sorted(set(scores) & set(base))
    equivalent = (
        effect is not None and both is not None and both.n >= FEWEST
        and tost([scores[s] for s in seeds], [base[s] for s in seeds], margin=effect, goal=goal).equivalent
    )  # fmt: skip
    return Row(
        variant=name, is_baseline=is_baseline, changes={} if is_baseline else loaded.changes(name),
        counts=_counts(runs, planned), scores=dict(sorted(scores.items())),
        mean=mean_interval(list(scores.values())) if scores else None, paired=both, p=both.p if both else math.nan,
        p_divergence=math.nan if is_baseline else _p_divergence(runs, base_runs), equivalent=bool(equivalent),
        cost={cost: float(done[cost].median()) if len(done) else math.nan for cost in COSTS}, planned=planned,
        run_ids=tuple(runs["run_id"]), used=tuple(done.loc[done["seed"].isin(list(scores)), "run_id"]),
        spread={cost: (float(done[cost].min()), float(done[cost].max())) for cost in COSTS if len(done)},
    )  # fmt: skip


def _paired(a: Mapping[int, float], b: Mapping[int, float], goal: Literal["min", "max"]) -> Paired:
    seeds = sorted(set(a) & set(b))
    return paired([a[s] for s in seeds], [b[s] for s in seeds], goal=goal)


def _counts(runs: pd.DataFrame, planned: int) -> dict[str, int]:
    """Runs by status; a seed for which no run is chosen yet is missing."""
    found = runs["status"].value_counts()
    counts = {status: int(found.get(status, 0)) for status in STATUSES}
    return {**counts, "missing": counts["missing"] + planned - len(runs)}


def _p_divergence(runs: pd.DataFrame, base: pd.DataFrame) -> float:
    (k, n), (base_k, base_n) = (
        (int((r["status"] == "diverged").sum()), int(r["status"].isin(["done", "diverged"]).sum()))
        for r in (runs, base)
    )
    return fisher(k, n, base_k, base_n).p if n and base_n and k + base_k else math.nan


def _corrected(rows: list[Row]) -> list[Row]:
    """p over the whole planned family: a variant without a test yet counts as p = 1, so a half sweep gains nothing."""
    raw = np.array([row.p for row in rows[1:]])
    adjusted = holm(np.where(np.isnan(raw), 1.0, raw)) if raw.size else raw
    done = [Row(**{**row.__dict__, "p": math.nan if math.isnan(row.p) else float(p)})
            for row, p in zip(rows[1:], adjusted, strict=True)]  # fmt: skip
    return [rows[0], *done]
