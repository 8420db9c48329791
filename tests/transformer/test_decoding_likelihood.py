"""Scoring given texts, against sums of log-probabilities done one at a time."""

from __future__ import annotations

import pytest
import torch

from tests.transformer.decoding_models import Table, table, transformer
from transformer.generation import Decode, generate, left_pad, negative_log_likelihood

TEXTS = [[1, 2, 3, 4], [4, 0], [2, 2, 2]]


def by_hand(model: Table, text: list[int]) -> float:
    before = [0, *text]
    return -float(sum(model.table[before[i], text[i]].log_softmax(-1)[text[i + 1]] for i in range(len(text) - 1)))


def test_a_text_without_padding_costs_the_sum_over_its_tokens() -> None:
    model = table(0, vocab=5)
    for text in TEXTS:
        scored = negative_log_likelihood(model, torch.tensor([text]))
        assert float(scored.nats.sum()) == pytest.approx(by_hand(model, text), abs=1e-5)
        assert scored.counted.sum() == len(text) - 1
        assert scored.per_token() == pytest.approx(by_hand(model, text) / (len(text) - 1), abs=1e-5)


@pytest.mark.parametrize("architecture", ["decoder", "encoder_decoder"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_nothing(side: str, architecture: str) -> None:
    model = transformer(architecture=architecture)
    source = {"source": torch.tensor([[5, 6, 7]])} if architecture == "encoder_decoder" else {}
    tokens, keep = left_pad(TEXTS, pad_id=9)
    if side == "right":
        tokens, keep = tokens.flip(1), keep.flip(1)
        tokens = torch.stack([torch.cat([row[k].flip(0), row[~k]]) for row, k in zip(tokens, keep, strict=True)])
    many = {name: value.expand(3, -1) for name, value in source.items()}
    together = negative_log_likelihood(model, tokens, keep, **many)
    for row, text in enumerate(TEXTS):
        alone = negative_log_likelihood(model, torch.tensor([text]), **source)
        assert float(together.nats[row].sum()) == pytest.approx(float(alone.nats.sum()), abs=1e-4)
        assert together.counted[row].sum() == len(text) - 1


def test_the_score_of_a_generated_text_is_its_likelihood() -> None:
    model = transformer()
    decode = Decode(temperature=1.3, top_k=5, repetition_penalty=1.2, max_new_tokens=8)
    found = generate(model, torch.tensor([[1, 2]]), decode, generator=torch.Generator().manual_seed(0))
    whole = torch.cat([torch.tensor([[1, 2]]), found.tokens[0]], 1)
    nats = negative_log_likelihood(model, whole).nats[0, 1:].sum()  # after the two tokens of the prompt
    assert float(-nats) == pytest.approx(float(found.scores[0, 0]), abs=1e-4)


def test_per_token_weighs_every_token_the_same() -> None:
    tokens, keep = left_pad(TEXTS)
    scored = negative_log_likelihood(transformer(), tokens, keep)
    assert scored.per_token() == pytest.approx(float(scored.nats.sum()) / 6, abs=1e-6)


def test_the_training_flag_comes_back() -> None:
    model = transformer(dropout=0.5).train()
    first, second = (negative_log_likelihood(model, torch.tensor(TEXTS[:1])).nats for _ in range(2))
    assert torch.equal(first, second)
    assert model.training
    assert not first.requires_grad


def test_nothing_to_predict_is_refused() -> None:
    scored = negative_log_likelihood(table(0, vocab=5), torch.tensor([[1]]))
    with pytest.raises(ValueError, match="no text has two real tokens in a row"):
        scored.per_token()
