"""Paired comparisons, equivalence and the sign-flip test, against scipy, statsmodels and simulation."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import ttost_paired

from analysis.statistics import (
    half_width,
    lower_bound,
    mean_interval,
    p_above,
    p_below,
    paired,
    sign_flip,
    tost,
    upper_bound,
)

VARIANT = [2.31, 2.28, 2.40, 2.25, 2.37]
BASELINE = [2.35, 2.36, 2.41, 2.33, 2.42]


def test_a_lower_loss_is_a_positive_difference_and_a_lower_accuracy_a_negative_one():
    as_loss, as_accuracy = paired(VARIANT, BASELINE, goal="min"), paired(VARIANT, BASELINE, goal="max")
    assert as_loss.difference == pytest.approx(0.052)
    assert as_accuracy.difference == pytest.approx(-0.052)
    assert as_loss.raw_difference == as_accuracy.raw_difference == pytest.approx(-0.052)
    assert (as_loss.low, as_loss.high) == pytest.approx((-as_accuracy.high, -as_accuracy.low))
    assert (as_loss.wins, as_accuracy.wins) == (5, 0)


def test_p_and_interval_are_those_of_scipy_ttest_rel():
    ours = paired(VARIANT, BASELINE, goal="max", level=0.9)
    theirs = stats.ttest_rel(VARIANT, BASELINE)
    interval = theirs.confidence_interval(0.9)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-10)
    assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high), rel=1e-10)


def test_one_sided_p_values_are_those_of_a_shifted_t_test():
    ours, d = paired(VARIANT, BASELINE, goal="max"), np.subtract(VARIANT, BASELINE)
    assert p_above(ours, -0.06) == pytest.approx(stats.ttest_1samp(d, -0.06, alternative="greater").pvalue)
    assert p_below(ours, 0.01) == pytest.approx(stats.ttest_1samp(d, 0.01, alternative="less").pvalue)


def test_one_sided_bounds_are_the_ends_of_the_interval_with_twice_the_error():
    ours = paired(VARIANT, BASELINE, level=0.90)
    assert upper_bound(ours, level=0.95) == pytest.approx(ours.high)
    assert lower_bound(ours, level=0.95) == pytest.approx(ours.low)


def test_effect_sizes_follow_their_formulas():
    # d = 1, 2, 3: D = 2, s = 1, so d_z = 2; J = 1 - 3/7.
    ours = paired([1.0, 4.0, 3.0], [0.0, 2.0, 0.0], goal="max")
    assert ours.d_z == pytest.approx(2.0)
    assert ours.hedges_g == pytest.approx(2 * 4 / 7)
    assert ours.p_improvement == pytest.approx(stats.norm.cdf(2.0))
    assert ours.se == pytest.approx(1 / math.sqrt(3))
    assert ours.rho == pytest.approx(np.corrcoef([1, 4, 3], [0, 2, 0])[0, 1])


def test_the_spread_of_differences_follows_from_the_two_spreads_and_rho():
    ours = paired(VARIANT, BASELINE)
    a, b = np.std(VARIANT, ddof=1), np.std(BASELINE, ddof=1)
    assert ours.sd**2 == pytest.approx(a**2 + b**2 - 2 * ours.rho * a * b)


def test_ties_are_not_wins():
    ours = paired([1.0, 2.0, 3.0], [1.0, 3.0, 2.0])
    assert (ours.wins, ours.ties, ours.n) == (1, 1, 3)


@pytest.mark.parametrize("n", [0, 1])
def test_under_two_seeds_there_is_no_interval_and_no_p(n):
    ours = paired([1.0] * n, [2.0] * n)
    assert ours.n == n
    assert all(math.isnan(x) for x in (ours.low, ours.high, ours.p, ours.sd, ours.d_z, ours.hedges_g, ours.rho))
    assert math.isnan(upper_bound(ours))
    assert ours.difference == 1.0 if n else math.isnan(ours.difference)


def test_constant_differences_get_the_p_of_the_sign_flip_test_and_no_standardised_effect():
    ours = paired([0.9, 0.8, 0.7, 0.6, 0.5], [0.6, 0.5, 0.4, 0.3, 0.2], goal="max")
    assert ours.constant
    assert ours.sd == 0.0
    assert ours.p == 2 / 2**5
    assert ours.low == ours.high == pytest.approx(0.3)
    assert math.isnan(ours.d_z)
    assert math.isnan(ours.p_improvement)
    assert p_above(ours, 0.0) == 1 / 2**5
    assert p_above(ours, 0.4) == 1.0


def test_identical_scores_give_no_evidence_of_a_difference():
    ours = paired(VARIANT, VARIANT)
    assert (ours.difference, ours.low, ours.high, ours.p, ours.ties) == (0.0, 0.0, 0.0, 1.0, 5)
    assert ours.rho == pytest.approx(1.0)


def test_correlation_is_nan_where_one_side_does_not_vary():
    assert math.isnan(paired([1.0, 1.0, 1.0], [0.2, 0.5, 0.1]).rho)


def test_a_diverged_score_is_refused_and_the_message_says_what_to_do():
    with pytest.raises(ValueError, match=r"variant has 1 of 3 scores that are not finite, the first at index 1; score"):
        paired([1.0, math.nan, 2.0], [1.0, 2.0, 3.0])


def test_pairs_need_the_same_seeds():
    with pytest.raises(ValueError, match="variant has 2 scores and baseline 3; pairs need the same seeds"):
        paired([1.0, 2.0], [1.0, 2.0, 3.0])


def test_an_unknown_goal_and_level_are_refused():
    with pytest.raises(ValueError, match="goal='up' is not known; it is 'min' for losses or 'max' for accuracies"):
        paired(VARIANT, BASELINE, goal="up")
    with pytest.raises(ValueError, match="level=95 must lie strictly between 0 and 1"):
        paired(VARIANT, BASELINE, level=95)


def test_a_table_of_scores_is_refused():
    with pytest.raises(ValueError, match=r"variant has shape \(1, 2\); it must be one score a seed, shape \(n,\)"):
        paired([[1.0, 2.0]], [1.0, 2.0])


def test_mean_interval_is_the_one_sample_t_interval():
    ours = mean_interval(VARIANT, level=0.99)
    theirs = stats.ttest_1samp(VARIANT, 0).confidence_interval(0.99)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))
    assert ours.mean == pytest.approx(np.mean(VARIANT))
    assert math.isnan(mean_interval([1.0]).low)
    assert mean_interval([0.3, 0.1 + 0.2, 0.3]).sd == 0.0


@pytest.mark.parametrize(
    "n, width", [(3, 2.48), (4, 1.59), (5, 1.24), (6, 1.05), (8, 0.84), (10, 0.72), (15, 0.55), (20, 0.47)]
)
def test_half_widths_in_units_of_the_spread_are_the_published_ones(n, width):
    assert half_width(1.0, n) == pytest.approx(width, abs=0.005)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_95_percent_interval_covers_the_truth_95_percent_of_the_time(n):
    rng = np.random.default_rng(n)
    shared = rng.normal(size=(6_000, n))
    variants, baselines = shared + 0.3 + rng.normal(size=shared.shape), shared + rng.normal(size=shared.shape)
    results = [paired(a, b, goal="max") for a, b in zip(variants, baselines, strict=True)]
    covered = np.mean([r.low <= 0.3 <= r.high for r in results])
    assert 0.94 < covered < 0.96


@pytest.mark.parametrize("n", [3, 5, 10])
def test_a_null_difference_is_significant_5_percent_of_the_time(n):
    rng = np.random.default_rng(100 + n)
    a, b = rng.normal(size=(2, 6_000, n))
    rejected = np.mean([paired(x, y).p < 0.05 for x, y in zip(a, b, strict=True)])
    assert 0.04 < rejected < 0.06


def test_tost_is_that_of_statsmodels():
    p, (_, lower, _), (_, upper, _) = ttost_paired(np.array(VARIANT), np.array(BASELINE), -0.08, 0.08)
    ours = tost(VARIANT, BASELINE, margin=0.08, goal="max")
    assert (ours.p, ours.p_lower, ours.p_upper) == pytest.approx((p, lower, upper))


@pytest.mark.parametrize("margin", [0.03, 0.06, 0.07, 0.08, 0.2])
def test_tost_agrees_with_its_90_percent_interval(margin):
    ours = tost(VARIANT, BASELINE, margin=margin)
    inside = -margin < ours.low and ours.high < margin
    assert ours.equivalent == inside == (ours.p < 0.05)
    assert ours.level == pytest.approx(0.9)


def test_tost_calls_a_difference_at_the_margin_equivalent_5_percent_of_the_time():
    rng = np.random.default_rng(0)
    differences = 3.0 + rng.normal(size=(10_000, 10))
    called = np.mean([tost(d, np.zeros(10), margin=3.0, goal="max").equivalent for d in differences])
    assert 0.04 < called < 0.06


def test_identical_runs_on_too_few_seeds_do_not_prove_equivalence():
    assert not tost([1.0] * 3, [1.0] * 3, margin=0.1).equivalent
    assert tost([1.0] * 5, [1.0] * 5, margin=0.1).p == 1 / 2**5
    one = tost([1.0], [1.0], margin=0.1)
    assert not one.equivalent
    assert math.isnan(one.p)


def test_a_margin_of_zero_is_refused():
    with pytest.raises(ValueError, match="margin=0 must be positive: the largest difference that does not matter"):
        tost(VARIANT, BASELINE, margin=0)


def mean_difference(x, y, axis):
    return np.mean(x - y, axis=axis)


@pytest.mark.parametrize("n", [6, 7, 10, 12])
def test_sign_flip_is_scipy_exact_permutation_test(n):
    rng = np.random.default_rng(n)
    a, b = rng.normal(0.5, 1, n), rng.normal(0, 1, n)
    theirs = stats.permutation_test(
        (a, b), mean_difference, permutation_type="samples", n_resamples=np.inf, vectorized=True
    )
    assert sign_flip(a, b).p == pytest.approx(theirs.pvalue, abs=1e-12)


def test_sign_flip_counts_ties_of_rounded_scores():
    # d = 1, 1, 1, 1, 1, -1 tenths: |sum| >= 4 for 0, 1, 5 or 6 minus signs: (1 + 6 + 6 + 1) / 64.
    a, b = np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.1]), np.array([0.2, 0.3, 0.4, 0.5, 0.6, 0.2])
    assert sign_flip(a, b).p == pytest.approx(14 / 64)


def test_sign_flip_of_no_difference_has_p_one():
    assert sign_flip(np.ones(6), np.ones(6)).p == 1.0


def test_sign_flip_reaches_its_smallest_p_when_one_side_always_wins():
    result = sign_flip(np.arange(30) + 1.0, np.arange(30) * 0.9)
    assert result.p == result.smallest_p == 2 / 2**30


def test_sign_flip_is_refused_where_it_cannot_reach_the_level():
    message = r"n=5 pairs cannot give p below 0.0625, so it cannot reach alpha=0.05; it needs n >= 6 \(or use"
    with pytest.raises(ValueError, match=message):
        sign_flip(VARIANT, BASELINE)
    assert sign_flip(VARIANT, BASELINE, alpha=0.0625).p == 0.0625
    with pytest.raises(ValueError, match="n=41 pairs is too large to enumerate; up to 40"):
        sign_flip(np.arange(41.0), np.zeros(41))


@pytest.mark.parametrize("n, expected", [(6, 0.031), (8, 0.047), (10, 0.049)])
def test_sign_flip_keeps_its_level_on_normal_differences(n, expected):
    rng = np.random.default_rng(n)
    rejected = np.mean([sign_flip(d, np.zeros(n)).p < 0.05 for d in rng.normal(size=(4_000, n))])
    # The attainable level: the largest multiple of 2 / 2^n below .05.
    assert rejected == pytest.approx(math.floor(0.05 * 2 ** (n - 1)) / 2 ** (n - 1), abs=0.011)
    assert rejected == pytest.approx(expected, abs=0.012)
