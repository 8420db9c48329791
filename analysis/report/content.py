"""Everything that a report of one experiment says, computed once; pages, Markdown and the paper kit only spell it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.answer import Answer, PartAnswer, answer, missing, parts
from analysis.compare import Comparison, compare
from analysis.contents import cost_table, length_table, score_table, status_table, yardstick_notes
from analysis.figures import forest, learning_curves, score_against_cost, score_against_length, seed_strip
from analysis.figures.curves import curve_metric
from analysis.figures.tuning_space import learning_rate_sensitivity, tuning_figures
from analysis.load import Loaded, load
from analysis.phrases import baseline_legend
from analysis.report.protocol import (
    budget,
    held_equal,
    learning_rate,
    machine,
    scope,
    terms,
    tuning_notes,
    validation_note,
)
from analysis.style import SCREEN
from analysis.tables import Table
from analysis.tuning import Tuning, answers, caution, read_tuning
from analysis.words import decimals, listed, metric_label, number, setting, unit

CAPTIONS = {
    "differences": "Each variant against the baseline on the same seeds: mean paired difference, 95 % interval; "
    "filled marks: p < 0.05 after Holm correction.",
    "curves": "Mean over seeds with 95 % interval bands while training; dotted with a cross: a run that diverged.",
    "costs": "Mean score with its 95 % interval against cost (medians). "
    "Open marks at their true cost; some may cover each other.",
    "lengths": "Score beyond the trained length: mean over seeds with 95 % interval bands.",
    "seeds": "Every score of every seed; bar: mean; dashed line: the baseline's mean; right: seeds with a score.",
    "rates": "Mean validation score with its 95 % interval over the common grid of learning rates; ringed: the choice; "
    "crosses: a rate at which a seed diverged, which cannot be chosen.",
    "history": "Score of every trial and the best so far; crosses: diverged, bars: given up early.",
    "budget": "Best score after so many trials; dotted: what so many trials find on average in random order.",
    "importance": "How much of the differences in score each tuned parameter explains (PED-ANOVA).",
    "slices": "Score of every trial against each tuned parameter.",
    "contours": "Score over the two numeric parameters that matter most, linear between trials; ringed: the best.",
    "parallel": "Every trial as a line through its parameters to its score; bright: better.",
}  # fmt: skip


@dataclass(frozen=True)
class Content:
    """One experiment, ready to be written down.

    Attributes:
        loaded, comparison: what was found and how it compares.
        curves: long table of the metrics that are drawn (see `Loaded.curves`).
        distrusted: runs whose metrics.jsonl does not match its checksum; their curves are left out.
    """

    loaded: Loaded
    comparison: Comparison
    curves: pd.DataFrame
    distrusted: Sequence[str]

    @cached_property
    def answer(self) -> Answer:
        """The one sentence."""
        return answer(self.comparison)

    @cached_property
    def parts(self) -> list[PartAnswer]:
        """Answers setting by setting, where variants change one setting each."""
        return parts(self.comparison)

    @property
    def certainty(self) -> str:
        """`certain` only where everything that its card says is; `certain in part` where some of it is."""
        tied = len(self.comparison.leaders) > 1
        whole = self.answer.certain and not tied and all(part.certain for part in self.parts)
        some = self.answer.certain or any(part.certain for part in self.parts)
        return "certain" if whole else "certain in part" if some else "not certain"

    @cached_property
    def scope(self) -> str:
        """What the answer holds for."""
        return scope(self.loaded)

    @cached_property
    def terms(self) -> list[tuple[str, str]]:
        """Names of parts in plain words."""
        return terms(self.loaded)

    @cached_property
    def captions(self) -> dict[str, str]:
        """Captions of the figures, with what the baseline is and which validation is drawn."""
        legend = baseline_legend(self.comparison)
        notes = {"curves": validation_note(self.comparison, curve_metric(
            self.loaded, self.comparison.metric, self.curves["metric"].unique().tolist()))}  # fmt: skip
        return {name: " ".join(filter(None, (text, notes.get(name), legend))) for name, text in CAPTIONS.items()}

    @cached_property
    def tables(self) -> dict[str, Table]:
        """name -> table, in reading order."""
        scores = score_table(self.comparison)
        scores = replace(scores, notes=[*yardstick_notes(self.loaded, self.comparison), *scores.notes])
        found = [scores, length_table(self.loaded, self.comparison), cost_table(self.comparison)]
        if not all(row.counts["done"] == row.planned for row in self.comparison.rows):
            found.append(status_table(self.comparison))
        legend = [baseline_legend(self.comparison)]
        named = [replace(t, notes=[*t.notes, *filter(None, legend)]) for t in found if t is not None]
        return {table.name: table for table in named}

    @cached_property
    def tuning(self) -> Tuning | None:
        """The studies behind it, where it is what a tuner left."""
        return read_tuning(self.loaded.results, self.loaded.experiment)

    def figures(self, width: float = SCREEN) -> dict[str, Figure]:
        """name -> figure, in reading order."""
        found = {
            "differences": forest(self.comparison, width=width),
            "curves": learning_curves(self.loaded, self.comparison, curves=self.curves, width=width),
            "costs": score_against_cost(self.comparison, width=width),
            "lengths": score_against_length(self.loaded, self.comparison, width=width),
            "seeds": seed_strip(self.comparison, width=width),
            "rates": learning_rate_sensitivity(self.loaded, width=width),
            **(tuning_figures(self.tuning, width=width) if self.tuning else {}),
        }  # fmt: skip
        return {name: made for name, made in found.items() if made is not None}

    @property
    def provenance(self) -> dict[str, Any]:
        """What stands beside every table and figure."""
        return {
            "experiment": self.loaded.experiment, "definition": self.loaded.meta.get("definition"),
            "metric": self.comparison.metric, "command": self.command,
            "hashes": dict(zip(self.loaded.runs["run_id"], self.loaded.runs["hash"], strict=True)),
        }  # fmt: skip

    @property
    def runs_by_variant(self) -> dict[str, tuple[str, ...]]:
        """variant -> planned run ids."""
        return {row.variant: row.run_ids for row in self.comparison.rows}

    @property
    def command(self) -> str:
        """What repeats the experiment: as it was typed, or by its source where it came from the default command."""
        typed = str(self.loaded.meta.get("command") or "")
        return typed if " run " in f"{typed} " else f"python run_all.py run {shlex.quote(self.source)}"

    @property
    def source(self) -> str:
        """Where the experiment is declared: a catalog name or a file."""
        return str(self.loaded.meta.get("source") or self.loaded.experiment)

    @cached_property
    def missing(self) -> list[str]:
        """What is not there, and what was left out."""
        found = missing(self.comparison) + tuning_notes(self.loaded) + ([caution(self.tuning)] if self.tuning else [])
        if self.distrusted:
            found.append(
                f"Curves left out, because metrics.jsonl was altered after the run: {listed(list(self.distrusted))}."
            )
        if self.loaded.foreign:
            found.append(
                f"Not read, because this experiment does not plan them: {len(self.loaded.foreign)} under runs/: "
                f"{listed(list(self.loaded.foreign))}."
            )
        return found

    @cached_property
    def protocol(self) -> list[tuple[str, str]]:
        """What was held equal, as (name, value) lines."""
        config = self.loaded.meta.get("baseline_config") or {}
        train = config.get("train") or {}
        runs = self.loaded.compared
        lines = [("task", setting(config["task"])) if config.get("task") else None,
                 ("training", budget(train, runs)), ("learning rate", learning_rate(self.loaded, train)),
                 ("held equal", held_equal(self.loaded.meta)),
                 *(("tuned", text) for text in (answers(self.tuning) if self.tuning else ())),
                 ("seeds", f"{listed([str(s) for s in self.loaded.meta.get('seeds') or []], most=20)}; a seed fixes "
                  "data order, evaluation batches and the initial values of shared tensors for every variant"),
                 ("compared on", f"{metric_label(self.comparison.metric)}, once per run, after training"),
                 ("baseline", ", ".join(f"{k}={setting(v)}" for k, v in (config.get("model") or {}).items())),
                 *(("computed on", machine(e)) for e in self.loaded.environments)]  # fmt: skip
        return [line for line in lines if line and line[1]]

    @cached_property
    def sureness(self) -> list[str]:
        """How sure the comparison is: unit, test, correction, what these seeds could have found."""
        c = self.comparison
        found = [
            "The seed is the unit. Each variant is compared with the baseline on the same seeds; intervals are Student "
            "t on the paired differences.",
            f"p values are two-sided and Holm-corrected over all {c.n_tests} planned variants of this experiment "
            "(those without results count as p = 1).",
            "Nobody is named best on fewer than three seeds or with a diverged seed; variants that no test tells apart "
            "from the best are named beside it.",
        ]  # fmt: skip
        least = [value for row in c.others if math.isfinite(value := c.detectable(row))]
        if least:
            middle = float(np.median(least))
            size = " ".join(filter(None, (number(middle, decimals(middle)), unit(c.metric))))
            found.append(f"Half of the comparisons would find a true difference of {size} with 80 % power.")
        rho = [row.paired.rho for row in c.others if row.paired and math.isfinite(row.paired.rho)]
        if rho:
            middle = float(np.median(rho))
            helped = "comparing the same seeds narrowed the intervals"
            not_helped = "comparing the same seeds did not help here: the intervals are no narrower than without pairs"
            words = helped if middle > 0 else f"{not_helped}, and hold all the same"
            found.append(f"Median correlation with the baseline over seeds: {number(middle, 2)}; {words}.")
        return found

    def repeat(self, run_id: str) -> str:
        """What repeats one run."""
        return f"{self.command} --only {shlex.quote(run_id)} --redo"


def gather(results: Any, experiment: str) -> Content:
    """Reads an experiment and the curves that its report draws.

    Raises:
        ReportError: there is no such experiment, or no run has its metric.
    """
    loaded = load(results, experiment)
    comparison = compare(loaded)
    curves, distrusted = _curves(loaded, comparison.metric)
    return Content(loaded, comparison, curves, distrusted)


def _curves(loaded: Loaded, metric: str) -> tuple[pd.DataFrame, list[str]]:
    """Curves of the drawn metric and the losses; each metrics.jsonl is read once, and checked while it is read."""
    wanted = {
        metric.replace("test/", "validation/", 1),
        f"validation/{metric.rsplit('/', 1)[-1]}",
        "validation/loss",
        "train/loss",
    }
    table = loaded.curves(wanted, set(loaded.compared["run_id"]))
    have = set(table["run_id"].unique())
    runs = loaded.compared
    suspects = runs[(runs["metrics_sha256"] != "") & ~runs["run_id"].isin(have)]["run_id"]
    return table, [run for run in suspects if loaded.curve(run) is None]
