"""Made-up tasks: every answer is recomputed here by other means, and the splits and floors are what they claim."""

import itertools
import math
import statistics

import numpy as np
import pytest
import torch

from experiments.tasks import IGNORE, TASKS
from experiments.tasks.markov import Markov, make_language
from experiments.tasks.splits import SPLITS, split_of
from transformer.spec import Spec


def build(name, **options):
    return TASKS.build(Spec(name, **options))


def examples(task, split="train", n=200, name=""):
    """(what is read up to the answer, the answer) of each row, as text."""
    batches = [task.train_batch(0, 0, n)] if split == "train" else [
        b for one in task.evaluations(split, 0) if one.name == name for b in one.batches]
    for batch in batches:
        for row, targets, answer in zip(batch.inputs.tolist(), batch.targets, task.references(batch), strict=True):
            first = int((targets != IGNORE).nonzero()[0])
            yield task.decode(row[: first + 1]), answer


STRINGS = {"copy": list, "reverse": lambda x: x[::-1], "sort": sorted}


@pytest.mark.parametrize("name", STRINGS)
@pytest.mark.parametrize("split, set_name", [("train", ""), ("test", ""), ("test", "len_10"), ("test", "len_20")])
def test_strings_are_answered_right(name, split, set_name):
    task = build(name)
    lengths = set()
    for question, answer in examples(task, split, name=set_name):
        symbols = question.removesuffix(" =>").split()
        lengths.add(len(symbols))
        assert answer.split() == STRINGS[name](symbols)
    assert lengths == ({int(set_name[4:])} if set_name else set(range(1, 11)))


def test_string_lengths_are_equally_likely():
    rows = build("copy").train_batch(0, 0, 4000).targets
    counts = torch.bincount((rows != IGNORE).sum(1) - 1, minlength=11)[1:]
    assert counts.min() > 300
    assert counts.max() < 500


def test_no_evaluation_string_is_ever_trained_on_even_of_one_symbol():
    task = build("copy")
    train = {q for step in range(100) for q, _ in _questions(task.train_batch(0, step, 256), task)}
    held = {split: {q for one in task.evaluations(split, 0) for b in one.batches for q, _ in _questions(b, task)}
            for split in ("validation", "test")}
    assert sum(len(q.split()) == 2 for q in train) > 15  # `x =>`: nearly all of the 26
    assert not train & held["validation"]
    assert not train & held["test"]
    assert not held["validation"] & held["test"]


def _questions(batch, task):
    for row, targets in zip(batch.inputs.tolist(), batch.targets, strict=True):
        yield task.decode(row[: int((targets != IGNORE).nonzero()[0]) + 1]), targets


def test_splits_go_by_content_in_the_shares_that_are_written():
    rows = np.random.default_rng(0).integers(1, 50, size=(40_000, 6))
    belongs = split_of(rows, 0)
    shares = np.bincount(belongs, minlength=3) / len(rows)
    assert np.allclose(shares, (0.9, 0.05, 0.05), atol=0.005)
    padded = np.concatenate([rows, np.zeros((len(rows), 3), dtype=np.int64)], axis=1)
    assert (split_of(padded, 0) == belongs).all()
    assert (split_of(rows, 1) != belongs).mean() > 0.1
    assert len(SPLITS) == 3


def test_splits_do_not_follow_single_columns():
    grid = np.array(list(itertools.product(range(1, 61), repeat=2)))
    held = split_of(grid, 3) > 0
    by_first = held.reshape(60, 60).mean(axis=1)
    assert by_first.min() > 0
    assert by_first.max() < 0.3


@pytest.mark.parametrize("order", ["reversed", "plain"])
@pytest.mark.parametrize("split, set_name", [("train", ""), ("test", ""), ("test", "len_5")])
def test_sums_are_right(order, split, set_name):
    task = build("addition", order=order)
    for question, answer in examples(task, split, name=set_name):
        a, b = question.replace(" ", "").removesuffix("=>").split("+")
        digits = "".join(answer.split())
        assert int(digits[::-1] if order == "reversed" else digits) == int(a) + int(b)
        assert str(int(a)) == a
        assert str(int(b)) == b
        if set_name:
            assert len(a) == len(b) == 5


def test_a_sum_and_its_swap_are_in_the_same_split():
    task = build("addition")
    rows = np.random.default_rng(0).integers(0, 1000, size=(500, 2))
    width = np.full((500, 1), 3)
    assert (split_of(task.key(np.concatenate([rows, width], 1)), 0)
            == split_of(task.key(np.concatenate([rows[:, ::-1], width], 1)), 0)).all()


def test_sums_of_seventeen_digits_are_still_exact():
    task = build("addition", max_digits=15, eval_lengths=[17], eval_rows=32)
    for question, answer in examples(task, "test", name="len_17"):
        a, b = question.replace(" ", "").removesuffix("=>").split("+")
        assert int("".join(answer.split())[::-1]) == int(a) + int(b)


@pytest.mark.parametrize("operations", ["+", "-", "*", "+-*"])
def test_modular_arithmetic_is_right_and_leaks_no_swap(operations):
    task = build("modular", p=13, operations=operations)
    seen = {}
    for split in SPLITS:
        batch = task.present(task.members(split, 0))
        for row, target in zip(batch.inputs.tolist(), task.references(batch), strict=True):
            a, operation, b, equals = task.decode(row).split()
            assert equals == "="
            assert int(target) == eval(f"({a}{operation}{b}) % 13")
            seen[a, operation, b] = split
    assert len(seen) == 13 * 13 * len(operations)
    for (a, operation, b), split in seen.items():
        if operation in "+*":
            assert seen[b, operation, a] == split
    assert set(seen.values()) == set(SPLITS)


def test_an_epoch_shows_every_training_equation_once():
    task = build("modular", p=13)
    n = len(task.members("train", 0))
    rows = torch.cat([task.train_batch(0, step, 1).inputs for step in range(2 * n)])
    assert len(torch.unique(rows[:n], dim=0)) == len(torch.unique(rows[n:], dim=0)) == n
    assert not torch.equal(rows[:n], rows[n:])


def test_recall_asks_each_key_once_and_its_value():
    for filler in ("blank", "random"):
        task = build("recall", filler=filler, length=64, n_pairs=8)
        batch = task.train_batch(0, 0, 100)
        for row, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
            value = dict(zip(row[0:16:2], row[1:16:2], strict=True))
            asked = [(row[t], answer) for t, answer in enumerate(targets) if answer != IGNORE]
            assert len(value) == len(asked) == 8
            assert dict(asked) == value
            assert all(targets[t] == IGNORE for t in range(16))
            assert all(0 < key < 32 <= answer < 64 for key, answer in asked)


def test_recall_gaps_follow_the_power_law():
    task = build("recall", length=32, n_pairs=1)
    batch = task.train_batch(0, 0, 4000)
    gap = ((batch.targets != IGNORE).int().argmax(1) - 2) // 2
    expected = np.arange(1, 16) ** (0.01 - 1)
    found = torch.bincount(gap, minlength=15).numpy() / 4000
    assert np.allclose(found, expected / expected.sum(), atol=0.03)


def test_recall_is_tested_on_longer_rows():
    sets = {e.name: e for e in build("recall", eval_lengths=[64, 128]).evaluations("test", 0)}
    assert {name: one.batches[0].inputs.shape[1] for name, one in sets.items()} == {"": 32, "len_64": 64, "len_128": 128}


def test_selective_copy_keeps_the_order():
    for question, answer in examples(build("selective_copy")):
        places = question.removesuffix(" =>").split()
        assert len(places) == 32
        assert [p for p in places if p != "."] == answer.split()


def test_induction_is_certain_and_not_a_matter_of_position():
    task = build("induction")
    batch = task.train_batch(0, 0, 300)
    starts, lengths = set(), set()
    for row, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        asked = [t for t, answer in enumerate(targets) if answer != IGNORE]
        assert asked == list(range(asked[0], asked[-1] + 1))
        for t in asked:
            before = row.index(row[t])
            assert before < t
            assert row[before + 1] == targets[t]
        starts.add(asked[0])
        lengths.add(len(asked) + 1)
    assert lengths == set(range(6, 21))
    assert len(starts) > 15


def test_dyck_asks_every_closing_bracket():
    task = build("dyck", n_kinds=4, depth=5)
    pairs = dict(zip("([{<", ")]}>", strict=True))
    deepest = 0
    batch = task.train_batch(0, 0, 200)
    for row, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        brackets, stack = task.decode(row).split(), []
        for bracket, target in zip(brackets, targets, strict=True):
            if bracket in pairs:
                stack.append(bracket)
            else:
                assert bracket == pairs[stack.pop()]
            deepest = max(deepest, len(stack))
            if target != IGNORE:
                assert task.decode([target]) == pairs[stack[-1]]
        assert len(stack) == 1
        assert sum(t != IGNORE for t in targets) == 32
    assert deepest == 5


def test_listops_values_are_right():
    functions = {"[MIN": min, "[MAX": max, "[SM": lambda x: sum(x) % 10, "[MED": lambda x: int(statistics.median(x))}

    def value(tokens):
        token = next(tokens)
        if token not in functions:
            return None if token == "]" else int(token)
        arguments = list(iter(lambda: value(tokens), None))
        assert 2 <= len(arguments) <= 4
        return functions[token](arguments)

    task = build("listops", depth=3)
    batch = task.train_batch(0, 0, 300)
    assert batch.inputs.shape[1] > 30
    for row, target in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        tokens = iter(task.decode(row).split())
        assert value(tokens) == target
        assert next(tokens, None) is None
    assert set(batch.targets.tolist()) == set(range(10))


def test_the_entropy_of_a_two_state_chain_is_the_closed_form():
    language = make_language(1, 2, 5, 0.5)
    a, b = language.chances[0, 1], language.chances[1, 0]
    half = [-(p * math.log(p) + (1 - p) * math.log(1 - p)) for p in (a, b)]
    assert language.entropy == pytest.approx((b * half[0] + a * half[1]) / (a + b), abs=1e-12)


def test_the_entropy_rate_agrees_with_an_eigenvector_and_with_long_text():
    task = build("markov", order=2, vocab=5, language=3, length=256)
    v, chances = 5, task.language.chances
    step = np.zeros((25, 25))
    for context, symbol in itertools.product(range(25), range(v)):
        step[context, (context * v + symbol) % 25] += chances[context, symbol]
    values, vectors = np.linalg.eig(step.T)
    steady = np.real(vectors[:, np.argmin(abs(values - 1))])
    steady /= steady.sum()
    assert task.loss_floor == pytest.approx(-(steady[:, None] * chances * np.log(chances)).sum(), abs=1e-10)
    losses = []
    for batch in task.evaluations("test", 0)[0].batches:
        contexts = batch.inputs[:, :-1] * v + batch.inputs[:, 1:]
        losses.append(-np.log(chances[contexts.numpy(), batch.targets[:, 1:].numpy()]))
    rows = np.concatenate(losses).mean(axis=1)
    assert abs(rows.mean() - task.loss_floor) < 4 * rows.std() / len(rows) ** 0.5


def test_a_markov_language_does_not_depend_on_the_run_seed():
    one, other = build("markov"), build("markov", language=1)
    assert isinstance(one, Markov)
    assert one.loss_floor == build("markov").loss_floor != other.loss_floor
    assert 0 < one.loss_floor < math.log(8)


def test_markov_asks_only_where_the_whole_context_is_in_sight():
    asked = build("markov", order=3).train_batch(0, 0, 4).targets != IGNORE
    assert not asked[:, :2].any()
    assert asked[:, 2:].all()


def test_a_bag_of_words_is_right_on_exactly_half_of_word_order():
    task = build("word_order")
    for split, seed in itertools.product(("validation", "test"), range(3)):
        rows = [(tuple(row), label) for b in task.evaluations(split, seed)[0].batches
                for row, label in zip(b.inputs.tolist(), b.targets.tolist(), strict=True)]
        assert len(rows) > 100
        bags = {}
        for row, label in rows:
            bags.setdefault(tuple(sorted(row)), []).append(label)
        assert all(len(labels) == len(set(labels)) == 2 for labels in bags.values())
        lowest = [label == min(row[0], row[2]) - 1 for row, label in rows]
        assert sum(lowest) * 2 == len(rows)


def test_word_order_names_who_does_it():
    task = build("word_order")
    batch = task.train_batch(0, 0, 64)
    for row, name in zip(batch.inputs.tolist(), task.references(batch), strict=True):
        assert task.decode(row).split()[0] == name


def test_only_test_is_scored_on_lengths():
    assert [e.name for e in build("copy").evaluations("validation", 0)] == [""]


@pytest.mark.parametrize("name, options, said", [
    ("recall", {"n_pairs": 8, "length": 16}, "length=16 is too short for n_pairs=8: pairs and questions need 4 positions a "
     "pair, at least 32"),
    ("recall", {"n_pairs": 40}, "n_pairs=40 needs as many different keys, but vocab=64 has 31 (vocab / 2 - 1); the least "
     "vocab is 82"),
    ("recall", {"n_pairs": 1, "vocab": 6}, "too few to hold some out"),
    ("copy", {"max_length": 2, "n_symbols": 3}, "make under 1000 different strings, too few to hold some out"),
    ("copy", {"eval_lengths": [1]}, "eval_lengths=[1] with n_symbols=26 make under 1000"),
    ("dyck", {"length": 63}, "length or eval_lengths=[63] must be even"),
    ("dyck", {"n_kinds": 5}, "n_kinds=5 must be between 2 and 4"),
    ("modular", {"operations": "+/"}, "operations='+/' must be one or more of '+', '-', '*'"),
    ("induction", {"n_symbols": 20}, "n_symbols=20 must be at least 20 (the longest string) + 8 (max_offset) = 28"),
    ("markov", {"order": 6, "vocab": 20}, "vocab=20 ** order=6 contexts are too many; the most is 100000"),
    ("markov", {"vocab": 2, "length": 16}, "too few different texts to hold some out"),
    ("addition", {"max_digits": 16}, "max_digits=16 must be between 2 and 15"),
    ("listops", {"depth": 5}, "depth=5 must be between 1 and 4"),
    ("word_order", {"n_nouns": 25}, "n_nouns=25 must be between 2 and 24"),
    ("word_order", {"n_nouns": 4}, "make under 400 sentences, too few to hold some out"),
    ("modular", {"p": 7}, "p=7 and train_share=0.6 hold out 9 equations a split; 30 are needed: raise p or lower"),
    ("selective_copy", {"n_copy": 32}, "n_copy=32 symbols need more than as many places"),
])
def test_sizes_that_cannot_work_are_refused_with_the_rule(name, options, said):
    with pytest.raises(ValueError) as error:
        build(name, **options)
    assert f"task '{name}': " in str(error.value)
    assert said in str(error.value)


@pytest.mark.parametrize("name, options", [
    ("copy", {"max_length": 2, "n_symbols": 40, "eval_lengths": []}), ("sort", {"n_symbols": 2, "max_length": 10}),
    ("recall", {"n_pairs": 1, "vocab": 20}), ("dyck", {"length": 20, "depth": 1}), ("modular", {"p": 13}),
    ("addition", {"max_digits": 2, "eval_lengths": [2]}), ("word_order", {"n_nouns": 8, "n_verbs": 8}),
    ("selective_copy", {"length": 8, "n_copy": 2}), ("listops", {"depth": 1, "max_args": 3}),
    ("induction", {"min_length": 2, "max_length": 3, "max_offset": 0, "n_symbols": 40}),
])
def test_the_smallest_sizes_that_are_taken_work_for_many_seeds(name, options):
    task = build(name, eval_rows=64, **options)
    for seed in range(8):
        assert task.overlap(seed) == 0
        assert len(task.train_batch(seed, 0, 300)) == 300
        assert all(one.batches for split in ("validation", "test") for one in task.evaluations(split, seed))
