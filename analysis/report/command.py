"""`report`: writes the reports and says on the terminal what they find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Printed

from analysis.answer import answer, parts
from analysis.compare import Comparison, compare
from analysis.contents import score_table
from analysis.factorial_report import factorial_report, write_factorial
from analysis.figures.factorial import half_normal_plot, interaction_plot
from analysis.load import Loaded, ReportError
from analysis.report.content import gather
from analysis.report.experiment import report_folder, write_gathered
from analysis.report.paper import write_paper
from analysis.report.serve import serve
from analysis.report.site import Site, write_site
from analysis.style import save
from experiments import records

HEADS = ("variant", "mean", "n", "Δ (95 % CI)", "p (Holm)", "wins", "verdict")  # costs are in the report


def command(
    experiment: str | None, results: Path, *, metric: str | None, as_json: bool, paper: bool = False,
    port: int | None = None,
) -> int:
    """Reports one stored experiment, or all of them and the website over them.

    Args:
        experiment: its name; None = every experiment under `results`.
        metric: print the comparison on this metric instead of the experiment's own; the written report keeps its own.
        paper: also write the LaTeX tables and PDF figures of a paper.
        port: serve the website on loopback afterwards, until Ctrl-C; 0 = any free port.

    Returns:
        0, or 1 when one of several experiments could not be reported.

    Raises:
        ReportError: no such experiment, or no run has the metric; the message says what there is.
    """
    names = [experiment] if experiment else records.experiments(results)
    console, answers, problems = Console(highlight=False, markup=False), [], []
    site = Site(results) if experiment is None and names else None
    for name in names:
        try:
            content = site.add(name) if site else gather(results, name)
            comparison = compare(content.loaded, metric) if metric else content.comparison
            page = report_folder(content) / "index.html" if site else write_gathered(content)[0]
            factorial = "factorial" in content.loaded.meta.get("tags", ())
            effects = _factorial(content.loaded, page.parent) if factorial else None
        except ReportError as error:
            if experiment:
                raise
            problems.append(str(error))
            continue
        answers.append(_answer(comparison, page))
        if not as_json:
            _print(console, comparison, page)
            if effects is not None:
                console.print(f"main effects and interactions: {effects}", markup=False, soft_wrap=True)
        if paper:
            folder = write_paper(results, name)
            console.print(f"paper: {folder}", markup=False, soft_wrap=True)
    overview = site.close() if site else write_site(results) if names and port is not None else None
    _close(console, names, answers, problems, overview, as_json)
    if port is not None:
        serve(results, port)
    return 1 if problems else 0


def _close(
    console: Console, names: list[str], answers: list[Any], problems: list[str], site: Path | None, as_json: bool
) -> None:
    if as_json:
        where = None if site is None else str(site)
        print(json.dumps({"experiments": answers, "site": where, "problems": problems}, indent=1))
        return
    for problem in problems:
        console.print(f"not reported: {problem}", markup=False, soft_wrap=True)
    if site is not None:
        console.print(f"\nall experiments: {site}", markup=False, soft_wrap=True)
    if not names:
        console.print("nothing to report yet; start with: python run_all.py", markup=False)


def _factorial(loaded: Loaded, folder: Path) -> Path:
    """Main effects, interactions, ANOVA and their two figures, beside the report."""
    found = factorial_report(loaded)
    pages = write_factorial(found, folder)
    runs = {str(variant): tuple(ids) for variant, ids in loaded.runs.groupby("variant")["run_id"]}
    about = {"experiment": loaded.experiment, "metric": found.metric}
    for name, made in (("half-normal", half_normal_plot(found)), ("interactions", interaction_plot(found))):
        save(made, folder / "figures", name, about, runs)
    return pages[0]


def _answer(comparison: Comparison, page: Path) -> dict[str, Any]:
    found = answer(comparison)
    return {
        "experiment": comparison.experiment, "metric": comparison.metric, "goal": comparison.goal,
        "answer": found.sentence, "cost": found.cost, "best": found.best, "certain": found.certain,
        "report": str(page), "variants": [_row(row) for row in comparison.rows],
    }


def _row(row: Any) -> dict[str, Any]:
    paired = row.paired
    return {
        "variant": row.variant, "verdict": row.verdict, "n": row.n, "planned": row.planned,
        "mean": row.mean.mean if row.mean else None,
        "difference": None if paired is None else _finite(paired.difference),
        "interval": None if paired is None else [_finite(paired.low), _finite(paired.high)],
        "p_holm": _finite(row.p), "counts": dict(row.counts), "run_ids": list(row.run_ids),
    }


def _finite(value: float) -> float | None:
    return float(value) if value == value and abs(value) != float("inf") else None


def _print(console: Console, comparison: Comparison, page: Path) -> None:
    rows = [[cell.text for cell in row[: len(HEADS)]] for row in score_table(comparison).rows]
    shown = Printed(box=None, pad_edge=False, header_style="bold")
    for index, head in enumerate(HEADS):
        shown.add_column(head, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        shown.add_row(*row)
    better = "lower" if comparison.goal == "min" else "higher"
    console.print(f"\n{comparison.experiment}: {comparison.metric}, {better} is better", markup=False)
    width = sum(2 + max(len(row[i]) for row in [list(HEADS), *rows]) for i in range(len(HEADS)))
    Console(highlight=False, markup=False, width=max(console.width, width)).print(shown)
    found = answer(comparison)
    console.print(f"{found.sentence} {found.cost}".strip(), markup=False)
    for part in parts(comparison):
        console.print(f"  {part.part.rsplit('.', 1)[-1]}: {part.best}; {part.sentence}", markup=False)
    console.print(f"report: {page}", markup=False, soft_wrap=True)
