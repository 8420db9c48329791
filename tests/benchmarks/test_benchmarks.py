"""The benchmarks measure what they say: equal models, whole records, sections written in place."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import sweeps
from benchmarks.contestants import GRID, train
from benchmarks.libraries import LIBRARIES, Size, Step
from benchmarks.pairs import interleaved, ratios, spread
from benchmarks.recorded import compare_stored, fabricate
from benchmarks.table import Ran, Table, in_process
from experiments.experiment import Experiment
from experiments.runner.plan import State, status

SMALL = Size(16, 2, 2, 8, 2)
torch.set_num_threads(1)


def test_contestants_take_turns_and_are_compared_within_a_round() -> None:
    calls: list[str] = []
    seconds = interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=2, warmup=1)
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert {name: len(found) for name, found in seconds.items()} == {"a": 2, "b": 2}
    assert ratios({"a": [1.0, 2.0], "b": [2.0, 3.0]}, "a", "b") == [2.0, 1.5]
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == "3.00 (1.50 to 4.50)"


def test_the_models_that_are_compared_have_as_many_parameters() -> None:
    def parameters(name: str) -> int:
        return sum(p.numel() for p in LIBRARIES[name][0](SMALL).parameters())

    for name in ("plain loop", "nanoGPT-style loop", "torch.nn.TransformerEncoder"):
        assert parameters(name) == parameters("this suite")


def test_a_step_trains_and_its_memory_is_counted() -> None:
    step = Step("this suite", SMALL)
    before = step.loss().item()
    for _ in range(20):
        step()
    assert step.loss().item() < before
    weights = sum(p.nbytes for p in step.model.parameters())
    assert step.peak_bytes() > 4 * weights


def test_twelve_plain_runs_learn_as_the_suite_would() -> None:
    assert len(GRID) == 12
    assert train(3e-3, 0, 2)["test/loss"] < 5


def test_fabricated_records_are_whole_and_can_be_compared(tmp_path: Path) -> None:
    file, results = fabricate(tmp_path, 3, 2)
    assert status("many", results, verify=True).counts() == {State.DONE: 6}
    assert Experiment(**json.loads(file.read_text())).runs()[0].id in {p.name for p in results.rglob("*")}
    compare_stored(results)


def test_a_section_is_written_in_place_of_the_one_with_its_title(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    one, two = (Table(f"Table {n}", "says", ["a"], [["1"]], ["a note"]) for n in (1, 2))
    command.write(path, [one, two], "here")
    command.write(path, [Table("Table 1", "says more", ["a"], [["2"]])], "there")
    text = path.read_text()
    assert text.startswith("# Benchmarks\n")
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## Table 1", "## Table 2"]
    assert "| 2 |" in text
    assert "| 1 |" in text
    assert text.index("says more") < text.index("<sub>there") < text.index("## Table 2") < text.index("<sub>here")
    command.write(path, [], "")
    assert path.read_text() == text


def test_ways_that_are_far_off_run_in_the_first_round_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def took(name: str, seconds: float) -> Ran:
        calls.append(name)
        return Ran(seconds, 2 * seconds, 0)

    monkeypatch.setattr(sweeps, "_ours", lambda *_: took("ours", 7.0))
    others = {"sequential": 10.0, "one_thread": 14.0, "optuna": 8.0, "ray": 21.0}
    monkeypatch.setattr(
        sweeps, "_others", lambda *_: {name: lambda name=name: took(name, others[name]) for name in others}
    )
    rows = {row[0]: row[1:] for row in sweeps._compared(64, 10, 3).rows}
    assert {name: calls.count(name) for name in ("ours", *others)} == {
        "ours": 3, "sequential": 3, "one_thread": 1, "optuna": 3, "ray": 1,
    }
    assert rows["Ray Tune, 2 CPUs"] == ["21.0", "42.0", "3.00 (3.00 to 3.00)"]


def test_an_unknown_benchmark_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "stepz"])
    with pytest.raises(SystemExit):
        command.main()
    assert "unknown benchmark 'stepz'; there are steps, rates, sweeps, own, together" in capsys.readouterr().err


def test_a_process_reports_its_own_peak_and_its_failure(tmp_path: Path) -> None:
    script = tmp_path / "work.py"
    script.write_text("x = bytearray(60 * 2**20)\n")
    ran = in_process(str(script))
    assert 60 * 2**20 < ran.peak < 160 * 2**20
    assert 0 < ran.processor < ran.seconds + 1
    script.write_text("raise SystemExit('no such thing')\n")
    with pytest.raises(RuntimeError, match="no such thing"):
        in_process(str(script))
