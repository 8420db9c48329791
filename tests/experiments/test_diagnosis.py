"""Each check finds the fault that it is for, and says nothing of a sound configuration. Whole diagnoses: `..._planted`."""

import json

import pytest
import torch

from experiments.commands.diagnose import command
from experiments.config import ConfigError, Spec
from experiments.diagnosis.case import Case, History
from experiments.diagnosis.data_checks import repeated_ngrams, repetition
from experiments.diagnosis.diagnose import CHECKS, STATIC, diagnose
from experiments.diagnosis.finding import Finding, worst_first
from experiments.diagnosis.memory import measured, memory
from experiments.diagnosis.model_checks import dead_units, gradients, saturation, scale
from experiments.diagnosis.target import find
from experiments.diagnosis.training_checks import (
    crash,
    divergence,
    overfitting,
    query_gradient,
    spikes,
    stall,
    too_good,
)
from experiments.records import EXPERIMENT, write_json
from experiments.tasks import Batch
from experiments.training.execute import execute
from tests.experiments.diagnosis_faults import FIRST, PARTS, case
from tests.experiments.training_runs import config, job
from tests.own_parts import registered

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _faults_are_registered():
    with registered(PARTS):
        yield

ARCHITECTURES = [
    {}, {"model__positional": "alibi", "model__norm": "rmsnorm", "model__feedforward": "swiglu"},
    {"task": "word_order", "model__architecture": "encoder", "model__positional": "learned"},
    {"task": "scan", "model__architecture": "encoder_decoder", "model__positional": "relative"},
    {"task": "recall", "model__attention": "linear", "model__placement": "post", "model__positional": "learned"},
    {"task": "listops", "model__architecture": "encoder", "model__pooling": "first"},
]


@pytest.mark.parametrize("name", [name for name, fault in FIRST.items() if fault.static])
def test_faults_that_need_no_training_are_diagnosed_first(name):
    fault = FIRST[name]
    found = diagnose(case(**fault.changes), STATIC).findings
    assert (found[0].check, found[0].severity) == (fault.check, "broken")
    assert fault.word in f"{found[0].symptom} {found[0].cause}"


@pytest.mark.parametrize("changes", ARCHITECTURES)
def test_sound_configurations_are_not_accused_before_training(changes):
    healthy = case(**{name: Spec(v) if name.split("__")[-1] in SPECS else v for name, v in changes.items()})
    found = [*diagnose(healthy, (*STATIC, scale, gradients)).findings]
    assert not found, found


SPECS = ("task", "positional", "norm", "feedforward", "attention", "placement")


@pytest.mark.parametrize(("check", "name"), [
    (saturation, "saturation"), (dead_units, "dead units"), (scale, "drowned tokens"), (gradients, "vanishing gradient"),
])
def test_faults_of_the_untrained_model_are_found_without_training(check, name):
    found = list(check(case(**FIRST[name].changes)))
    assert [one.severity for one in found[:1]] == ["harmful"]
    assert FIRST[name].word in f"{found[0].symptom} {found[0].cause}"


def test_divergence_tells_step_layer_and_last_finite_sizes():
    (found,) = divergence(case(**FIRST["rate far too large"].changes))
    assert "is nan at step 2; first in: decoder.layers.1" in found.evidence
    assert "sizes at the step before: decoder.embedding 0.02" in found.evidence
    assert "gradient norms: decoder.embedding" in found.evidence
    assert found.cause.startswith("the learning rate is too large: the same 10 steps at train.lr=")


def test_a_rate_far_too_small_is_named_as_the_cause_of_a_stall():
    (found,) = stall(case(**FIRST["rate far too small"].changes))
    assert found.severity == "harmful"
    assert found.cause.startswith("the learning rate is too small: 1e-06")


def rows(training, validation):
    return [
        {"step": 10 * i, "train/loss": near, "train/grad_norm": 1.0, "validation/loss": far}
        for i, (near, far) in enumerate(zip(training, validation, strict=True), 1)
    ]


def test_overfitting_shows_the_gap_over_time():
    falls = [2.0 - 0.15 * i for i in range(12)]
    sick = recorded(rows(falls, [2.1, 1.9, 1.7, 1.6, 1.6, 1.7, 1.8, 1.9, 2.0, 2.1, 2.2, 2.3]))
    (found,) = overfitting(sick)
    assert "validation loss 1.6 at step 40, 2.3 at step 120 (limit +0.1)" in found.evidence
    assert "train.steps=40" in found.change
    assert found.evidence.count(" at ") == 6
    assert not list(overfitting(recorded(rows(falls, falls))))


def recorded(lines):
    made = case()
    return Case("run", made.config, rows=lines, result={"clipped_share": 0.0, "diverged": None})


def test_a_loss_below_the_floor_is_too_good_to_be_true():
    floor = case().task.loss_floor
    (found,) = too_good(recorded(rows([1.0] * 12, [floor - 0.06] * 12)))
    assert (found.severity, found.symptom) == ("broken", "the loss is better than any model's can be")
    assert not list(too_good(recorded(rows([0.1] * 12, [floor - 0.04] * 12))))


def test_a_step_that_raises_is_told_with_its_error():
    sick = case(task=Spec("fault_outside", length=24, vocab=6, eval_rows=64))
    (found,) = crash(sick)
    assert found.symptom == "a training step raises an error"
    assert found.evidence.startswith("IndexError: ")
    first, *others = diagnose(sick).findings
    assert (first.severity, others) == ("broken", [])
    assert "IndexError" in first.evidence


def test_a_run_that_failed_is_told_with_its_error():
    sick = case()
    sick.failure = {"kind": "timed_out", "error": "over the time limit of 5 s"}
    (found,) = crash(sick)
    assert (found.symptom, found.evidence) == ("the last attempt timed out", "over the time limit of 5 s")


def test_spikes_are_losses_far_above_those_before_them():
    steady = [2.0 - 0.01 * i + 0.01 * (i % 3) for i in range(60)]
    assert spikes(steady) == []
    assert spikes([*steady[:30], 3.0, *steady[30:]]) == [31]


def test_a_history_sums_up_by_medians():
    history = History([(i, 3.0 - 0.01 * i) for i in range(1, 101)], [], [], 0.0, True, None)
    assert history.first == pytest.approx(2.99)
    assert history.last == pytest.approx(2.045)
    assert history.falling == pytest.approx(0.34)


def test_queries_that_get_no_gradient_are_told_from_values_that_do():
    sizes = {"a.query.weight": 3.0, "a.key.weight": 4.0, "a.value.weight": 10.0, "a.output.weight": 99.0}
    assert query_gradient(sizes) == pytest.approx(0.5)


def test_passages_that_several_rows_share_are_counted():
    row = torch.arange(39)[None]
    other = row + 100
    fresh = [Batch(row, row + 1), Batch(other, other + 1)]
    assert repeated_ngrams(fresh) == 0.0
    assert repeated_ngrams([*fresh, fresh[0]]) == pytest.approx(2 / 3)
    assert repeated_ngrams([Batch(row[:, :8], row[:, :8])]) is None


def test_one_batch_on_purpose_is_a_hint_only():
    (found,) = repetition(case(train__overfit_one_batch=True))
    assert found.severity == "hint"


def test_memory_is_split_by_part_and_its_savings_are_measured():
    found = measured(case(model__d_model=32, train__batch_size=32))
    assert sum(found.parts.values()) == pytest.approx(1)
    assert found.halved == pytest.approx(found.activations / 2, rel=0.05)
    assert found.bf16 < 0.85 * found.activations
    assert found.recomputed < 0.4 * found.activations


def test_a_run_that_was_out_of_memory_gets_the_split_as_its_first_diagnosis():
    sick = case()
    sick.failure = {"kind": "out_of_memory", "error": "CUDA out of memory"}
    (found,) = memory(sick)
    assert (found.severity, found.symptom) == ("broken", "the run was out of memory")
    assert "CUDA out of memory" in found.evidence
    assert "train.checkpoint_activations=true saves" in found.change
    assert "feedforward" in found.evidence


def test_findings_are_told_worst_first_and_causes_before_consequences():
    made = [Finding(str(i), severity, "", "", "", "") for i, severity in
            enumerate(["note", "harmful", "broken", "harmful", "hint"])]
    assert [one.check for one in worst_first(made)] == ["2", "1", "3", "4", "0"]
    assert len(CHECKS) == len(set(CHECKS))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished tiny run on text, and its results folder."""
    results = tmp_path_factory.mktemp("results")
    asked = job(config(steps=12), results)
    execute(asked)
    write_json(results / "tiny" / EXPERIMENT, {"name": "tiny"})
    return results, asked.run_id


def test_a_stored_run_is_diagnosed_from_its_record(finished, capsys):
    results, run = finished
    code = command(run, results, True, steps=10, seconds=5)
    told = json.loads(capsys.readouterr().out)
    assert told["target"] == f"tiny: {run}"
    assert told["looked_at"] == "12 recorded steps of 12"
    assert {"check", "severity", "symptom", "evidence", "cause", "change"} == set(told["findings"][0])
    assert set(told["seconds"]) == {check.__name__ for check in CHECKS}
    assert code == (1 if any(one["severity"] in ("broken", "harmful") for one in told["findings"]) else 0)


def test_a_diagnosis_reads_as_text(tmp_path, capsys):
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nquestion: Is it fine?\nbaseline: {model: {max_len: 3}}\n")
    assert command(str(file), tmp_path, False) == 1
    text = capsys.readouterr().out
    assert text.startswith("mine: baseline: 1 alarm (from the configuration alone)\n\nBROKEN  position table too short\n")
    assert "\n  change    raise model.max_len" in text


def test_a_variant_is_diagnosed_by_name(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nquestion: Is it fine?\nvary: {model.positional: [rope]}\n")
    assert find(str(file), tmp_path, variant="positional=rope").config.model.positional == Spec("rope")
    with pytest.raises(ConfigError, match=r"unknown variant of 'mine' 'positional=rop'\. Did you mean"):
        find(str(file), tmp_path, variant="positional=rop")


def test_what_is_neither_run_nor_experiment_is_named(finished):
    results, run = finished
    with pytest.raises(ConfigError, match=r"no run 'nothing' under .*\(or an experiment: "):
        find("nothing", results)
    with pytest.raises(ConfigError, match="is a stored run, which cannot be changed"):
        find(run, results, sets=["train.lr=1.0"])
