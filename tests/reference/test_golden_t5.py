"""A whole encoder-decoder and its beam search against numbers from another library, transformers 5.24.0 (float32)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from transformer import convert
from transformer.generation import Decode, generate

FOLDER = Path(__file__).parent / "golden"
ARRAYS = {name: torch.from_numpy(array) for name, array in np.load(FOLDER / "t5.npz").items()}
BEAMS = json.loads((FOLDER / "t5_beams.json").read_text())
WEIGHTS = {name[2:]: array for name, array in ARRAYS.items() if name.startswith("p.")}
SOURCE, KEEP = ARRAYS["source"], ARRAYS["source_keep"].bool()


def t5() -> torch.nn.Module:
    return convert.t5(WEIGHTS, n_heads=BEAMS["n_heads"], max_distance=BEAMS["max_distance"])


def test_logits_of_t5_with_a_padded_source() -> None:
    torch.testing.assert_close(t5()(SOURCE, ARRAYS["decoder_ids"], KEEP), ARRAYS["logits"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("cached", [True, False])
def test_beam_search_of_an_encoder_decoder_finds_the_same_texts_with_the_same_scores(cached: bool) -> None:
    model, starts = t5(), torch.full((len(SOURCE), 1), BEAMS["start"])
    common = {name: BEAMS[name] for name in ("eos_id", "pad_id", "max_new_tokens")}
    for setting in BEAMS["settings"]:
        options = {name: setting[name] for name in ("beams", "length_penalty", "early_stopping")}
        decode = Decode(**common, **options, n_best=setting["beams"])
        found = generate(model, starts, decode, source=SOURCE, source_keep=KEEP, cached=cached)
        assert found.lists() == setting["texts"], options
        torch.testing.assert_close(found.scores, torch.tensor(setting["scores"]), rtol=1e-5, atol=1e-5)
    assert len(BEAMS["settings"]) == 36
