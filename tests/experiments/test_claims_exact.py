"""The exact checks decide rightly, and turn the moment the code under them is wrong."""

import pytest
import torch

from analysis.verdicts import verdicts
from experiments import claims, records
from experiments.claims.exact import masks, memory
from experiments.claims.measured import measure
from experiments.claims.record import record
from transformer.attention import multi_head, scaled_dot_product
from transformer.attention.scaling import SqrtDHead
from transformer.generation import decode, processors
from transformer.norms import BatchNorm

REFUTED = {
    "attention-memory-scaling: fused", "amp-halves-memory: all", "uniform-attention: everywhere",
    "order-needs-position: decoder-blind", "sqrt-dk-saturation: small-init",
}
CHECKED = [name for name in claims.WHERE if claims.get(name).check]


@pytest.fixture(autouse=True)
def briefly(monkeypatch):
    monkeypatch.setattr(masks, "STEPS", 60)
    monkeypatch.setattr(memory, "REPEATS", 3)


def decided(tmp_path, name):
    """part -> label of the exact parts, through the files."""
    card = claims.get(name)
    record(card, tmp_path, "again")
    folder = tmp_path / name
    records.write_json(folder / "measured.json", {"schema": 1, **measure(card.check)})
    if card.by_seeds:
        parts = [part for part in card.to_dict()["parts"] if part["rule"]["name"] in ("exact", "ratio")]
        content = records.read_json(folder / "claim.json")
        records.write_json(folder / "claim.json", {**content, "cells": [], "claim": {**content["claim"], "parts": parts}})
    return {v.part: v for v in verdicts(tmp_path, name)}


@pytest.mark.parametrize("name", CHECKED)
def test_every_exact_part_is_decided_and_as_the_house_knows_it(name, tmp_path):
    found = {part: v for part, v in decided(tmp_path, name).items() if v.kind == "exact"}
    assert found or name == "rmsnorm-equals-layernorm"
    for part, verdict in found.items():
        assert verdict.label == ("REFUTED" if f"{name}: {part}" in REFUTED else "SUPPORTED"), str(verdict)


def test_an_inverted_mask_in_the_model_is_found(tmp_path, monkeypatch):
    right = scaled_dot_product.fused

    def inverted(q, k, v, mask, *, causal, scale, dropout):
        wrong = ~torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril() if causal else mask
        return right(q, k, v, wrong, causal=False, scale=scale, dropout=dropout)

    monkeypatch.setattr(scaled_dot_product, "fused", inverted)
    found = decided(tmp_path, "mask-leak")
    assert found["right-mask"].label == "REFUTED"
    assert "influence of the future" in found["right-mask"].detail


def test_a_forgotten_mask_is_found(tmp_path, monkeypatch):
    right = scaled_dot_product.fused
    monkeypatch.setattr(
        scaled_dot_product, "fused",
        lambda q, k, v, mask, *, causal, scale, dropout: right(q, k, v, mask, causal=False, scale=scale, dropout=dropout),
    )
    assert decided(tmp_path, "mask-leak")["right-mask"].label == "REFUTED"


def test_batch_statistics_that_do_not_leak_refute_the_leak(tmp_path, monkeypatch):
    monkeypatch.setattr(BatchNorm, "forward", lambda self, x: x * self.weight)
    assert decided(tmp_path, "mask-leak")["batchnorm"].label == "REFUTED"


def test_accumulation_by_mean_of_means_is_found(tmp_path, monkeypatch):
    from experiments.training import step

    monkeypatch.setattr(step, "asked_tokens", lambda targets: targets.numel())
    monkeypatch.setattr(step, "loss_of", lambda model, batch, recipe: _mean(model, batch))
    assert decided(tmp_path, "accum-equals-batch")["token-weighted"].label == "REFUTED"


def _mean(model, batch):
    logits = model(batch.inputs)
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten()) * batch.targets.numel()


def test_a_scaling_that_does_nothing_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(SqrtDHead, "factor", lambda self: 1.0)
    assert decided(tmp_path, "sqrt-dk-saturation")["unit-variance"].label == "REFUTED"
    assert decided(tmp_path, "wrong-scale")["start"].label == "REFUTED"


def test_recomputing_with_other_dropout_is_found(tmp_path, monkeypatch):
    from transformer import blocks

    def forgetful(function, *args, use_reentrant):
        return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, preserve_rng_state=False)

    monkeypatch.setattr(blocks, "checkpoint", forgetful)
    assert decided(tmp_path, "recomputing-trades-time")["same-gradients"].label == "REFUTED"


def test_an_encoder_that_sees_order_without_positions_is_found(tmp_path, monkeypatch):
    from transformer.positional import NoPosition

    monkeypatch.setattr(NoPosition, "embed", lambda self, x, at: x + at[:, None] * torch.linspace(0, 1, x.shape[-1]))
    assert decided(tmp_path, "order-needs-position")["encoder-blind"].label == "REFUTED"


def test_a_repetition_penalty_that_only_divides_is_found(tmp_path, monkeypatch):
    def divide(scores, tokens, keep, penalty):
        return scores.scatter(1, tokens, scores.gather(1, tokens) / penalty)

    from experiments.claims.exact import decoding

    monkeypatch.setattr(decoding, "penalise_repeats", divide)
    monkeypatch.setattr(processors, "penalise_repeats", divide)
    assert decided(tmp_path, "decoding-knobs")["repetition-penalty"].label == "REFUTED"


def test_a_cache_that_forgets_is_found(tmp_path, monkeypatch):
    from transformer.generation.cache import LayerCache

    monkeypatch.setattr(LayerCache, "extend", lambda self, k, v: (k, v))
    found = decided(tmp_path, "decoding-knobs")
    assert found["cache"].label != "SUPPORTED"


def test_smoothing_over_the_wrong_classes_is_found(tmp_path, monkeypatch):
    from experiments.claims.exact import training

    right = training.summed_loss
    monkeypatch.setattr(training, "summed_loss", lambda x, targets, smoothing: right(x, targets, smoothing=2 * smoothing))
    assert decided(tmp_path, "label-smoothing")["finite"].label == "REFUTED"


def test_a_check_that_breaks_down_supports_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(multi_head.MultiHeadAttention, "forward", lambda *a, **k: 1 / 0)
    monkeypatch.setattr(decode, "generate", lambda *a, **k: 1 / 0)
    for verdict in decided(tmp_path, "mask-leak").values():
        assert verdict.label == "INCONCLUSIVE"
        assert "ZeroDivisionError" in " ".join(verdict.notes)


def test_casts_of_weights_are_no_activations():
    joined, apart = (memory.training_bytes("fp32", 2, d_model=width) for width in (64, multi_head.JOINED_BELOW))
    assert joined.casts == 4 * 3 * 64 * 64 * 4  # the joined matrix of each of 4 layers
    assert apart.casts == 0
    for width in (64, multi_head.JOINED_BELOW):
        fp32, bf16 = (memory.training_bytes(precision, 2, d_model=width) for precision in ("fp32", "bf16"))
        assert bf16.fixed == fp32.fixed
        assert bf16.casts > fp32.casts
        assert 0.5 < bf16.activations / fp32.activations < 0.6
