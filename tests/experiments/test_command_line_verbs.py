"""The verbs beside `run` under wrong input: one clear message for each mistake, exit code 2, nothing written or lost."""

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import run_all
from tests.experiments.test_command_line import ROOT, call, experiment

ONE_CHANGE = experiment("vary: {model.norm: [none]}", "space: {train.lr: {log: [3e-4, 3e-2]}}")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(monkeypatch, capsys):
    return lambda *words: call(*words, monkeypatch=monkeypatch, capsys=capsys)


@pytest.fixture
def refuses(command, place):
    """What a command line says when it is refused and has touched nothing."""
    (place / "my.yaml").write_text(ONE_CHANGE)

    def errors(*words):
        before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
        code, out, err = command(*words)
        assert (code, out) == (2, ""), err
        assert all(line.startswith(("error: ", "       ")) for line in err.splitlines()), err
        assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
        return err

    return errors


@pytest.mark.parametrize("words, said", [
    (["tune", "my.yaml", "--trials", "0"], "error: --trials: '0' must be greater than or equal to 1"),
    (["tune", "my.yaml", "--trials", "many"], "error: --trials: 'many' must be a whole number"),
    (["slurm", "my.yaml", "--hours", "long"], "error: --hours: 'long' must be a number"),
    (["worker", "my.yaml", "--shard", "0/2", "--seeds", "-1"], "error: --seeds: '-1' must be greater than or equal to 1"),
    (["trace", "my.yaml", "--rows", "1.5"], "error: --rows: '1.5' must be a whole number"),
    (["run", "my.yaml", "-x", "--max-failures", "0"], "error: --max-failures: '0' must be greater than or equal to 1"),
])  # fmt: skip
def test_a_number_of_the_wrong_kind_is_shown_with_its_option_and_rule(refuses, words, said):
    assert refuses(*words) == f"{said}\n"


@pytest.mark.parametrize("words, option", [
    (["tune", "my.yaml", "--storage", ""], "--storage: "),
    (["tune", "my.yaml", "--variant", " "], "--variant: "),
    (["trace", "my.yaml", ""], ""),
    (["trace", ""], ""),
    (["generate", "", "--prompt", "a"], ""),
    (["inside", "x", "--out", ""], "--out: "),
    (["inside", "x", "--results="], "--results: "),
    (["slurm", "my.yaml", "--output", ""], "--output: "),
    (["claims", ""], ""),
    (["judge", "--set", "model.norm=none", "--experiment", ""], "--experiment: "),
    (["judge", "--set=model.norm=none", "--budget="], "--budget: "),
    (["history", "--results", ""], "--results: "),
])  # fmt: skip
def test_an_empty_value_is_never_taken_for_a_default(refuses, words, option):
    assert refuses(*words) == f"error: {option}'' is empty; write a value, or leave it out\n"


def test_an_empty_prompt_is_a_prompt(refuses):
    assert "no run 'x'" in refuses("generate", "x", "--prompt", "")


@pytest.mark.parametrize("verb", ["trace", "generate", "inside", "show"])
def test_a_name_of_thousands_of_letters_is_refused_in_one_short_line(refuses, verb):
    err = refuses(verb, "x" * 5000, *(["--prompt", "a"] if verb == "generate" else []))
    assert "x... (5" in err
    assert len(err) < 500


def test_a_script_for_slurm_goes_where_it_was_asked_for(command, place):
    (place / "my.yaml").write_text(ONE_CHANGE)
    code, out, _ = command("--debug", "slurm", "my.yaml", "--tasks", "2", "--seeds", "1", "--output", "a b.sbatch")
    assert (code, out) == (0, "2 runs in 2 shares; submit with: sbatch 'a b.sbatch'\n")
    script = (place / "a b.sbatch").read_text()
    assert f"\ncd {place}\n" in script
    assert f"run_all.py worker my.yaml --seeds 1 --results {place}/results --shard" in script


@pytest.mark.parametrize("task, said", [
    ("{name: copy, n_symbols: 100000000}", "n_symbols=100000000 would take about 3,277 GB; at most 122,070 fits"),
    ("{name: dyck, length: 10000000}", "length=10000000 would take about 328 GB"),
    ("{name: markov, order: 1000000000000}", "order=1000000000000 would take about"),
    ("{name: reverse, eval_lengths: [4, 99999999]}", "eval_lengths=99999999 would take about"),
    ("{name: modular, p: 10000000}", "p=10000000 must be at most 2000: it makes 100,000,000,000,000 pairs"),
])  # fmt: skip
def test_a_task_of_an_absurd_size_is_refused_before_it_is_made(refuses, task, said):
    began = time.monotonic()
    assert said in refuses("trace", "my.yaml", "--set", f"task={task}")
    assert time.monotonic() - began < 10


def test_a_share_of_a_plan_is_resumed_as_the_whole_plan(monkeypatch):
    from experiments.commands.launch import repeat_command
    from experiments.files import Declared

    words = ["run_all.py", "worker", "--vary", "model.norm=none", "--shard", "0/2", "--results", "there"]
    monkeypatch.setattr(sys, "argv", words)
    told = repeat_command(Declared(None, "ad-hoc"), Path("there"))
    assert told == "python run_all.py run --vary model.norm=none --results there --only {run} --redo"
    monkeypatch.setattr(sys, "argv", [*words[:2], "my.yaml", "--shard=1/2"])
    assert repeat_command(Declared(None, "my.yaml"), Path("there")) == "python run_all.py run my.yaml --only {run} --redo"


def test_what_a_part_of_ones_own_prints_is_no_part_of_an_answer(command, place):
    (place / "my.yaml").write_text(ONE_CHANGE)
    (place / "loud.py").write_text(
        "import torch\nfrom transformer.slots import FEEDFORWARD, FeedForward\nprint('imported')\n"
        "@FEEDFORWARD.register('loud')\nclass Loud(FeedForward):\n    'x'\n"
        "    def forward(self, x):\n        print('forward')\n        return x\n"
    )
    words = ["--import", "loud.py", "--set", "model.feedforward=loud", "--json"]
    for verb in (["trace", "my.yaml"], ["plan", "my.yaml"]):
        code, out, err = command(*verb, *words)
        assert (code, bool(json.loads(out)), "forward" in err) == (0, True, True), err


def test_what_to_type_after_a_failed_trial_is_what_was_typed(monkeypatch):
    from experiments.commands.launch import again_command

    monkeypatch.setattr(sys, "argv", ["run_all.py", "tune", "my.yaml", "--set", "model.norm=none", "--retry-failed"])
    told = again_command("tune", "my.yaml", Path("results"), "--retry-failed")
    assert told == "python run_all.py tune my.yaml --set model.norm=none --retry-failed"
    monkeypatch.setattr(sys, "argv", ["run_all.py", "run", "my.yaml"])
    told = again_command("tune", "my.yaml", Path("a b"), "--retry-failed")
    assert told == "python run_all.py tune my.yaml --results 'a b' --retry-failed"


def test_a_task_with_less_room_than_the_usual_trace_is_traced_at_its_longest(command, place):
    (place / "my.yaml").write_text(ONE_CHANGE)
    code, out, err = command("trace", "my.yaml", "--set", "task={name: text, context: 3}")
    assert (code, "2 x 3 tokens" in out) == (0, True), err


def test_what_torch_cannot_allocate_is_told_as_memory(command, place, monkeypatch):
    def too_much(*words):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 80000000000000 bytes")

    monkeypatch.setattr("experiments.commands.trace.command", too_much)
    code, _, err = command("trace", "my.yaml")
    assert (code, err.startswith("error: not enough memory; choose smaller sizes: ")) == (2, True)
    monkeypatch.setattr("experiments.commands.trace.command", lambda *words: 1 / 0)
    monkeypatch.setattr(sys, "argv", ["run_all.py", "trace", "my.yaml"])
    with pytest.raises(ZeroDivisionError):  # any other fault is ours, and shows where
        run_all.main()


def test_a_file_that_cannot_be_written_is_exit_code_one(command, place, monkeypatch):
    def full(*words):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "there")

    monkeypatch.setattr("experiments.commands.history.command", full)
    assert command("history")[::2] == (1, "error: No space left on device: there\n")


@pytest.mark.parametrize("words, said", [
    ([], "Missing option '--set'"),
    (["--smallest-effect", "0"], "--smallest-effect: 0 must be a finite number more than 0"),
    (["--smallest-effect", "-1"], "--smallest-effect: -1 must be a finite number more than 0"),
    (["--smallest-effect", "nan"], "--smallest-effect: nan must be a finite number more than 0"),
    (["--smallest-effect", "inf"], "--smallest-effect: inf must be a finite number more than 0"),
    (["--budget", "1.5runs"], "--budget: '1.5runs' must be a time (600s, 10m, 2h) or a number of runs (20runs)"),
    (["--set", "model.norm=rmsnorm"], "--set: model.norm is both 'none' and 'rmsnorm'; judge one of them at a time"),
    (["--set", "seed=3"], "--set: a seed is not varied"),
    (["--base", "seed=3"], "--base seed: 3 changes nothing"),
    (["--base", "train.lr=1", "--base", "train.lr=2"], "--base: train.lr is both 1 and 2"),
    (["--metric", "test/los"], "--metric: unknown metric of task"),
    (["--task", "copi"], "task: unknown task 'copi'. Did you mean 'copy'?"),
    (["--device", "gpu"], "--device: unknown device 'gpu'"),
    (["--wandb", "on"], "wandb: unknown mode 'on'"),
    (["--workers", "9999"], "--workers: 9999 is more than this machine can hold"),
])  # fmt: skip
def test_a_judgement_that_cannot_be_made_is_refused_before_its_card_is_written(command, place, words, said):
    (place / "my.yaml").write_text(ONE_CHANGE)
    asked = ["--set", "model.norm=none"] if words else []
    code, out, err = command("judge", "--experiment", "my.yaml", *asked, *words)
    assert (code, out, said in err) == (2, "", True), err
    assert sorted(path.name for path in place.iterdir()) == ["my.yaml"]


@pytest.mark.parametrize("option", [["--device", "gpu"], ["--wandb", "on"], ["--workers", "9999"]])
def test_claims_check_how_they_are_launched_before_the_first_is_decided(refuses, option):
    assert "9999" in refuses("claims", *option) or option[1] in refuses("claims", *option)


@pytest.mark.parametrize("line", [
    '{"key": 1}', "[]", "null", "{", '{"when": 5, "change": null, "verdict": "NEW", "effect": 1, "low": "a", "high": 3}',
    "\x00", '{"effect": "much"}',
])  # fmt: skip
def test_a_strange_line_in_the_ledger_stops_nobody(command, place, line):
    (place / "results").mkdir()
    (place / "results" / "ledger.jsonl").write_text(f"{line}\n")
    code, _, err = command("history")
    assert (code, err) == (0, "")
    code, out, err = command("history", "--json")
    assert (code, err, set(json.loads(out))) == (0, "", {"lines", "torn"})


def test_a_ledger_line_of_the_same_question_without_a_verdict_is_no_verdict(command, place):
    (place / "my.yaml").write_text(ONE_CHANGE)
    words = ["judge", "--experiment", "my.yaml", "--set", "model.norm=layernorm", "--json"]
    first = json.loads(command(*words)[1])
    (place / "results" / "ledger.jsonl").write_text(json.dumps({"key": first["key"], "verdict": "PERHAPS"}) + "\n")
    again = json.loads(command(*words)[1])
    assert (again["verdict"], "told_before" in again) == ("REFUTED", False)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["trace", "components"], ["history"], ["list"]])
def test_control_c_at_any_moment_of_the_start_leaves_no_traceback(words, tmp_path):
    for tenth in range(1, 16):
        process = subprocess.Popen(
            [sys.executable, ROOT / "run_all.py", *words], cwd=tmp_path, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        time.sleep(0.05 + tenth / 10)
        process.send_signal(2)
        _, err = process.communicate(timeout=60)
        if "Traceback" in err and "run_all.py" not in err:
            continue  # Python's own start, before our first line
        assert process.returncode in (0, 130), err
        assert "Traceback" not in err
