"""What the comparison says, in sentences: which variant, how sure, at what cost, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.compare import FEWEST, Comparison, Row, leaders
from analysis.phrases import (
    baseline_named,
    cost_phrase,
    difference_phrase,
    effects,
    next_best,
    pairs_phrase,
    scored,
    unit_phrase,
)
from analysis.words import decimals, listed, metric_name, number, plus_minus, setting


@dataclass(frozen=True)
class Answer:
    """One sentence and what a table of answers needs.

    Attributes:
        sentence: the finding with its uncertainty, largest effects first where several parts vary.
        cost: what it costs against the baseline; empty where nobody leads.
        best: the variant with the best mean that may lead, or None. certain: it is told apart from the baseline, or,
            for a baseline, from every variant.
        verdict: a few words for an overview.
    """

    sentence: str
    cost: str
    best: str | None
    certain: bool
    verdict: str


@dataclass(frozen=True)
class PartAnswer:
    """The answer for the variants that change one and the same setting.

    Attributes:
        part: dotted path. best: its best value. is_baseline: the baseline has that value.
        certain: the best is told apart from all others. sure, sentence, cost: in words.
        variant: the row that has the value. pairs: the best against each other value, in words.
    """

    part: str
    best: str
    is_baseline: bool
    certain: bool
    sure: str
    sentence: str
    cost: str
    variant: str
    pairs: tuple[str, ...] = ()


def answer(comparison: Comparison) -> Answer:
    """The experiment's answer; honest about few seeds, ties and divergence."""
    ranked = comparison.ranked
    if comparison.baseline.n < FEWEST or len(ranked) < 2:
        return _no_answer(comparison)
    best = ranked[0]
    if best is comparison.baseline:
        return _baseline_leads(comparison)
    if best.verdict == "better":
        return _variant_leads(comparison, best)
    return _undecided(comparison, best)


def parts(comparison: Comparison) -> list[PartAnswer]:
    """One answer per setting that variants change on their own, in declared order; parts with one option too."""
    names = dict.fromkeys(next(iter(row.changes)) for row in comparison.others if len(row.changes) == 1)
    found = (_part(comparison, name) for name in names)
    return [part for part in found if part is not None]


def missing(comparison: Comparison) -> list[str]:
    """Sentences on what is not there: runs by status, with the variants concerned."""
    words = {
        "missing": "without a result yet", "failed": "failed", "damaged": "with damaged files, not used",
        "diverged": "diverged; they are in no mean, and their variants cannot be best",
    }  # fmt: skip
    sentences = []
    for status, text in words.items():
        rows = [row for row in comparison.rows if row.counts[status]]
        if rows:
            total = sum(row.counts[status] for row in rows)
            planned = sum(row.planned for row in comparison.rows)
            each = listed([f"{row.variant} {row.counts[status]}/{row.planned}" for row in rows], most=12)
            sentences.append(f"{total} of {planned} runs {text}: {each}.")
    unscored = [r.variant for r in comparison.rows if r.counts["done"] > r.n]
    if unscored:
        sentences.append(f"Some finished runs have no {comparison.metric}: {listed(unscored)}.")
    return sentences


def _no_answer(comparison: Comparison) -> Answer:
    base = comparison.baseline
    have = f"the baseline has {base.n} of {base.planned} seeds with a score"
    if base.counts["diverged"]:
        have += f" and {base.counts['diverged']} diverged"
    able = [r for r in comparison.others if r.n_pairs >= FEWEST]
    text = f"No answer yet: {have}, and {len(able)} of {len(comparison.others)} variants share {FEWEST} seeds with it; "
    text += f"no winner is named on fewer than {FEWEST} seeds."
    if base.counts["diverged"]:
        text += " A baseline that diverges needs a smaller learning rate first."
    return Answer(text, "", None, False, "no answer yet")


def _variant_leads(comparison: Comparison, best: Row) -> Answer:
    assert best.paired is not None, best.variant
    tied = [r.variant for r in comparison.leaders[1:]]
    metric = metric_name(comparison.metric)
    text = f"{effects(comparison)}{best.variant} is best: {metric}: {scored(comparison, best)}, "
    text += f"{difference_phrase(comparison, best, f'the baseline{baseline_named(comparison)}')}."
    text += next_best(comparison, comparison.ranked)
    if comparison.smallest_effect and best.paired.difference < comparison.smallest_effect:
        text += f" That is less than the {comparison.smallest_effect:g} that was said to matter."
    if tied:
        text += f" Not told apart from it: {listed(tied)}."
    return Answer(
        text + _half(comparison),
        cost_phrase(best, comparison.baseline),
        best.variant,
        True,
        f"{best.variant} beats the baseline",
    )


def _baseline_leads(comparison: Comparison) -> Answer:
    base, tied = comparison.baseline, [r.variant for r in comparison.leaders[1:]]
    mean = plus_minus(base.mean.mean, base.mean.high - base.mean.mean) if base.mean else "-"
    worse = sum(row.verdict == "worse" for row in comparison.others)
    score = f"{metric_name(comparison.metric)} {mean}{unit_phrase(comparison)}"
    text = f"{effects(comparison)}Nothing beats the baseline{baseline_named(comparison)}: {score}, n = {base.n}; "
    text += f"{worse} of {comparison.n_tests} variants are certainly worse"
    text += f", not told apart from it: {listed(tied)}." if tied else "."
    certain = not tied and worse == comparison.n_tests
    return Answer(
        text + _half(comparison),
        "",
        base.variant,
        certain,
        "baseline is best" if certain else "nothing beats the baseline",
    )


def _undecided(comparison: Comparison, best: Row) -> Answer:
    text = f"{effects(comparison)}Undecided: no variant is certainly better than the baseline"
    text += f"; the best mean has {best.variant}, {difference_phrase(comparison, best)}." if best.paired else "."
    least = comparison.detectable(best)
    if math.isfinite(least):
        text += f" {best.n_pairs} seeds find a difference of {number(least, decimals(least))} with 80 % power"
        seeds = comparison.seeds_for(best)
        more = seeds is not None and seeds > best.n_pairs
        text += f"; the {comparison.smallest_effect:g} that matters needs about {seeds}." if more else "."
    return Answer(text + _half(comparison), cost_phrase(best, comparison.baseline), best.variant, False, "undecided")


def _half(comparison: Comparison) -> str:
    if comparison.complete:
        return ""
    have = sum(row.counts["done"] + row.counts["diverged"] for row in comparison.rows)
    return f" This is from {have} of {sum(row.planned for row in comparison.rows)} runs."


def _part(comparison: Comparison, path: str) -> PartAnswer | None:
    """Compares the values of one setting, the baseline's among them."""
    rows = [comparison.baseline, *(r for r in comparison.others if set(r.changes) == {path})]
    values = {row.variant: _value(comparison, row, path) for row in rows}
    ranked = [row for row in comparison.ranked if row in rows]
    if len(ranked) < 2:
        return None
    best, second = ranked[0], ranked[1]
    tied = leaders(ranked, comparison.goal)[1:]
    is_baseline = best is comparison.baseline
    left_out = [row for row in rows if row not in ranked]
    if is_baseline:
        than = f"'{values[second.variant]}', the next best"
        text = f"{difference_phrase(comparison, second, than, turned=True)}. The baseline has it."
    else:
        than = f"the baseline's '{values[comparison.baseline.variant]}'"
        text = f"{scored(comparison, best)}: {difference_phrase(comparison, best, than)}."
        text += next_best(comparison, ranked)
    text += f" Not told apart: {_quoted(values, tied)}." if tied else ""
    text += f" Unstable, or too few seeds: {_quoted(values, left_out)}." if left_out else ""
    other, base = second if is_baseline else best, comparison.baseline
    cost = f"{cost_phrase(other, base)}, against '{values[base.variant]}'"
    cost = f"nothing: the baseline has it; '{values[second.variant]}' would cost: {cost}" if is_baseline else cost
    sure = "no" if tied else "yes"
    sure = "beats the baseline" if tied and best.verdict == "better" else sure
    pairs = tuple(pairs_phrase(comparison, ranked, values))
    return PartAnswer(path, values[best.variant], is_baseline, not tied, sure, text, cost, best.variant, pairs)


def _value(comparison: Comparison, row: Row, path: str) -> str:
    if row is not comparison.baseline:
        return setting(row.changes[path])
    own = comparison.settings.get(path)
    return "not set" if own is None else setting(own)


def _quoted(values: Mapping[str, str], rows: Sequence[Row]) -> str:
    """A value may be the word `none`, so it is set in quotes."""
    return listed([f"'{values[row.variant]}'" for row in rows])
