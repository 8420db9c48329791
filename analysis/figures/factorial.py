"""Two pictures of a factorial: which effects stand out of the noise, and which depend on another."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.factorial_report import MOST_PAIRS, FactorialReport
from analysis.statistics import Contrast, HalfNormal, cell_mean, name_of
from analysis.style import SCREEN, empty, figure, looks, styled
from analysis.words import metric_label

NAMED = 8  # effects with their names beside them


def half_normal_plot(report: FactorialReport, *, width: float = SCREEN) -> Figure:
    """|effect| against half-normal scores. Noise follows a line through 0; what matters leaves it to the right."""
    with styled(width):
        made = figure(width, 4.2)
        axes = made.subplots()
        if report.contrasts is None:
            empty(axes, "the design is not balanced: some runs have no result yet")
            return made
        _points(axes, report.contrasts)
        axes.set_xlabel(f"|contrast| of {metric_label(report.metric)}, each with the same standard error")
        axes.set_ylabel("half-normal score")
        axes.set_title(f"{len(report.contrasts.labels)} effects of {report.fit.n} runs; filled: beyond Lenth's margin")
    return made


def _points(axes: Axes, found: HalfNormal) -> None:
    for label, size, score in zip(found.labels, found.sizes, found.scores, strict=True):
        color, inside = ("#0072B2", "#0072B2") if size > found.margin else ("#888888", "white")
        axes.plot([size], [score], "o", color=color, markerfacecolor=inside, gid=f"effect {label}")
    for label, size, score in list(zip(found.labels, found.sizes, found.scores, strict=True))[-NAMED:]:
        inward = size > 0.5 * found.sizes[-1]
        axes.annotate(label, (size, score), xytext=(-6 if inward else 6, 0), textcoords="offset points",
                      ha="right" if inward else "left", va="center", fontsize=7)  # fmt: skip
    if found.pse > 0:
        top = found.scores[-1]
        axes.plot([0, found.pse * top], [0, top], color="#888888", linewidth=0.8)
    axes.axvline(found.margin, color="#D55E00", linewidth=0.8, linestyle=":")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)


def interaction_plot(report: FactorialReport, *, width: float = SCREEN) -> Figure:
    """Model means with 95 % intervals of the pairs with the largest F: parallel lines are no interaction."""
    pairs = largest(report)
    with styled(width):
        made = figure(width, 3.2 if len(pairs) <= 2 else 6.0)
        if not pairs:
            empty(made.subplots(), "no pair of factors was fitted")
            return made
        rows = 1 if len(pairs) <= 2 else 2
        grid = made.subplots(rows, -(-len(pairs) // rows), squeeze=False).ravel()
        for axes, pair in zip(grid, pairs, strict=False):
            _panel(axes, report, pair)
        for axes in grid[len(pairs) :]:
            axes.set_axis_off()
    return made


def largest(report: FactorialReport) -> list[tuple[str, str]]:
    """Pairs of factors by falling F; the one with more levels goes along the axis."""
    f = {row.source: row.f for row in report.fit.anova if row.f == row.f}
    terms = [term for term in report.fit.model.slices if len(term) == 2 and name_of(term) in f]
    terms.sort(key=lambda term: -f[name_of(term)])
    levels = report.fit.model.levels
    return [(a, b) if len(levels[a]) >= len(levels[b]) else (b, a) for a, b in terms[:MOST_PAIRS]]


def _panel(axes: Axes, report: FactorialReport, pair: tuple[str, str]) -> None:
    along, lines = pair
    levels = report.fit.model.levels
    look = looks([str(level) for level in levels[lines]])
    for index, level in enumerate(levels[lines]):
        means = [cell_mean(report.fit, {along: x, lines: level}) for x in levels[along]]
        seen, shift = look[str(level)], 0.06 * (index - (len(levels[lines]) - 1) / 2)
        axes.errorbar(
            [x + shift for x in range(len(means))], [m.estimate for m in means], yerr=[_half(m) for m in means],
            color=seen.color, marker=seen.marker, linestyle=seen.dash, elinewidth=0.8, label=str(level),
        )  # fmt: skip
    axes.set_xticks(range(len(levels[along])), [str(x) for x in levels[along]])
    axes.set_ylabel(metric_label(report.metric))
    axes.set_xlabel(along)
    axes.legend(title=lines)
    axes.set_title(f"{along} x {lines}")


def _half(mean: Contrast) -> float:
    half = (mean.high - mean.low) / 2
    return half if half == half else 0.0
