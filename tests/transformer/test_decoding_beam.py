"""Beam search against an exhaustive search and against a slow one in plain Python."""

from __future__ import annotations

import itertools
import math
from functools import cache

import pytest
import torch

from tests.transformer.decoding_models import Table, table
from transformer.generation import Decode, generate

PROMPTS = [[1, 2], [3, 0], [2, 2]]
MODES = [False, True, "never"]
LEANING = [table(seed, vocab=6, spread=1.0 + seed, lean=0.1) for seed in range(3)]


def log_p(model: Table, text: tuple[int, ...]) -> list[float]:
    return after(model, text[-2], text[-1], len(text))


@cache
def after(model: Table, before: int, last: int, length: int) -> list[float]:
    return model(torch.tensor([[0] * (length - 2) + [before, last]]))[0, -1].log_softmax(-1).tolist()


def every_text(model: Table, prompt: list[int], decode: Decode) -> list[tuple[float, list[int]]]:
    """Score and tokens of all texts that there are, best first."""
    found = []
    open_texts = [(0.0, tuple(prompt))]
    for length in range(1, decode.max_new_tokens + 1):
        longer = [(s + p, (*t, v)) for s, t in open_texts for v, p in enumerate(log_p(model, t))]
        ends = [length == decode.max_new_tokens or t[-1] == decode.eos_id for _, t in longer]
        found += [(s / length**decode.length_penalty, list(t[2:])) for (s, t), e in zip(longer, ends, strict=True) if e]
        open_texts = [text for text, e in zip(longer, ends, strict=True) if not e]
    return sorted(found, reverse=True)


def slow_beam(model: Table, prompt: list[int], decode: Decode) -> list[tuple[float, list[int]]]:
    """The rules of beam search as a person would write them down, for one prompt."""
    beams, lp = decode.beams, decode.length_penalty
    running, finished = [(0.0, tuple(prompt))], []
    for length in range(1, decode.max_new_tokens + 1):
        longer = [(s + p, (*t, v)) for s, t in running for v, p in enumerate(log_p(model, t))]
        candidates = sorted(longer, reverse=True)[: 2 * beams]
        ends = [t[-1] == decode.eos_id or length == decode.max_new_tokens for _, t in candidates]
        done = [(s / length**lp, list(t[2:])) for (s, t), e in list(zip(candidates, ends, strict=True))[:beams] if e]
        finished = sorted(finished + done, reverse=True)[:beams]
        running = [c for c, e in zip(candidates, ends, strict=True) if not e][:beams]
        if not running:
            break
        reach = decode.max_new_tokens if decode.early_stopping == "never" and lp > 0 else length
        if len(finished) == beams and (decode.early_stopping is True or running[0][0] / reach**lp <= finished[-1][0]):
            break
    return finished


def agree(model: Table, decode: Decode, expected: list[list[tuple[float, list[int]]]]) -> None:
    found = generate(model, torch.tensor(PROMPTS), decode)
    for row, texts in enumerate(expected):
        best = texts[: decode.n_best]
        assert found.lists()[row] == [tokens for _, tokens in best]
        assert found.scores[row].tolist() == pytest.approx([score for score, _ in best], abs=1e-4)


@pytest.mark.parametrize("length_penalty", [-0.5, 0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("early_stopping", MODES)
@pytest.mark.parametrize("beams", [1, 2, 3, 4])
def test_beam_search_follows_its_rules(beams: int, early_stopping: object, length_penalty: float) -> None:
    for model, eos_id in itertools.product(LEANING, (0, 4)):
        decode = Decode(
            beams=beams, n_best=beams, early_stopping=early_stopping, length_penalty=length_penalty,
            eos_id=eos_id, pad_id=5, max_new_tokens=6,
        )
        agree(model, decode, [slow_beam(model, prompt, decode) for prompt in PROMPTS])


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 1.5])
def test_enough_beams_find_the_best_texts_of_all(length_penalty: float) -> None:
    decode = Decode(beams=64, n_best=10, early_stopping="never", length_penalty=length_penalty, eos_id=3, max_new_tokens=4)
    for seed in range(3):
        model = table(seed, vocab=4, lean=0.1)
        agree(model, decode, [every_text(model, prompt, decode) for prompt in PROMPTS])


def test_few_beams_can_miss_the_best_text_and_more_find_it() -> None:
    first = torch.tensor([0.5, 0.4, 0.1]).log()
    table_VVV = torch.full((3, 3, 3), 1 / 3).log()
    table_VVV[1, 2], table_VVV[2, 1] = first, torch.tensor([0.98, 0.01, 0.01]).log()
    assert generate(Table(table_VVV), torch.tensor([[1, 2]]), Decode(max_new_tokens=2)).lists()[0][0][0] == 0
    best = generate(Table(table_VVV), torch.tensor([[1, 2]]), Decode(beams=2, max_new_tokens=2))
    assert best.lists() == [[[1, 0]]]
    assert best.scores[0, 0] == pytest.approx(math.log(0.4 * 0.98) / 2, abs=1e-6)


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0])
def test_one_beam_is_greedy(early_stopping: bool, length_penalty: float) -> None:
    for seed in range(5):
        model, common = table(seed, vocab=6), {"eos_id": 2, "max_new_tokens": 9}
        beam = Decode(beams=1, early_stopping=early_stopping, length_penalty=length_penalty, **common)
        greedy = generate(model, torch.tensor(PROMPTS), Decode(**common))
        assert generate(model, torch.tensor(PROMPTS), beam).lists() == greedy.lists()


@pytest.mark.parametrize("early_stopping", MODES)
@pytest.mark.parametrize("beams", [3, 9])
def test_a_batch_of_three_is_three_batches_of_one(beams: int, early_stopping: object) -> None:
    model = table(5, vocab=4)
    decode = Decode(beams=beams, n_best=3, early_stopping=early_stopping, eos_id=3, max_new_tokens=7)
    together = generate(model, torch.tensor(PROMPTS), decode)
    for row, prompt in enumerate(PROMPTS):
        alone = generate(model, torch.tensor([prompt]), decode)
        assert together.lists()[row] == alone.lists()[0]
        torch.testing.assert_close(together.scores[row], alone.scores[0])


def test_early_stopping_saves_steps() -> None:
    steps = {}
    for early_stopping in MODES:
        model = table(0, vocab=6)
        generate(model, torch.tensor(PROMPTS), Decode(
            beams=2, early_stopping=early_stopping, eos_id=3, max_new_tokens=30))
        steps[early_stopping] = len(model.calls)
    assert steps[True] < steps[False] < steps["never"]


def test_a_higher_length_penalty_favours_longer_texts() -> None:
    model = table(1, vocab=6)
    lengths = [
        float(generate(model, torch.tensor(PROMPTS), Decode(
            beams=4, early_stopping="never", length_penalty=lp, eos_id=3, max_new_tokens=10)).lengths.float().mean())
        for lp in (-1.0, 0.0, 3.0)
    ]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


def test_without_an_end_token_every_text_is_as_long_as_allowed() -> None:
    found = generate(table(0, vocab=5), torch.tensor(PROMPTS), Decode(beams=3, n_best=3, max_new_tokens=5))
    assert found.lengths.tolist() == [[5, 5, 5]] * 3
    assert len({tuple(text) for text in found.lists()[0]}) == 3


@pytest.mark.parametrize("pad_id", [0, 1])
def test_texts_end_once_and_are_padded(pad_id: int) -> None:
    found = generate(table(0, vocab=5), torch.tensor(PROMPTS), Decode(
        beams=4, n_best=4, eos_id=3, pad_id=pad_id, max_new_tokens=8))
    for row, n in zip(found.tokens.flatten(0, 1).tolist(), found.lengths.flatten().tolist(), strict=True):
        assert 3 not in row[: n - 1]
        assert set(row[n:]) <= {pad_id}


def test_the_repetition_penalty_acts_on_log_probabilities() -> None:
    model = Table(torch.tensor([0.6, 0.3, 0.1]).log().expand(3, 3, 3))
    found = generate(model, torch.tensor([[0, 0]]), Decode(beams=2, repetition_penalty=3.0, max_new_tokens=1))
    assert found.lists() == [[[1]]]  # 3 log 0.6 = -1.53 is below log 0.3 = -1.20
    assert found.scores[0, 0] == pytest.approx(math.log(0.3), abs=1e-6)


def test_a_vocabulary_of_one_token_can_be_searched() -> None:
    found = generate(Table(torch.zeros(1, 1, 1)), torch.tensor([[0, 0]]), Decode(beams=2, max_new_tokens=3))
    assert found.lists() == [[[0, 0, 0]]]
