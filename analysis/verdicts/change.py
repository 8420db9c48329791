"""What stands beside the verdict on one change: the noise floor of its baseline, and its speed-up at equal loss."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analysis.compare import goal_of
from analysis.load import Loaded, ReportError, load
from analysis.statistics import SpeedUp
from analysis.verdicts.noise import NoiseFloor, noise_floor, speed_up_of
from analysis.verdicts.verdict import plain

BASELINE, CHANGE = "baseline", "change"


@dataclass(frozen=True)
class Change:
    """Noise floor and speed-up; None where the runs do not say."""

    noise: NoiseFloor | None
    speed_up: SpeedUp | None

    def lines(self) -> list[str]:
        """For a reader."""
        floor = self.noise or "unknown, no run of the baseline has a score"
        return [f"noise floor: {floor}", f"speed-up: {self._worth()}"]

    def _worth(self) -> str:
        s = self.speed_up
        if s is None:
            return "unknown, since the curves are too short"
        interval = f"{s.low:.2f} to {s.high:.2f}"
        return f"{s} (95 % CI {interval}): compute that the baseline needs for the change's score, over the change's"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        noise = None if self.noise is None else {**asdict(self.noise), "null": self.noise.null}
        speed = None if self.speed_up is None else {**asdict(self.speed_up), "text": str(self.speed_up)}
        found: dict[str, Any] = plain({"noise_floor": noise, "speed_up": speed})
        return found


def about_change(results: Path | str, name: str, longer: str | None = None) -> Change:
    """Noise floor on the experiment's own metric, speed-up on the same metric of validation.

    Args:
        name: of an experiment with the variants `baseline` and `change`.
        longer: an experiment of the same baseline trained for more steps.
    """
    try:
        loaded = load(results, name)
    except ReportError:
        return Change(None, None)
    metric, goal = str(loaded.meta["metric"]), loaded.meta["goal"]
    floor = _floor(loaded, metric, goal)
    own = f"validation/{metric.rsplit('/', 1)[-1]}"
    try:
        more = load(results, longer) if longer is not None else None
    except ReportError:
        more = None
    return Change(floor, speed_up_of(loaded, CHANGE, BASELINE, own, goal_of(own), longer=more))


def _floor(loaded: Loaded, metric: str, goal: Any) -> NoiseFloor | None:
    table = loaded.scores
    rows = table[(table["variant"] == BASELINE) & (table["metric"] == metric) & (table["status"] == "done")]
    scores = rows.sort_values("seed")["value"].tolist()
    return noise_floor(scores, goal) if scores else None
