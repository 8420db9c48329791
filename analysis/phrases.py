"""Differences, scores and costs of a comparison as parts of sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from analysis.compare import Comparison, Row, between, from_first
from analysis.statistics import Paired
from analysis.words import IN_SENTENCES, decimals, listed, number, p_phrase, part_name, percent, setting, unit

MEASURED = ("train_seconds", "seconds")  # what a machine's mood moves; memory is counted
MOST_EFFECTS = 3


def cost_phrase(row: Row, other: Row) -> str:
    """Cost of a variant against another: `same parameters, +1.2 % FLOPs per token; measured on one machine, ...`.

    Of what is measured and not counted, a change that the seeds' own spread covers is no number here.
    """
    names = {"parameters": "parameters", "flops_per_token": "FLOPs per token", "train_seconds": "training time",
             "peak_memory_bytes": "peak memory"}  # fmt: skip
    base = other.cost
    found: list[str] = []
    measured: list[str] = []
    for key, name in names.items():
        if math.isfinite(row.cost[key]) and base[key] > 0:
            within = key in MEASURED and within_spread(row, other, key)
            change = f"{percent(row.cost[key] / base[key])} {name}"
            change = f"{name} within the spread over seeds" if within else change
            (measured if key in MEASURED else found).append(change)
    tail = f"measured on one machine, not tested: {', '.join(measured)}" if measured else ""
    return "; ".join(filter(None, (", ".join(found), tail)))


def within_spread(row: Row, other: Row, key: str) -> bool:
    """Whether the runs of the two overlap in a measured cost, so that the difference may be the machine's noise."""
    (low, high), (other_low, other_high) = (r.spread.get(key, (math.nan, math.nan)) for r in (row, other))
    return low < high and low <= other_high and other_low <= high


def difference_phrase(comparison: Comparison, row: Row, than: str = "", *, turned: bool = False) -> str:
    """`0.019 nats per token better than the baseline (95 % CI 0.014 to 0.024, Holm p = 0.001, wins 5/5, n = 5)`.

    turned: the same comparison from the side of the baseline.
    """
    both = row.paired
    assert both is not None, row.variant
    if turned:
        lost = both.n - both.wins - both.ties
        both = replace(both, difference=-both.difference, low=-both.high, high=-both.low, wins=lost)
    places, sign = decimals((both.high - both.low) / 2), 1 if both.difference > 0 else -1
    low, high = sorted((sign * both.low, sign * both.high))
    size = f"{number(abs(both.difference), places)}{unit_phrase(comparison)} {'better' if sign > 0 else 'worse'}"
    return (
        f"{size}{f' than {than}' if than else ''} (95 % CI {number(low, places)} to {number(high, places)}, Holm "
        f"{p_phrase(row.p)}, wins {both.wins}/{both.n}, n = {both.n})"
    )


def unit_phrase(comparison: Comparison) -> str:
    """Units that a sentence can carry: `0.02 nats per token`, `0.02 of all tokens` for an accuracy."""
    name = unit(comparison.metric)
    return f" {IN_SENTENCES.get(name, name)}" if name else ""


def scored(comparison: Comparison, row: Row) -> str:
    """`0.459 against the baseline's 0.106`: the scores behind a difference."""
    base = comparison.baseline
    assert row.mean is not None, row.variant
    assert base.mean is not None, base.variant
    places = max(3, decimals(base.mean.high - base.mean.mean)) if abs(base.mean.mean) < 10 else 2
    return f"{number(row.mean.mean, places)} against the baseline's {number(base.mean.mean, places)}"


def next_best(comparison: Comparison, ranked: list[Row]) -> str:
    """The first row against the second, with the p that decides about it; empty where the baseline is one of them."""
    best, second = ranked[:2]
    both = between(best, second, comparison.goal)
    if both is None or best.is_baseline or second.is_baseline:
        return ""
    p = from_first(ranked, comparison.goal)[0]
    return f" Against the next best, {second.variant}: {_pair_phrase(comparison, second, both, p)}."


def _pair_phrase(comparison: Comparison, second: Row, both: Paired, p: float) -> str:
    assert second.mean is not None, second.variant
    places = decimals((both.high - both.low) / 2)
    size = f"{number(both.difference, places)}{unit_phrase(comparison)}"
    return (
        f"{number(second.mean.mean, 3)}, difference {size} (95 % CI "
        f"{number(both.low, places)} to {number(both.high, places)}, {p_phrase(p)})"
    )


def effects(comparison: Comparison) -> str:
    """The largest certain effects, one a part, harmful and helpful, where several parts vary; else nothing."""
    if len({path for row in comparison.others for path in row.changes}) < 3:
        return ""
    found = []
    for verdict, word in (("worse", "worse"), ("better", "better")):
        rows = [row for row in comparison.others if row.verdict == verdict and row.paired and row.mean]
        rows.sort(key=lambda row: -abs(row.paired.difference) if row.paired else 0.0)
        first = {"+".join(row.changes): row for row in reversed(rows)}
        top = [row for row in rows if row in first.values()][:MOST_EFFECTS]
        each = ", ".join(f"{row.variant} {_size(row)} ({_part_names(row)})" for row in top)
        found.append(f"{len(rows)} are certainly {word}{f', most of all {each}' if top else ''}")
    rest = len(comparison.others) - sum(row.verdict in ("worse", "better") for row in comparison.others)
    base = comparison.baseline.mean
    of = f" ({number(base.mean, 3)}{unit_phrase(comparison)})" if base else ""
    text = f"Of {comparison.n_tests} changes to the baseline{of}, {'; '.join(found)}"
    return f"{text}; {rest} are not told apart from it. "


def _size(row: Row) -> str:
    assert row.paired is not None, row.variant
    return f"by {number(abs(row.paired.difference), 3)}"


def _part_names(row: Row) -> str:
    return ", ".join(part_name(path) for path in row.changes) or "nothing changed"


def baseline_legend(comparison: Comparison) -> str:
    """`Baseline: position encoding rope, norm layernorm.`: its value of every setting that varies; else nothing."""
    known = [f"{part_name(path)} {setting(value)}" for path, value in comparison.settings.items() if value is not None]
    return f"Baseline: {listed(known, most=9)}." if known else ""


def baseline_named(comparison: Comparison) -> str:
    """What the baseline is, where only one or two settings vary: ` (positional=rope)`."""
    known = {path.rsplit(".", 1)[-1]: value for path, value in comparison.settings.items() if value is not None}
    few = 0 < len(comparison.settings) <= 2 and known
    return f" ({', '.join(f'{name}={setting(value)}' for name, value in known.items())})" if few else ""


def pairs_phrase(comparison: Comparison, ranked: list[Row], values: Mapping[str, str]) -> Iterator[str]:
    """The first row against each other one, with the p that decides about it."""
    for row, p in zip(ranked[1:], from_first(ranked, comparison.goal), strict=True):
        both = between(ranked[0], row, comparison.goal)
        if both is not None:
            yield f"'{values[row.variant]}' {_pair_phrase(comparison, row, both, p)}"
