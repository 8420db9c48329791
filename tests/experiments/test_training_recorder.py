"""What layers look like at each validation: written down on demand, never twice, and without touching a number."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.check import build_task, model_arguments
from experiments.commands.choices import Launch
from experiments.commands.launch import prepare as prepare_launch
from experiments.commands.run import job_maker
from experiments.config import RunConfig, Spec
from experiments.diagnosis.onset import growth, since
from experiments.files import declare
from experiments.records import BY_STEP, read_metrics
from experiments.runner.attempt import clear
from experiments.training.execute import execute
from experiments.training.looking.by_step import layers_row, probe
from experiments.training.looking.probes import attention_of
from experiments.training.recorder import kept_bytes
from experiments.training.replicas.group import train_together
from experiments.training.session import Watchers, prepare
from experiments.training.train import Interrupted
from tests.experiments.training_runs import asked_at, assert_same_run, config, job, planned, run, timeless
from tests.own_parts import registered, take_out
from transformer.look import look
from transformer.models import build
from transformer.slots import ATTENTION, REGISTRIES, Attention

LAYERS = Watchers(layers=True)
KINDS: dict[str, RunConfig] = {
    "decoder with dropout": config(model={"dropout": 0.1, "positional": "rope"}),
    "half precision, micro-batches": config(precision="bf16", accumulate=2),
    "recomputed activations": config(checkpoint_activations=True, model={"dropout": 0.1}),
    "batch statistics": config(task=Spec("word_order", eval_rows=64), model={"architecture": "encoder", "norm": "batchnorm"}),
    "classifier": config(task=Spec("word_order", eval_rows=64), model={"architecture": "encoder"}),
    "encoder-decoder": config(task=Spec("scan", eval_rows=40), model={"architecture": "encoder_decoder"}),
    "scheduled sampling": config(scheduled_sampling=Spec("linear", start=0.5), model={"dropout": 0.1}),
}


def recorded(directory: Path) -> list[dict[str, Any]]:
    return read_metrics(directory, BY_STEP)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_recorded_has_the_numbers_of_one_that_is_not_bit_for_bit(kind: str, tmp_path: Path) -> None:
    plain = run(KINDS[kind], tmp_path / "plain")
    told = run(KINDS[kind], tmp_path / "told", LAYERS)
    assert timeless(told) == timeless(plain)
    assert_same_run(tmp_path / "plain", tmp_path / "told")
    assert [row["step"] for row in recorded(tmp_path / "told")] == [0, 4, 8, 12]
    assert not (tmp_path / "plain" / BY_STEP).exists()


def test_a_row_holds_every_layer_and_agrees_with_other_ways_to_look() -> None:
    one = config(model={"feedforward": "relu"})
    task = build_task(one.task)
    model = build(one.model, seed=0, **model_arguments(task)).train()
    batch = probe(task.evaluations("validation", 0)[0].batches[0])
    before = [p.clone() for p in model.parameters()]
    row = layers_row(model, batch)
    assert model.training
    assert all(p.grad is None and torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
    model.eval()
    held, seen = look(model, batch.inputs), attention_of(model, batch)
    for number in range(2):
        layer, attention = f"decoder.layers.{number}", seen[number]
        assert row[f"{layer}/rms"] == pytest.approx(held.activations[layer].rms, rel=1e-5)
        assert row[f"{layer}/largest"] == pytest.approx(held.activations[layer].largest, rel=1e-5)
        visible = attention.scores[attention.visible]
        assert row[f"{attention.name}/score_rms"] == pytest.approx(float(visible.square().mean().sqrt()), rel=1e-4)
        assert row[f"{attention.name}/entropy"] == pytest.approx(float(attention.entropy().mean()), rel=1e-5)
        assert row[f"{attention.name}/saturated"] == 0.0
        assert 0 <= row[f"{layer}.feedforward/dead"] < 0.5
        assert row[f"{layer}/gradient"] > 0
    assert row["logits/rms"] == pytest.approx(float(held.logits.square().mean().sqrt()), rel=1e-5)
    assert 1 / task.vocab_size < row["logits/sure"] < 1
    assert all(math.isfinite(value) for value in row.values())


def test_the_gradient_of_a_layer_is_that_of_its_parameters_on_the_batch() -> None:
    one = config()
    task = build_task(one.task)
    model = build(one.model, seed=0, **model_arguments(task)).eval()
    batch = probe(task.evaluations("validation", 0)[0].batches[0])
    row = layers_row(model, batch)
    loss = torch.nn.functional.cross_entropy(model(batch.inputs).flatten(0, 1), batch.targets.flatten())
    loss.backward()
    first = model.get_submodule("decoder.layers.0")
    norm = math.sqrt(sum(float(p.grad.square().sum()) for p in first.parameters() if p.grad is not None))
    assert row["decoder.layers.0/gradient"] == pytest.approx(norm, rel=1e-4)


def test_long_texts_are_looked_at_in_part() -> None:
    task = build_task(Spec("text", context=600, eval_tokens=2400, test_tokens=600))
    batch = probe(task.evaluations("validation", 0)[0].batches[0])
    assert batch.inputs.shape == batch.targets.shape == (2, 256)


def test_an_interrupted_run_records_what_an_undisturbed_one_does(tmp_path: Path) -> None:
    one = config(model={"dropout": 0.1})
    run(one, tmp_path / "straight", LAYERS)
    (tmp_path / "pieces").mkdir()
    for stop in (3, 9):
        with pytest.raises(Interrupted):
            run(one, tmp_path / "pieces", Watchers(layers=True, should_stop=asked_at(stop, tmp_path / "pieces")))
    run(one, tmp_path / "pieces", LAYERS)
    assert (tmp_path / "pieces" / BY_STEP).read_bytes() == (tmp_path / "straight" / BY_STEP).read_bytes()
    assert_same_run(tmp_path / "straight", tmp_path / "pieces")


def _killed(directory: str) -> None:
    path = Path(directory)
    ask = asked_at(10, path)  # two steps after a validation, four after the checkpoint
    watchers = Watchers(
        layers=True, checkpoint_steps=6, checkpoint_seconds=None, should_stop=lambda: bool(ask() and os._exit(9))
    )
    run(config(model={"dropout": 0.1}), path, watchers)


def test_a_kill_costs_no_row_and_doubles_none(tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    killed.mkdir()
    process = multiprocessing.get_context("spawn").Process(target=_killed, args=(str(killed),))
    process.start()
    process.join()
    assert process.exitcode == 9
    with open(killed / BY_STEP, "a") as file:
        file.write('{"step": 12, "logits/rm')  # torn in the middle of a line
    run(config(model={"dropout": 0.1}), killed, LAYERS)
    run(config(model={"dropout": 0.1}), tmp_path / "straight", LAYERS)
    assert (killed / BY_STEP).read_bytes() == (tmp_path / "straight" / BY_STEP).read_bytes()


def test_only_whole_rows_up_to_the_checkpoint_are_kept(tmp_path: Path) -> None:
    path, lines = tmp_path / BY_STEP, [json.dumps({"step": step}) + "\n" for step in (0, 4, 8)]
    path.write_text("".join(lines))
    assert kept_bytes(path, 4) == len(lines[0] + lines[1])
    assert kept_bytes(path, 0) == kept_bytes(tmp_path / "none", 9) == 0
    path.write_text(lines[0] + lines[1][:-1])
    assert kept_bytes(path, 9) == len(lines[0])
    path.write_text(lines[0] + "[]\n" + lines[1])
    assert kept_bytes(path, 9) == len(lines[0])


def test_runs_that_train_together_record_what_they_would_alone(tmp_path: Path) -> None:
    configs = [config(seed=0), config(seed=1, steps=8), config(seed=2, lr=1e-2)]
    sessions = []
    for number, one in enumerate(configs):
        (tmp_path / f"group{number}").mkdir()
        sessions.append(prepare(one, tmp_path / f"group{number}", planned(one).hash, "cpu", LAYERS))
    train_together(sessions, Watchers(), lambda session, outcome: None)
    for number, one in enumerate(configs):
        run(one, tmp_path / f"alone{number}", LAYERS)
        ours, theirs = recorded(tmp_path / f"group{number}"), recorded(tmp_path / f"alone{number}")
        assert [row.keys() for row in ours] == [row.keys() for row in theirs]
        for mine, other in zip(ours, theirs, strict=True):
            assert mine == pytest.approx(other, rel=1e-3, abs=1e-6)


def test_a_run_that_diverges_is_recorded_to_where_it_did(tmp_path: Path) -> None:
    result = run(config(lr=1e6, clip=None, warmup=0, model={"norm": "none"}), tmp_path / "a", LAYERS)
    assert result["status"] == "diverged"
    assert recorded(tmp_path / "a")[-1]["step"] == result["diverged"]["step"]


@ATTENTION.register("record_weightless")
class Weightless(Attention):
    """Cannot show its weights."""

    def forward(self, q: Any, k: Any, v: Any, pattern: Any, **options: Any) -> Any:
        if options.get("need_weights"):
            raise ValueError("no weights here")
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), None


PARTS = take_out("record_")


def test_a_part_that_cannot_be_looked_at_costs_a_warning_and_not_the_run(tmp_path: Path) -> None:
    with registered(PARTS):
        with pytest.warns(RuntimeWarning, match=r"inside.jsonl ends before step 0 .*no weights here.*goes on"):
            told = run(config(model={"attention": "record_weightless"}), tmp_path / "told", LAYERS)
        assert told["status"] == "done"
        assert recorded(tmp_path / "told") == []


def test_a_job_asks_for_the_record_and_training_anew_removes_it(tmp_path: Path) -> None:
    made = job(config(steps=4), tmp_path, layers=True)
    execute(made)
    directory = Path(made.directory)
    assert [row["step"] for row in recorded(directory)] == [0, 4]
    clear(directory)
    assert not (directory / BY_STEP).exists()


def test_when_something_began_is_the_first_step_from_which_it_stayed() -> None:
    rows = [{"step": 0, "a/dead": 0.9}, {"step": 10, "a/dead": 0.1}, {"step": 20, "a/dead": 0.6}, {"step": 30, "a/dead": 0.7}]
    assert since(rows, "a/dead", 0.5) == " (recorded: since step 20)"
    assert since(rows, "a/dead", 0.95) == since(rows, "b/dead", 0.5) == since([], "a/dead", 0.5) == ""


def test_what_grew_most_is_told_of_a_run_that_diverged() -> None:
    rows = [{"step": 0, "a/rms": 0.5, "b/rms": 0.1, "logits/sure": 1e-9}, {"step": 40, "a/rms": 1.0, "b/rms": 900.0, "logits/sure": 1.0}]
    assert growth(rows) == "; recorded: b/rms 0.1 at step 0, 900 at step 40"
    assert growth(rows[:1]) == growth([]) == ""


PARTS_OF = [(slot, name) for slot in ("attention", "positional", "feedforward", "placement", "scaling")
            for name in REGISTRIES[slot].names()]  # fmt: skip


@pytest.mark.parametrize(("slot", "name"), PARTS_OF)
def test_every_shipped_part_can_be_looked_at(slot: str, name: str) -> None:
    one = config(model={slot: name})
    task = build_task(one.task)
    model = build(one.model, seed=0, **model_arguments(task))
    row = layers_row(model, probe(task.evaluations("validation", 0)[0].batches[0]))
    assert all(math.isfinite(value) for value in row.values())
    assert {"decoder.layers.0/rms", "decoder.layers.1/gradient", "logits/sure"} <= row.keys()


def test_a_launch_that_records_says_so_to_its_workers(tmp_path: Path) -> None:
    prepared = prepare_launch(declare("components"), tmp_path)
    first = prepared.plan.runs[0]
    assert job_maker(prepared, Launch(results=tmp_path, layers=True))(first).layers
    assert not job_maker(prepared, Launch(results=tmp_path))(first).layers
