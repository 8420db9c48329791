"""From `results/<experiment>` to tidy tables: one row a planned run, one row a score, curves when asked for.

Only runs that experiment.json plans can enter, each once, under its own id and hash. Whatever else lies there is named
as foreign. A file that is torn or altered makes its run `damaged`; it never gives a number and never stops the reading.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.choice import Choice, mark, read_choice
from experiments import records

BASELINE = "baseline"
STATUSES = ("done", "diverged", "failed", "missing", "damaged")
COSTS = (
    "parameters", "parameters_non_embedding", "flops_per_token", "tokens", "steps", "seconds", "train_seconds",
    "peak_memory_bytes",
)  # fmt: skip


class ReportError(ValueError):
    """Something that cannot be reported on; the message names it, the rule and the way out."""


@dataclass(frozen=True)
class Loaded:
    """An experiment as found on disk.

    Attributes:
        results, experiment: where it lies.
        meta: content of experiment.json.
        runs: one row per planned run, in planned order: run_id, variant, seed, hash, status (one of STATUSES),
            note (why it has no result), chosen and tuned (see `analysis.choice`),
            started, finished, metrics_sha256, and one column per name in COSTS
            (NaN where unknown).
        scores: one row per (run with a result, metric): run_id, variant, seed, status, metric, value.
        lengths: evaluation set -> length in tokens, such as {"len_32": 32}; the trained length under "" if known.
        environments: what the runs were computed on, each once.
        divergence: run_id -> what the run recorded about its divergence.
        choice: what was tuned and chosen, or None.
        foreign: names of directories under runs/ that are not planned; none of their content is read.
    """

    results: Path
    experiment: str
    meta: Mapping[str, Any]
    runs: pd.DataFrame
    scores: pd.DataFrame
    lengths: Mapping[str, int] = field(default_factory=dict)
    environments: tuple[Mapping[str, Any], ...] = ()
    divergence: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    foreign: tuple[str, ...] = ()
    choice: Choice | None = None

    @property
    def compared(self) -> pd.DataFrame:
        """The runs that stand for their variants: all, or those at the tuned values that were chosen."""
        return self.runs[self.runs["chosen"]]

    @property
    def variants(self) -> list[str]:
        """Names in declared order, the baseline first."""
        names, baseline = [str(v["name"]) for v in self.meta["variants"]], self.meta.get("baseline", BASELINE)
        return sorted(names, key=lambda name: name != baseline)

    @property
    def metrics(self) -> list[str]:
        """Names of every metric that some run has."""
        return sorted(self.scores["metric"].unique().tolist())

    def changes(self, variant: str) -> dict[str, Any]:
        """Dotted path -> value: what makes the variant."""
        return next((dict(v.get("changes") or {}) for v in self.meta["variants"] if v["name"] == variant), {})

    def directory(self, run_id: str) -> Path:
        """Where a run's files lie."""
        return records.run_directory(self.results, self.experiment, run_id)

    def check_metric(self, metric: str) -> str:
        """The metric, once some run is known to have it (or no run has any score yet).

        Raises:
            ReportError: no run has it; the message lists the metrics there are.
        """
        known = self.metrics
        if known and metric not in known:
            close = difflib.get_close_matches(metric, known, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise ReportError(f"{self.experiment}: no run has the metric '{metric}'.{hint} Known: {', '.join(known)}")
        return metric

    def curves(self, metrics: Collection[str] | None = None, runs: Collection[str] | None = None) -> pd.DataFrame:
        """Logged values over steps, long: run_id, variant, seed, status, step, metric, value; finite values only.

        A curve whose file does not match the checksum in its result is left out; `curve_damage` names it.

        Args:
            metrics: names to read; None = all.
            runs: run ids to read; None = all.
        """
        columns: dict[str, list[Any]] = {
            k: [] for k in ("run_id", "variant", "seed", "status", "step", "metric", "value")
        }
        for run in self.runs.itertuples():
            if runs is not None and run.run_id not in runs:
                continue
            for name, points in (self.curve(run.run_id) or {}).items():
                if metrics is not None and name not in metrics:
                    continue
                n = len(points)
                for key, value in (("run_id", run.run_id), ("variant", run.variant), ("seed", run.seed),
                                   ("status", run.status), ("metric", name)):  # fmt: skip
                    columns[key] += [value] * n
                columns["step"] += points.keys()
                columns["value"] += points.values()
        frame = pd.DataFrame(columns).astype({"step": "int64", "value": "float64", "seed": "int64"})
        return frame.astype(dict.fromkeys(("run_id", "variant", "status", "metric"), "category"))

    def curve(self, run_id: str) -> dict[str, dict[int, float]] | None:
        """metric -> {step: value} of one run; a step that was logged twice keeps the last. None = not trusted."""
        return read_curve(self.directory(run_id), self._sealed[run_id] or None)

    @cached_property
    def _sealed(self) -> dict[str, str]:
        return dict(zip(self.runs["run_id"], self.runs["metrics_sha256"], strict=True))

    def curve_damage(self) -> list[str]:
        """Runs with a result whose metrics.jsonl is not the one that the result was written with."""
        return [r.run_id for r in self.runs.itertuples() if r.metrics_sha256 and self.curve(r.run_id) is None]


def read_curve(directory: Path, sealed: str | None) -> dict[str, dict[int, float]] | None:
    """metric -> {step: value}, finite only; None where the file does not match `sealed` (sha256, None = unknown)."""
    try:
        content = (directory / records.METRICS).read_bytes()
    except OSError:
        content = b""
    if sealed is not None and hashlib.sha256(content).hexdigest() != sealed:
        return None
    found: dict[str, dict[int, float]] = {}
    for row in _rows(content):
        step = row.pop("step", None)
        if isinstance(step, int):
            for name, value in row.items():
                if name != "seconds" and _is_number(value):
                    found.setdefault(name, {})[step] = value
    return found


def load(results: Path | str, experiment: str) -> Loaded:
    """Reads an experiment: experiment.json, then each planned run's files, one run at a time.

    Raises:
        ReportError: there is no such experiment, or its experiment.json cannot be trusted.
    """
    results = Path(results)
    meta = _meta(results, experiment)
    rows: list[dict[str, Any]] = []
    scores: dict[str, list[Any]] = {k: [] for k in ("run_id", "variant", "seed", "status", "metric", "value")}
    lengths: dict[str, int] = {}
    environments: dict[str, Mapping[str, Any]] = {}
    divergence: dict[str, Mapping[str, Any]] = {}
    for planned in {run["id"]: run for run in meta["runs"]}.values():
        row, result = _run(results, experiment, planned)
        rows.append(row)
        if result is None:
            continue
        for name, value in result["metrics"].items():
            for key, entry in (*((k, row[k]) for k in ("run_id", "variant", "seed", "status")),
                               ("metric", name), ("value", float(value))):  # fmt: skip
                scores[key].append(entry)
        lengths |= {k: int(v) for k, v in (result.get("lengths") or {}).items() if _is_number(v)}
        environment = result.get("environment") or {}
        environments.setdefault(json.dumps(environment, sort_keys=True, default=str), environment)
        if row["status"] == "diverged":
            divergence[row["run_id"]] = result.get("diverged") or {}
    choice = read_choice(results / experiment)
    return Loaded(
        results, experiment, meta, mark(_frame(rows), choice), pd.DataFrame(scores),
        dict(sorted(lengths.items(), key=lambda pair: pair[1])), tuple(environments.values()), divergence,
        _foreign(results, experiment, {r["id"] for r in meta["runs"]}), choice,
    )  # fmt: skip


def _meta(results: Path, experiment: str) -> dict[str, Any]:
    path = results / experiment / records.EXPERIMENT
    try:
        meta = records.read_json(path)
    except FileNotFoundError:
        known = ", ".join(records.experiments(results)) or "none"
        raise ReportError(f"no experiment '{experiment}' under {results}. Known there: {known}") from None
    except records.Damaged as error:
        raise ReportError(
            f"{error}; run the experiment's command again to rewrite it (finished runs are kept)"
        ) from None
    absent = [key for key in ("name", "metric", "goal", "variants", "runs") if key not in meta]
    if absent:
        raise ReportError(f"{path}: lacks {', '.join(absent)}; run the experiment's command again to rewrite it")
    return meta


def _run(results: Path, experiment: str, planned: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The row of a planned run, and its result where there is one that belongs to the plan and is whole."""
    stored = records.read_run(records.run_directory(results, experiment, planned["id"]))
    result, problem = stored.result, "; ".join(stored.damage)
    if result is not None:
        problem = _contradiction(planned, result)
        result = None if problem else result
    status, note = _status(stored, result, problem)
    cost = (result or {}).get("cost") or {}
    row = {
        "run_id": planned["id"], "variant": planned["variant"], "seed": int(planned["seed"]), "hash": planned["hash"],
        "status": status, "note": note,
        "started": str((result or {}).get("started") or ""), "finished": str((result or {}).get("finished") or ""),
        "metrics_sha256": str((result or {}).get("metrics_sha256") or ""),
        "stopped_early": bool((result or {}).get("stopped_early")),
        **{name: float(cost[name]) if _is_number(cost.get(name)) else math.nan for name in COSTS},
    }  # fmt: skip
    return row, result


def _status(stored: records.Stored, result: Mapping[str, Any] | None, problem: str) -> tuple[str, str]:
    if result is not None:
        return str(result["status"]), _divergence(result.get("diverged"))
    if problem:
        return "damaged", problem
    kind, error = ((stored.failure or {}).get(key) or "" for key in ("kind", "error"))
    if stored.failure is not None and kind != "interrupted":
        return "failed", f"{kind}: {error}"
    if kind == "interrupted":
        return "missing", "interrupted; the next run of the experiment goes on with it"
    return "missing", "started, no result yet" if stored.config is not None else "not started"


def _contradiction(planned: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Why a whole result is still not the planned run's result; empty = it is."""
    wrong = [
        f"{name} is {result.get(name)!r}, planned {planned[key]!r}"
        for name, key in (("run_id", "id"), ("variant", "variant"), ("seed", "seed"), ("hash", "hash"))
        if result.get(name) != planned[key]
    ]
    if result.get("status") not in ("done", "diverged"):
        wrong.append(f"status {result.get('status')!r} is neither 'done' nor 'diverged'")
    metrics = result.get("metrics")
    if not isinstance(metrics, Mapping):
        wrong.append("it has no metrics")
    else:
        wrong += [
            f"{name}={value!r} is not a finite number" for name, value in metrics.items() if not _is_number(value)
        ]
    return f"{records.RESULT}: {'; '.join(wrong)}" if wrong else ""


def _divergence(diverged: Any) -> str:
    if not isinstance(diverged, Mapping):
        return ""
    return f"diverged at step {diverged.get('step', '?')}: {diverged.get('reason', 'no reason recorded')}"


def _foreign(results: Path, experiment: str, planned: Collection[str]) -> tuple[str, ...]:
    return tuple(d.name for d in records.run_directories(results, experiment) if d.name not in planned)


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    columns = ["run_id", "variant", "seed", "hash", "status", "note", "started", "finished", "metrics_sha256",
               "stopped_early", *COSTS]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _rows(content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.split(b"\n"):
        try:
            row = json.loads(line) if line else None
        except ValueError:
            continue  # the torn last line of a run that was killed
        if isinstance(row, dict):
            yield row


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
