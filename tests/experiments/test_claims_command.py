"""The verb `claims`, from a name to verdicts on disk, and the probes that look at trained weights."""

import json

import numpy as np
import pytest

from analysis.verdicts import markdown, released, verdicts
from experiments import claims, records
from experiments.check import build_task, model_arguments
from experiments.claims import probes
from experiments.claims.reference import reference
from experiments.commands.choices import Launch
from experiments.commands.claims import command
from experiments.config import ModelConfig, RunConfig, Spec
from experiments.training.checkpoint import save_weights
from transformer.models import build

TEXT = Spec("text", context=64, eval_tokens=1024, test_tokens=1024)


def decided(tmp_path, name, preset="quick", as_json=False):
    launch = Launch(tmp_path, wandb="off", as_json=as_json, quiet=True)
    return command(name, launch, preset, decide=verdicts, release=released, table=markdown)


def test_an_exact_claim_is_decided_by_one_command(tmp_path, capsys):
    assert decided(tmp_path, "accum-equals-batch") == 0
    text = capsys.readouterr().out
    assert "accum-equals-batch: token-weighted: SUPPORTED" in text
    assert "again: python run_all.py claims accum-equals-batch --preset quick --results" in text
    stored = records.read_json(tmp_path / "accum-equals-batch" / "verdict.json")
    assert [v["label"] for v in stored["verdicts"]] == ["SUPPORTED", "SUPPORTED"]
    card = records.read_json(tmp_path / "accum-equals-batch" / "claim.json")
    assert stored["hash"] == card["hash"] == claims.get("accum-equals-batch").at("quick").hash


def test_verdicts_as_json_are_alone_on_standard_output(tmp_path, capsys):
    assert decided(tmp_path, "uniform-attention", as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert {v["part"]: v["label"] for v in found} == {"retrieval": "SUPPORTED", "everywhere": "REFUTED"}


def test_without_a_name_every_claim_is_decided_and_a_table_is_left(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(claims, "WHERE", {"accum-equals-batch": "exact", "uniform-attention": "exact"})
    assert decided(tmp_path, None) == 0
    assert "3 SUPPORTED, 1 REFUTED; table:" in capsys.readouterr().out
    table = (tmp_path / "claims-quick.md").read_text()
    assert table.count("\n") == 6
    assert "uniform-attention: everywhere" in table


@pytest.mark.slow
def test_a_claim_that_needs_training_goes_from_card_to_verdict(tmp_path, capsys):
    assert decided(tmp_path, "order-needs-position") == 0
    text = capsys.readouterr().out
    assert "order-needs-position-quick: accuracy: SUPPORTED (strong)" in text
    stored = records.read_json(tmp_path / "order-needs-position-quick" / "verdict.json")
    assert stored["runs"] == 12
    assert len(next(v for v in stored["verdicts"] if v["part"] == "accuracy")["runs"]) == 12


def test_the_reference_model_knows_text_from_noise_and_sums_to_one():
    task = build_task(TEXT)
    judge = reference(task)
    own = task.evaluations("test", 0)[0].batches[0].inputs.tolist()
    noise = np.random.default_rng(0).integers(0, task.vocab_size, size=(16, 64)).tolist()
    assert judge.loss(own) < 2.6 < np.log(task.vocab_size) < judge.loss(noise)
    start = own[0][:4]
    total = sum(np.exp(-judge.loss([[*start, token]])) for token in range(task.vocab_size))
    assert total == pytest.approx(1.0, abs=1e-9)


@pytest.fixture
def trained(tmp_path):
    """A run directory with untrained weights, as if a run had ended."""
    config = RunConfig(model=ModelConfig(d_model=16, n_heads=2, n_layers=1, positional=Spec("rope")), task=TEXT)
    directory = records.run_directory(tmp_path, "probed", "baseline-s0-00000000")
    directory.mkdir(parents=True)
    model = build(config.model, seed=0, **model_arguments(build_task(config.task)))
    save_weights(directory / records.WEIGHTS, model, run_hash="h")
    records.write_json(directory / records.CONFIG, {"hash": "h", "config": config.to_dict()})
    records.write_json(directory / records.RESULT, {"hash": "h", "status": "done", "metrics": {}})
    return tmp_path


def test_every_method_of_decoding_is_probed_once_and_kept(trained, monkeypatch):
    monkeypatch.setattr(probes, "PROMPTS", 4)
    path = "experiments.claims.probes:repetition"
    assert probes.probe_runs(path, trained, "probed") == []
    kept = trained / "probed" / "probes" / "baseline-s0-00000000.json"
    metrics = records.read_json(kept)["metrics"]
    assert set(metrics) == {
        f"{method}/{score}" for method in ("human", *probes.METHODS)
        for score in ("repeated_4grams", "loops", "reference_loss")
    }  # fmt: skip
    assert metrics["human/reference_loss"] < metrics["top_p/reference_loss"]
    before = kept.stat().st_mtime_ns
    assert probes.probe_runs(path, trained, "probed") == []
    assert kept.stat().st_mtime_ns == before


def test_a_run_that_cannot_be_probed_is_named(trained):
    (trained / "probed" / "runs" / "baseline-s0-00000000" / records.WEIGHTS).unlink()
    said = probes.probe_runs("experiments.claims.probes:repetition", trained, "probed")
    assert said[0].startswith("baseline-s0-00000000 could not be measured")
