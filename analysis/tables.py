"""One table model, three spellings: CSV with full numbers, Markdown and LaTeX (booktabs) with rounded ones.

Every row carries the ids of the runs that it was computed from.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from analysis.words import NOTHING

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "|": r"$|$",
    "±": r"$\pm$", "−": r"$-$", "Δ": r"$\Delta$", "–": "--", "·": r"$\cdot$", "×": r"$\times$",
    "≤": r"$\leq$", "≥": r"$\geq$", "←": r"$\leftarrow$", "→": r"$\rightarrow$",
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """What a reader sees and what a program reads.

    Attributes:
        text: rounded, with its uncertainty; `-` = nothing there.
        raw: CSV column -> full number or text.
        sort: what the column sorts by; None = nothing there (sorted last).
        bold: the one best value, told apart from all others.
        note: why nothing is there, or what to know; becomes a footnote.
    """

    text: str
    raw: Mapping[str, Any] = field(default_factory=dict)
    sort: float | str | None = None
    bold: bool = False
    note: str = ""


@dataclass(frozen=True)
class Column:
    """A column's head; `text` columns are left-aligned, numbers right."""

    title: str
    text: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells with their runs.

    Attributes:
        name: file name without suffix.
        caption: what is shown, n, protocol and test.
        columns: heads. rows: as many cells each. runs: the run ids behind each row.
        notes: general notes under the table; notes of cells are numbered before them.
        baseline_first: whether the first row is the baseline, set apart by a rule.
    """

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    runs: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    baseline_first: bool = True

    def footnotes(self) -> dict[str, int]:
        """Text of each cell note -> its number, in order of appearance."""
        found = dict.fromkeys(cell.note for row in self.rows for cell in row if cell.note)
        return {note: index for index, note in enumerate(found, start=1)}

    def to_csv(self) -> str:
        """Full numbers, one column per raw value, run ids last, separated by spaces."""
        flat = [{k: v for cell in row for k, v in cell.raw.items()} for row in self.rows]
        heads = list(dict.fromkeys(key for row in flat for key in row))
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*heads, "run_ids"])
        for row, runs in zip(flat, self.runs, strict=True):
            writer.writerow([*(_csv(row.get(head)) for head in heads), " ".join(runs)])
        return out.getvalue()

    def to_markdown(self) -> str:
        """A pipe table with its caption above and its notes below."""
        numbers = self.footnotes()
        lines = [f"**{_md(self.caption)}**", "", "| " + " | ".join(_md(c.title) for c in self.columns) + " |",
                 "| " + " | ".join("---" if c.text else "---:" for c in self.columns) + " |"]  # fmt: skip
        for row in self.rows:
            lines.append("| " + " | ".join(_md_cell(cell, numbers) for cell in row) + " |")
        notes = [f"({index}) {_md(note)}" for note, index in numbers.items()] + [_md(n) for n in self.notes]
        return "\n".join([*lines, "", *(f"{note}  " for note in notes)]).rstrip() + "\n"

    def to_latex(self) -> str:
        r"""A `table` float in booktabs style; needs \usepackage{booktabs} and nothing else."""
        numbers = self.footnotes()
        heads = " & ".join(latex(c.title) for c in self.columns)
        body = [" & ".join(_latex_cell(cell, numbers) for cell in row) + r" \\" for row in self.rows]
        if self.baseline_first and len(body) > 1:
            body.insert(1, r"\midrule")
        notes = [f"({index}) {latex(note)}" for note, index in numbers.items()] + [latex(n) for n in self.notes]
        below = [r"\par\smallskip\begin{minipage}{\linewidth}\footnotesize " + " ".join(notes) + r"\end{minipage}"]
        return "\n".join([
            f"% runs: {len({r for runs in self.runs for r in runs})}, listed in {self.name}.runs.json",
            r"\begin{table*}[t]", r"\centering\small", rf"\caption{{{latex(self.caption)}}}",
            rf"\label{{tab:{self.name}}}\vspace{{4pt}}",
            rf"\begin{{tabular}}{{@{{}}{''.join('l' if c.text else 'r' for c in self.columns)}@{{}}}}", r"\toprule",
            rf"{heads} \\", r"\midrule", *body, r"\bottomrule", r"\end{tabular}",
            *(below if notes else []), r"\end{table*}", "",
        ])  # fmt: skip

    def select(self, titles: Sequence[str], caption: str | None = None) -> Table:
        """The same rows with only these columns, for a narrower page."""
        kept = [index for index, column in enumerate(self.columns) if column.title in titles]
        rows = [[row[index] for index in kept] for row in self.rows]
        return replace(self, columns=[self.columns[i] for i in kept], rows=rows, caption=caption or self.caption)

    def write(self, folder: Path, provenance: Mapping[str, Any]) -> list[Path]:
        """Writes NAME.csv, .md, .tex and .runs.json (`provenance` and the run ids of every row)."""
        folder.mkdir(parents=True, exist_ok=True)
        behind = {row[0].text: list(runs) for row, runs in zip(self.rows, self.runs, strict=True)}
        contents = {
            ".csv": self.to_csv(), ".md": self.to_markdown(), ".tex": self.to_latex(),
            ".runs.json": runs_json(provenance, behind),
        }  # fmt: skip
        paths = []
        for suffix, content in contents.items():
            paths.append(folder / f"{self.name}{suffix}")
            paths[-1].write_text(content, encoding="utf-8")
        return paths


def runs_json(provenance: Mapping[str, Any], runs: Mapping[str, Sequence[str]]) -> str:
    """What stands beside a table or figure: which runs, of which declared experiment, with which hashes."""
    hashes = provenance.get("hashes", {})
    content = {
        **{k: v for k, v in provenance.items() if k != "hashes"},
        "runs": {name: [{"id": i, "hash": hashes.get(i)} for i in ids] for name, ids in runs.items()},
    }  # fmt: skip
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def latex(text: str) -> str:
    """The text with every character that LaTeX would read as a command, or has no letter for, spelled out."""
    plain = re.sub("|".join(map(re.escape, LATEX)), lambda found: LATEX[found.group()], text)
    plain = re.sub("[^\\x00-\u017f‘’“”…—]", lambda found: f"(U+{ord(found.group()):04X})", plain)
    return f"{{}}{plain}" if plain[:1] in ("[", "*") else plain  # after a row's \\ they would be its arguments


def nothing(note: str = "", **raw: Any) -> Cell:
    """An empty cell, with the reason."""
    return Cell(NOTHING, dict(raw), None, note=note)


def _csv(value: Any) -> Any:
    if isinstance(value, float):
        return "" if value != value else repr(value)
    return "" if value is None else value


def _md(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("\n", " ")


def _md_cell(cell: Cell, numbers: Mapping[str, int]) -> str:
    text = f"**{_md(cell.text)}**" if cell.bold else _md(cell.text)
    return f"{text} ({numbers[cell.note]})" if cell.note else text


def _latex_cell(cell: Cell, numbers: Mapping[str, int]) -> str:
    text = "--" if cell.text == NOTHING else latex(cell.text)
    text = rf"\textbf{{{text}}}" if cell.bold else text
    return rf"{text}$^{{{numbers[cell.note]}}}$" if cell.note else text
