"""A static website over everything under results/: an overview, a page an experiment, a page a run.

    results/report/index.html                              answers and verdicts
    results/report/experiments/<name>/index.html           one experiment
    results/report/experiments/<name>/runs/<run id>.html   one run

Pages are written one after the other and nothing is kept, so that a thousand runs need little memory.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from analysis.load import COSTS, STATUSES, Loaded, ReportError, read_curve
from analysis.report.charts import layers_chart, run_chart
from analysis.report.content import Content, gather
from analysis.report.experiment import experiment_page, write_gathered
from analysis.report.inside import inside_section
from analysis.report.page import render, write
from analysis.report.protocol import machine
from analysis.style import looks
from analysis.words import COST_NAMES, count, memory, metric_name, seconds, setting
from experiments import records

LOG_LINES = 60
SAMPLES = "samples.txt"


def write_site(results: Path | str) -> Path:
    """Writes the website and every experiment's own report; returns the path of the overview.

    An experiment that cannot be read is named on the overview and does not stop the others.

    Raises:
        OSError: the folder cannot be written.
    """
    site = Site(Path(results))
    for name in records.experiments(site.results):
        with contextlib.suppress(ReportError):
            site.add(name)
    return site.close()


class Site:
    """The website while it is written: its pages of an experiment with each `add`, the overview with `close`."""

    def __init__(self, results: Path) -> None:
        self.results, self.root = results, results / "report"
        self.rows: list[dict[str, Any]] = []
        self.problems: list[str] = []
        shutil.rmtree(self.root / "experiments", ignore_errors=True)

    def add(self, name: str) -> Content:
        """Writes an experiment's own report and its pages of the website; figures are drawn once for both.

        Raises:
            ReportError: it cannot be read; the overview will say so too.
            OSError: the folder cannot be written.
        """
        try:
            content = gather(self.results, name)
        except ReportError as error:
            self.problems.append(str(error))
            raise
        self.rows.append(_experiment(content, self.root / "experiments" / name))
        return content

    def close(self) -> Path:
        """Writes the overview; returns its path."""
        return write(self.root / "index.html", render("overview.html.j2", rows=self.rows, problems=self.problems))


def _experiment(content: Content, folder: Path) -> dict[str, Any]:
    """Writes an experiment's pages; returns its row of the overview."""
    _, figures = write_gathered(content)
    own = f"../../../{content.loaded.experiment}"
    page = experiment_page(
        content, figures, to_experiment=own, to_files=f"{own}/report", pages=True, overview="../../index.html"
    )
    write(folder / "index.html", page)
    _runs(content, folder / "runs")
    return _overview_row(content)


def _overview_row(content: Content) -> dict[str, Any]:
    found, comparison, meta = content.answer, content.comparison, content.loaded.meta
    return {
        "name": content.loaded.experiment, "question": meta.get("question") or "", "sentence": found.sentence,
        "cost": found.cost, "certainty": content.certainty, "scope": content.scope,
        "verdict": found.verdict, "certain": found.certain, "parts": content.parts, "command": content.command,
        "page": f"experiments/{content.loaded.experiment}/index.html", "metric": metric_name(comparison.metric),
        "variants": len(comparison.rows), "seeds": max(row.planned for row in comparison.rows),
        "planned": sum(row.planned for row in comparison.rows),
        **{s: sum(row.counts[s] for row in comparison.rows) for s in STATUSES},
    }  # fmt: skip


def _runs(content: Content, folder: Path) -> None:
    loaded = content.loaded
    look, ids = looks([row.variant for row in content.comparison.rows]), loaded.runs["run_id"].tolist()
    for index, run in enumerate(loaded.runs.to_dict("records")):
        page = render(
            "run.html.j2", run=run, experiment=loaded.experiment, repeat=content.repeat(str(run["run_id"])),
            earlier=ids[index - 1] if index else "", later=ids[index + 1] if index + 1 < len(ids) else "",
            **_run_values(loaded, run, look[run["variant"]].color),
        )  # fmt: skip
        write(folder / f"{run['run_id']}.html", page)


def _run_values(loaded: Loaded, run: Mapping[str, Any], color: str) -> dict[str, Any]:
    directory = loaded.directory(run["run_id"])
    stored = records.read_run(directory)
    curve = read_curve(directory, run["metrics_sha256"] or None)
    problems = list(stored.damage) + (
        ["metrics.jsonl was altered after the run; its curves are not shown"] if curve is None else []
    )
    result = stored.result if run["status"] in ("done", "diverged") else None
    failure = stored.failure if result is None else None
    return {
        "curves": run_chart(curve or {}, color), "problems": problems,
        "scores": sorted((name, f"{value:.5g}") for name, value in (result or {}).get("metrics", {}).items()),
        "cost": list(_costs(run)) if result else [],
        "changes": [(path, setting(value)) for path, value in loaded.changes(run["variant"]).items()],
        "config": list(_leaves((stored.config or {}).get("config") or {})),
        "failure": "\n".join(str(failure.get(key) or "") for key in ("error", "traceback")) if failure else "",
        "log": tail(directory / records.LOG), "samples": tail(directory / SAMPLES, 400),
        "inside": inside_section(directory),
        "layers": layers_chart(records.read_metrics(directory, records.BY_STEP)), "exists": directory.is_dir(),
        "directory": f"../../../../{loaded.experiment}/runs/{run['run_id']}/",
        "machine": machine((result or {}).get("environment") or {}),
    }  # fmt: skip


def _costs(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in COSTS:
        if not math.isnan(run[name]):
            spell = seconds if name.endswith("seconds") else memory if name.endswith("bytes") else count
            yield COST_NAMES[name].removesuffix(" (bytes)"), spell(run[name])


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and "name" not in value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", setting(value)


def tail(path: Path, lines: int = LOG_LINES, most: int = 60_000) -> str:
    """The last lines of a text file, read from its end; empty where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
