"""Character language models: where windows come from, what longer ones score, and what is said about bad files."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.tasks import IGNORE, TASKS
from experiments.tasks.text import corpora
from transformer.spec import Spec

LINE = "It is a truth universally acknowledged, that a single man in possession of a good fortune. "


def build(**options):
    return TASKS.build(Spec("text", **options))


@pytest.fixture
def numbers(tmp_path):
    """A text in which every window is unique: numbers in a row."""
    file = tmp_path / "numbers.txt"
    file.write_text(" ".join(f"{i:04d}" for i in range(4000)))
    return file


def test_the_default_text_is_austen():
    task = build()
    assert task.vocab_size == 77
    assert set(task.data_files) == {"austen"}
    assert task.decode(task.encode("Elizabeth")) == "Elizabeth"


def test_shipped_texts_come_with_licence_and_provenance():
    assert set(corpora()) == {"austen", "pycode"}
    for folder in {file.parent for file in corpora().values()} | {corpora()["austen"].parents[1] / "g2p"}:
        assert (folder / "LICENSE").is_file()
        assert (folder / "PROVENANCE.md").is_file()


def test_targets_are_the_next_characters():
    task = build(context=16)
    batch = task.train_batch(0, 0, 8)
    assert batch.inputs.shape == (8, 16)
    assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])
    assert batch.keep is None


def test_windows_of_a_split_stay_in_their_own_range(numbers):
    task, text = build(path=str(numbers), context=16, eval_tokens=500, test_tokens=500), numbers.read_text()
    n = len(text)
    ranges = {"train": (0, n - 2 * int(n * 0.05)), "validation": (n - 2 * int(n * 0.05), n - int(n * 0.05)),
              "test": (n - int(n * 0.05), n)}
    for split, (first, last) in ranges.items():
        found = [task.train_batch(3, s, 64) for s in range(20)] if split == "train" else task.evaluations(split, 3)[0].batches
        for batch in found:
            for row, target in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
                at = text.find(task.decode([*row, target[-1]]), first)
                assert first <= at
                assert at + len(row) + 1 <= last


def test_every_character_of_the_training_range_can_be_asked(numbers):
    task = build(path=str(numbers), context=4)
    first, last = task._ranges["train"]
    starts = np.concatenate([
        [numbers.read_text().find(task.decode(row)) for row in task.train_batch(0, s, 64).inputs.tolist()]
        for s in range(30)
    ])
    assert starts.min() < first + 200
    assert starts.max() > last - 200


def test_evaluation_windows_do_not_overlap_each_other(numbers):
    task, text = build(path=str(numbers), context=20, eval_tokens=100_000), numbers.read_text()
    rows = [row for batch in task.evaluations("validation", 0)[0].batches for row in batch.inputs.tolist()]
    starts = [text.find(task.decode(row)) for row in rows]
    assert len(rows) == len(set(starts)) > 40
    assert min(b - a for a, b in itertools.pairwise(starts)) >= 20


def test_the_number_of_evaluated_characters_is_an_option():
    task = build(context=64, eval_tokens=1280, test_tokens=2560)
    asked = {split: sum(b.targets.numel() for b in task.evaluations(split, 0)[0].batches)
             for split in ("validation", "test")}
    assert asked == {"validation": 1280, "test": 2560}


def test_longer_windows_score_the_same_characters_beyond_the_trained_length(numbers):
    task = build(path=str(numbers), context=16, eval_lengths=[32, 64])
    assert task.max_len == 64
    assert [e.name for e in task.evaluations("validation", 0)] == [""]
    sets = {e.name: e for e in task.evaluations("test", 0)}
    assert list(sets) == ["", "len_16", "len_32", "len_64"]
    scored = {}
    for name in ("len_16", "len_32", "len_64"):
        inputs, targets = (torch.cat([getattr(b, field) for b in sets[name].batches]) for field in ("inputs", "targets"))
        asked = targets != IGNORE
        assert inputs.shape[1] == sets[name].length
        assert torch.equal(asked, (torch.arange(inputs.shape[1]) >= inputs.shape[1] - 8).expand_as(asked))
        scored[name] = targets[asked]
    assert torch.equal(scored["len_16"], scored["len_32"])
    assert torch.equal(scored["len_16"], scored["len_64"])


def test_scored_characters_lie_beyond_the_trained_length_even_for_a_little_more():
    one = build(context=64, eval_lengths=[70]).evaluations("test", 0)[-1]
    asked = (one.batches[0].targets != IGNORE).nonzero()[:, 1]
    assert asked.min() == 64


def test_any_utf8_file_can_be_learned(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("ñandú, 東京, 🙂, naïve. " * 200, encoding="utf-8")
    task = build(path=str(file), context=8)
    assert task.decode(task.encode("🙂 東京")) == "🙂 東京"
    assert task.train_batch(0, 0, 4).inputs.max() < task.vocab_size


def test_a_changed_file_is_read_again(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("abc " * 500)
    before = build(path=str(file), context=8)
    file.write_text("wxyz" * 600)
    after = build(path=str(file), context=8)
    assert before.data_files != after.data_files
    assert after.encode("w")


def test_a_prompt_with_an_unknown_character_is_refused():
    with pytest.raises(ValueError, match=r"task 'text' has no symbol '東'; it knows:"):
        build().encode("東")


def test_code_is_the_same_with_another_text():
    task = TASKS.build(Spec("code", context=32))
    assert task.vocab_size == 96
    assert task.train_batch(0, 0, 4).inputs.shape == (4, 32)


def bad_file(tmp_path: Path, kind: str) -> Path:
    file = tmp_path / "text.txt"
    if kind == "empty":
        file.write_bytes(b" \n")
    elif kind == "latin1":
        file.write_bytes("señor ".encode("latin1") * 1000)
    elif kind == "short":
        file.write_text(LINE)
    elif kind == "directory":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    return file


@pytest.mark.parametrize("kind, said", [
    ("missing", ["cannot be opened (No such file or directory)", "name an existing UTF-8 text file"]),
    ("directory", ["is a directory", "name one UTF-8 text file"]),
    ("pipe", ["is a pipe or a device", "name one UTF-8 text file"]),
    ("empty", ["is empty"]),
    ("latin1", ["is not UTF-8 (byte 2: b'\\xf1')", "iconv"]),
    ("short", ["is too short", "its validation part has 4 characters, but a window needs 65", "at least 1301"]),
])
@pytest.mark.parametrize("task", ["text", "code"])
def test_a_bad_file_is_named_with_its_fault_and_the_way_out(tmp_path, kind, said, task):
    file = bad_file(tmp_path, kind)
    with pytest.raises(ValueError) as error:
        TASKS.build(Spec(task, path=str(file), context=64))
    assert str(error.value).startswith(f"task '{task}': path='{file}'")
    for part in said:
        assert part in str(error.value)


def test_a_text_just_long_enough_is_taken(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text((LINE * 20)[:1301])
    assert build(path=str(file), context=64).evaluations("test", 0)[0].batches[0].inputs.shape == (1, 64)


def test_an_unknown_corpus_is_refused_with_the_nearest_and_the_way_to_a_file():
    with pytest.raises(ValueError, match=r"unknown corpus 'austin'. Did you mean 'austen'\? Known: austen, pycode. .*path="):
        build(corpus="austin")


def test_all_wrong_options_are_said_at_once():
    with pytest.raises(ValueError) as error:
        build(context=0, validation_share=0.6, test_share=0.5, eval_lengths=[0])
    assert str(error.value) == (
        "task 'text': context=0 must be at least 1\n"
        "task 'text': validation_share=0.6 and test_share=0.5 must be above 0 and leave something to train on: together "
        "below 1\n"
        "task 'text': eval_lengths=[0] must be longer than context=0; the set len_0 is added by itself"
    )
