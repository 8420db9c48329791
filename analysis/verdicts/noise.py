"""Two more answers about one change: how much is luck, and what is it worth in compute?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from analysis.load import Loaded
from analysis.statistics import Goal, SpeedUp, mean_interval, paired, speed_up

FEWEST = 4  # seeds from which the baseline can be set against itself


@dataclass(frozen=True)
class NoiseFloor:
    """The baseline against itself on other seeds.

    Attributes:
        n: seeds. sd: of its score over seeds.
        single: two single runs of the same thing, on two seeds, differ by more than this one time in twenty.
        difference, low, high, p: of the A/A comparison, every second seed against the one before it; it must come out
            null. NaN under four seeds.
    """

    n: int
    sd: float
    single: float
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan

    @property
    def null(self) -> bool:
        """Whether the A/A comparison found nothing, as it must; also where it could not be made."""
        return not self.p < 0.05

    def __str__(self) -> str:
        if self.n < 2:
            return "unknown under two seeds"
        test = "" if math.isnan(self.p) else f"; A/A: {self.difference:+.2g} ({self.low:+.2g} to {self.high:+.2g}), "
        test += "" if math.isnan(self.p) else "null as it must be" if self.null else "NOT NULL: distrust these seeds"
        return f"two single runs of the baseline differ by up to {self.single:.2g} by luck (n = {self.n}{test})"


def noise_floor(baseline: Sequence[float], goal: Goal = "min") -> NoiseFloor:
    """sd over seeds, t_(n-1, .975) sqrt(2) sd for two single runs, and seeds 1, 3, .. against seeds 0, 2, ..

    Args:
        baseline: one score a seed, in the order of seeds.
        goal: turns the A/A difference as every other one.
    """
    n = len(baseline)
    if n < 2:
        return NoiseFloor(n, math.nan, math.nan)
    sd = mean_interval(baseline).sd
    single = float(stdtrit(n - 1, 0.975)) * math.sqrt(2) * sd
    if n < FEWEST:
        return NoiseFloor(n, sd, single)
    half = n // 2
    test = paired(baseline[1 : 2 * half : 2], baseline[0 : 2 * half : 2], goal=goal)
    return NoiseFloor(n, sd, single, test.difference, test.low, test.high, test.p)


def speed_up_of(
    loaded: Loaded, variant: str, baseline: str, metric: str, goal: Goal, *, longer: Loaded | None = None
) -> SpeedUp | None:
    """How much more compute the baseline would need for the variant's score; None where the curves do not say.

    Within the trained steps it is read from the baseline's own curve. Its learning rate has not decayed there, so it is
    worse than a run of that length would be, and a slow-down looks smaller than it is. Beyond them it is read from
    `longer`, the same baseline trained for more steps, at its end.

    Args:
        metric: of validation, since curves hold no test scores.
        longer: an experiment of the baseline alone, with more steps and the same seeds.
    """
    curves = {seed: loaded.curve(run) or {} for run, seed in _done(loaded, baseline)}
    ends = {seed: (loaded.curve(run) or {}).get(metric, {}) for run, seed in _done(loaded, variant)}
    seeds = [s for s in curves if s in ends and ends[s] and curves[s].get(metric)]
    extended = _ends(longer, baseline, metric) if longer is not None else {}
    points = {s: {**curves[s][metric], **extended.get(s, {})} for s in seeds}
    steps = sorted(set.intersection(*(set(p) for p in points.values()))) if points else []
    if len(steps) < 2:
        return None
    finals = [ends[s][max(ends[s])] for s in seeds]
    table = np.array([[points[s][step] for step in steps] for s in seeds])
    spent = max(max(ends[s]) for s in seeds)
    ratio = _cost_ratio(loaded, variant, baseline)
    return speed_up(steps, table, finals, variant_steps=spent, cost_ratio=ratio, goal=goal)


def _done(loaded: Loaded, variant: str) -> list[tuple[str, int]]:
    rows = loaded.runs[(loaded.runs["variant"] == variant) & (loaded.runs["status"] == "done")]
    return [(str(r.run_id), int(r.seed)) for r in rows.itertuples()]


def _ends(longer: Loaded, variant: str, metric: str) -> Mapping[int, dict[int, float]]:
    found = {}
    for run, seed in _done(longer, variant):
        points = (longer.curve(run) or {}).get(metric, {})
        found[seed] = {max(points): points[max(points)]} if points else {}
    return found


def _cost_ratio(loaded: Loaded, variant: str, baseline: str) -> float:
    """FLOPs of a step of the variant over one of the baseline; 1 where they are unknown."""
    per_token = loaded.runs.groupby("variant")["flops_per_token"].median()
    ratio = float(per_token.get(variant, math.nan)) / float(per_token.get(baseline, math.nan))
    return ratio if ratio > 0 else 1.0
