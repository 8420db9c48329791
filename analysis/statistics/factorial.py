"""Effects of several factors at once, with the seed as a fixed block.

y = mean + block + main effects + interactions + noise, by least squares in effect coding: a factor's columns
sum to zero over its levels, so each coefficient is a deviation from the grand mean and a main effect keeps its
meaning beside an interaction. In a balanced design the contrasts within a seed are those of a model with
random seeds, whose Wald tests are unreliable at five seeds.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from analysis.statistics.linear import Contrast, LeastSquares, f_test, least_squares
from analysis.statistics.samples import Floats, fraction_between, vector

Term = tuple[str, ...]
Column = Sequence[Hashable]


@dataclass(frozen=True)
class Effect:
    """One estimated effect of a term.

    For factors of two levels: mean at the second level minus mean at the first (as they first appear in the
    data), and for an interaction half the change of that difference. Else: the deviation of one cell.
    """

    term: Term
    label: str
    result: Contrast


@dataclass(frozen=True)
class AnovaRow:
    """One line of the table; `aliased_with` names what the design cannot tell this term from."""

    source: str
    df: int
    ss: float
    ms: float
    f: float
    p: float
    estimable: bool  # all of the term's degrees of freedom
    aliased_with: tuple[str, ...] = ()


@dataclass(frozen=True)
class Model:
    """The coded design beside its fit, for further contrasts."""

    levels: Mapping[str, tuple[Hashable, ...]]
    slices: Mapping[Term, slice]  # which columns belong to a term
    matrix: Floats
    fit: LeastSquares

    def row(self, setting: Mapping[str, Hashable]) -> Floats:
        """Weights of the mean at this setting, the factors it leaves out averaged over evenly."""
        weights = np.zeros(self.matrix.shape[1])
        weights[0] = 1.0
        for term, columns in self.slices.items():
            if set(term) <= set(setting):
                weights[columns] = self._code(term, [setting[f] for f in term])
        return weights

    def cell(self, term: Term, at: Sequence[Hashable]) -> Floats:
        """Weights of what this term alone adds in one of its cells."""
        weights = np.zeros(self.matrix.shape[1])
        weights[self.slices[term]] = self._code(term, at)
        return weights

    def _code(self, term: Term, at: Sequence[Hashable]) -> Floats:
        code = np.ones(1)
        for factor, level in zip(term, at, strict=True):
            levels = self.levels[factor]
            code = np.kron(code, _codes(len(levels))[levels.index(level)])
        return code


@dataclass(frozen=True)
class Factorial:
    """Everything a report says about a factorial experiment. Effects are as scored, not turned by a goal."""

    n: int
    sigma: float
    df_residual: int
    balanced: bool
    level: float
    effects: tuple[Effect, ...]
    anova: tuple[AnovaRow, ...]  # block, terms, residual
    model: Model


def factorial(
    columns: Mapping[str, Column],
    response: npt.ArrayLike,
    *,
    block: Column | None = None,
    order: int = 2,
    terms: Sequence[Term] | None = None,
    level: float = 0.95,
) -> Factorial:
    """Fit, effects with t intervals, and a type III table: SS(term) = RSS(model without it) - RSS(model).

    In a balanced two-level design of N runs an effect is (2 / N) sum(+-y), with standard error 2 sigma / sqrt(N).

    Args:
        columns: the level of each factor in each run, {"norm": ["rms", "layer", ...]}, each of length n.
        response: score of each run, shape (n,).
        block: the seed of each run.
        order: largest number of factors in an interaction; that of all factors for the full model.
        terms: the terms to fit instead, say a chosen few in a fraction whose interactions are aliased.
        level: coverage of the t intervals.

    Returns:
        Effects and table. What the design cannot separate is marked not estimable; without a residual
        degree of freedom intervals and p are NaN (look at `half_normal` then).

    Raises:
        ValueError: lengths differ, a factor has one level, a term is unknown or a score not finite.

    Source: Box, Hunter and Hunter 2005; Yates 1934 for the unbalanced case.
    """
    y = vector(response, "response")
    fraction_between(level, "level")
    chosen = _terms(tuple(columns), order, terms)
    model, sources = _model(columns, y, block, chosen)
    anova = [_anova_row(name, part, model, sources, y) for name, part in sources.items()]
    fit = model.fit
    ms = fit.rss / fit.df if fit.df else np.nan
    anova.append(AnovaRow("residual", fit.df, fit.rss, ms, np.nan, np.nan, fit.df > 0))
    effects = tuple(effect for term in chosen for effect in _effects(model, term, level))
    return Factorial(y.size, fit.sigma, fit.df, _balanced(columns, block), level, effects, tuple(anova), model)


def name_of(term: Term) -> str:
    """How a term is written in tables: 'mask x positional'."""
    return " x ".join(term)


def _terms(factors: tuple[str, ...], order: int, terms: Sequence[Term] | None) -> tuple[Term, ...]:
    if terms is None:
        return tuple(term for size in range(1, order + 1) for term in combinations(factors, size))
    for term in terms:
        if not term or not set(term) <= set(factors) or len(set(term)) < len(term):
            raise ValueError(f"term {tuple(term)} is not made of different factors among {', '.join(factors)}")
    return tuple(tuple(sorted(term, key=factors.index)) for term in terms)


def _model(
    columns: Mapping[str, Column], y: Floats, block: Column | None, terms: tuple[Term, ...]
) -> tuple[Model, dict[str, slice]]:
    """The fitted model, and the columns of each source of variation by its name in the table."""
    if block is not None and "block" in columns:
        raise ValueError("a factor may not be called 'block', the name of the seeds in the table")
    coded, levels = {}, {}
    for name, values in (columns if block is None else {**columns, "block": block}).items():
        if len(values) != y.size:
            raise ValueError(f"{name!r} has {len(values)} entries and the response {y.size}; it is one a run")
        levels[name] = tuple(dict.fromkeys(values))
        if len(levels[name]) < 2:
            raise ValueError(f"{name!r} has only the level {levels[name][:1]}; leave it out or run another")
        coded[name] = _codes(len(levels[name]))[[levels[name].index(v) for v in values]]
    parts, sources, slices, start = [np.ones((y.size, 1))], {}, {}, 1
    for term in [*([("block",)] if block is not None else []), *terms]:
        part = np.ones((y.size, 1))
        for factor in term:
            part = (part[:, :, None] * coded[factor][:, None, :]).reshape(y.size, -1)
        slices[term] = sources[name_of(term)] = slice(start, start + part.shape[1])
        start += part.shape[1]
        parts.append(part)
    matrix = np.hstack(parts)
    return Model(levels, slices, matrix, least_squares(matrix, y)), sources


def _codes(n: int) -> Floats:
    """Effect coding of n levels, shape (n, n - 1): the first level is -1 throughout, so two levels are -1 and +1."""
    return np.vstack([-np.ones(n - 1), np.eye(n - 1)])


def _anova_row(name: str, part: slice, model: Model, sources: Mapping[str, slice], y: Floats) -> AnovaRow:
    without = least_squares(np.delete(model.matrix, part, axis=1), y)
    df = model.fit.rank - without.rank
    ss = max(0.0, without.rss - model.fit.rss) if df else 0.0
    f, p = f_test(ss, df, model.fit)
    estimable = df == part.stop - part.start
    aliased = () if estimable else _aliased_with(name, model, sources)
    return AnovaRow(name, df, ss, ss / df if df else np.nan, f, p, estimable, aliased)


def _aliased_with(name: str, model: Model, sources: Mapping[str, slice]) -> tuple[str, ...]:
    """Sources whose columns span something of this one's; empty where it takes several together."""

    def rank(*parts: slice) -> int:
        return int(np.linalg.matrix_rank(np.hstack([model.matrix[:, part] for part in parts])))

    own, others = sources[name], {"mean": slice(0, 1), **sources}
    return tuple(o for o, part in others.items() if o != name and rank(own, part) < rank(own) + rank(part))


def _effects(model: Model, term: Term, level: float) -> list[Effect]:
    if all(len(model.levels[factor]) == 2 for factor in term):
        seconds = [model.levels[factor][1] for factor in term]
        first, second = model.levels[term[0]]
        label = name_of(term) if len(term) > 1 else f"{term[0]}: {second} - {first}"
        return [Effect(term, label, model.fit.contrast(2 * model.cell(term, seconds), level))]
    cells = product(*(model.levels[factor] for factor in term))
    return [
        Effect(term, ", ".join(f"{f}={v}" for f, v in zip(term, at, strict=True)), contrast)
        for at in cells
        for contrast in [model.fit.contrast(model.cell(term, at), level)]
    ]


def _balanced(columns: Mapping[str, Column], block: Column | None) -> bool:
    """Every combination of levels, within each block, was run equally often."""
    every = [*columns.values(), *([block] if block is not None else [])]
    counts: dict[tuple[Hashable, ...], int] = {}
    for cell in zip(*every, strict=True):
        counts[cell] = counts.get(cell, 0) + 1
    possible = int(np.prod([len(set(column)) for column in every]))
    return len(counts) == possible and len(set(counts.values())) == 1
