"""Decoding against numbers from another library, transformers 5.24.0 (float32)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.transformer.decoding_models import Table
from transformer import ModelConfig, Spec, build
from transformer.generation import Decode, generate
from transformer.generation.processors import (
    ban_repeated_ngrams,
    keep_top_k,
    keep_top_p,
    penalise,
    penalise_repeats,
    warp,
)

ARRAYS = np.load(Path(__file__).parent / "golden" / "decode.npz")
SCORES = torch.from_numpy(ARRAYS["processors/scores"])
SEEN = torch.from_numpy(ARRAYS["processors/prev_ids"])
ALL = torch.ones_like(SEEN, dtype=torch.bool)


def expect(ours: Tensor, name: str, atol: float = 1e-6) -> None:
    torch.testing.assert_close(ours, torch.from_numpy(ARRAYS[name]), atol=atol, rtol=0)


@pytest.mark.parametrize("penalty", [1.2, 2.0, 0.5])
def test_the_repetition_penalty_divides_positive_and_multiplies_negative_logits(penalty: float) -> None:
    expect(penalise_repeats(SCORES, SEEN, ALL, penalty), f"processors/rep_{penalty}")


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_divides(temperature: float) -> None:
    expect(warp(SCORES, Decode(temperature=temperature)), f"processors/temp_{temperature}")


@pytest.mark.parametrize("k", [1, 3, 12, 50])
def test_top_k_keeps_the_k_likeliest_and_all_when_k_exceeds_the_vocabulary(k: int) -> None:
    expect(keep_top_k(SCORES, k), f"processors/topk_{k}")


@pytest.mark.parametrize("p", [1e-8, 0.3, 0.6, 0.9, 1.0])
def test_top_p_keeps_the_smallest_set_that_reaches_p(p: float) -> None:
    expect(keep_top_p(SCORES, p), f"processors/topp_{p}")


def test_bigrams_are_not_repeated() -> None:
    expect(ban_repeated_ngrams(SCORES, SEEN, ALL, 2), "processors/ngram2")


def test_the_order_is_penalty_temperature_top_k_top_p() -> None:
    decode = Decode(repetition_penalty=1.3, temperature=0.7, top_k=6, top_p=0.8)
    expect(warp(penalise(SCORES, SEEN, ALL, decode), decode), "processors/pipeline_rep1.3_temp0.7_topk6_topp0.8")


def test_top_k_keeps_every_token_that_ties_with_the_kth() -> None:
    expect(keep_top_k(torch.from_numpy(ARRAYS["processor_edges/tie"]), 2), "processor_edges/topk_tie", atol=0)


@pytest.mark.parametrize("p", [0.8, 0.81, 0.45])
def test_the_token_that_crosses_p_stays(p: float) -> None:
    expect(keep_top_p(torch.from_numpy(ARRAYS["processor_edges/probs_log"]), p), f"processor_edges/topp_{p}", atol=0)


# golden/decode_beams.json: what transformers 5.24.0 found (float32, CPU, no cache) with the tables and the GPT-2 of
# decode.npz for 87 settings of beam search and three prompts each, every beam's text and score

BEAMS = json.loads((Path(__file__).parent / "golden" / "decode_beams.json").read_text())["cases"]


OTHERS = {"self_attention.output": "attn.c_proj", "feedforward.up": "mlp.c_fc", "feedforward.down": "mlp.c_proj"}


def gpt2() -> nn.Module:
    config = ModelConfig(
        d_model=8, n_layers=2, n_heads=2, d_ff=32, feedforward=Spec("gelu", approximate="tanh"), tied=True,
        positional=Spec("learned"), placement=Spec("pre"), norm=Spec("layernorm"),
    )
    model = build(config, vocab_size=7, max_len=16, seed=0)
    theirs = {name[7:]: torch.from_numpy(ARRAYS[name]) for name in ARRAYS if name.startswith("gpt2/p.")}
    model.load_state_dict(dict(in_our_names(theirs)), strict=False)
    assert len({id(parameter) for parameter in model.parameters()}) == len(dict(in_our_names(theirs)))
    return model


def in_our_names(theirs: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """GPT-2 stores weights as (in, out), and queries, keys and values side by side."""
    yield "decoder.embedding.weight", theirs["transformer.wte.weight"]
    yield "decoder.positional.table", theirs["transformer.wpe.weight"]
    for end in ("weight", "bias"):
        yield f"decoder.final_norm.{end}", theirs[f"transformer.ln_f.{end}"]
        for i in range(2):
            layer, their = f"decoder.layers.{i}", f"transformer.h.{i}"
            yield f"{layer}.join_self.norm.{end}", theirs[f"{their}.ln_1.{end}"]
            yield f"{layer}.join_feedforward.norm.{end}", theirs[f"{their}.ln_2.{end}"]
            qkv = theirs[f"{their}.attn.c_attn.{end}"].chunk(3, -1)
            for part, value in zip(("query", "key", "value"), qkv, strict=True):
                yield f"{layer}.self_attention.{part}.{end}", value.T if end == "weight" else value
            for ours, name in OTHERS.items():
                value = theirs[f"{their}.{name}.{end}"]
                yield f"{layer}.{ours}.{end}", value.T if end == "weight" else value


MODELS = {
    "table": lambda: Table(torch.from_numpy(ARRAYS["table/T"])),
    "tiny vocabulary": lambda: Table(torch.from_numpy(ARRAYS["table/T2"])),  # more beams than tokens
    "gpt2": gpt2,
}


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("case", MODELS)
def test_beam_search_finds_the_same_texts_with_the_same_scores(case: str, cached: bool) -> None:
    model, stored = MODELS[case](), BEAMS[case]
    common = {name: stored[name] for name in ("eos_id", "pad_id", "max_new_tokens")}
    for setting in stored["settings"]:
        options = {name: setting[name] for name in ("beams", "length_penalty", "early_stopping")}
        decode = Decode(**common, **options, n_best=setting["beams"])
        found = generate(model, torch.tensor(stored["prompts"]), decode, cached=cached)
        assert found.lists() == setting["texts"], options
        torch.testing.assert_close(found.scores, torch.tensor(setting["scores"]), rtol=1e-5, atol=1e-5)
