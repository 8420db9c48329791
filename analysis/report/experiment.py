"""The report of one experiment: index.html, report.md, tables and figures under results/<experiment>/report/."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from analysis.load import STATUSES
from analysis.report.charts import experiment_chart
from analysis.report.content import Content, gather
from analysis.report.page import render, svg_for_page, write
from analysis.style import save
from analysis.words import NOTHING, metric_name, number


def write_report(results: Path | str, experiment: str) -> Path:
    """Writes the report of an experiment, finished or half-way, and returns the path of its index.html.

    Args:
        results: the results root.
        experiment: name of its folder there.

    Raises:
        ReportError: there is no such experiment, its experiment.json cannot be trusted, or no run has its metric.
        OSError: the folder cannot be written.
    """
    return write_gathered(gather(Path(results), experiment))[0]


def write_gathered(content: Content) -> tuple[Path, dict[str, Markup]]:
    """The same of what was read already; also returns the figures for another page."""
    figures = write_files(content)
    page = experiment_page(content, figures, to_experiment="..", to_files=".")
    return write(report_folder(content) / "index.html", page), figures


def report_folder(content: Content) -> Path:
    """Where an experiment's own report lies."""
    return content.loaded.results / content.loaded.experiment / "report"


def write_files(content: Content) -> dict[str, Markup]:
    """Writes tables, figures (PNG, SVG) and report.md; returns the figures for a page."""
    folder = report_folder(content)
    for table in content.tables.values():
        table.write(folder / "tables", content.provenance)
    figures = {}
    for name, made in content.figures().items():
        _, svg = save(made, folder / "figures", name, content.provenance, content.runs_by_variant)
        figures[name] = svg_for_page(svg.read_text(encoding="utf-8"), content.captions[name])
    metric = metric_name(content.comparison.metric)
    markdown = render(
        "report.md.j2", c=content, captions=content.captions, figures=list(figures), runs=run_rows(content),
        metric=metric,
    )  # fmt: skip
    write(folder / "report.md", markdown)
    return figures


def experiment_page(
    content: Content,
    figures: Mapping[str, Markup],
    *,
    to_experiment: str,
    to_files: str,
    pages: bool = False,
    overview: str = "",
) -> str:
    """The page of an experiment.

    Args:
        content, figures: what it shows.
        to_experiment: relative path from the page to results/<experiment>.
        to_files: relative path to the folder of tables/ and figures/.
        pages: whether runs/<id>.html lie beside the page.
        overview: relative path of the page over all experiments, or empty.
    """
    return render(
        "experiment.html.j2", c=content, figures=figures, captions=content.captions, runs=run_rows(content),
        statuses=STATUSES, curves=experiment_chart(content.comparison, content.curves),
        metric=metric_name(content.comparison.metric), to_experiment=to_experiment, to_files=to_files, pages=pages,
        overview=overview,
    )  # fmt: skip


def run_rows(content: Content) -> list[dict[str, Any]]:
    """The planned runs as the run list shows them."""
    scores = content.loaded.scores
    scores = scores[scores["metric"] == content.comparison.metric]
    score = dict(zip(scores["run_id"], scores["value"], strict=True))
    runs = content.loaded.results / content.loaded.experiment / "runs"
    exists = {entry.name for entry in os.scandir(runs)} if runs.is_dir() else set()
    return [
        {
            "run_id": row.run_id, "variant": row.variant, "seed": row.seed, "status": row.status, "note": _note(row),
            "score": score.get(row.run_id), "exists": row.run_id in exists,
            "text": number(score[row.run_id], 4) if row.run_id in score else NOTHING,
            "seconds": None if math.isnan(row.seconds) else row.seconds,
        }
        for row in content.loaded.runs.itertuples()
    ]  # fmt: skip


def _note(row: Any) -> str:
    """The tuned values, and why there is no result."""
    tuned = f"{'chosen' if row.chosen else 'tried, not compared'}: {row.tuned}" if row.tuned else ""
    return "; ".join(filter(None, (tuned, row.note)))
