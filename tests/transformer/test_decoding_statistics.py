"""Repetition and variety of texts, against counts done by hand."""

from __future__ import annotations

import pytest

from transformer.generation.statistics import distinct_n, ends_in_loop, loop_rate, repeated_ngram_share


def test_the_repeated_share_counts_each_ngram_after_its_first_time() -> None:
    assert repeated_ngram_share([1, 2, 1, 2, 1], n=2) == 0.5  # 12 21 12 21: two of four came before
    assert repeated_ngram_share([1, 2, 3, 4, 5], n=2) == 0.0
    assert repeated_ngram_share([7] * 11, n=4) == pytest.approx(7 / 8)


def test_a_text_too_short_to_repeat_repeats_nothing() -> None:
    assert repeated_ngram_share([1, 1], n=4) == 0.0
    assert repeated_ngram_share([], n=1) == 0.0


def test_distinct_n_counts_over_all_texts() -> None:
    assert distinct_n([[1, 2, 3], [1, 2, 4]], n=2) == 0.75  # 12 23 12 24
    assert distinct_n([[1, 1, 1, 1]], n=1) == 0.25


def test_distinct_n_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="none of 2 texts has n=3 tokens, so there is nothing to count"):
        distinct_n([[1, 2], []], n=3)


@pytest.mark.parametrize(
    "tokens, loop",
    [
        ([9, 1, 2, 1, 2, 1, 2], True),
        ([1, 2, 1, 2, 1, 2, 9], False),  # it got out again
        ([9, 1, 2, 1, 2], False),  # twice is no loop yet
        ([1, 2, 3] * 3, True),
        ([4, 4, 4], False),  # a phrase has at least two tokens
        ([4] * 6, True),
        ([2, 1, 2, 1, 2, 1], True),
        ([], False),
    ],
)
def test_a_loop_is_a_phrase_said_three_times_at_the_end(tokens: list[int], loop: bool) -> None:
    assert ends_in_loop(tokens) is loop


def test_the_loop_rate_is_a_share_of_texts() -> None:
    assert loop_rate([[1, 2] * 3, [1, 2, 3]]) == 0.5
    assert loop_rate([[4, 4, 4], [1, 2, 3]], shortest=1) == 0.5


@pytest.mark.parametrize("options", [{"times": 1}, {"shortest": 0}])
def test_options_that_make_everything_a_loop_are_refused(options: dict) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        loop_rate([[1, 2]], **options)


def test_counting_needs_texts_and_a_positive_n() -> None:
    with pytest.raises(ValueError, match="at least one text"):
        loop_rate([])
    with pytest.raises(ValueError, match="n=0 must be at least 1"):
        repeated_ngram_share([1], n=0)
