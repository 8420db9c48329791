"""Two identical variants under different names: how often does the learning-rate grid tell them apart?

Simulated on the rule itself: scores = valley + what the seed gives every variant (split, order, initial values) + noise.
"""

import math

import numpy as np
import pytest

from analysis.statistics import paired
from experiments.tuning.choice import choose

RATES = [0.0003, 0.000949, 0.003, 0.00949, 0.03]


def scores(rng, seeds, curvature, shared, noise, rho=0.5):
    """lr -> seed -> (validation, test) of one variant; validation and test of one run correlate by rho."""
    table = {}
    for lr in RATES:
        valley = curvature * math.log10(lr / 0.003) ** 2
        run, a, b = (rng.normal(0, noise, seeds) for _ in range(3))
        validation = valley + shared + math.sqrt(rho) * run + math.sqrt(1 - rho) * a
        test = valley + shared + math.sqrt(rho) * run + math.sqrt(1 - rho) * b
        table[lr] = {seed: (float(validation[seed]), float(test[seed])) for seed in range(seeds)}
    return table


def at_choice(table):
    pick = choose({lr: {seed: v for seed, (v, _) in of.items()} for lr, of in table.items()}, "min")
    return [test for _, test in table[pick.lr].values()]


def rejections(curvature, experiments=400, seeds=5, stream=0):
    rng, found = np.random.default_rng([stream, int(10 * curvature)]), 0
    for _ in range(experiments):
        shared = rng.normal(0, 1.0, seeds)
        one, other = (scores(rng, seeds, curvature, shared, 1.0) for _ in range(2))
        found += paired(at_choice(one), at_choice(other)).p < 0.05
    return found


@pytest.mark.parametrize("curvature", [0.0, 1.0, 3.0, 10.0, 30.0])
def test_identical_variants_differ_significantly_in_at_most_five_percent_of_experiments(curvature):
    """400 experiments: 5 % are 20, and 29 is the 97.5th percentile of what 5 % gives by chance."""
    assert rejections(curvature) <= 29


def test_a_real_difference_is_still_found():
    rng, found = np.random.default_rng(1), 0
    for _ in range(100):
        shared = rng.normal(0, 1.0, 5)
        base, better = (scores(rng, 5, 10.0, shared, 0.3) for _ in range(2))
        found += paired([v - 1.0 for v in at_choice(better)], at_choice(base)).p < 0.05
    assert found >= 80
