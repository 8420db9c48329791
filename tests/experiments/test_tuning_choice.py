"""The choice of a learning rate: pure functions."""

import pytest

from experiments.tuning.choice import Pick, choose, edges, grid


def curve(*means, seeds=2):
    return {10.0**-i: {seed: mean if mean is None else mean + 0.1 * seed for seed in range(seeds)} for i, mean in enumerate(means)}


def test_a_grid_has_equal_ratios_both_ends_and_short_numbers():
    assert grid(3e-4, 3e-2, 5) == [0.0003, 0.000949, 0.003, 0.00949, 0.03]
    assert grid(1e-3, 4e-3, 3) == [0.001, 0.002, 0.004]


@pytest.mark.parametrize("numbers", [(1e-3, 1e-3, 3), (0.0, 1.0, 3), (1e-3, 1e-2, 1)])
def test_numbers_that_make_no_grid_are_refused(numbers):
    with pytest.raises(ValueError, match="a grid needs 0 < low < high and at least 2 points"):
        grid(*numbers)


def test_the_best_mean_over_the_seeds_wins():
    pick = choose({0.1: {0: 1.0, 1: 3.0}, 0.2: {0: 1.8, 1: 1.8}, 0.3: {0: 2.0, 1: 2.5}}, "min")
    assert (pick.lr, pick.mean, pick.edge) == (0.2, 1.8, None)
    assert choose({0.1: {0: 1.0, 1: 3.0}, 0.2: {0: 1.8, 1: 1.8}, 0.3: {0: 2.0, 1: 2.5}}, "max").lr == 0.3


def test_equal_means_go_to_the_smaller_rate():
    assert choose(curve(1.0, 1.0, 1.0), "min").lr == 0.01


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf")])
def test_a_rate_at_which_any_seed_has_no_score_cannot_win(bad):
    assert choose({0.1: {0: 0.1, 1: bad}, 0.2: {0: 2.0, 1: 2.0}, 0.3: {0: 3.0, 1: 3.0}}, "min").lr == 0.2


def test_nothing_is_chosen_when_every_rate_diverges():
    assert choose(curve(None, None), "min") == Pick(None)


def test_a_best_rate_at_an_end_is_on_the_edge():
    assert choose({0.1: {0: 1.0}, 0.2: {0: 2.0}, 0.3: {0: 3.0}}, "min").edge == "lower"
    assert choose({0.1: {0: 1.0}, 0.2: {0: 2.0}, 0.3: {0: 3.0}}, "max").edge == "upper"


def test_a_rate_next_to_diverged_ones_is_not_on_the_edge():
    assert choose({0.1: {0: 3.0}, 0.2: {0: 1.0}, 0.4: {0: None}}, "min").edge is None


def test_the_grid_grows_where_any_variant_lies_on_its_edge():
    assert edges([Pick(0.02, 1.0), Pick(0.04, 1.0, "upper")]) == (False, True)
    assert edges([Pick(0.01, 1.0, "lower"), Pick(0.04, 1.0, "upper")]) == (True, True)
    assert edges([Pick(0.02, 1.0), Pick(None)]) == (False, False)


def test_a_grown_grid_keeps_its_ratio_and_its_rates():
    assert grid(1e-3, 1e-2, 3, above=2) == [0.001, 0.00316, 0.01, 0.0316, 0.1]
    assert grid(1e-3, 1e-2, 3, below=1)[1:] == grid(1e-3, 1e-2, 3)
