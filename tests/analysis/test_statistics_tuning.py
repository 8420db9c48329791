"""Tuning curves, many-task summaries and speed-ups, against brute force and hand computed values."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from analysis.statistics import (
    expected_best,
    iqm,
    lr_range,
    lr_sensitivity,
    performance_profile,
    probability_of_improvement,
    speed_up,
    stratified_bootstrap,
)

RATES = [1e-4, 1e-3, 1e-2, 1e-1]


@pytest.mark.parametrize("goal, best", [("min", min), ("max", max)])
def test_expected_best_is_the_mean_over_all_subsets_of_trials(goal, best):
    values = np.random.default_rng(0).normal(size=7)
    brute = [np.mean([best(chosen) for chosen in combinations(values, b)]) for b in range(1, 8)]
    assert expected_best(values, goal=goal) == pytest.approx(brute)


def test_expected_best_of_one_trial_is_the_mean_and_of_all_trials_the_best():
    curve = expected_best([3.0, 1.0, 2.0], goal="min")
    assert curve == pytest.approx([2.0, 4 / 3, 1.0])
    assert expected_best([], goal="min").size == 0


def test_expected_best_of_many_normal_trials_is_the_published_optimism():
    curve = expected_best(np.random.default_rng(0).normal(size=2_000), goal="max")
    published = {1: 0.0, 2: 0.56, 3: 0.85, 5: 1.16, 9: 1.48, 20: 1.87}
    for budget, optimism in published.items():
        assert curve[budget - 1] == pytest.approx(optimism, abs=0.08)


def test_sensitivity_by_hand_with_a_diverged_run_scored_at_the_start():
    # Capped at 4: 3, 2, 2.5, 4 over the best 2: 1 + 0 + .5 + 2 over 4.
    ours = lr_sensitivity(RATES, [3.0, 2.0, 2.5, math.nan], initial_loss=4.0)
    assert ours.sensitivity == pytest.approx(3.5 / 4)
    assert (ours.best_learning_rate, ours.best_loss, ours.n_capped) == (1e-3, 2.0, 1)
    assert lr_sensitivity(RATES, [3.0, 2.0, 2.5, 4.5], initial_loss=4.0) == ours


def test_a_flat_curve_has_no_sensitivity_and_order_does_not_matter():
    assert lr_sensitivity(RATES, [2.0] * 4, initial_loss=4.0).sensitivity == 0.0
    shuffled = lr_sensitivity([1e-2, 1e-4, 1e-1, 1e-3], [2.5, 3.0, math.inf, 2.0], initial_loss=4.0)
    assert shuffled == lr_sensitivity(RATES, [3.0, 2.0, 2.5, math.inf], initial_loss=4.0)


def test_the_range_of_learning_rates_is_interpolated_in_log_rate():
    # Down from 2 to 3 over the decade below, up to 2.5 over the decade above: within .25 at 1/4 and 1/2 of them.
    ours = lr_range(RATES, [3.0, 2.0, 2.5, 4.0], delta=0.25)
    assert (ours.low, ours.high) == pytest.approx((10**-3.25, 10**-2.5))
    assert ours.decades == pytest.approx(0.75)
    assert not ours.open_below
    assert not ours.open_above


def test_the_range_says_where_the_grid_ended_before_the_loss_rose():
    ours = lr_range(RATES, [2.1, 2.0, 2.05, 2.2], delta=0.15)
    assert (ours.open_below, ours.open_above) == (True, False)
    assert ours.low == pytest.approx(1e-4)


def test_the_range_stops_before_a_diverged_point_and_does_not_jump_a_ridge():
    assert lr_range(RATES, [3.0, 2.0, 2.1, math.nan], delta=0.2).high == pytest.approx(1e-2)
    assert lr_range(RATES, [2.0, 9.0, 2.0, 2.0], delta=0.1).high < 1e-3


def test_learning_rate_curves_that_cannot_be_read_are_refused():
    with pytest.raises(ValueError, match="no loss is finite, so there is no best learning rate"):
        lr_sensitivity(RATES, [math.nan] * 4, initial_loss=4.0)
    with pytest.raises(ValueError, match="learning_rates must be positive, each of them once"):
        lr_range([1e-3, 1e-3], [2.0, 2.1], delta=0.1)
    with pytest.raises(ValueError, match=r"learning_rates has shape \(2,\) and losses \(1,\)"):
        lr_range([1e-3, 1e-2], [2.0], delta=0.1)
    with pytest.raises(ValueError, match="delta=0 must be positive"):
        lr_range(RATES, [1.0] * 4, delta=0)


@pytest.mark.parametrize("n", [1, 3, 4, 7, 8, 41])
def test_iqm_is_the_quarter_trimmed_mean(n):
    values = np.random.default_rng(n).normal(size=n)
    assert iqm(values) == pytest.approx(stats.trim_mean(values, 0.25))


def test_iqm_of_up_to_three_values_is_their_mean_and_of_none_an_error():
    assert iqm([0.0, 0.0, 9.0]) == 3.0
    assert iqm([[0.0, 1.0], [2.0, 90.0]]) == 1.5
    with pytest.raises(ValueError, match="the interquartile mean of no values does not exist"):
        iqm([])


def test_a_profile_is_the_share_of_runs_beyond_each_threshold():
    scores = [[0.1, 0.9], [0.5, 0.7]]
    assert performance_profile(scores, [0.0, 0.1, 0.6, 0.9]) == pytest.approx([1.0, 0.75, 0.5, 0.0])
    assert performance_profile(scores, [0.1, 0.6, 1.0], goal="min") == pytest.approx([0.0, 0.5, 1.0])


def test_probability_of_improvement_is_the_mean_mann_whitney_share():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.4, 1, (5, 6)).round(1), rng.normal(0, 1, (4, 6)).round(1)
    shares = stats.mannwhitneyu(a, b, axis=0).statistic / 20
    assert probability_of_improvement(a, b) == pytest.approx(shares.mean())
    assert probability_of_improvement(a, b, goal="min") == pytest.approx(1 - shares.mean())
    with pytest.raises(ValueError, match="variant has 6 tasks and baseline 5"):
        probability_of_improvement(a, b[:, :5])


def test_the_stratified_bootstrap_covers_the_mean_over_many_tasks():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(150):
        result = stratified_bootstrap(np.mean, rng.normal(size=(8, 20)), rng=rng, n_resamples=200)
        inside.append(result.low <= 0 <= result.high)
    assert 0.86 < np.mean(inside) <= 1.0


def test_the_bootstrap_of_a_pair_keeps_its_seeds_together():
    baseline = np.random.default_rng(0).normal(size=(5, 6)) * 100
    result = stratified_bootstrap(
        lambda a, b: float((a - b).mean()), baseline + 1, baseline, rng=np.random.default_rng(1), n_resamples=50
    )
    assert (result.low, result.high, result.estimate) == pytest.approx((1.0, 1.0, 1.0))


def test_the_bootstrap_is_refused_for_few_tasks_and_unlike_tables():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="a bootstrap over 1 tasks is too narrow to trust; it needs 5 or more"):
        stratified_bootstrap(np.mean, np.ones((10, 1)), rng=rng)
    with pytest.raises(ValueError, match=r"tables of shapes \[\(2, 6\), \(3, 6\)\] cannot share draws"):
        stratified_bootstrap(np.mean, np.ones((3, 6)), np.ones((2, 6)), rng=rng)
    with pytest.raises(ValueError, match=r"scores has shape \(3,\); it must be \(n_runs, n_tasks\)"):
        stratified_bootstrap(np.mean, np.ones(3), rng=rng)


STEPS = np.array([100, 200, 400, 800, 1600])


def loss_at(step):
    """A loss that falls by .5 with each doubling of steps."""
    return 5.0 - 0.5 * np.log2(np.asarray(step) / 100)


def test_a_variant_that_only_reaches_the_loss_of_half_the_steps_has_a_speed_up_of_a_half():
    offsets = np.array([0.0, 0.1, -0.2])
    result = speed_up(STEPS, loss_at(STEPS) + offsets[:, None], loss_at(800) + offsets)
    assert result.per_seed == pytest.approx((0.5, 0.5, 0.5))
    assert (result.ratio, result.low, result.high) == pytest.approx((0.5, 0.5, 0.5))
    assert str(result) == "0.50x"


def test_a_variant_trained_half_as_long_to_the_same_loss_is_worth_twice_the_steps():
    result = speed_up(STEPS, [loss_at(STEPS)] * 2, [loss_at(1600)] * 2, variant_steps=800)
    assert result.ratio == pytest.approx(2.0)
    assert speed_up(STEPS, [loss_at(STEPS)] * 2, [loss_at(1600)] * 2, variant_steps=800, cost_ratio=2.0).ratio == (
        pytest.approx(1.0)
    )


def test_between_evaluations_the_curve_is_linear_in_log_step():
    result = speed_up(STEPS, [loss_at(STEPS)], [loss_at(400 * math.sqrt(2))], variant_steps=400)
    assert result.ratio == pytest.approx(math.sqrt(2))
    assert math.isnan(result.low)


def test_the_interval_is_a_t_interval_of_log_ratios_paired_by_seed():
    finals = [loss_at(400), loss_at(800), loss_at(500)]
    result = speed_up(STEPS, [loss_at(STEPS)] * 3, finals)
    logs = np.log(np.array([400, 800, 500]) / 1600)
    interval = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    assert (result.low, result.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))


def test_an_accuracy_speeds_up_as_the_loss_that_mirrors_it():
    as_loss = speed_up(STEPS, [loss_at(STEPS)], [4.2])
    as_accuracy = speed_up(STEPS, [-loss_at(STEPS)], [-4.2], goal="max")
    assert as_loss.ratio == pytest.approx(as_accuracy.ratio)


def test_a_score_the_baseline_never_reaches_gives_a_bound_only():
    result = speed_up(STEPS, [loss_at(STEPS)] * 5, [2.0] * 5)
    assert result.n_at_least == 5
    assert str(result) == ">= 1.00x"
    assert (result.low, result.high) == (pytest.approx(1.0), math.inf)
    fewer = speed_up(STEPS, [loss_at(STEPS)] * 4, [2.0] * 4)
    assert math.isnan(fewer.low)


def test_one_seed_that_is_a_bound_makes_the_whole_a_bound():
    result = speed_up(STEPS, [loss_at(STEPS)] * 5, [loss_at(800)] * 4 + [2.0], variant_steps=400)
    assert (result.n_at_least, result.high) == (1, math.inf)
    assert result.low == pytest.approx(2.0)
    assert str(result).startswith(">= ")


def test_a_variant_worse_than_the_first_evaluation_or_diverged_gives_an_upper_bound():
    result = speed_up(STEPS, [loss_at(STEPS)] * 5, [9.0, 9.0, 9.0, 9.0, math.nan])
    assert (result.n_at_most, result.low) == (5, 0.0)
    assert result.high == pytest.approx(100 / 1600)
    assert str(result) == "<= 0.06x"
    mixed = speed_up(STEPS, [loss_at(STEPS)] * 2, [9.0, 2.0])
    assert (mixed.low, mixed.high) == (0.0, math.inf)
    assert str(mixed) == "between 0.06x and more than 1.00x, seed by seed"


def test_the_best_so_far_counts_and_a_diverged_evaluation_does_not():
    curve = [5.0, 4.0, 4.5, math.nan, 3.0]
    assert speed_up(STEPS, [curve], [4.0]).ratio == pytest.approx(200 / 1600)
    assert speed_up(STEPS, [curve], [3.5]).ratio == pytest.approx(math.sqrt(800 * 1600) / 1600)
    assert speed_up(STEPS, [[math.nan, 4.0, 4.0, 4.0, 4.0]], [4.5]).ratio == pytest.approx(200 / 1600)


def test_curves_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"steps \(5,\), baseline \(1, 5\) and variant \(2,\) do not fit"):
        speed_up(STEPS, [loss_at(STEPS)], [4.0, 4.0])
    with pytest.raises(ValueError, match="steps must rise from above 0"):
        speed_up(STEPS - 100, [loss_at(STEPS)], [4.0])
    with pytest.raises(ValueError, match=r"variant_steps=None and cost_ratio=0 must be positive"):
        speed_up(STEPS, [loss_at(STEPS)], [4.0], cost_ratio=0)
