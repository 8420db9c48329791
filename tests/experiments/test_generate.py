"""What a trained run writes when it is asked to, and what is said when it cannot."""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import run_all
from experiments import records
from experiments.commands.generate import command, generate, load, write
from experiments.config import ConfigError, RunConfig, Spec
from experiments.experiment import Experiment
from experiments.files import import_file
from experiments.runner.store import description
from experiments.tasks import TASKS
from experiments.training.execute import Job, execute
from tests.experiments.training_runs import config
from transformer.generation import Decode
from transformer.generation.statistics import repeated_ngram_share

COPY = Spec("copy", n_symbols=10, max_length=3, eval_lengths=[3])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def trained(results: Path) -> Callable[[str], Path]:
    """The directory of a run that is trained when it is first asked for."""
    wanted = {
        "text": config(),
        "prose": config(
            task=Spec("text", context=64, eval_tokens=640, test_tokens=640), steps=120, batch_size=16, lr=1e-2,
            eval_every=120, model={"positional": "rope", "d_model": 32},
        ),
        "copy": config(
            task=COPY, steps=250, batch_size=64, lr=1e-2, eval_every=250, model={"positional": "rope", "d_model": 32}
        ),
        "spelling": config(task=Spec("spelling"), model={"architecture": "encoder_decoder"}, steps=3, eval_every=3),
        "language_id": config(task=Spec("language_id"), model={"architecture": "encoder"}, steps=2, eval_every=2),
    }
    made: dict[str, Path] = {}

    def train(name: str) -> Path:
        if name not in made:
            made[name] = train_run(name, wanted[name], results)
        return made[name]

    return train


def train_run(name: str, run_config: RunConfig, results: Path) -> Path:
    experiment = Experiment(name=name, question="What does it write?", baseline=run_config, seeds=1)
    job = Job.of(experiment.runs()[0], results)
    execute(job)
    records.write_json(results / name / records.EXPERIMENT, description(experiment, experiment.runs(), source=name))
    return Path(job.directory)


def test_a_model_that_learned_to_copy_writes_copies(trained: Callable[[str], Path]) -> None:
    prompts = ["a b c", "b", "c c"]
    for decode in (Decode(), Decode(beams=3), Decode(temperature=0.1)):
        found = generate(trained("copy"), prompts, decode)
        assert [row.text for row in found] == prompts
        assert all(row.ended and row.score > -0.7 for row in found)


def test_a_language_model_continues_a_prompt_as_far_as_its_length_allows(trained: Callable[[str], Path]) -> None:
    (row,) = generate(trained("text"), ["She "], Decode())
    assert len(row.tokens) == len(row.text) == 12 - 4 + 1  # it was made for 12 characters; the last is never read
    assert not row.ended


def test_each_prompt_gets_n_texts_in_its_order(trained: Callable[[str], Path]) -> None:
    found = generate(trained("text"), ["A", "She w"], Decode(temperature=1.0, n_best=3, max_new_tokens=4))
    assert [row.prompt for row in found] == ["A"] * 3 + ["She w"] * 3
    assert all(len(row.tokens) == 4 for row in found)


def test_a_source_is_answered(trained: Callable[[str], Path]) -> None:
    together = generate(trained("spelling"), ["cat", "hello"], Decode(beams=2, max_new_tokens=5))
    alone = generate(trained("spelling"), ["hello"], Decode(beams=2, max_new_tokens=5))
    assert together[1] == alone[0]
    assert set(together[0].text.split()) <= set(load(trained("spelling")).task.vocabulary.symbols)


def test_one_seed_one_text(trained: Callable[[str], Path]) -> None:
    run = load(trained("text"))
    first, again, other = (write(run, ["A"], Decode(temperature=1.0, seed=seed))[0].text for seed in (1, 1, 2))
    assert first == again != other


def test_greedy_text_repeats_itself_more_than_text_drawn_from_the_top(trained: Callable[[str], Path]) -> None:
    prompts = ["She was ", "The house", "Mr. ", "It is a tr", "he said to", "I have", "when they ", "could not"]

    def repeats(decode: str) -> float:
        texts = generate(trained("prose"), prompts, Decode.parse(f"{decode},max_new_tokens=48"))
        return statistics.mean(repeated_ngram_share(text.tokens, n=4) for text in texts)

    greedy, top_p = repeats("greedy"), repeats("sample,temperature=1.0,top_p=0.9")
    assert greedy > 0.5
    assert top_p < 0.1
    assert repeats("greedy,repetition_penalty=1.5") < greedy


def test_the_command_prints_prompts_and_texts(
    trained: Callable[[str], Path], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained("copy").name
    assert command(run, ["a b"], "beam,beams=3", results, as_json=False, n=2) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{run}, beam,beams=3,n_best=2\n\na b\n")
    assert "  a b\n" in out
    assert len(out.splitlines()) == 5


def test_the_command_answers_in_json(
    trained: Callable[[str], Path], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained("copy").name
    command(run, ["a b"], "sample,temperature=0.1", results, as_json=True, seed=4)
    answer = json.loads(capsys.readouterr().out)
    assert (answer["run"], answer["decode"]) == (run, "sample,temperature=0.1,seed=4")
    (text,) = answer["texts"]
    assert (text["prompt"], text["text"], text["ended"], len(text["tokens"])) == ("a b", "a b", True, 3)


@pytest.mark.parametrize(
    "prompts, decode, message",
    [
        (["a b", "a z", "q"], "greedy", r"prompt 'a z': task 'copy' has no symbol 'z'.*\nprompt 'q': .* has no symbol 'q'"),
        ([], "greedy", "there is no prompt: give at least one with --prompt"),
        (["a"], "gredy", "unknown decoding 'gredy'. Did you mean 'greedy'?"),
        (["a"], "beam,beams=2,n_best=3", "n_best: 3 texts cannot come from beams=2"),
    ],
)
def test_a_mistake_is_told(
    trained: Callable[[str], Path], results: Path, prompts: list[str], decode: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        command(trained("copy").name, prompts, decode, results, as_json=False)


def test_an_empty_prompt_needs_a_start_token(trained: Callable[[str], Path]) -> None:
    with pytest.raises(ConfigError, match="prompt '': is empty, and task 'text' has no token that texts begin with"):
        generate(trained("text"), [""], Decode())


def test_more_than_the_model_has_positions_for_is_refused(trained: Callable[[str], Path]) -> None:
    with pytest.raises(ConfigError, match="a prompt of 1 tokens and max_new_tokens=50 do not fit; lower one of them"):
        generate(trained("text"), ["A"], Decode(max_new_tokens=50))


@pytest.mark.parametrize("settings, said", [
    ({"temperature": 1.0, "n_best": 10**6, "max_new_tokens": 11}, "texts: 1 x 1000000 x 11 new tokens are more than 10,000,000"),
    ({"max_new_tokens": 10**9}, "texts: 1 x 1 x 1000000000 new tokens are more than 10,000,000; ask for fewer"),
    ({"eos_id": 14}, "eos_id: 14 is no token of this task, which has 14, from 0"),
    ({"pad_id": 99}, "pad_id: 99 is no token of this task"),
])  # fmt: skip
def test_settings_that_no_text_can_have_are_refused(trained: Callable[[str], Path], settings, said) -> None:
    with pytest.raises(ConfigError, match=said):
        generate(trained("copy"), ["a"], Decode(**settings))


def test_a_classifier_writes_nothing(trained: Callable[[str], Path]) -> None:
    with pytest.raises(ConfigError, match="task 'language_id' is a classification: its model names a class"):
        generate(trained("language_id"), ["abc"], Decode())


def test_an_unknown_run_is_named(trained: Callable[[str], Path], results: Path) -> None:
    trained("copy")
    with pytest.raises(ConfigError, match=r"no run 'nonsense' under .*Runs there: "):
        command("nonsense", ["a"], "greedy", results, as_json=False)
    with pytest.raises(ConfigError, match=r"is no run that can be read: there is no config.json"):
        generate(results / "elsewhere", ["a"], Decode())


def test_a_run_without_weights_says_how_to_get_them(trained: Callable[[str], Path], tmp_path: Path) -> None:
    copied = Path(shutil.copytree(trained("text"), tmp_path / trained("text").name))
    (copied / records.WEIGHTS).unlink()
    with pytest.raises(ConfigError, match=r"weights.safetensors is gone; train it again: .* --only baseline-s0-\w+ --redo"):
        generate(copied, ["A"], Decode())
    (copied / records.RESULT).unlink()
    with pytest.raises(ConfigError, match=r"has not finished, so it has no weights yet; python run_all.py run text --only"):
        generate(copied, ["A"], Decode())


def test_damaged_weights_are_refused(trained: Callable[[str], Path], tmp_path: Path) -> None:
    copied = Path(shutil.copytree(trained("text"), tmp_path / "torn"))
    whole = (copied / records.WEIGHTS).read_bytes()
    (copied / records.WEIGHTS).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigError, match="unreadable weights"):
        generate(copied, ["A"], Decode())


def test_a_run_whose_parts_mean_something_else_by_now_is_loaded_with_a_warning(
    trained: Callable[[str], Path], tmp_path: Path
) -> None:
    copied = Path(shutil.copytree(trained("text"), tmp_path / "old"))
    stored = records.read_json(copied / records.CONFIG)
    records.write_json(copied / records.CONFIG, {**stored, "hash": "0" * 64})
    with pytest.warns(RuntimeWarning, match="some part has changed its meaning since this run was trained"):
        assert generate(copied, ["A"], Decode(max_new_tokens=2))


def test_a_run_of_the_users_own_task_brings_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TASKS, "_entries", {name: TASKS.entry(name) for name in TASKS.names()})  # `shout` goes again
    part = tmp_path / "shout.py"
    part.write_text(
        "from experiments.tasks import TASKS\nfrom experiments.tasks.strings import Copy\n"
        "@TASKS.register('shout')\nclass Shout(Copy):\n    name = 'shout'\n"
    )
    import_file(part)
    directory = train_run("own", config(task=Spec("shout", **COPY.options), steps=2, eval_every=2), tmp_path)
    asked = records.read_json(tmp_path / "own" / records.EXPERIMENT)
    records.write_json(tmp_path / "own" / records.EXPERIMENT, {**asked, "imports": [str(part)]})
    assert generate(directory, ["a"], Decode(max_new_tokens=2))
    records.write_json(tmp_path / "own" / records.EXPERIMENT, {**asked, "imports": [str(tmp_path / "gone.py")]})
    with pytest.raises(ConfigError, match=r"cannot import '.*gone.py': no such Python file"):
        generate(directory, ["a"], Decode(max_new_tokens=2))


@pytest.mark.parametrize("verb", ["generate", "inside", "diagnose"])
def test_a_run_of_another_version_of_the_suite_is_refused_by_its_schema(verb, tmp_path, monkeypatch, capsys):
    directory = tmp_path / "q" / "runs" / "baseline-s0-00000000"
    directory.mkdir(parents=True)
    records.write_json(tmp_path / "q" / records.EXPERIMENT, {"name": "q"})
    records.write_json(directory / records.CONFIG, {"schema": 99, "run_id": directory.name})
    words = [verb, "baseline", "--results", str(tmp_path), *(["--prompt", "a"] if verb == "generate" else [])]
    monkeypatch.setattr(sys, "argv", ["run_all.py", *words])
    with pytest.raises(SystemExit) as end:
        run_all.main()
    assert end.value.code == 2
    assert "is no run that can be read: its config.json has schema 99, this version writes 1" in capsys.readouterr().err
