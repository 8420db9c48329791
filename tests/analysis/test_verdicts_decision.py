"""The rule for a difference, by simulation: right at the predicted rates, and hardly ever wrong."""

import math

import numpy as np
import pytest

from analysis.verdicts import decide_difference, decide_equivalence, level
from analysis.verdicts.levels import ALPHA
from analysis.verdicts.looks import look
from tests.analysis.verdict_kit import Scores

LOOKS = (5, 10, 20)
TRIES = 1000


def shares(truth, n, *, delta=1.0, tries=TRIES, decide=decide_difference):
    """Share of each label over simulated experiments of n seeds, s_d = 1."""
    draws = np.random.default_rng(1).normal(truth, 1.0, size=(tries, n))
    at = level((n,))
    labels = [decide(list(row), delta=delta, level=at).label for row in draws]
    return {label: labels.count(label) / tries for label in ("SUPPORTED", "REFUTED", "INCONCLUSIVE")}


def sequential(truth, *, delta=1.0, tries=600, sd=1.0, seed=2):
    """Labels and seeds used over simulated experiments that look at 5, 10 and 20 seeds."""
    draws = np.random.default_rng(seed).normal(truth, sd, size=(tries, LOOKS[-1]))
    ends = []
    for row in draws:
        for n in LOOKS:
            seen = look({"it": Scores(row, delta, decide_difference)}, range(n), LOOKS)["it"]
            if seen.decision.decided:
                break
        ends.append((seen.decision.label, n))
    return ends


def count(ends, label):
    return sum(end[0] == label for end in ends) / len(ends)


@pytest.mark.parametrize(("truth", "n", "supported"), [(0, 10, 0.0), (1, 10, 0.49), (2, 10, 1.0), (1, 5, 0.33), (2, 5, 0.91)])
def test_an_effect_is_supported_at_the_rate_that_its_size_predicts(truth, n, supported):
    assert shares(truth, n)["SUPPORTED"] == pytest.approx(supported, abs=0.05)


def test_no_effect_is_refuted_nine_times_in_ten_with_ten_seeds_and_never_supported():
    found = shares(0, 10)
    assert found["REFUTED"] == pytest.approx(0.90, abs=0.03)
    assert found["SUPPORTED"] < 0.01


def test_an_effect_that_matters_is_refuted_by_chance_in_one_case_of_twenty():
    assert shares(1, 10)["REFUTED"] == pytest.approx(0.05, abs=0.02)


def test_a_null_is_supported_in_under_one_percent_over_all_looks():
    assert count(sequential(0, tries=1500), "SUPPORTED") < 0.01


def test_a_null_is_refuted_in_the_end_and_mostly_early():
    ends = sequential(0)
    assert count(ends, "REFUTED") >= 0.95
    assert np.mean([n for _, n in ends]) < 12


def test_an_effect_of_twice_what_matters_is_found_over_the_looks():
    ends = sequential(2)
    assert count(ends, "SUPPORTED") > 0.98
    assert np.mean([n for _, n in ends]) < 7


@pytest.mark.slow
def test_looking_three_times_wrongly_refutes_an_effect_that_matters_no_more_often_than_one_test():
    assert count(sequential(1, tries=1500), "REFUTED") < ALPHA + 0.015


@pytest.mark.slow
def test_looking_three_times_finds_a_difference_in_nothing_no_more_often_than_one_test():
    ends = sequential(0, delta=1e-9, tries=1500)
    assert count(ends, "SUPPORTED") < ALPHA / 2 + 0.01


def test_equivalence_is_supported_for_equals_and_refuted_for_what_differs():
    assert shares(0, 20, decide=decide_equivalence)["SUPPORTED"] > 0.95
    assert shares(2, 20, decide=decide_equivalence)["REFUTED"] > 0.9
    assert shares(1, 20, decide=decide_equivalence)["SUPPORTED"] <= 0.07


@pytest.mark.parametrize(
    ("differences", "label", "detail"),
    [
        ([2.0, 2.1, 1.9, 2.0, 2.05], "SUPPORTED", "strong"),
        ([1.4, 0.4, 1.9, 0.6, 1.2], "SUPPORTED", ""),
        ([-2.0, -2.1, -1.9, -2.0, -2.05], "REFUTED", "reversed"),
        ([0.1, -0.1, 0.05, 0.0, -0.02], "REFUTED", "negligible"),
        ([0.1, 2.1, -1.5, 1.0, -0.8], "INCONCLUSIVE", ""),
    ],
)
def test_labels_say_of_which_sort_they_are(differences, label, detail):
    found = decide_difference(differences, delta=1.0, level=level((5,)))
    assert (found.label, found.detail) == (label, detail)


def test_an_open_case_says_what_it_could_have_found_and_how_many_seeds_are_missing():
    found = decide_difference([0.1, 2.1, -1.5, 1.0, -0.8], delta=1.0, level=level((5,)))
    assert found.mde == pytest.approx(1.68 * found.sd, rel=0.01)
    assert found.more_seeds > 5


def test_equal_differences_on_every_seed_are_not_certainty():
    assert decide_difference([1.5] * 5, delta=1.0, level=level((5,))).label == "INCONCLUSIVE"
    assert decide_difference([1.5] * 6, delta=1.0, level=level((6,))).label == "SUPPORTED"
    assert decide_difference([0.0] * 10, delta=1.0, level=level(LOOKS)).label == "REFUTED"


def test_one_seed_decides_nothing():
    found = decide_difference([3.0], delta=1.0, level=level((5,)))
    assert found.label == "INCONCLUSIVE"
    assert math.isinf(found.mde)


def test_the_smallest_effect_must_be_positive():
    with pytest.raises(ValueError, match="delta=0 must be positive"):
        decide_difference([1.0, 2.0], delta=0, level=level((5,)))


def test_parts_of_one_claim_share_the_error_by_holm():
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(400):
        rules = {str(i): Scores(rng.normal(0, 1, 10), 1e-9, decide_difference) for i in range(4)}
        seen = look(rules, range(10), (10,))
        wrong += any(s.decision.label == "SUPPORTED" for s in seen.values())
    assert wrong / 400 < ALPHA / 2 + 0.02


def test_a_clear_part_leaves_more_of_the_level_to_the_others():
    clear = Scores([5.0, 5.1, 4.9, 5.0, 5.05], 1.0, decide_difference)
    near = Scores([1.4, 0.6, 1.7, 0.9, 1.2], 1.0, decide_difference)
    both = look({"clear": clear, "near": near}, range(5), (5,))
    assert both["clear"].level.share == 2
    assert both["near"].level.share == 1


def test_the_first_look_that_decides_stands_and_later_ones_are_told():
    turns = [2.0, 2.1, 1.9, 2.0, 2.05, *[-6.0, 6.0, -7.0, -9.0, 8.0]]
    seen = look({"it": Scores(turns, 1.0, decide_difference)}, range(10), LOOKS)["it"]
    assert seen.seeds == tuple(range(5))
    assert seen.decision.label == "SUPPORTED"
    assert seen.later == "with 10 seeds it would be INCONCLUSIVE; the look at 5 stands"


def test_nothing_is_decided_between_looks():
    seen = look({"it": Scores([2.0, 2.1, 1.9, 2.0], 1.0, decide_difference)}, range(4), LOOKS)["it"]
    assert seen.decision is None
