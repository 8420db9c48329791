"""Properties of the logits processors; their numbers are compared in tests/reference."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from transformer.generation.processors import (
    ban_repeated_ngrams,
    keep_top_k,
    keep_top_p,
    penalise,
    penalise_repeats,
    warp,
)
from transformer.generation.settings import Decode

INF = torch.inf


def rows(n: int = 5, vocab: int = 9) -> Tensor:
    return torch.randn(n, vocab, generator=torch.Generator().manual_seed(3)) * 3


def seen(n: int = 5, vocab: int = 9, length: int = 6) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(vocab, (n, length), generator=torch.Generator().manual_seed(4))
    return tokens, torch.ones_like(tokens, dtype=torch.bool)


@pytest.mark.parametrize("logit", [2.0, -2.0])
def test_a_penalty_above_one_always_makes_a_seen_token_less_likely(logit: float) -> None:
    scores, tokens = torch.tensor([[logit, 0.5, -0.5]]), torch.tensor([[0, 0]])
    after = penalise_repeats(scores, tokens, torch.ones_like(tokens, dtype=torch.bool), 1.5)
    assert after.softmax(-1)[0, 0] < scores.softmax(-1)[0, 0]
    torch.testing.assert_close(after[0, 1:], scores[0, 1:], rtol=0, atol=0)


def test_a_token_seen_twice_is_penalised_once() -> None:
    once = penalise_repeats(rows(1), torch.tensor([[4]]), torch.tensor([[True]]), 1.3)
    twice = penalise_repeats(rows(1), torch.tensor([[4, 4]]), torch.tensor([[True, True]]), 1.3)
    assert torch.equal(once, twice)


def test_padding_before_a_prompt_counts_as_unseen() -> None:
    scores, keep = rows(1), torch.tensor([[False, False, True, True]])
    padded = torch.tensor([[0, 0, 5, 5]])
    assert torch.equal(penalise_repeats(scores, padded, keep, 1.3)[:, 0], scores[:, 0])
    assert torch.equal(ban_repeated_ngrams(scores, padded, keep, 1)[:, 0], scores[:, 0])
    assert torch.equal(ban_repeated_ngrams(scores, torch.tensor([[5, 3, 5]]), torch.tensor([[False, True, True]]), 2), scores)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_banned_ngrams_are_those_found_by_looking_at_each_token(n: int) -> None:
    scores, (tokens, keep) = rows(vocab=3, n=8), seen(vocab=3, n=8, length=7)
    banned = ban_repeated_ngrams(scores, tokens, keep, n) == -INF
    for row, text in enumerate(tokens.tolist()):
        said = {tuple(text[i : i + n]) for i in range(len(text) - n + 1)}
        expected = [(*text[len(text) - n + 1 :], token) in said for token in range(3)]
        assert banned[row].tolist() == expected


def test_a_text_shorter_than_n_has_no_banned_ngram() -> None:
    assert torch.equal(ban_repeated_ngrams(rows(1), torch.tensor([[1]]), torch.tensor([[True]]), 2), rows(1))


@pytest.mark.parametrize("p", [1e-8, 0.1, 0.5, 0.75, 0.9, 0.999])
def test_top_p_is_the_smallest_set_that_reaches_p(p: float) -> None:
    kept = keep_top_p(rows(50), p) > -INF
    probabilities = rows(50).softmax(-1)
    for row in range(50):
        inside = probabilities[row][kept[row]].sort().values
        assert inside.sum() >= p - 1e-6
        assert inside[1:].sum() < p + 1e-6
        assert (probabilities[row][~kept[row]] <= inside[0]).all()


def test_a_set_that_reaches_p_exactly_is_enough() -> None:
    halves = torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]).log()
    assert halves.softmax(-1).tolist() == [[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]
    assert (keep_top_p(halves, 0.5) > -INF).tolist() == [[True, False, False], [False, False, True]]


def test_top_p_after_top_k_sees_only_what_top_k_left() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    both = warp(logits, Decode(temperature=1.0, top_k=2, top_p=0.6))  # 0.5 / 0.8 = 0.625 is enough alone
    assert (both > -INF).tolist() == [[True, False, False, False]]
    assert (keep_top_p(logits, 0.6) > -INF).sum() == 2


def test_a_tiny_p_keeps_the_likeliest_token_and_p_of_one_keeps_all() -> None:
    assert torch.equal(keep_top_p(rows(), 1e-12).argmax(-1), rows().argmax(-1))
    assert (keep_top_p(rows(), 1e-12) > -INF).sum(-1).eq(1).all()
    assert torch.equal(keep_top_p(rows() * 100, 1.0), rows() * 100)


@pytest.mark.parametrize("k", [1, 2, 9, 99])
def test_top_k_leaves_probabilities_that_sum_to_one(k: int) -> None:
    p = keep_top_k(rows(), k).softmax(-1)
    torch.testing.assert_close(p.sum(-1), torch.ones(5))
    assert (p > 0).sum(-1).tolist() == [min(k, 9)] * 5


def test_no_processor_writes_into_its_arguments() -> None:
    scores, (tokens, keep) = rows(), seen()
    copies = scores.clone(), tokens.clone(), keep.clone()
    decode = Decode(temperature=0.7, top_k=4, top_p=0.7, repetition_penalty=1.4, no_repeat_ngram=2)
    warp(penalise(scores, tokens, keep, decode), decode)
    assert all(torch.equal(now, before) for now, before in zip((scores, tokens, keep), copies, strict=True))


def test_each_setting_changes_the_distribution() -> None:
    scores, (tokens, keep) = rows(), seen()
    plain = warp(penalise(scores, tokens, keep, Decode(temperature=1.0)), Decode(temperature=1.0))
    for changes in ({"temperature": 0.5}, {"top_k": 2}, {"top_p": 0.5}, {"repetition_penalty": 2.0}, {"no_repeat_ngram": 1}):
        decode = Decode(**{"temperature": 1.0, **changes})
        assert not torch.equal(warp(penalise(scores, tokens, keep, decode), decode), plain), changes
