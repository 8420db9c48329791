"""A factorial experiment, read as one: main effects, interactions, simple effects where an average would mislead.

y = mean + seed + five or so factors + their pairs + noise. Every run serves every factor, so the effect of one is an
average over all settings of the others, and its interval is as narrow as if all runs had been made for it alone.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.compare import lookup
from analysis.load import Loaded, ReportError
from analysis.statistics import (
    Contrast,
    Factorial,
    HalfNormal,
    SimpleEffect,
    factorial,
    half_normal,
    holm,
    large_interactions,
    name_of,
    simple_effects,
)
from analysis.verdicts.evidence import Evidence, Gaps
from analysis.words import decimals, interval, listed, metric_name, number, p_phrase, p_value, setting

ALPHA = 0.05
MOST_PAIRS = 4  # interactions that are drawn


@dataclass(frozen=True)
class MainEffect:
    """Mean at `level` minus mean at `reference` (the baseline's), over all settings of the other factors.

    Attributes:
        p: Holm-corrected over all main effects of the table.
    """

    factor: str
    level: str
    reference: str
    result: Contrast
    p: float


@dataclass(frozen=True)
class FactorialReport:
    """What a factorial says.

    Attributes:
        experiment, metric, goal: as declared. fit: the model.
        main: effects, the factor with the largest first. pairs: interactions that make an average misleading, largest
            first. simple: their effects, level by level.
        contrasts: one-degree effects for the half-normal plot; None where the design is not balanced.
        missing: runs without a result. diverged: runs that count with their loss before training.
    """

    experiment: str
    metric: str
    goal: str
    fit: Factorial
    main: tuple[MainEffect, ...]
    pairs: tuple[tuple[str, str], ...]
    simple: tuple[SimpleEffect, ...]
    contrasts: HalfNormal | None
    missing: tuple[str, ...]
    diverged: tuple[str, ...]

    @property
    def answer(self) -> str:
        """The largest factors with their intervals, and what depends on what, in a few sentences."""
        found = [e for e in self.main if e.p < ALPHA]
        if not found:
            return f"No factor changes {metric_name(self.metric)} beyond chance, over {self.fit.n} runs."
        first = list({e.factor: e for e in reversed(found)}.values())[::-1]
        words = [f"{e.factor} ({e.level} for {e.reference}: {_effect(e.result)})" for e in first]
        text = f"In order of size, {listed(words, 6)} change {metric_name(self.metric)}; over {self.fit.n} runs."
        if self.pairs:
            pairs = [f"{a} and {b}" for a, b in self.pairs]
            text += f" Averages mislead for {listed(pairs, 4)}, whose effects depend on each other."
        return text


def factorial_report(loaded: Loaded, metric: str | None = None) -> FactorialReport:
    """Fits main effects and pairs to every run that has a result.

    A diverged run counts with its loss before training, so that a setting that does not train is not left out.

    Raises:
        ReportError: fewer than two factors, or no run of some level.
    """
    metric = loaded.check_metric(metric or str(loaded.meta["metric"]))
    settings = factor_settings(loaded)
    if len(settings) < 2:
        raise ReportError(f"{loaded.experiment}: a factorial needs two factors or more; {len(settings)} vary here")
    evidence = Evidence(loaded.results, loaded.experiment, {"claim": {}, "cells": []}, loaded, None)
    rows, values, missing = [], [], []
    for run in loaded.runs.itertuples():
        try:
            values.append(evidence.score(run.variant, int(run.seed), metric))
            rows.append(run)
        except Gaps as gaps:
            missing += [gap.run for gap in gaps.gaps]
    columns = {factor: [of[run.variant] for run in rows] for factor, of in settings.items()}
    block = [int(run.seed) for run in rows]
    try:
        fit = factorial(columns, values, block=block if len(set(block)) > 1 else None, order=2)
    except ValueError as error:
        raise ReportError(f"{loaded.experiment}: {error}") from None
    diverged = [run.run_id for run in rows if run.status == "diverged"]
    pairs = _largest_pairs(fit)
    return FactorialReport(
        loaded.experiment, metric, str(loaded.meta["goal"]), fit, _main(fit, tuple(settings)), pairs,
        tuple(e for a, b in pairs for one, given in ((a, b), (b, a)) for e in simple_effects(fit, one, given)),
        half_normal(_contrasts(columns, values)) if fit.balanced else None, tuple(missing), tuple(diverged),
    )  # fmt: skip


def factor_settings(loaded: Loaded) -> dict[str, dict[str, str]]:
    """Factor (the last word of its path) -> variant -> level; the baseline's level comes first."""
    config: Mapping[str, Any] = loaded.meta.get("baseline_config") or {}
    paths = list(dict.fromkeys(path for name in loaded.variants for path in loaded.changes(name)))
    short = [path.rsplit(".", 1)[-1] for path in paths]
    names = [word if short.count(word) == 1 else path for word, path in zip(short, paths, strict=True)]
    return {
        name: {v: setting(loaded.changes(v).get(path, lookup(config, path))) for v in loaded.variants}
        for name, path in zip(names, paths, strict=True)
    }


def write_factorial(report: FactorialReport, folder: Path) -> list[Path]:
    """factorial.md and one CSV a table; figures are drawn by analysis.figures.factorial."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"main": main_table(report), "anova": anova_table(report), "simple": simple_table(report)}
    paths = [folder / "factorial.md"]
    paths[0].write_text(markdown(report, tables), encoding="utf-8")
    for name, (head, *rows) in tables.items():
        paths.append(folder / f"factorial-{name}.csv")
        with open(paths[-1], "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([head, *rows])
    return paths


def main_table(report: FactorialReport) -> list[list[str]]:
    """Header and rows: factor, level, reference, effect, 95 % interval, p after Holm."""
    rows = [
        [e.factor, e.level, e.reference, _estimate(e.result), interval(e.result.low, e.result.high), p_value(e.p)]
        for e in report.main
    ]
    return [["factor", "level", "instead of", f"effect on {metric_name(report.metric)}", "95 % CI", "p (Holm)"], *rows]


def anova_table(report: FactorialReport) -> list[list[str]]:
    """Header and rows: source, degrees of freedom, sum of squares, mean square, F, p."""
    rows = [
        [row.source, str(row.df), f"{row.ss:.4g}", _plain(row.ms), _plain(row.f), p_value(row.p)]
        for row in report.fit.anova
    ]
    return [["source", "df", "sum of squares", "mean square", "F", "p"], *rows]


def simple_table(report: FactorialReport) -> list[list[str]]:
    """Header and rows: the effect of a level while another factor is held at each of its own."""
    rows = [
        [e.factor, str(e.level), str(e.reference), f"{e.given} = {e.at}", _estimate(e.result),
         interval(e.result.low, e.result.high), p_value(e.result.p)]
        for e in report.simple
    ]  # fmt: skip
    return [["factor", "level", "instead of", "where", "effect", "95 % CI", "p"], *rows]


def markdown(report: FactorialReport, tables: Mapping[str, Sequence[Sequence[str]]]) -> str:
    """The whole report as text: answer, interactions before main effects, what is missing."""
    parts = [f"# {report.experiment}: factors and their interactions", report.answer]
    if report.pairs:
        parts += ["## Simple effects of factors that depend on each other", _table(tables["simple"])]
    parts += ["## Main effects", _table(tables["main"]), "## Analysis of variance (type III)", _table(tables["anova"])]
    for runs, what in (
        (report.diverged, "runs diverged and count with their loss before training"),
        (report.missing, "planned runs have no result"),
    ):
        parts += [f"{len(runs)} {what}: {listed(list(runs))}."] if runs else []
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


def _main(fit: Factorial, factors: tuple[str, ...]) -> tuple[MainEffect, ...]:
    found = []
    for factor in factors:
        reference, *others = fit.model.levels[factor]
        for level in others:
            weights = fit.model.row({factor: level}) - fit.model.row({factor: reference})
            found.append((factor, str(level), str(reference), fit.model.fit.contrast(weights, fit.level)))
    adjusted = holm(np.array([effect[-1].p for effect in found]))
    effects = [MainEffect(*effect, float(p)) for effect, p in zip(found, adjusted, strict=True)]
    size = {f: max(abs(e.result.estimate) for e in effects if e.factor == f) for f in factors}
    return tuple(sorted(effects, key=lambda e: (-size[e.factor], -abs(e.result.estimate))))


def _largest_pairs(fit: Factorial) -> tuple[tuple[str, str], ...]:
    f = {row.source: row.f for row in fit.anova}
    terms = [(term[0], term[1]) for term in large_interactions(fit, alpha=ALPHA)]
    return tuple(sorted(terms, key=lambda term: -f[name_of(term)]))


def _contrasts(columns: Mapping[str, Sequence[str]], values: Sequence[float]) -> dict[str, float]:
    """Unit-length one-degree contrasts of main effects and pairs: in a balanced design each has standard error sigma.

    A factor of more than two levels gives Helmert contrasts: level k against the mean of those before it.
    """
    y = np.asarray(values)
    single: dict[str, np.ndarray] = {}
    for factor, column in columns.items():
        levels = list(dict.fromkeys(column))
        for k in range(1, len(levels)):
            code = np.zeros(len(levels))
            code[:k], code[k] = -1 / k, 1.0
            name = factor if len(levels) == 2 else f"{factor}: {levels[k]}"
            single[name] = code[[levels.index(value) for value in column]]
    names = list(single)
    owner = {name: name.partition(":")[0] for name in names}
    every = dict(single)
    for i, a in enumerate(names):
        every |= {f"{a} x {b}": single[a] * single[b] for b in names[i + 1 :] if owner[a] != owner[b]}
    return {name: float(code @ y / np.linalg.norm(code)) for name, code in every.items()}


def _estimate(result: Contrast) -> str:
    return number(result.estimate, decimals((result.high - result.low) / 2), sign=True)


def _effect(result: Contrast) -> str:
    return f"{_estimate(result)}, 95 % CI {interval(result.low, result.high)}, {p_phrase(result.p)}"


def _plain(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "-"
