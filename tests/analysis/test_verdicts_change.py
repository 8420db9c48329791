"""What stands beside a verdict: the noise of the baseline, and what a change is worth in compute."""

import math
import random

import pytest

from analysis.load import load
from analysis.verdicts import about_change, noise_floor, speed_up_of
from tests.analysis.fabricated import fabricate


def test_the_noise_floor_is_what_two_single_runs_differ_by():
    rng = random.Random(0)
    scores = [2 + rng.gauss(0, 0.01) for _ in range(400)]
    floor = noise_floor(scores)
    differ = [abs(a - b) > floor.single for a, b in zip(scores[::2], scores[1::2], strict=True)]
    assert floor.single == pytest.approx(1.96 * math.sqrt(2) * 0.01, rel=0.1)
    assert sum(differ) / len(differ) == pytest.approx(0.05, abs=0.035)


def test_the_baseline_against_itself_comes_out_null():
    rng = random.Random(1)
    null = [noise_floor([rng.gauss(2, 0.01) for _ in range(10)]).null for _ in range(400)]
    assert sum(null) / len(null) == pytest.approx(0.95, abs=0.03)


def test_seeds_that_do_differ_by_parity_are_distrusted():
    floor = noise_floor([2.0, 3.0, 2.01, 3.02, 1.99, 3.01, 2.0, 2.99])
    assert not floor.null
    assert "NOT NULL" in str(floor)


def test_under_four_seeds_the_baseline_cannot_be_set_against_itself():
    assert math.isnan(noise_floor([2.0, 2.1, 2.05]).p)
    assert str(noise_floor([2.0])) == "unknown under two seeds"


def change(tmp_path, harm, **more):
    fabricate(tmp_path, "judge", variants=[("change", "model.norm", "rmsnorm", harm, 101_000)], noise=0.001, **more)
    return load(tmp_path, "judge")


def test_a_worse_change_costs_training(tmp_path):
    found = speed_up_of(change(tmp_path, 0.3), "change", "baseline", "validation/loss", "min")
    assert found.ratio < 0.8
    assert found.n == 5


def test_a_better_change_is_worth_at_least_what_the_curve_shows(tmp_path):
    found = speed_up_of(change(tmp_path, -0.3), "change", "baseline", "validation/loss", "min")
    assert found.n_at_least == 5
    assert str(found).startswith(">= ")


def test_a_longer_baseline_tells_how_much_better(tmp_path):
    loaded = change(tmp_path, -0.05)
    fabricate(tmp_path, "longer", variants=[], steps=300, noise=0.001)
    longer = load(tmp_path, "longer")
    bounded = speed_up_of(loaded, "change", "baseline", "validation/loss", "min")
    found = speed_up_of(loaded, "change", "baseline", "validation/loss", "min", longer=longer)
    assert bounded.n_at_least == 5
    assert found.per_seed != bounded.per_seed


def test_both_answers_stand_beside_a_change(tmp_path):
    change(tmp_path, -0.05)
    found = about_change(tmp_path, "judge")
    assert found.lines()[0].startswith("noise floor: two single runs of the baseline differ by up to")
    assert found.lines()[1].startswith("speed-up: >= 1.00x")
    assert found.to_dict()["noise_floor"]["null"] in (True, False)


def test_nothing_is_said_where_nothing_was_run(tmp_path):
    found = about_change(tmp_path, "judge")
    assert found.noise is None
    assert found.to_dict() == {"noise_floor": None, "speed_up": None}
