"""Whole diagnoses: planted faults must be the first thing that is said, and runs that are fine must raise no alarm."""

import time

import pytest
import torch

from experiments.config import Spec
from experiments.diagnosis.case import Budget
from experiments.diagnosis.diagnose import diagnose
from tests.experiments.diagnosis_faults import FIRST, PARTS, SMALL_TEXT, case
from tests.own_parts import registered

pytestmark = pytest.mark.slow
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _faults_are_registered():
    with registered(PARTS):
        yield


HEALTHY = {
    "a decoder with rope on a made-up language": {
        "task": Spec("markov", vocab=6, length=24), "train__steps": 300, "model__d_model": 32, "train__lr": 0.01,
    },
    "a decoder with alibi, rmsnorm and swiglu on prose": {
        "task": Spec("text", context=32, eval_tokens=2048, test_tokens=2048), "train__steps": 200, "model__d_model": 32,
        "model__positional": Spec("alibi"), "model__norm": Spec("rmsnorm"), "model__feedforward": Spec("swiglu"),
    },
    "an encoder as in the paper on word order": {
        "task": Spec("word_order"), "model__architecture": "encoder", "model__positional": Spec("sinusoidal"),
        "model__init": Spec("xavier"), "model__embedding_scale": "sqrt_d_model", "train__steps": 200,
        "model__d_model": 32,
    },
    "a decoder with relu and post-norm on brackets": {
        "task": Spec("dyck"), "train__steps": 200, "model__d_model": 32, "model__positional": Spec("learned"),
        "model__feedforward": Spec("relu"), "model__placement": Spec("post"),
    },
    "an encoder-decoder on commands": {
        "task": Spec("scan"), "model__architecture": "encoder_decoder", "train__steps": 200, "model__d_model": 32,
    },
}


@pytest.mark.parametrize("name", FIRST)
def test_a_planted_fault_is_the_first_diagnosis(name, tmp_path):
    fault = FIRST[name]
    changes = dict(fault.changes)
    if "task" in changes and changes["task"].options.get("path") == SMALL_TEXT:
        file = tmp_path / "small.txt"
        file.write_text(small_text())
        changes["task"] = changes["task"].replace(path=str(file))
    found = diagnose(case(**changes))
    first = found.findings[0]
    assert first.check == fault.check, [(one.severity, one.check) for one in found.findings]
    assert fault.word in f"{first.symptom} {first.cause}"
    assert first in found.alarms


def small_text():
    from experiments.tasks.text import corpora

    return next(iter(corpora().values())).read_text()[20_000:21_500]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_raises_no_alarm(name):
    found = diagnose(case(budget=Budget(steps=400, seconds=120.0), **HEALTHY[name]))
    assert not [one for one in found.findings if one.severity != "note"], found.findings


def test_a_small_model_is_diagnosed_within_a_minute():
    began = time.perf_counter()
    diagnose(case(budget=Budget(), task=Spec("text"), model__d_model=64, model__n_heads=4, train__steps=500))
    assert time.perf_counter() - began < 60
