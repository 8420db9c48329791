"""What the runs of a claim say: one score for an arm, a learning rate, a seed and a metric, or why there is none.

An arm is one side of a claim. It is trained at every learning rate of the claim with every seed; its rate is chosen by
the mean validation score over the same seeds for all arms alike, and what is compared is the test score at that rate.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from analysis.load import COSTS, Loaded, ReportError, load
from analysis.statistics import lr_sensitivity
from experiments import records

CLAIM, MEASURED, PROBES = "claim.json", "measured.json", "probes"
WHOLE = ("done", "diverged")


@dataclass(frozen=True)
class Gap:
    """A number that is not there.

    Attributes:
        run: the run that should have given it. why: one sentence.
    """

    run: str
    why: str

    def __str__(self) -> str:
        return f"{self.run}: {self.why}"


class Gaps(LookupError):
    """A statistic needs numbers that are not there.

    Attributes:
        gaps: each of them, once.
    """

    def __init__(self, gaps: Sequence[Gap]) -> None:
        self.gaps = tuple(dict.fromkeys(gaps))
        super().__init__("; ".join(map(str, self.gaps)))


@dataclass(frozen=True)
class Evidence:
    """A claim's record and what lies beside it.

    Attributes:
        record: content of claim.json: the claim as it was declared, its hash, and the cells that were planned.
        loaded: the experiment's runs; None for a claim that an exact check decides.
        measured: content of measured.json: what checks and repeated measurements gave; None = nothing there.
        trouble: sentences about files that could not be trusted.
    """

    results: Path
    name: str
    record: Mapping[str, Any]
    loaded: Loaded | None
    measured: Mapping[str, Any] | None
    trouble: tuple[str, ...] = ()
    _starts: dict[str, float] = field(default_factory=dict, repr=False)

    @property
    def claim(self) -> Mapping[str, Any]:
        """The claim as declared."""
        found: Mapping[str, Any] = self.record["claim"]
        return found

    @property
    def seeds(self) -> list[int]:
        """The seeds that the last launch asked for, in order."""
        return [] if self.loaded is None else [int(seed) for seed in self.loaded.meta.get("seeds", [])]

    @cached_property
    def variants(self) -> dict[tuple[str, str], dict[float, str]]:
        """(arm, task) -> learning rate -> variant; a claim without a grid has the one rate 0."""
        table: dict[tuple[str, str], dict[float, str]] = {}
        for cell in self.record["cells"]:
            table.setdefault((cell["arm"], cell["task"]), {})[float(cell["lr"] or 0.0)] = cell["variant"]
        return {key: dict(sorted(rates.items())) for key, rates in table.items()}

    @cached_property
    def _rows(self) -> dict[tuple[str, int], Any]:
        assert self.loaded is not None
        return {(r.variant, int(r.seed)): r for r in self.loaded.runs.itertuples()}

    @cached_property
    def _scores(self) -> dict[tuple[str, str], float]:
        assert self.loaded is not None
        table = self.loaded.scores
        return dict(zip(zip(table["run_id"], table["metric"], strict=True), table["value"], strict=True))

    def run(self, variant: str, seed: int) -> Any:
        """The row of a planned run, None where it was never planned."""
        return self._rows.get((variant, seed))

    def score(self, variant: str, seed: int, metric: str) -> float:
        """A run's number.

        A diverged run scores what it had before training: its starting loss for a loss, 0 for an accuracy, 1 for an
        error rate.
        `name@0.5` is the curve's value half-way, `clipped_share`, `spikes` and `failed` are counted from the run,
        `cost/name` is a cost, and `probe/name` what a probe measured on the trained weights.

        Raises:
            Gaps: the run, or the number, is not there.
        """
        row = self.run(variant, seed)
        if row is None:
            raise Gaps([Gap(f"{variant} seed {seed}", "not planned in the last launch")])
        if row.status not in WHOLE:
            raise Gaps([Gap(row.run_id, f"{row.status}: {row.note}" if row.note else row.status)])
        value = self._number(row, metric)
        if value is None:
            raise Gaps([Gap(row.run_id, f"has no {metric}")])
        return value

    def _number(self, row: Any, metric: str) -> float | None:
        if metric == "failed":
            return float(self.failed(row))
        if metric.startswith("cost/"):
            cost = float(getattr(row, metric[5:])) if metric[5:] in COSTS else math.nan
            return None if math.isnan(cost) else cost
        if metric.startswith("probe/"):
            return self._probed(row, metric[6:])
        if metric == "clipped_share":
            return self._from_result(row, metric)
        if metric == "spikes":
            return self._spikes(row)
        if row.status == "diverged":
            return self._capped(row, metric)
        name, _, share = metric.partition("@")
        return self._on_curve(row, name, float(share)) if share else self._scores.get((row.run_id, metric))

    def _capped(self, row: Any, metric: str) -> float | None:
        name = metric.partition("@")[0].rsplit("/", 1)[-1]
        start = self.start(row.run_id)
        if name == "loss":
            return start
        if start is not None and name in ("perplexity", "bits_per_token"):
            return math.exp(start) if name == "perplexity" else start / math.log(2)
        return 1.0 if name.endswith("error_rate") else 0.0

    def start(self, run_id: str) -> float | None:
        """The loss at a run's first step; where it was not logged, the median of the other runs'."""
        own = self._start_of(run_id)
        if own is not None:
            return own
        assert self.loaded is not None
        others = [x for r in self.loaded.runs["run_id"] if (x := self._start_of(r)) is not None]
        return statistics.median(others) if others else None

    def _start_of(self, run_id: str) -> float | None:
        if run_id not in self._starts:
            points = self._curve(run_id).get("train/loss") or {}
            self._starts[run_id] = points[min(points)] if points else math.nan
        value = self._starts[run_id]
        return None if math.isnan(value) else value

    def failed(self, row: Any) -> bool:
        """Diverged, or it ends no better than it began."""
        if row.status == "diverged":
            return True
        start = self.start(row.run_id)
        loss = self._scores.get((row.run_id, "validation/loss"))
        return start is not None and loss is not None and loss >= start

    def sensitivity(self, rates: Mapping[float, str], seed: int, metric: str) -> float:
        """E over the learning rates of [min(loss, starting loss) - best loss] for one seed.

        Raises:
            Gaps: a run is missing.
        """
        losses = [self.score(variant, seed, metric) for variant in rates.values()]
        starts = [self.start(self.run(variant, seed).run_id) for variant in rates.values()]
        start = max((s for s in starts if s is not None), default=max(losses))
        return lr_sensitivity(list(rates), losses, initial_loss=start).sensitivity

    def _curve(self, run_id: str) -> dict[str, dict[int, float]]:
        assert self.loaded is not None
        return self.loaded.curve(run_id) or {}

    def _on_curve(self, row: Any, metric: str, share: float) -> float | None:
        points = self._curve(row.run_id).get(metric) or {}
        wanted = share * row.steps
        return points[min(points, key=lambda step: abs(step - wanted))] if points else None

    def _spikes(self, row: Any) -> float | None:
        points = self._curve(row.run_id).get("train/loss") or {}
        values = [points[step] for step in sorted(points)]
        return float(spikes(values)) if len(values) > WINDOW else None

    def _from_result(self, row: Any, key: str) -> float | None:
        assert self.loaded is not None
        result = records.read_run(self.loaded.directory(row.run_id)).result or {}
        value = result.get(key)
        return float(value) if isinstance(value, int | float) else None

    def _probed(self, row: Any, metric: str) -> float | None:
        path = self.results / self.name / PROBES / f"{row.run_id}.json"
        try:
            content = records.read_json(path)
        except FileNotFoundError:
            return None
        except records.Damaged as error:
            raise Gaps([Gap(row.run_id, str(error))]) from None
        if content.get("hash") != row.hash:
            raise Gaps([Gap(row.run_id, f"{path.name} was measured on another run")])
        value = content.get("metrics", {}).get(metric)
        return float(value) if isinstance(value, int | float) else None


WINDOW = 20  # steps before a step that say what is usual there
SPIKE = 5.0  # median absolute deviations above the median that make a spike


def spikes(losses: Sequence[float]) -> int:
    """Steps whose loss lies above median + 5 MAD of the WINDOW steps before them."""
    found = 0
    for i in range(WINDOW, len(losses)):
        before = losses[i - WINDOW : i]
        middle = statistics.median(before)
        mad = statistics.median(abs(x - middle) for x in before)
        found += losses[i] > middle + SPIKE * max(mad, 1e-9)
    return found


def gather(results: Path | str, name: str) -> Evidence:
    """Reads a claim's folder.

    Raises:
        ReportError: there is no record of the claim, or it cannot be trusted.
    """
    results = Path(results)
    folder = results / name
    try:
        record = records.read_json(folder / CLAIM)
    except FileNotFoundError:
        raise ReportError(f"{folder / CLAIM}: missing, so nothing says what the runs there were to decide") from None
    except records.Damaged as error:
        raise ReportError(f"{error}; remove it, and the claim's command writes it anew and says so") from None
    trouble: list[str] = []
    measured, loaded = None, None
    try:
        measured = records.read_json(folder / MEASURED)
        trouble += [str(measured["error"])] if measured.get("error") else []
    except FileNotFoundError:
        pass
    except records.Damaged as error:
        trouble.append(str(error))
    if record["cells"]:
        loaded = load(results, name)
    return Evidence(results, name, record, loaded, measured, tuple(trouble))
