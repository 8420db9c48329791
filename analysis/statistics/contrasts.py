"""Reading a factorial: interactions first, simple effects where they are large, a plot where noise is unknown."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import ndtri, stdtrit

from analysis.statistics.factorial import Factorial, Term, name_of
from analysis.statistics.linear import Contrast


@dataclass(frozen=True)
class SimpleEffect:
    """Mean at `level` minus mean at `reference` of one factor, while another is held at `at`."""

    factor: str
    level: Hashable
    reference: Hashable
    given: str
    at: Hashable
    result: Contrast


@dataclass(frozen=True)
class HalfNormal:
    """Effects in rising size against half-normal scores: noise follows a line through 0, real effects leave it."""

    labels: tuple[str, ...]
    sizes: tuple[float, ...]  # |effect|
    scores: tuple[float, ...]
    pse: float  # Lenth's pseudo standard error of an effect
    margin: float  # sizes above it would each be significant at 5 %, one at a time


def simple_effects(result: Factorial, factor: str, given: str) -> tuple[SimpleEffect, ...]:
    """mean(factor = l, given = g) - mean(factor = first level, given = g), for every other level l and every g.

    Means are the model's, even over the factors left out and with the noise of all runs pooled.

    Args:
        result: a fit that holds the interaction of the two.
        factor: whose effect.
        given: held fixed.

    Raises:
        ValueError: the fit holds no such interaction.
    """
    model = result.model
    if not any(set(term) == {factor, given} for term in model.slices) or factor == given:
        raise ValueError(f"the model has no term {factor} x {given}; fit it with order=2 or name the term")
    reference, *others = model.levels[factor]
    found = []
    for at, level in product(model.levels[given], others):
        weights = model.row({factor: level, given: at}) - model.row({factor: reference, given: at})
        found.append(SimpleEffect(factor, level, reference, given, at, model.fit.contrast(weights, result.level)))
    return tuple(found)


def cell_mean(result: Factorial, setting: Mapping[str, Hashable]) -> Contrast:
    """The model's mean at a setting, even over the factors left out and the blocks.

    Args:
        result: the fit.
        setting: a level for some of the factors.

    Raises:
        ValueError: a factor or level that the fit does not know.
    """
    for factor, level in setting.items():
        if level not in result.model.levels.get(factor, ()):
            raise ValueError(f"the model knows no {factor}={level!r}")
    return result.model.fit.contrast(result.model.row(setting), result.level)


def large_interactions(result: Factorial, *, alpha: float = 0.05, share: float = 0.5) -> tuple[Term, ...]:
    """Two-way terms with p < alpha whose largest deviation is at least `share` of that of either main effect.

    At half of a main effect A, the effect of A at the two levels of B is A/2 and 3A/2: its average describes
    neither. For these terms report `simple_effects` in place of main effects.

    Args:
        result: the fit.
        alpha: level of the F test of the interaction.
        share: size from which the main effect is no longer a fair summary.
    """
    p = {row.source: row.p for row in result.anova}
    size = {term: _largest_deviation(result, term) for term in result.model.slices}
    pairs = [term for term in size if len(term) == 2 and p[name_of(term)] < alpha]
    return tuple(t for t in pairs if size[t] >= share * min(size.get((factor,), 0.0) for factor in t))


def _largest_deviation(result: Factorial, term: Term) -> float:
    model = result.model
    cells = product(*(model.levels[factor] for factor in term))
    return max(abs(model.fit.contrast(model.cell(term, at), result.level).estimate) for at in cells)


def half_normal(effects: Mapping[str, float]) -> HalfNormal:
    """q_i = Phi^-1((1 + (i - 1/2) / m) / 2) for the i-th smallest of m effects.

    PSE = 1.5 median{|c| < 2.5 s_0}, s_0 = 1.5 median |c|; margin = t_(m/3, .975) PSE. It needs no residual, so
    it serves a design with one run a cell, but trusts that most effects are nothing.

    Args:
        effects: estimate by label, two or more, each with the same standard error.

    Raises:
        ValueError: fewer than two effects, or one that is not finite.

    Source: Daniel 1959; Lenth 1989.
    """
    if len(effects) < 2 or not all(map(math.isfinite, effects.values())):
        raise ValueError("half_normal takes two or more finite effects; leave out those not estimable")
    ordered = sorted(effects, key=lambda label: abs(effects[label]))
    sizes, m = np.array([abs(effects[label]) for label in ordered]), len(ordered)
    scores = ndtri((1 + (np.arange(1, m + 1) - 0.5) / m) / 2)
    start = 1.5 * float(np.median(sizes))
    pse = 1.5 * float(np.median(sizes[sizes < 2.5 * start])) if start > 0 else 0.0
    margin = float(stdtrit(m / 3, 0.975)) * pse
    return HalfNormal(tuple(ordered), tuple(map(float, sizes)), tuple(map(float, scores)), pse, margin)
