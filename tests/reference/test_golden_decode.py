"""Our logits processors against numbers from another library's (golden/decode.npz, float32)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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
