"""Multiplicity, power and counts, against scipy, statsmodels and simulation."""

import math

import numpy as np
import pytest
from scipy import integrate, stats
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from statsmodels.stats.proportion import proportion_confint

from analysis.statistics import (
    benjamini_hochberg,
    constant_level,
    crossing_probability,
    fisher,
    holm,
    mcnemar,
    minimal_effect,
    minimal_margin,
    power_of_t,
    power_of_tost,
    rate_interval,
    sd_upper_bound,
    seeds_for_equivalence,
    seeds_needed,
)

P = [0.01, 0.04, 0.03, 0.005, 0.5, 0.04]


def test_holm_by_hand():
    # Sorted .005 .01 .03 .04 .04 .5 times 6 5 4 3 2 1, then never falling.
    assert holm(P) == pytest.approx([0.05, 0.12, 0.12, 0.03, 0.5, 0.12])


@pytest.mark.parametrize("seed", range(5))
def test_holm_and_benjamini_hochberg_agree_with_statsmodels_and_scipy(seed):
    p = np.random.default_rng(seed).uniform(size=9) ** 3
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
def test_an_unknown_p_value_stays_unknown_and_is_not_counted(adjust):
    with_gaps = adjust([math.nan, 0.01, math.nan, 0.04, 0.03])
    assert np.isnan(with_gaps[[0, 2]]).all()
    assert with_gaps[[1, 3, 4]] == pytest.approx(adjust([0.01, 0.04, 0.03]))
    assert adjust([]).size == 0
    assert np.isnan(adjust([math.nan])).all()


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
def test_one_test_alone_is_not_adjusted_and_nothing_exceeds_one(adjust):
    assert adjust([0.2]) == pytest.approx([0.2])
    assert adjust([0.9, 0.8, 0.7]).max() <= 1.0


def test_a_p_value_outside_its_range_is_refused():
    with pytest.raises(ValueError, match=r"p value 1.2 lies outside 0\.\.1"):
        holm([0.1, 1.2])
    with pytest.raises(ValueError, match=r"pvalues has shape \(1, 2\); it must be \(m,\)"):
        benjamini_hochberg([[0.1, 0.2]])


def test_holm_keeps_the_family_error_of_five_variants_with_a_shared_baseline_below_5_percent():
    rng = np.random.default_rng(0)
    variants, baseline = rng.normal(size=(4_000, 5, 10)), rng.normal(size=(4_000, 1, 10))
    p = stats.ttest_1samp(variants - baseline, 0, axis=2).pvalue
    assert 0.17 < (p.min(axis=1) < 0.05).mean() < 0.23
    assert np.mean([holm(row).min() < 0.05 for row in p]) < 0.055


def simulated_crossing(looks, level, n_paths, seed):
    """Share of null paths on which a t test of the first n values gives p < level at any look."""
    rng = np.random.default_rng(seed)
    total, squares, before = np.zeros(n_paths), np.zeros(n_paths), 0
    crossed = np.zeros(n_paths, dtype=bool)
    for n in looks:
        new = rng.normal(size=(n - before, n_paths))
        total, squares, before = total + new.sum(axis=0), squares + (new**2).sum(axis=0), n
        t = total / np.sqrt(n * (squares - total**2 / n) / (n - 1))
        crossed |= np.abs(t) > stats.t.ppf(1 - level / 2, n - 1)
    return crossed.mean()


@pytest.mark.parametrize("looks", [(5, 10, 20), (2, 4, 6), (4, 6, 8, 10)])
def test_looking_several_times_at_5_percent_errs_as_often_as_in_simulation(looks):
    assert crossing_probability(looks, 0.05) == pytest.approx(simulated_crossing(looks, 0.05, 200_000, 1), abs=0.003)


def test_looks_at_5_10_and_20_seeds_need_a_constant_level_just_below_2_percent():
    level = constant_level((5, 10, 20), alpha=0.05)
    assert level == pytest.approx(0.0197, abs=0.0003)
    assert simulated_crossing((5, 10, 20), level, 200_000, 2) == pytest.approx(0.05, abs=0.002)


def test_two_looks_at_many_seeds_tend_to_the_level_of_pocock_for_known_variance():
    # Two equally spaced looks, overall 5 %: nominal .0294.
    assert constant_level((1000, 2000)) == pytest.approx(0.0294, abs=0.0003)


def test_one_look_needs_no_correction():
    assert constant_level((10,), alpha=0.01) == 0.01


def test_looks_that_do_not_rise_are_refused():
    with pytest.raises(ValueError, match=r"looks=\(5, 5\) must rise from 2 or more in steps of 2 seeds or more"):
        constant_level((5, 5))


TABLE = {  # n: minimal effect, the same at .05 / 12, equivalence margin; 80 % power, in units of s_d
    3: (3.26, 11.34, 2.66),
    4: (2.13, 5.00, 1.935),
    5: (1.68, 3.31, 1.60),
    6: (1.435, 2.56, 1.40),
    8: (1.16, 1.86, 1.15),
    10: (1.00, 1.53, 1.005),
    15: (0.78, 1.12, 0.795),
    20: (0.66, 0.93, 0.68),
}


@pytest.mark.parametrize("n", TABLE)
def test_minimal_effects_and_margins_are_the_published_ones(n):
    effect, bonferroni, margin = TABLE[n]
    assert minimal_effect(n) == pytest.approx(effect, abs=0.006)
    assert minimal_effect(n, alpha=0.05 / 12) == pytest.approx(bonferroni, abs=0.006)
    assert minimal_margin(n) == pytest.approx(margin, abs=0.006)


def power_by_adaptive_quadrature(n, effect, alpha):
    critical, shift = stats.t.ppf(1 - alpha / 2, n - 1), effect * math.sqrt(n)

    def at(q):  # q: quantile of S
        s = math.sqrt(stats.chi2.ppf(q, n - 1) / (n - 1))
        return stats.norm.cdf(shift - critical * s) + stats.norm.cdf(-shift - critical * s)

    bend = stats.chi2.cdf((n - 1) * (shift / critical) ** 2, n - 1)
    return integrate.quad(at, 0, bend, limit=200)[0] + integrate.quad(at, bend, 1, limit=200)[0]


@pytest.mark.parametrize(
    "n, effect, alpha", [(3, 11.3, 0.05 / 12), (4, 3.4, 0.05 / 12), (3, 1.0, 0.05), (6, 2.0, 0.01)]
)
def test_power_is_right_at_tiny_n_where_library_solvers_fail(n, effect, alpha):
    assert power_of_t(n, effect, alpha=alpha) == pytest.approx(power_by_adaptive_quadrature(n, effect, alpha), abs=1e-6)


@pytest.mark.parametrize("n, effect", [(10, 0.5), (20, 0.66), (50, 0.3), (400, 0.1)])
def test_power_agrees_with_statsmodels_at_larger_n(n, effect):
    assert power_of_t(n, effect) == pytest.approx(TTestPower().power(effect, n, 0.05), abs=1e-6)


@pytest.mark.parametrize("n", [2, 3, 10, 1000])
def test_power_without_an_effect_is_the_level(n):
    assert power_of_t(n, 0.0, alpha=0.03) == pytest.approx(0.03, abs=1e-9)


def test_power_of_t_and_tost_agree_with_simulation():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50_000, 5))
    se = x.std(axis=1, ddof=1) / math.sqrt(5)
    found = (np.abs(x.mean(axis=1) + 1.5) / se > stats.t.ppf(0.975, 4)).mean()
    same = (np.abs(x.mean(axis=1)) + stats.t.ppf(0.95, 4) * se < 1.5).mean()
    assert power_of_t(5, 1.5) == pytest.approx(found, abs=0.006)
    assert power_of_tost(5, 1.5) == pytest.approx(same, abs=0.006)


def test_one_seed_finds_nothing():
    assert (power_of_t(1, 9.0), power_of_tost(1, 9.0)) == (0.0, 0.0)
    assert minimal_effect(1) == minimal_margin(1) == sd_upper_bound(0.1, 1) == math.inf


@pytest.mark.parametrize("delta", [0.3, 0.66, 1.0, 2.0, 4.0])
def test_seeds_needed_are_the_fewest_with_the_power(delta):
    n = seeds_needed(delta, sd=1.0)
    assert minimal_effect(n) <= delta < minimal_effect(n - 1)
    m = seeds_for_equivalence(delta, sd=1.0)
    assert minimal_margin(m) <= delta < minimal_margin(m - 1)


def test_seeds_needed_depend_on_the_ratio_of_delta_to_the_spread():
    assert seeds_needed(0.01, sd=0.01) == seeds_needed(1.0, sd=1.0) == 10
    assert seeds_for_equivalence(0.01, sd=0.01) == 11
    assert seeds_needed(0.01, sd=0.0) == seeds_for_equivalence(0.01, sd=0.0) == 2
    assert minimal_effect(5, sd=0.01) == pytest.approx(0.01 * minimal_effect(5))


def test_impossible_plans_are_refused():
    with pytest.raises(ValueError, match="delta=0 must be positive and sd=1 not negative"):
        seeds_needed(0, sd=1)
    with pytest.raises(ValueError, match="margin=-1 must be positive"):
        seeds_for_equivalence(-1, sd=1)
    with pytest.raises(ValueError, match="needs more than 16,777,216 seeds; choose a larger delta"):
        seeds_needed(1e-6, sd=1)
    with pytest.raises(ValueError, match=r"power=0.01 must lie above 0.05, what chance alone gives, and below 1"):
        minimal_effect(5, power=0.01)


def test_the_spread_is_below_its_upper_bound_80_percent_of_the_time():
    pilots = np.random.default_rng(0).normal(size=(20_000, 5)).std(axis=1, ddof=1)
    assert np.mean([sd_upper_bound(s, 5) > 1 for s in pilots]) == pytest.approx(0.8, abs=0.01)
    assert sd_upper_bound(1.0, 5) == pytest.approx(math.sqrt(4 / stats.chi2.ppf(0.2, 4)))


@pytest.mark.parametrize("n, p", [(5, 0.0079), (4, 0.0286), (3, 0.1)])
def test_all_diverged_against_none_needs_four_seeds_to_reach_5_percent(n, p):
    result = fisher(n, n, 0, n)
    assert result.p == pytest.approx(p, abs=5e-5)
    assert result.difference == 1.0


def test_fisher_sums_the_tables_no_likelier_than_the_one_seen():
    # 3 of 4 against 1 of 6: hypergeometric weights over k = 0..4 with 4 failures in 10.
    weights = stats.hypergeom(10, 4, 4).pmf(np.arange(5))
    assert fisher(3, 4, 1, 6).p == pytest.approx(weights[weights <= weights[3] * (1 + 1e-9)].sum())


@pytest.mark.parametrize("k", [0, 1, 5, 10])
def test_rate_interval_is_that_of_clopper_and_pearson(k):
    ours = rate_interval(k, 10)
    assert (ours.low, ours.high) == pytest.approx(proportion_confint(k, 10, method="beta"))
    assert ours.rate == k / 10


def test_no_runs_say_nothing_about_a_rate():
    ours = rate_interval(0, 0)
    assert math.isnan(ours.rate)
    assert (ours.low, ours.high) == (0.0, 1.0)
    with pytest.raises(ValueError, match="k=3 of n=2 is no count; k lies between 0 and n"):
        rate_interval(3, 2)


def test_mcnemar_is_the_exact_one_of_statsmodels():
    a = np.array([1, 1, 1, 1, 1, 1, 1, 0, 0, 1], dtype=bool)
    b = np.array([0, 0, 0, 0, 0, 0, 0, 1, 0, 1], dtype=bool)
    ours = mcnemar(a, b)
    assert (ours.n, ours.variant_only, ours.baseline_only) == (10, 7, 1)
    assert ours.p == pytest.approx(statsmodels_mcnemar([[1, 7], [1, 1]], exact=True).pvalue)


def test_mcnemar_without_discordant_seeds_has_p_one_and_takes_truth_values_only():
    assert mcnemar([True, False], [True, False]).p == 1.0
    with pytest.raises(ValueError, match="mcnemar takes truth values"):
        mcnemar([0.3, 1.0], [0.0, 1.0])
    with pytest.raises(ValueError, match=r"variant has shape \(1,\) and baseline \(2,\)"):
        mcnemar([True], [True, False])
