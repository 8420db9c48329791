"""Designs, effects and tables of factorial experiments, against statsmodels, textbook designs and simulation."""

import math
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.anova import anova_lm

from analysis.statistics import (
    cell_mean,
    factorial,
    fraction,
    full_factorial,
    half_normal,
    large_interactions,
    paired,
    simple_effects,
)

LEVELS = {"mask": ["none", "causal"], "positional": ["none", "rope", "alibi"], "depth": [1, 2]}


def runs(levels, n_seeds, seed=0, keep=1.0):
    """A factorial with seeds, its noise and some real effects; a share of the runs may be missing."""
    rng = np.random.default_rng(seed)
    rows = [{**setting, "block": s} for s in range(n_seeds) for setting in full_factorial(levels)]
    table = pd.DataFrame(rows)[rng.uniform(size=len(rows)) < keep].reset_index(drop=True)
    codes = [table[f].map({v: i for i, v in enumerate(levels[f])}).to_numpy() for f in levels]
    table["y"] = codes[0] + 0.5 * codes[1] * codes[0] + 0.2 * table["block"] + rng.normal(size=len(table))
    return table


def fit(table, levels, **options):
    columns = {f: table[f].tolist() for f in levels}
    return factorial(columns, table["y"], block=table["block"].tolist(), **options)


def statsmodels_fit(table, formula):
    return smf.ols(f"y ~ {formula} + C(block, Sum)", table).fit()


@pytest.mark.parametrize("keep", [1.0, 0.8])
def test_the_table_is_that_of_type_three_in_statsmodels_balanced_or_not(keep):
    table = runs(LEVELS, 4, keep=keep)
    ours = {row.source: row for row in fit(table, LEVELS, order=3).anova}
    formula = "C(mask, Sum) * C(positional, Sum) * C(depth, Sum)"
    theirs = anova_lm(statsmodels_fit(table, formula), typ=3)
    assert len(ours) == len(theirs) - 1 == 9
    for name, row in theirs.drop(index="Intercept").iterrows():
        source = name.replace("C(", "").replace(", Sum)", "").replace(":", " x ").lower()
        assert ours[source].ss == pytest.approx(row["sum_sq"], rel=1e-8)
        assert ours[source].df == row["df"]
        if source != "residual":
            assert (ours[source].f, ours[source].p) == pytest.approx((row["F"], row["PR(>F)"]), rel=1e-7)
            assert ours[source].estimable


def test_the_fit_says_whether_every_cell_was_run_equally_often():
    assert fit(runs(LEVELS, 3), LEVELS).balanced
    assert not fit(runs(LEVELS, 3, keep=0.9), LEVELS).balanced
    assert not factorial({"a": [0, 0, 1, 1, 1]}, [1.0, 2.0, 3.0, 4.0, 6.0]).balanced


def test_effects_and_intervals_are_those_of_statsmodels_contrasts():
    table = runs(LEVELS, 4, keep=0.9)
    ours = {e.label: e.result for e in fit(table, LEVELS).effects}
    formula = "(C(mask, Sum) + C(positional, Sum) + C(depth, Sum))**2"
    theirs = statsmodels_fit(table, formula)
    low, high = theirs.conf_int().loc["C(depth, Sum)[S.1]"]
    effect = ours["depth: 2 - 1"]
    # Their column is +1 at the first level, ours at the second; an effect is twice the coefficient.
    assert (effect.low, effect.high) == pytest.approx((-2 * high, -2 * low))
    assert effect.p == pytest.approx(theirs.pvalues["C(depth, Sum)[S.1]"])
    # Their omitted level is the last in alphabetical order; a deviation is the same under either coding.
    assert ours["positional=alibi"].estimate == pytest.approx(theirs.params["C(positional, Sum)[S.alibi]"])
    assert ours["positional=alibi"].se == pytest.approx(theirs.bse["C(positional, Sum)[S.alibi]"])
    deviations = [ours[f"positional={v}"].estimate for v in LEVELS["positional"]]
    assert sum(deviations) == pytest.approx(0.0, abs=1e-12)


def test_a_balanced_two_level_effect_is_a_difference_of_means_with_the_textbook_error():
    levels = {"a": [0, 1], "b": [0, 1], "c": [0, 1]}
    table = runs(levels, 5)
    result = fit(table, levels, order=3)
    by_label = {e.label: e.result for e in result.effects}
    means = table.groupby("a")["y"].mean()
    assert by_label["a: 1 - 0"].estimate == pytest.approx(means[1] - means[0])
    assert by_label["a: 1 - 0"].se == pytest.approx(2 * result.sigma / math.sqrt(40))
    cells = table.groupby(["a", "b"])["y"].mean()
    change = (cells[1, 1] - cells[0, 1]) - (cells[1, 0] - cells[0, 0])
    assert by_label["a x b"].estimate == pytest.approx(change / 2)


def test_one_factor_of_two_levels_with_seed_blocks_is_the_paired_t_test():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 6))
    result = factorial({"x": ["b"] * 6 + ["a"] * 6}, [*b, *a], block=[*range(6)] * 2).effects[0].result
    both = paired(a, b, goal="max")
    assert (result.estimate, result.low, result.high, result.p) == pytest.approx(
        (both.difference, both.low, both.high, both.p)
    )


def test_null_effects_are_significant_5_percent_of_the_time():
    rng = np.random.default_rng(0)
    settings = [{**s, "block": i} for i in range(3) for s in full_factorial({"a": [0, 1], "b": [0, 1]})]
    columns = {f: [s[f] for s in settings] for f in ("a", "b")}
    block = [s["block"] for s in settings]
    results = [
        factorial(columns, rng.normal(size=12) + np.repeat(rng.normal(size=3), 4), block=block) for _ in range(800)
    ]
    p = np.array([[e.result.p for e in r.effects] for r in results])
    assert 0.04 < (p < 0.05).mean() < 0.06


def test_a_single_replicate_of_the_full_model_has_estimates_but_no_errors():
    levels = {"a": [0, 1], "b": [0, 1]}
    table = runs(levels, 1)
    result = factorial({f: table[f].tolist() for f in levels}, table["y"], order=2)
    assert result.df_residual == 0
    assert math.isnan(result.sigma)
    assert all(math.isfinite(e.result.estimate) and math.isnan(e.result.p) for e in result.effects)
    assert all(math.isnan(row.p) for row in result.anova)


def test_a_response_without_noise_has_no_test():
    result = factorial({"a": [0, 0, 1, 1]}, [3.1, 3.1, 3.4, 3.4])
    assert result.sigma == 0.0
    assert result.effects[0].result.estimate == pytest.approx(0.3)
    assert math.isnan(result.effects[0].result.p)


def test_a_missing_cell_makes_its_interaction_not_estimable_and_says_so():
    table = runs({"a": [0, 1], "b": [0, 1]}, 3)
    table = table[~((table["a"] == 1) & (table["b"] == 1))]
    result = fit(table, ["a", "b"])
    row = {r.source: r for r in result.anova}["a x b"]
    assert (row.df, row.ss, row.estimable) == (0, 0.0, False)
    assert math.isnan(row.p)
    assert not next(e.result.estimable for e in result.effects if e.label == "a x b")


def test_aliased_interactions_of_a_fraction_are_named_and_main_effects_stay_clear():
    names = ["A", "B", "C", "D"]
    settings = fraction(names).settings(dict.fromkeys(names, (0, 1)))
    rng = np.random.default_rng(0)
    rows = [{**s, "block": i} for i in range(3) for s in settings]
    y = np.array([2.0 * r["A"] for r in rows]) + rng.normal(size=len(rows))
    result = factorial({f: [r[f] for r in rows] for f in names}, y, block=[r["block"] for r in rows])
    table = {row.source: row for row in result.anova}
    assert table["A x B"].aliased_with == ("C x D",)
    assert table["A x D"].aliased_with == ("B x C",)
    assert all(table[f].estimable and table[f].aliased_with == () for f in names)
    # The alias groups keep their degrees of freedom, so the residual is that between seeds alone.
    assert result.df_residual == 2 * 7
    chosen = factorial(
        {f: [r[f] for r in rows] for f in names},
        y,
        block=[r["block"] for r in rows],
        terms=[("A",), ("B",), ("C",), ("D",), ("B", "A"), ("A", "C"), ("A", "D")],
    )
    assert chosen.df_residual == result.df_residual
    assert all(e.result.estimable for e in chosen.effects)
    assert chosen.anova[5].source == "A x B"


def test_simple_effects_are_differences_of_cell_means():
    table = runs(LEVELS, 4)
    result = fit(table, LEVELS, order=3)
    means = table.groupby(["mask", "positional"])["y"].mean()
    found = simple_effects(result, "mask", "positional")
    assert [s.at for s in found] == LEVELS["positional"]
    for s in found:
        assert s.result.estimate == pytest.approx(means["causal", s.at] - means["none", s.at])
        # 8 runs a mean, in a balanced design.
        assert s.result.se == pytest.approx(result.sigma * math.sqrt(2 / 8))
    assert len(simple_effects(result, "positional", "mask")) == 4


def test_a_cell_mean_of_an_unbalanced_design_weighs_the_other_factors_evenly():
    table = runs({"a": [0, 1], "b": [0, 1]}, 4, keep=0.8)
    result = factorial({f: table[f].tolist() for f in ("a", "b")}, table["y"])
    cells = table.groupby(["a", "b"])["y"].mean()
    assert cell_mean(result, {"a": 1}).estimate == pytest.approx((cells[1, 0] + cells[1, 1]) / 2)
    assert cell_mean(result, {"a": 1, "b": 0}).estimate == pytest.approx(cells[1, 0])
    with pytest.raises(ValueError, match="the model knows no c=1"):
        cell_mean(result, {"c": 1})


def test_an_interaction_is_large_where_it_bends_a_main_effect_by_half():
    settings = [{**s, "block": i} for i in range(5) for s in full_factorial({"a": [-1, 1], "b": [-1, 1]})]
    noise = np.random.default_rng(0).normal(scale=0.01, size=20)

    def large(interaction):
        y = [s["a"] + 2 * s["b"] + interaction * s["a"] * s["b"] for s in settings] + noise
        columns = {f: [s[f] for s in settings] for f in ("a", "b")}
        return large_interactions(factorial(columns, y, block=[s["block"] for s in settings]))

    assert large(0.6) == (("a", "b"),)
    assert large(0.4) == ()


def test_simple_effects_need_the_interaction_in_the_model():
    result = fit(runs(LEVELS, 2), LEVELS, order=1)
    with pytest.raises(ValueError, match="the model has no term mask x depth; fit it with order=2"):
        simple_effects(result, "mask", "depth")


def test_data_that_are_no_design_are_refused():
    with pytest.raises(ValueError, match=r"'a' has only the level \(1,\); leave it out or run another"):
        factorial({"a": [1, 1]}, [1.0, 2.0])
    with pytest.raises(ValueError, match="'a' has 3 entries and the response 2; it is one a run"):
        factorial({"a": [1, 2, 1]}, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"term \('c',\) is not made of different factors among a"):
        factorial({"a": [1, 2]}, [1.0, 2.0], terms=[("c",)])
    with pytest.raises(ValueError, match="a factor may not be called 'block'"):
        factorial({"block": [1, 2]}, [1.0, 2.0], block=[1, 2])
    with pytest.raises(ValueError, match="response has 1 of 2 scores that are not finite"):
        factorial({"a": [1, 2]}, [1.0, math.nan])


def test_a_full_factorial_holds_every_combination_once():
    settings = full_factorial(LEVELS)
    assert [tuple(s.values()) for s in settings] == list(product(*LEVELS.values()))
    with pytest.raises(ValueError, match=r"factor 'a' has levels \[1, 1\]; it needs two or more, all different"):
        full_factorial({"a": [1, 1]})


@pytest.mark.parametrize(
    "k, n_runs, resolution", [(4, 8, 4), (5, 16, 5), (6, 16, 4), (7, 16, 4), (8, 16, 4), (9, 32, 4)]
)
def test_fractions_have_the_textbook_size_and_resolution(k, n_runs, resolution):
    design = fraction([f"f{i}" for i in range(k)])
    assert (len(design.runs), design.resolution) == (n_runs, resolution)


@pytest.mark.parametrize("k", [4, 5, 6, 8, 9, 16])
def test_no_main_effect_of_a_fraction_shares_a_column_with_another_or_a_pair(k):
    design = fraction([f"f{i}" for i in range(k)])
    x = np.array(design.runs)
    pairs = np.array([x[:, i] * x[:, j] for i, j in combinations(range(k), 2)]).T
    assert (x.T @ x == len(x) * np.eye(k)).all()
    assert not (x.T @ pairs).any()
    assert not x.sum(axis=0).any()


def test_aliases_are_the_pairs_whose_columns_are_equal():
    names = tuple("ABCDEF")
    design = fraction(names, {"E": "ABC", "F": "BCD"})
    assert design.words == (tuple("ABCE"), tuple("ADEF"), tuple("BCDF"))
    x = dict(zip(names, np.array(design.runs).T, strict=True))
    for p, q in combinations(combinations(names, 2), 2):
        same = (x[p[0]] * x[p[1]] == x[q[0]] * x[q[1]]).all()
        assert same == (q in design.aliases.get(p, ()))


def test_a_fraction_speaks_in_the_levels_of_the_experiment():
    design = fraction(["a", "b", "c", "d"])
    settings = design.settings({"a": ("rms", "layer"), "b": (1, 2), "c": (1, 2), "d": (1, 2)})
    assert settings[0] == {"a": "rms", "b": 1, "c": 1, "d": 1}
    assert len({tuple(s.values()) for s in settings}) == 8
    with pytest.raises(ValueError, match="levels must give two values for each of a, b, c, d"):
        design.settings({"a": (1, 2)})


def test_generators_that_lose_a_main_effect_are_refused():
    with pytest.raises(ValueError, match="the word A B D has length 3, so a main effect is aliased"):
        fraction("ABCD", {"D": "AB"})
    with pytest.raises(ValueError, match="generator D = A Z must be a product of A, B, C"):
        fraction("ABCD", {"D": "AZ"})
    with pytest.raises(ValueError, match="a fraction needs four or more different factors"):
        fraction("ABC")


def test_half_normal_scores_are_the_quantiles_of_the_absolute_normal():
    result = half_normal({"a": -3.0, "b": 0.1, "c": 0.2, "d": -0.15})
    assert result.labels == ("b", "d", "c", "a")
    assert result.sizes == pytest.approx((0.1, 0.15, 0.2, 3.0))
    assert result.scores == pytest.approx(stats.halfnorm.ppf((np.arange(4) + 0.5) / 4))
    # s0 = 1.5 * .175 = .2625; below 2.5 s0 lie .1 .15 .2, so PSE = 1.5 * .15.
    assert result.pse == pytest.approx(0.225)
    assert result.margin == pytest.approx(stats.t.ppf(0.975, 4 / 3) * 0.225)


def test_lenth_margin_finds_null_effects_about_5_percent_of_the_time():
    rng = np.random.default_rng(0)
    beyond = []
    for _ in range(500):
        result = half_normal(dict(enumerate(rng.normal(size=15))))
        beyond.append(np.mean(np.array(result.sizes) > result.margin))
    assert 0.02 < np.mean(beyond) < 0.06


def test_half_normal_needs_finite_effects():
    with pytest.raises(ValueError, match="half_normal takes two or more finite effects"):
        half_normal({"a": 1.0, "b": math.nan})
    assert half_normal({"a": 0.0, "b": 0.0}).margin == 0.0
