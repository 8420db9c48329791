"""The front door under wrong input: one clear message for each mistake, exit code 2, no traceback, nothing written."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import run_all

ROOT = Path(__file__).resolve().parents[2]
TINY = """
baseline:
  model: {d_model: 16, n_layers: 1, n_heads: 2}
  task: {name: copy, max_length: 4, eval_lengths: [4]}
  train: {steps: 5, batch_size: 4}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words, monkeypatch, capsys):
    """Exit code, standard output and errors of a command line."""
    monkeypatch.setattr(sys, "argv", ["run_all.py", *words])
    with pytest.raises(SystemExit) as end:
        run_all.main()
    out, err = capsys.readouterr()
    return end.value.code or 0, out, err


@pytest.fixture
def command(monkeypatch, capsys):
    return lambda *words: call(*words, monkeypatch=monkeypatch, capsys=capsys)


@pytest.fixture
def refused(command, place):
    """Runs `plan` on a file with this text; returns what is said when it is refused."""

    def errors(text, *words, name="my.yaml"):
        file = place / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        before = sorted(place.rglob("*"))
        code, _, err = command("plan", name, *words)
        assert code == 2, err
        assert all(line.startswith(("error: ", "       ")) for line in err.splitlines()), err
        assert [path for path in sorted(place.rglob("*")) if "__pycache__" not in str(path)] == before
        return err

    return errors


def experiment(*lines):
    return "\n".join(["name: q", "question: ok?", TINY, *lines])


@pytest.mark.parametrize("text, said", [
    ("", "my.yaml: must be a mapping such as"),
    ("- a", "my.yaml: must be a mapping such as"),
    (b"\xff\xfe\x00", "my.yaml: is not UTF-8 text (byte 0)"),
    (b"\x00", "my.yaml: unacceptable character #x0000"),
    ("name: q", "my.yaml: question: is missing"),
    ("name: 3\nquestion: x", "my.yaml:1: name: 3 must be text"),
    ("name: q\nquestion: x\nseeds: !!str 3", "my.yaml:3: the tag 'tag:yaml.org,2002:str' is not read"),
    ("name: q\nquestion: !foo x", "my.yaml:2: the tag '!foo' is not read"),
    ("name: q\nbaseline:\n  <<: {seed: 3}", "my.yaml:3: merge keys (<<) are not read"),
    ("name: q\nname: r", "my.yaml:2: the key 'name' is given twice"),
    ("name: &a [*a]", "my.yaml:1: an alias stands inside what it stands for"),
    ("a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"{y}: &{y} [{','.join(f'*{x}' for _ in range(10))}]\n" for x, y in zip("abcde", "bcdef", strict=True)
    ), "more than 100,000 values, aliases included"),
    ("x: " + "[" * 1500 + "]" * 1500, "my.yaml: is nested too deeply"),
    ("name: a/b\nquestion: x", "my.yaml:1: name 'a/b' must be 1 to 64 of"),
    ("name: wandb\nquestion: x", "my.yaml:1: name: 'wandb' is kept for a folder of results/"),
    ("imports: parts.py\nname: q", "my.yaml:1: imports: 'parts.py' must be a list of Python files"),
    ("imports: [parts.py]\nname: q", "parts.py': no such Python file"),
])  # fmt: skip
def test_a_file_that_is_no_experiment_is_refused_with_file_and_line(refused, text, said):
    assert said in refused(text)


@pytest.mark.parametrize("line, said", [
    ("seeds: true", "seeds: True must be a whole number or a list of whole numbers"),
    ("seeds: 100000000", "seeds=100000000 must be a count from 1 to 100,000"),
    ("seeds: 99999999999999999999", "seeds=99999999999999999999 must be a count from 1 to 100,000"),
    ("seeds: [99999999999999999999]", "or a list of different numbers from 0 to 2^63 - 1"),
    ("vary: none", "vary: 'none' must be a mapping, such as {key: value}"),
    ("vary: {model.norm: none}", "vary.model.norm: 'none' must be a list, such as [a, b]"),
    ("vary: {seed: [1, 2]}", "vary: a seed is not varied"),
    ("vary: {model.norm: [layernorm]}", "vary: every value is the baseline's own"),
    ("vary: {train.lr: [1e400]}", "train.lr: inf must be a finite number"),
    ("vary: {train.steps: [true]}", "train.steps: True must be a whole number"),
    ("vary: {train.clip: [none]}", "train.clip: 'none' must be a number or null"),
    ("vary: {train.precision: [fp23]}", "train.precision: 'fp23' must be 'fp32' or 'bf16'. Did you mean 'fp32'?"),
    ("vary: {name: [1]}", "unknown key 'name'. Known: model, task, train, seed"),
    ("vary: {model.positional: [{name: rope, base: -5.0}]}", "base=-5.0 must be greater than 0"),
    ("vary: {model.norm: [{name: layernorm, eps: -1.0}]}", "eps=-1.0 must be greater than or equal to 0"),
    ("vary: {model.positional: [{}]}", "model.positional: {} names no component"),
    ("vary: {model.positional: [rope, {name: rope, base: 10000.0}]}", "comes to the same configuration as"),
    ("variants: {baseline: {model.norm: none}}", "variants.baseline: 'baseline' is the name of the unchanged"),
    ("variants: {a: {}}", "variants.a: changes nothing"),
    ("variants: {'': {model.norm: none}}", "variants: name '' must be 1 to 200 printable characters"),
    ("variants: {a: {model.norm: none}, b: {model.norm: none}}", "variants 'a' and 'b' make the same changes"),
    ("vary: {model.norm: [none]}\nvariants: {norm=none: {model.norm: rmsnorm}}", "is what vary, grid or groups call"),
    ("when: {model.norm: {train.lr: [0.1]}}", "when: condition 'model.norm' must be written path=value"),
    ("when: {model.nrm=none: {train.lr: [0.1]}}", "when: 'model.nrm=none' is true of no variant"),
    ("presets: {fast: {seedz: 1}}", "presets.fast: unknown key 'seedz'. Did you mean 'seeds'?"),
    ("grid: {train.lr: [%s], train.beta1: [%s]}" % ((",".join(f"0.{i}1" for i in range(400)),) * 2),
     "runs and more are asked for; 100,000 are the most"),
    ("metric: test/los", "Did you mean 'test/loss'?"),
])  # fmt: skip
def test_a_setting_that_cannot_be_meant_is_refused_with_its_rule(refused, line, said):
    assert said in refused(experiment(line))


def test_every_mistake_is_told_at_once(refused):
    err = refused(experiment("metrik: x", "seeds: -1", "vary: {model.nrm: [none], train.lrr: [1]}"), "--set", "a.b=1")
    for part in ("unknown key 'metrik'", "seeds=-1", "unknown key 'model.nrm'", "unknown key 'train.lrr'", "'a.b'"):
        assert part in err


def test_names_and_purposes_are_told_together(refused):
    err = refused(experiment("vary: {model.norm: [nonee]}", "when: {model.norm=x: {train.lr: [0.1]}}", "metric: test/l"))
    for part in ("unknown norm 'nonee'. Did you mean 'none'?", "is true of no variant"):
        assert part in err


@pytest.mark.parametrize("text, said", [
    ("x = (", "cannot be imported: SyntaxError: '(' was never closed (my.py, line 1)"),
    ("\n1/0", "cannot be imported: ZeroDivisionError: division by zero (my.py, line 2)"),
    ("raise SystemExit", "cannot be imported: SystemExit (my.py, line 1)"),
    ("raise ValueError('two\\nlines')", "cannot be imported: ValueError: two lines (my.py, line 1)"),
    (b"\x00", "cannot be imported: SyntaxError"),
    ("", "must define exactly one Experiment at top level; it defines 0"),
    ("from experiments.experiment import *\nx = Experiment(name='q', question='?', vary={'model.positional': "
     "[Spec('rope', base=float('nan'))]})", "base=nan must be made of finite numbers, text"),
    ("from experiments.experiment import *\nx = Experiment(name='q', question='?', vary={'model.positional': "
     "[Spec('rope', base=len)]})", "must be made of finite numbers, text"),
])  # fmt: skip
def test_a_python_file_that_declares_nothing_usable_is_refused(refused, text, said):
    assert said in refused(text, name="my.py")


@pytest.mark.parametrize("words, said", [
    (["plan", "nope"], "unknown experiment 'nope'"),
    (["plan", "mi.yaml"], "no such experiment file: 'mi.yaml'. Did you mean 'my.yaml'?"),
    (["plan", "folder.yaml"], "'folder.yaml' is no file"),
    (["plan"], "name an experiment, or say what to vary"),
    (["plan", "my.yaml", "--set", "train.steps"], "'train.steps' must be written path=value"),
    (["plan", "my.yaml", "--set", "model.norm={}"], "model.norm: {} names no component"),
    (["plan", "my.yaml", "--vary", "model.norm=[none"], "must be written path=value,value"),
    (["plan", "my.yaml", "--vary", "model.norm=none,,rmsnorm"], "must be written path=value,value"),
    (["plan", "--vary", "model.🙂=1"], "unknown key 'model.🙂'"),
    (["plan", "my.yaml", "--set", "seed=3"], "baseline.seed: 3 changes nothing"),
    (["plan", "my.yaml", "--preset", "fast"], "experiment 'q' has no preset 'fast'. Known: none"),
    (["plan", "my.yaml", "--name", "../x"], "name '../x' must be 1 to 64 of"),
    (["plan", "my.yaml", "--import", "my.yaml"], "my.yaml': it is no file ending in .py"),
    (["plan", "my.yaml", "--results", "my.yaml"], "--results: 'my.yaml' is a file; name a folder"),
    (["status", "--results", "my.yaml/x"], "--results: 'my.yaml' is a file; name a folder"),
    (["run", "my.yaml", "--results", "loose"], "--results: 'loose' is a link to nothing"),
    (["run", "my.yaml", "--workers", "99999"], "--workers: 99999 is more than this machine can hold"),
    (["run", "my.yaml", "--engine", "rai"], "--engine: unknown engine 'rai'. Did you mean 'ray'?"),
    (["run", "my.yaml", "--only", "baselin"], "--only: unknown run or variant 'baselin'. Did you mean 'baseline'?"),
    (["list", "parts"], "unknown kind 'parts'. Known: components, experiments, tasks"),
    (["list", "--import", "nope.py"], "nope.py': no such Python file"),
    (["components"], "'components' is an experiment; write: python run_all.py run components"),
    (["lst"], "unknown command 'lst'. Did you mean 'list'?"),
    (["show", "nothing"], "no run 'nothing' under results"),
])  # fmt: skip
def test_a_wrong_word_on_the_command_line_is_named(command, place, words, said):
    (place / "my.yaml").write_text(experiment("vary: {model.norm: [none]}"))
    (place / "folder.yaml").mkdir()
    (place / "loose").symlink_to(place / "nowhere")
    code, _, err = command(*words)
    assert (code, said in err) == (2, True), err
    assert not (place / "results").exists()


PART = """
import torch
from transformer.slots import FEEDFORWARD, FeedForward

@FEEDFORWARD.register("{name}")
class Mine(FeedForward):
    def __init__(self, dims{options}):
        super().__init__(dims)
        {body}

    def forward(self, x):
        return {result}
"""


@pytest.mark.parametrize("number, changes, said", [
    (1, {"body": "raise RuntimeError('boo')"}, "model: RuntimeError: boo (parts1.py, line 9)"),
    (2, {"options": ", extra"}, "missing 1 required positional argument: 'extra'"),
    (3, {"options": ", power=2.0"}, "the option 'power' must stand after a *"),
    (4, {"options": ", *, name='x'"}, "no option may be called 'name'"),
    (5, {"options": ", *, power: int = 'a'"}, "the default power='a' must be a whole number"),
    (6, {"options": ", *, power: 'Nope' = 2"}, "the types of its options cannot be read: name 'Nope' is not defined"),
    (7, {"options": ", *, at=torch.zeros(2)"}, "must be made of finite numbers, text, true, false, null"),
    (8, {"result": "x[:, :1]"}, "Mine turns a tensor of shape (2, 10, 16) into (2, 1, 16), not the same"),
    (9, {"result": "None"}, "into NoneType, not the same"),
    (10, {"result": "self.nothing(x)"}, "'Mine' object has no attribute 'nothing' (parts10.py, line 12)"),
    (11, {"body": "self.w = torch.nn.Parameter(torch.rand(3))"}, "starts at random values that no seed governs"),
    (12, {"body": "self.register_buffer('b', torch.rand(3))"}, "starts at random values that no seed governs"),
    (13, {"name": "gelu"}, "feedforward 'gelu' is taken by transformer.feedforward.GELU"),
    (14, {"name": ""}, "the name must be text of letters, digits, _ . + - only"),
])  # fmt: skip
def test_a_fault_in_a_part_of_ones_own_is_told_before_anything_trains(command, place, number, changes, said):
    name = f"mine{number}"
    fields = {"name": name, "options": "", "body": "pass", "result": "x", **changes}
    (place / f"parts{number}.py").write_text(PART.format(**fields))
    (place / "my.yaml").write_text(experiment(f"vary: {{model.feedforward: [{name}]}}"))
    code, _, err = command("plan", "my.yaml", "--import", f"parts{number}.py")
    assert (code, said in err) == (2, True), err


def test_a_part_must_keep_the_contract_of_its_slot(command, place):
    (place / "parts.py").write_text(PART.format(name="loose", options="", body="pass", result="x").replace(
        "class Mine(FeedForward)", "class Mine(torch.nn.Module)"
    ))
    code, _, err = command("list", "--import", "parts.py")
    assert (code, "Mine must derive from FeedForward (from transformer.slots)" in err) == (2, True), err


def test_a_sound_part_of_ones_own_is_planned_and_listed(command, place):
    (place / "parts.py").write_text(PART.format(name="sound", options=", *, power: float = 2.0", body="pass", result="x"))
    (place / "my.yaml").write_text(experiment("vary: {model.feedforward: [sound, {name: sound, power: 3.0}]}"))
    code, out, _ = command("plan", "my.yaml", "--import", "parts.py", "--json")
    assert (code, len(json.loads(out)["variants"])) == (0, 3)
    code, out, _ = command("list", "components", "--import", "parts.py", "--json")
    listed = [row for row in json.loads(out)["components"] if row["name"] == "sound"]
    assert [row["options"] for row in listed] == [{"power": "2.0"}]


def test_a_model_too_large_to_time_is_planned_all_the_same(command, place):
    (place / "my.yaml").write_text(experiment("vary: {model.norm: [none]}"))
    code, out, _ = command("plan", "my.yaml", "--set", "model.d_model=1000000")
    assert code == 0
    assert "estimated time: unknown, too large to be timed here" in out


def test_one_of_each_is_said_in_the_singular(command, place):
    (place / "my.yaml").write_text(experiment())
    assert "q: 1 run = 1 variant x 1 seed: 1 to run" in command("plan", "my.yaml", "--seeds", "1")[1]


def test_names_with_brackets_are_shown_as_they_are(command, place):
    (place / "my.yaml").write_text(experiment("variants: {'[red]x[/red]': {model.norm: none}}"))
    assert "[red]x[/red]" in command("plan", "my.yaml")[1]


def test_the_list_of_verbs_cuts_no_sentence(command):
    out = command("--help")[1]
    assert "..." not in out.replace("[ARGS]...", "")


def test_a_folder_that_cannot_be_written_stops_a_run_before_it_trains(command, place, monkeypatch):
    (place / "my.yaml").write_text(experiment("vary: {model.norm: [none]}"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    code, _, err = command("run", "my.yaml", "--results", "there", "--wandb", "off")
    assert (code, "--results: nothing can be written to" in err) == (2, True), err


def test_a_stream_that_knows_ascii_alone_is_no_reason_to_stop(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    monkeypatch.setattr(sys, "argv", ["run_all.py", "list", "components"])
    with pytest.raises(SystemExit) as end:
        run_all.main()
    sys.stdout.flush()
    assert not end.value.code
    assert b"rope" in raw.getvalue()


@pytest.mark.parametrize("words", [["list"], ["--help"], ["list", "--json"]])
def test_a_reader_that_leaves_early_is_no_error(words):
    command = f"{sys.executable} run_all.py {' '.join(words)} | head -n 1"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
