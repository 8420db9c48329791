"""Tasks on real data and SCAN: sizes as published, splits, vocabularies from training alone, metrics of text."""

import sys

import numpy as np
import pytest
import torch

from experiments.tasks import IGNORE, TASKS
from experiments.tasks.files import DATA
from experiments.tasks.finite import positions
from experiments.tasks.scan import commands
from experiments.tasks.spelling import edits
from experiments.tasks.subwords import Subwords, learned
from experiments.tasks.tokens import Words, cutter
from transformer.spec import Spec


def build(name, **options):
    return TASKS.build(Spec(name, **options))


def sizes(task, seed=0):
    return [len(task.members(split, seed)) for split in ("train", "validation", "test")]


@pytest.fixture
def pairs_file(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{i} times {j} ?\tword{i}x{j} por {i}\n" for i in range(20) for j in range(20)))
    return file


def test_scan_has_the_published_counts():
    every = commands()
    assert len(every) == len({" ".join(said) for said, _ in every}) == 20_910
    n_actions = np.array([len(done) for _, done in every])
    assert (n_actions <= 22).sum() == 16_990
    assert (n_actions > 22).sum() == 3_920
    assert n_actions.max() == 48


@pytest.mark.parametrize("said, done", [
    ("jump", "JUMP"),
    ("jump left", "LTURN JUMP"),
    ("turn opposite left", "LTURN LTURN"),
    ("jump around right", "RTURN JUMP RTURN JUMP RTURN JUMP RTURN JUMP"),
    ("turn left twice", "LTURN LTURN"),
    ("jump thrice", "JUMP JUMP JUMP"),
    ("jump opposite left and walk thrice", "LTURN LTURN JUMP WALK WALK WALK"),
    ("jump opposite left after walk around left", "LTURN WALK LTURN WALK LTURN WALK LTURN WALK LTURN LTURN JUMP"),
])
def test_scan_commands_mean_what_the_paper_says(said, done):
    assert {" ".join(s): " ".join(d) for s, d in commands()}[said] == done


def test_the_length_split_of_scan_trains_on_short_and_tests_on_long():
    task = build("scan", split="length")
    train, validation, test = (task.answers.lengths[task.members(s, 0)] for s in ("train", "validation", "test"))
    assert len(train) + len(validation) == 16_990
    assert len(test) == 3_920
    assert max(train.max(), validation.max()) == 22
    assert test.min() > 22


def test_the_simple_split_of_scan_uses_every_command_once():
    train, validation, test = sizes(build("scan"))
    assert train + validation + test == 20_910
    assert abs(train / 20_910 - 0.8) < 0.02
    assert sizes(build("scan"), 1) != [train, validation, test]


def test_translation_uses_all_training_verses_and_no_held_out_twin():
    assert sizes(build("translation")) == [9572, 520, 539]
    assert sizes(build("translation", max_tokens=12))[0] < 2500


def test_translation_vocabularies_are_those_of_training(pairs_file):
    task = build("translation", pairs_file=str(pairs_file))
    train = task.present(task.members("train", 0))
    words = {word for answer in task.references(train) for word in answer.split()}
    assert words == set(task.vocabulary.symbols[4:])
    assert len([word for word in words if word.startswith("word")]) == sizes(task)[0] < 400


def test_references_are_the_sentences_as_written(pairs_file):
    task = build("translation", pairs_file=str(pairs_file))
    batch = task.evaluations("test", 0)[0].batches[0]
    lines = dict(line.split("\t") for line in pairs_file.read_text().splitlines())
    assert len(set(task.references(batch)) & set(lines.values())) > 1
    assert all(reference in lines.values() for reference in task.references(batch))
    assert any("<unk>" in task.decode([t for t in row if t != IGNORE]) for row in batch.targets.tolist())


@pytest.mark.parametrize("level", ["word", "char", "subword"])
def test_decoder_inputs_are_the_answer_one_later(level):
    task = build("translation", level=level)
    batch = task.train_batch(0, 0, 8)
    for inputs, targets, keep in zip(batch.inputs, batch.targets, batch.keep, strict=True):
        n = int(keep.sum())
        assert inputs[0] == task.bos_id
        assert torch.equal(inputs[1:n], targets[: n - 1])
        assert targets[n - 1] == task.eos_id


def test_sentences_are_put_together_as_people_write_them():
    assert Words().together("¿ Quién es , pues , este ?") == "¿Quién es, pues, este?"


def test_pieces_of_words_leave_nothing_unknown_and_make_whole_sentences():
    task = build("translation", level="subword", max_vocab=600)
    assert 500 < task.vocab_size <= 600 + 4
    unknown = task.vocabulary.unknown
    for split in ("validation", "test"):
        batches = task.evaluations(split, 0)[0].batches
        assert not any((batch.targets == unknown).any() for batch in batches)
        wanted = [Words().together(" ".join(Words().apart(text))) for b in batches for text in task.references(b)]
        assert [task.decode([t for t in row if t != IGNORE]) for b in batches for row in b.targets.tolist()] == wanted


def test_the_same_words_are_cut_the_same_way_whatever_the_order_of_sentences():
    texts = ["low lower lowest", "new newer newest wide wider", "low low new"]
    one, other = cutter("subword", texts, 20), cutter("subword", texts[::-1], 20)
    assert one.known([], 20) == other.known([], 20)
    assert one.apart("lowest newest widest") == other.apart("lowest newest widest")


def test_the_most_frequent_neighbours_are_joined_first():
    counts = {"aab": 3, "ab": 2, "aaaa": 1}  # pairs: ▁a a 4, a b 3, ▁a b 2, a a 2 ...
    assert learned(counts, 1) == [("▁a", "a")]
    assert learned(counts, 2)[1] == ("▁aa", "b")
    subwords = Subwords(counts, size=5)  # three letters (▁a, a, b) and two joins
    assert subwords.pieces == ("a", "b", "▁a", "▁aa", "▁aab")
    assert [subwords.cut(word) for word in ("aab", "aaaab", "b")] == [("▁aab",), ("▁aa", "a", "a", "b"), ("▁b",)]


@pytest.mark.slow  # needs sacrebleu
def test_the_copy_of_the_source_is_the_yardstick_of_a_translation():
    task = build("translation")
    batches = task.evaluations("test", 0)[0].batches
    found = task.yardstick_scores(batches)
    assert found.keys() == set(task.yardsticks)
    lines = (DATA / "bible_en_es" / "test.tsv").read_text(encoding="utf-8").splitlines()
    written = {target: source for _, source, target in (line.split("\t") for line in lines)}
    references = [text for batch in batches for text in task.references(batch)]
    copies = task.score_text(references, [written[text] for text in references])
    assert found == {f"copy_{name}": pytest.approx(value) for name, value in copies.items()}


@pytest.mark.slow  # needs sacrebleu
def test_bleu_and_chrf_are_those_of_a_perfect_and_of_a_wrong_answer():
    task = build("translation")
    references = ["En el principio crió Dios los cielos y la tierra.", "Y fué la luz."]
    assert task.score_text(references, references) == {"bleu": pytest.approx(100), "chrf": pytest.approx(100)}
    wrong = task.score_text(references, ["nada", "de eso"])
    assert wrong["bleu"] < 1
    assert wrong["chrf"] < 20
    assert set(wrong) == set(task.text_metrics)


def test_without_sacrebleu_the_message_says_how_to_get_it(monkeypatch):
    for module in [name for name in sys.modules if name.split(".")[0] == "sacrebleu"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ModuleNotFoundError, match="pip install -r requirements-extras.txt"):
        build("translation").score_text(["a"], ["a"])


@pytest.mark.parametrize("text, said", [
    ("one\tuno\nonly one column\n", "line 2 has 1 columns, or an empty one; every line needs 2 texts with a tab"),
    ("one\t\n", "line 1 has 2 columns, or an empty one"),
    ("", "is empty"),
    ("one\tuno\n", "leaves no pairs for"),
    ("".join(f"two times {i}\tdos por {i}\n" for i in range(400)), "leaves no pairs for test (max_tokens=None)"),
])
def test_bad_pairs_files_are_refused(tmp_path, text, said):
    file = tmp_path / "pairs.tsv"
    file.write_text(text)
    with pytest.raises(ValueError) as error:
        build("translation", pairs_file=str(file))
    assert said in str(error.value)
    assert str(file) in str(error.value)


def test_a_missing_pairs_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="task 'translation': pairs_file='.*nowhere.tsv' cannot be opened"):
        build("translation", pairs_file=str(tmp_path / "nowhere.tsv"))


def test_spelling_has_the_published_words_and_phonemes():
    task = build("spelling")
    assert sizes(task) == [36_000, 2_000, 2_000]
    assert (task.source_vocab_size, task.vocab_size) == (26 + 1, 39 + 3)
    row = task.members("train", 0)[1:2]
    assert task.references(task.present(row)) == ["AA K AH N"]
    assert task.decode_source(task.present(row).source[0].tolist()) == "aachen"


@pytest.mark.parametrize("a, b, n", [("", "", 0), ("K AE T", "K AE T", 0), ("K AE T", "", 3), ("", "B", 1),
                                     ("K AE T", "AE T", 1), ("K AE T", "B AE D", 2), ("A B C D", "B C D A", 2)])
def test_edits_are_counted(a, b, n):
    assert edits(a.split(), b.split()) == edits(b.split(), a.split()) == n


def test_phoneme_error_rate_is_edits_over_phonemes():
    score = build("spelling").score_text(["K AE T", "D AO G"], ["K AE T S", "D AO"])
    assert score == {"phoneme_error_rate": pytest.approx(2 / 6)}


def test_language_identification_keeps_all_languages_of_a_name_together():
    task = build("language_id")
    assert task.n_classes == len(task.class_names) == 16
    labels = [np.bincount(task.present(task.members(s, 0)).targets, minlength=16) for s in ("train", "validation", "test")]
    assert all(counts.min() > 0.4 * counts.max() for counts in labels)
    batch = task.evaluations("test", 0)[0].batches[0]
    assert set(task.references(batch)) <= set(task.class_names)


def test_epochs_show_every_row_once_in_changing_order():
    chain = positions(10, 0, 0, 35)
    assert sorted(chain[:10]) == sorted(chain[10:20]) == sorted(chain[20:30]) == list(range(10))
    assert chain[:10].tolist() != chain[10:20].tolist()
    parts = np.concatenate([positions(10, 0, first, 7) for first in range(0, 35, 7)])
    assert (parts == chain).all()


@pytest.mark.parametrize("name", ["translation", "spelling", "language_id", "scan"])
def test_fewer_training_rows_are_a_part_of_all(name):
    few, every = build(name, train_rows=50), build(name)
    rows = few._training(0)
    assert len(rows) == len(set(rows.tolist())) == 50
    assert set(rows.tolist()) <= set(every.members("train", 0).tolist())
    assert set(rows.tolist()) != set(few._training(1).tolist())


def test_evaluation_batches_pad_little():
    for name in ("translation", "spelling", "language_id"):
        kept = total = 0
        for batch in build(name).evaluations("test", 0)[0].batches:
            keep = batch.source_keep if batch.source is not None else batch.keep
            shape = batch.source if batch.source is not None else batch.inputs
            kept += int(keep.sum()) if keep is not None else shape.numel()
            total += shape.numel()
        assert kept / total > 0.6
