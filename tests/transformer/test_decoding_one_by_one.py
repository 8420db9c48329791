"""Greedy and sampled decoding, on tables whose probabilities are known."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.transformer.decoding_models import Table, table
from transformer.generation import Decode, generate, left_pad

PROMPTS = torch.tensor([[1, 2], [3, 0], [2, 2]])


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def by_hand(model: Table, prompt: list[int], n: int) -> list[int]:
    text = list(prompt)
    for _ in range(n):
        text.append(int(model.table[text[-2], text[-1]].argmax()))
    return text[len(prompt) :]


def test_greedy_takes_the_likeliest_token_each_time() -> None:
    model = table(0, vocab=6)
    found = generate(model, PROMPTS, Decode(max_new_tokens=7))
    assert found.lists() == [[by_hand(model, prompt, 7)] for prompt in PROMPTS.tolist()]
    assert found.tokens.shape == (3, 1, 7)
    assert found.lengths.tolist() == [[7]] * 3


def test_the_score_of_a_greedy_text_is_its_log_probability() -> None:
    model = table(0, vocab=6)
    found = generate(model, PROMPTS, Decode(max_new_tokens=3))
    for row, prompt in enumerate(PROMPTS.tolist()):
        text = prompt + found.lists()[row][0]
        steps = [model.table[text[i], text[i + 1]].log_softmax(-1)[text[i + 2]] for i in range(3)]
        assert found.scores[row, 0] == pytest.approx(float(sum(steps)), abs=1e-5)


@pytest.mark.parametrize("pad_id", [0, 3, 5])
def test_the_end_token_comes_once_and_only_padding_follows(pad_id: int) -> None:
    model = table(1, vocab=6)
    found = generate(model, PROMPTS.repeat(20, 1), Decode(
        temperature=1.5, max_new_tokens=12, eos_id=3, pad_id=pad_id), generator=stream())
    lengths = found.lengths[:, 0].tolist()
    assert 12 in lengths and min(lengths) < 6  # noqa: PT018
    for row, n in zip(found.tokens[:, 0].tolist(), lengths, strict=True):
        assert 3 not in row[: n - 1]
        assert n == 12 or row[n - 1] == 3
        assert set(row[n:]) <= {pad_id}


def test_a_row_that_ends_early_does_not_change_the_others() -> None:
    model = table(2, vocab=6)
    ended = by_hand(model, [1, 2], 8)[0]
    together = generate(model, PROMPTS, Decode(max_new_tokens=8, eos_id=ended))
    for row, prompt in enumerate(PROMPTS):
        alone = generate(model, prompt[None], Decode(max_new_tokens=8, eos_id=ended))
        assert together.lists()[row] == alone.lists()[0]
        assert together.scores[row, 0] == pytest.approx(float(alone.scores[0, 0]), abs=1e-6)


def test_an_end_token_in_the_prompt_ends_nothing() -> None:
    model = table(0, vocab=6)
    assert generate(model, torch.tensor([[3, 3]]), Decode(max_new_tokens=2, eos_id=3)).lengths[0, 0] >= 1


def test_no_step_is_taken_after_every_row_has_ended() -> None:
    model = Table(torch.zeros(4, 4, 4).index_fill(2, torch.tensor([3]), 9.0))
    found = generate(model, torch.tensor([[1, 2]]), Decode(max_new_tokens=50, eos_id=3))
    assert found.lists() == [[[3]]]
    assert len(model.calls) == 1


def test_samples_follow_the_distribution() -> None:
    model = table(3, vocab=5, spread=1.0)
    found = generate(model, PROMPTS[:1], Decode(temperature=0.7, n_best=8000, max_new_tokens=1), generator=stream())
    expected = (model.table[1, 2] / 0.7).softmax(-1)
    shares = torch.bincount(found.tokens.flatten(), minlength=5) / 8000
    sigma = (expected * (1 - expected) / 8000).sqrt()
    assert ((shares - expected).abs() < 4 * sigma).all()


def test_top_k_and_top_p_are_never_left() -> None:
    model = table(3, vocab=8, spread=0.5)
    order = model.table[1, 2].argsort(descending=True).tolist()
    few = generate(model, PROMPTS[:1], Decode(temperature=5.0, top_k=3, n_best=500, max_new_tokens=1), generator=stream())
    assert set(few.tokens.flatten().tolist()) == set(order[:3])
    one = generate(model, PROMPTS[:1], Decode(temperature=1.0, top_p=1e-6, n_best=50, max_new_tokens=1), generator=stream())
    assert set(one.tokens.flatten().tolist()) == {order[0]}


@pytest.mark.parametrize("text", ["sample,temperature=0", "sample,top_k=1", "sample,top_p=1e-9", "sample,temperature=1e-4"])
def test_sampling_at_its_limit_is_greedy(text: str) -> None:
    model = table(0, vocab=6)
    limit = generate(model, PROMPTS, Decode.parse(f"{text},max_new_tokens=9"), generator=stream())
    assert limit.lists() == generate(model, PROMPTS, Decode(max_new_tokens=9)).lists()


def test_one_seed_gives_one_text_and_another_seed_another() -> None:
    model, decode = table(0, vocab=6), Decode(temperature=1.0, max_new_tokens=20, n_best=2)
    first, again, other = (generate(model, PROMPTS, decode, generator=stream(s)).tokens for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first[:, 0], first[:, 1])


def test_sampling_leaves_the_global_random_stream_alone() -> None:
    before = torch.random.get_rng_state()
    generate(table(0, vocab=6), PROMPTS, Decode(temperature=1.0), generator=stream())
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_repetition_penalty_breaks_a_loop() -> None:
    model = Table(torch.full((3, 3, 3), -1.0).index_fill(2, torch.tensor([1]), 2.0))
    assert generate(model, torch.tensor([[2, 1]]), Decode(max_new_tokens=4)).lists() == [[[1, 1, 1, 1]]]
    penalised = generate(model, torch.tensor([[2, 1]]), Decode(max_new_tokens=1, repetition_penalty=3.0))
    assert penalised.lists() == [[[1]]]  # 2/3 is still above -1 and -3
    steep = Table(torch.tensor([0.5, 1.0, 0.4]).expand(3, 3, 3))
    assert generate(steep, torch.tensor([[1, 1]]), Decode(max_new_tokens=2, repetition_penalty=3.0)).lists() == [[[0, 2]]]


def test_no_ngram_is_said_twice() -> None:
    found = generate(table(4, vocab=5), PROMPTS, Decode(max_new_tokens=15, no_repeat_ngram=2))
    for prompt, (text,) in zip(PROMPTS.tolist(), found.lists(), strict=True):
        grams = list(zip([*prompt, *text], [*prompt, *text][1:], strict=False))
        assert len(set(grams)) == len(grams)


def test_the_model_reads_in_eval_mode_without_gradients_and_gets_its_flags_back() -> None:
    model = table(0, vocab=6)
    model.frozen = nn.Dropout(0.1).eval()
    model.train()
    model.frozen.eval()
    generate(model, PROMPTS, Decode(max_new_tokens=3))
    assert set(model.calls) == {(False, False)}
    assert (model.training, model.dropout.training, model.frozen.training) == (True, True, False)
    assert torch.is_grad_enabled()


def test_flags_come_back_after_an_error_too() -> None:
    model = Table(torch.full((4, 4, 4), torch.nan)).train()
    with pytest.raises(ValueError, match="not numbers"):
        generate(model, PROMPTS, Decode())
    assert model.training
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    "prompts, keep, decode, message",
    [
        (torch.zeros(2, 0, dtype=torch.long), None, "greedy", "a prompt is empty"),
        ([[1, 2], [0, 0]], [[1, 1], [0, 0]], "greedy", "a prompt is empty"),
        ([[1, 2], [1, 0]], [[1, 1], [1, 0]], "greedy", "must be padded on the left"),
        ([[1, 0, 2]], [[1, 0, 1]], "greedy", "must be padded on the left"),
        ([[1, 2]], None, "sample", "temperature=1.0 samples, which needs a torch.Generator: pass generator="),
        ([[1, 2]], None, "greedy,no_repeat_ngram=1,max_new_tokens=9", "no_repeat_ngram=1 bans every one of 6 tokens"),
    ],
)
def test_what_cannot_be_decoded_is_refused(prompts: list, keep: list | None, decode: str, message: str) -> None:
    kept = None if keep is None else torch.tensor(keep)
    with pytest.raises(ValueError, match=message):
        generate(table(0, vocab=6), torch.as_tensor(prompts), Decode.parse(decode), keep=kept)


def test_a_source_for_a_model_without_an_encoder_is_refused() -> None:
    with pytest.raises(ValueError, match="a source was given, but this model is no encoder-decoder"):
        generate(table(0, vocab=6), PROMPTS, Decode(), source=PROMPTS)


def test_left_pad_puts_padding_before_short_prompts() -> None:
    tokens, keep = left_pad([[5], [1, 2, 3]], pad_id=9)
    assert tokens.tolist() == [[9, 9, 5], [1, 2, 3]]
    assert keep.tolist() == [[False, False, True], [True, True, True]]
