"""Decoding with real transformers: no text may depend on the cache, on padding, or on what else is in the batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.transformer.decoding_models import transformer
from transformer import ModelConfig, Spec
from transformer.generation import Decode, generate, left_pad
from transformer.slots import ATTENTION, NORM, PLACEMENT, POSITIONAL, clashes

PROMPTS = [[1, 2, 3, 4, 5], [6], [7, 8, 1]]
DECODINGS = ["greedy", "greedy,repetition_penalty=1.5,no_repeat_ngram=3", "sample,top_p=0.95,n_best=2", "beam,beams=3,n_best=3"]
WINDOW = {"model.attention": Spec("window", window=3)}


def variants() -> list[dict[str, Spec]]:
    """Every positional with every attention that can go with it, and every norm and placement once."""
    pairs = [{"positional": Spec(p), "attention": Spec(a)} for p in POSITIONAL.names() for a in ATTENTION.names()]
    legal = [pair for pair in pairs if not clashes(ModelConfig(**pair))]
    norms = [{"norm": Spec(name)} for name in NORM.names() if not NORM.entry(name).cls.mixes_positions]
    return legal + norms + [{"placement": Spec(name)} for name in PLACEMENT.names()]


def label(value: object) -> str:
    return "-".join(str(spec) for spec in value.values()) if isinstance(value, dict) else str(value)


def write(model: nn.Module, prompts: list[list[int]], text: str, **more: object) -> list[list[list[int]]]:
    tokens, keep = left_pad(prompts)
    decode = Decode.parse(f"{text},max_new_tokens=9,eos_id=10")
    return generate(model, tokens, decode, keep=keep, generator=torch.Generator().manual_seed(5), **more).lists()


@pytest.mark.parametrize("changes", variants(), ids=label)
def test_a_text_depends_neither_on_the_cache_nor_on_padding(changes: dict[str, Spec]) -> None:
    model = transformer(**changes)
    for text in DECODINGS:
        together = write(model, PROMPTS, text)
        assert write(model, PROMPTS, text, cached=False) == together, text
        if not text.startswith("sample"):  # one random stream serves the whole batch
            assert [write(model, [prompt], text)[0] for prompt in PROMPTS] == together, text


@pytest.mark.parametrize("attention", ATTENTION.names())
@pytest.mark.parametrize("text", DECODINGS)
def test_an_encoder_decoder_writes_the_same_with_and_without_a_cache_or_padding(text: str, attention: str) -> None:
    model = transformer(architecture="encoder_decoder", attention=Spec(attention))
    source, source_keep = right_pad([[5, 6, 7, 8], [3, 2], [9]])
    starts = [[1], [1], [1, 4]]
    together = write(model, starts, text, source=source, source_keep=source_keep)
    assert write(model, starts, text, source=source, source_keep=source_keep, cached=False) == together
    if not text.startswith("sample"):
        alone = [write(model, starts[i : i + 1], text, source=row[None, : int(k.sum())])[0]
                 for i, (row, k) in enumerate(zip(source, source_keep, strict=True))]
        assert alone == together


def right_pad(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    return tokens, torch.tensor([[i < len(row) for i in range(longest)] for row in rows])


def test_the_source_decides_the_text() -> None:
    model = transformer(architecture="encoder_decoder")
    texts = [write(model, [[1]], "greedy", source=torch.tensor([[s, s + 1]])) for s in range(8)]
    assert len({str(text) for text in texts}) > 1


def test_two_calls_in_a_row_share_nothing() -> None:
    model = transformer()
    first = write(model, PROMPTS, "beam")
    write(model, [[9, 9, 9]], "greedy")
    assert write(model, PROMPTS, "beam") == first


def test_dropout_is_off_while_a_text_is_written_and_on_again_after() -> None:
    model = transformer(dropout=0.5).train()
    assert write(model, PROMPTS, "greedy") == write(model, PROMPTS, "greedy")
    assert all(module.training for module in model.modules())


def test_learned_positions_end_where_they_end() -> None:
    model = transformer(max_len=8)
    assert generate(model, torch.tensor([[1, 2, 3]]), Decode(max_new_tokens=6)).lengths.tolist() == [[6]]
    with pytest.raises(ValueError) as caught:
        generate(model, torch.tensor([[1, 2, 3]]), Decode(max_new_tokens=7))
    assert str(caught.value) == (
        "a prompt of 3 tokens and max_new_tokens=7 do not fit; lower one of them (the last token needs no position). "
        "9 positions are more than max_len=8, where learned positions end; raise max_len, or use a positional that has "
        "no end, such as sinusoidal, rope, alibi, relative or none"
    )


@pytest.mark.parametrize("positional", ["none", "sinusoidal", "rope", "alibi", "relative"])
def test_other_positions_go_on(positional: str) -> None:
    model = transformer(max_len=8, positional=Spec(positional))
    assert generate(model, torch.tensor([[1, 2, 3]]), Decode(max_new_tokens=20)).lengths.tolist() == [[20]]


def test_the_encoders_positions_do_not_limit_the_decoder() -> None:
    model = transformer(max_len=8, architecture="encoder_decoder", positional=Spec("rope"))
    assert generate(model, torch.tensor([[1]]), Decode(max_new_tokens=20), source=torch.tensor([[1, 2]])).lengths[0, 0] == 20


def test_a_model_in_bf16_writes_with_scores_in_float32() -> None:
    found = generate(transformer().bfloat16(), torch.tensor([[1, 2]]), Decode(beams=2, max_new_tokens=4))
    assert found.scores.dtype == torch.float32
    assert found.scores.isfinite().all()


def test_an_encoder_decoder_without_a_source_is_refused() -> None:
    with pytest.raises(ValueError, match="an encoder-decoder needs a source to write from: pass source="):
        write(transformer(architecture="encoder_decoder"), [[1]], "greedy")
