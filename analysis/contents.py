"""What an experiment's tables hold: scores and paired differences, costs, scores over evaluation lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.compare import FEWEST, Comparison, Row, compare
from analysis.load import Loaded
from analysis.phrases import MEASURED, within_spread
from analysis.tables import Cell, Column, Table, nothing
from analysis.words import (
    NOTHING,
    count,
    decimals,
    interval,
    memory,
    metric_label,
    metric_name,
    number,
    p_value,
    percent,
    plus_minus,
    seconds,
)


def score_table(comparison: Comparison) -> Table:
    """Baseline first: mean ± 95 % CI, n, paired difference with CI and corrected p, wins, verdict."""
    name = metric_name(comparison.metric)
    heads = (
        name,
        "n",
        "Δ to baseline (95 % CI)",
        "p (Holm)",
        "wins",
        "verdict",
        "params",
        "FLOPs/token",
        "time",
        "memory",
    )
    columns = [Column("variant", text=True), *(Column(head, text=head == "verdict") for head in heads)]
    rows = [
        [_variant(row), _mean(comparison, row), _seeds(row), *_difference(row), _wins(row),
         Cell(row.verdict, {"verdict": row.verdict}, row.verdict), _cost(row, "parameters", count),
         _cost(row, "flops_per_token", count), _cost(row, "train_seconds", seconds),
         _cost(row, "peak_memory_bytes", memory)]
        for row in ordered(comparison)
    ]  # fmt: skip
    return Table(
        "scores", score_caption(comparison), columns, rows, [r.run_ids for r in ordered(comparison)], _notes(comparison)
    )


def ordered(comparison: Comparison) -> list[Row]:
    """The baseline, then the others best mean first; those without a score at the end, in declared order."""
    sign = 1 if comparison.goal == "min" else -1
    return [comparison.baseline, *sorted(comparison.others, key=lambda r: sign * r.mean.mean if r.mean else math.inf)]


def yardstick_notes(loaded: Loaded, comparison: Comparison) -> list[str]:
    """What no translation would score, where the runs recorded it: `test/copy_chrf` beside `test/chrf`."""
    split, slash, last = comparison.metric.rpartition("/")
    found = loaded.scores.loc[loaded.scores["metric"] == f"{split}{slash}copy_{last}", "value"]
    if found.empty:
        return []
    return [f"Copying the source as it is would score {number(found.mean(), 2)} (mean over the runs' test sets)."]


def score_caption(comparison: Comparison) -> str:
    """What is shown, how many seeds, and which test."""
    least, most = (f(r.planned for r in comparison.rows) for f in (min, max))
    better = "lower" if comparison.goal == "min" else "higher"
    return (
        f"{comparison.experiment}: {metric_label(comparison.metric)}, {better} is better. Mean ± 95 % t "
        f"interval over {least if least == most else f'{least} to {most}'} seeds; Δ is the mean paired difference to "
        "the baseline over shared seeds, with its 95 % t interval and two-sided p, Holm-corrected over "
        f"{comparison.n_tests} variants."
    )


def cost_table(comparison: Comparison) -> Table:
    """Medians over finished runs, and each as a change to the baseline."""
    kinds = {
        "parameters": count, "flops_per_token": count, "tokens": count, "steps": count, "train_seconds": seconds,
        "seconds": seconds, "peak_memory_bytes": memory,
    }  # fmt: skip
    titles = ["parameters", "FLOPs / token", "tokens", "steps", "train time", "whole run", "peak memory"]
    columns = [Column("variant", text=True), *(Column(title) for title in titles)]
    rows = []
    for row in ordered(comparison):
        cells = [_cost(row, key, spell, comparison.baseline) for key, spell in kinds.items()]
        rows.append([_variant(row), *cells])
    caption = f"{comparison.experiment}: cost of each variant (median over finished runs; change to the baseline)."
    note = "Times are measured on one machine and not tested; ~: a change that the spread over seeds covers."
    return Table("costs", caption, columns, rows, [r.run_ids for r in ordered(comparison)], [note])


def length_table(loaded: Loaded, comparison: Comparison) -> Table | None:
    """Score per evaluation length, one column a length; None where the task has no lengths."""
    found = by_length(loaded, comparison)
    if not found:
        return None
    trained = loaded.lengths.get("")
    heads = [f"length {n}{' (trained)' if n == trained else ''}" for n in found]
    rows = []
    for row in ordered(comparison):
        cells = [_mean(c, c.row(row.variant), f"length_{length}") for length, c in found.items()]
        rows.append([_variant(row), *cells])
    caption = (
        f"{comparison.experiment}: {metric_label(f'test/{last_word(comparison.metric)}')} by evaluation length. "
        "Mean ± 95 % Student t interval over seeds; bold only where told apart from every other variant."
    )
    return Table(
        "lengths",
        caption,
        [Column("variant", text=True), *map(Column, heads)],
        rows,
        [r.run_ids for r in ordered(comparison)],
    )


def by_length(loaded: Loaded, comparison: Comparison) -> dict[int, Comparison]:
    """Length in tokens -> comparison on that evaluation set, shortest first; empty with fewer than two lengths."""
    split, last = comparison.metric.split("/", 1)[0], last_word(comparison.metric)
    names = {
        length: "/".join(part for part in (split, label, last) if part) for label, length in loaded.lengths.items()
    }
    known = set(loaded.metrics)
    found = {length: compare(loaded, name, comparison.goal) for length, name in sorted(names.items()) if name in known}
    return found if len(found) > 1 else {}


def last_word(metric: str) -> str:
    """`test/len_32/accuracy` -> `accuracy`."""
    return metric.rsplit("/", 1)[-1]


def status_table(comparison: Comparison) -> Table:
    """Runs by status, one row a variant that is not complete; with Fisher's p where something diverged."""
    columns = [
        Column("variant", text=True),
        *map(Column, ("done", "diverged", "failed", "missing", "damaged", "p (Fisher)")),
    ]
    rows, runs = [], []
    for row in comparison.rows:
        if row.counts["done"] < row.planned:
            cells = [Cell(f"{k}/{row.planned}" if k else NOTHING, {s: k}, k) for s, k in row.counts.items()]
            rows.append(
                [
                    _variant(row),
                    *cells,
                    Cell(p_value(row.p_divergence), {"p_divergence": row.p_divergence}, row.p_divergence),
                ]
            )
            runs.append(row.run_ids)
    caption = (
        f"{comparison.experiment}: variants with runs that are not done. "
        "p: Fisher's exact test of 'diverges as often as the baseline'."
    )
    return Table("status", caption, columns, rows, runs, baseline_first=False)


def _variant(row: Row) -> Cell:
    return Cell(row.variant, {"variant": row.variant}, row.variant)


def _mean(comparison: Comparison, row: Row, prefix: str = "") -> Cell:
    name = prefix or comparison.metric
    m = row.mean
    raw = {f"{name}_{part}": getattr(m, part) if m else None for part in ("mean", "low", "high")} | {f"{name}_n": row.n}
    note = _count_note(row)
    if m is None:
        return nothing(note or "no score yet", **raw)
    bold = len(comparison.leaders) == 1 and comparison.leaders[0].variant == row.variant and len(comparison.ranked) > 1
    return Cell(plus_minus(m.mean, m.high - m.mean), raw, m.mean, bold, note)


def _count_note(row: Row) -> str:
    """Why n is smaller than planned."""
    lost = [f"{k}/{row.planned} {status}" for status, k in row.counts.items() if k and status != "done"]
    unscored = row.counts["done"] - row.n
    lost += [f"{unscored}/{row.planned} without this metric"] if unscored else []
    return ", ".join(lost) + (", not in the mean" if lost else "")


def _seeds(row: Row) -> Cell:
    text = str(row.n) if row.n == row.planned else f"{row.n}/{row.planned}"
    return Cell(text, {"n": row.n, "planned": row.planned, **row.counts}, row.n)


def _difference(row: Row) -> Sequence[Cell]:
    both = row.paired
    heads = ("difference", "difference_low", "difference_high", "n_pairs", "p_raw", "p_holm")
    if both is None:
        raw = dict.fromkeys(heads)
        return Cell(NOTHING, raw), Cell(NOTHING)
    low, high = raw_interval(row)
    raw = dict(zip(heads, (both.raw_difference, low, high, both.n, both.p, row.p), strict=True))
    note = f"n = {both.n}: below {FEWEST} seeds nothing is concluded" if both.n < FEWEST else ""
    delta = number(both.raw_difference, decimals((high - low) / 2), sign=True)
    text = f"{delta} ({interval(low, high)})" if both.n > 1 else delta
    p = None if math.isnan(row.p) else row.p
    return Cell(text, raw, both.raw_difference, note=note), Cell(p_value(row.p), {}, p)


def raw_interval(row: Row) -> tuple[float, float]:
    """The interval of variant − baseline, as scored (a `Paired` holds it turned so that positive is better)."""
    assert row.paired is not None, row.variant
    low, high = row.paired.low, row.paired.high
    return (low, high) if row.paired.goal == "max" else (-high, -low)


def _wins(row: Row) -> Cell:
    if row.paired is None:
        return nothing(wins=None)
    return Cell(f"{row.paired.wins}/{row.paired.n}", {"wins": row.paired.wins}, row.paired.wins)


def _cost(row: Row, key: str, spell: object, baseline: Row | None = None) -> Cell:
    assert callable(spell)
    value = row.cost[key]
    text = str(spell(value))
    if baseline is not None and row is not baseline and math.isfinite(value) and baseline.cost[key] > 0:
        about = "~ " if key in MEASURED and within_spread(row, baseline, key) else ""
        text += f" ({about}{percent(value / baseline.cost[key])})"
    return Cell(text, {key: None if math.isnan(value) else value}, None if math.isnan(value) else value)


def _notes(comparison: Comparison) -> list[str]:
    notes = []
    if any(row.verdict == "unstable" for row in comparison.rows):
        notes.append("Unstable: a seed diverged. The mean is over the seeds that did not, and flatters the variant.")
    tied = comparison.leaders
    if len(tied) > 1:
        notes.append(f"No value is bold: {', '.join(r.variant for r in tied)} are not told apart.")
    if comparison.smallest_effect:
        notes.append(f"Same: inside ±{comparison.smallest_effect:g} by two one-sided tests (each at 5 %).")
    return notes
