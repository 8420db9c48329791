"""What a paper needs of an experiment: booktabs tables and vector figures sized for one and two columns."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from analysis.report.content import Content, gather
from analysis.report.experiment import report_folder
from analysis.report.page import render, write
from analysis.style import ONE_COLUMN, TWO_COLUMNS, save
from analysis.tables import Table, latex
from analysis.words import metric_name

WIDTHS = {"one-column": ONE_COLUMN, "two-columns": TWO_COLUMNS}


def write_paper(results: Path | str, experiment: str) -> Path:
    """Writes results/<experiment>/report/paper: tables/*.tex, figures/*.pdf and a main.tex that shows them all.

    Captions state what is shown, the number of seeds, the protocol and the test. Returns the folder.

    Raises:
        ReportError: there is no such experiment, its experiment.json cannot be trusted, or no run has its metric.
        OSError: the folder cannot be written.
    """
    content = gather(Path(results), experiment)
    folder = report_folder(content) / "paper"
    tables = paper_tables(content)
    for table in tables:
        table.write(folder / "tables", content.provenance)
    names: dict[str, None] = {}
    for width_name, width in WIDTHS.items():
        for name, made in content.figures(width).items():
            save(
                made, folder / "figures", f"{name}-{width_name}", content.provenance, content.runs_by_variant, (".pdf",)
            )
            names[name] = None
    captions = [(name, latex(f"{content.captions[name]} {protocol_sentence(content)}")) for name in names]
    sentence = latex(" ".join(part for part in (content.answer.sentence, *content.missing) if part))
    main = render(
        "paper.tex.j2",
        experiment=latex(experiment),
        sentence=sentence,
        figures=captions,
        tables=[t.name for t in tables],
    )
    write(folder / "main.tex", main)
    return folder


def paper_tables(content: Content) -> list[Table]:
    """The tables, narrowed to a page, each caption with the protocol."""
    scores = content.tables["scores"]
    columns = [
        "variant",
        metric_name(content.comparison.metric),
        "n",
        "Δ to baseline (95 % CI)",
        "p (Holm)",
        "wins",
        "params",
    ]
    costs = content.tables["costs"].select(["variant", "parameters", "FLOPs / token", "train time", "peak memory"])
    found = [scores.select(columns), content.tables.get("lengths"), costs, content.tables.get("status")]
    protocol = protocol_sentence(content)
    return [dataclasses.replace(table, caption=f"{table.caption} {protocol}") for table in found if table is not None]


def protocol_sentence(content: Content) -> str:
    """Task, budget, learning rate and seeds, for a caption."""
    wanted = ("task", "training", "learning rate")
    lines = [f"{name}: {value}" for name, value in content.protocol if name in wanted]
    seeds = sorted({row.planned for row in content.comparison.rows})
    n = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return f"{n} seeds per variant; {'; '.join(lines)}."
