"""What every task keeps to, shipped or registered by a user, checked over `TASKS.names()`."""

import functools
import random
import time
import typing

import numpy as np
import pytest
import torch

from experiments.tasks import IGNORE, TASKS, Task
from experiments.tasks.overlap import shared_rows
from transformer.spec import Spec

NAMES = TASKS.names()
SPLITS = ("validation", "test")


def build(name: str, **options: object) -> Task:
    return TASKS.build(Spec(name, **options))


@functools.lru_cache
def one_of(name: str) -> Task:
    """Shared by the tests that only look."""
    return build(name)


@functools.lru_cache
def batches(task: Task, seed: int = 0) -> list:
    held_out = [b for split in SPLITS for one in task.evaluations(split, seed) for b in one.batches]
    return [task.train_batch(seed, step, 16) for step in range(3)] + held_out


def equal(a, b) -> bool:
    pairs = [(getattr(a, field), getattr(b, field)) for field in ("inputs", "targets", "keep", "source", "source_keep")]
    return all((x is None and y is None) or torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("name", NAMES)
def test_batches_have_the_promised_shapes_types_and_ids(name):
    task = one_of(name)
    for batch in batches(task):
        n, length = batch.inputs.shape
        assert batch.inputs.dtype == batch.targets.dtype == torch.int64
        assert batch.targets.shape == ((n,) if task.n_classes is not None else (n, length))
        assert batch.inputs.min() >= 0
        assert batch.inputs.max() < task.vocab_size
        asked = batch.targets[batch.targets != IGNORE]
        assert asked.min() >= 0
        assert asked.max() < (task.n_classes or task.vocab_size)
        assert batch.inputs.is_contiguous()
        assert batch.targets.is_contiguous()
        assert batch.keep is None or (batch.keep.shape == (n, length) and batch.keep.dtype == torch.bool)
        assert (batch.source is None) == (task.source_vocab_size is None)


@pytest.mark.parametrize("name", [name for name in NAMES if one_of(name).source_vocab_size is not None])
def test_sources_have_the_promised_shapes_types_and_ids(name):
    task = one_of(name)
    for batch in batches(task):
        assert batch.source.dtype == torch.int64
        assert len(batch.source) == len(batch)
        assert batch.source.min() >= 0
        assert batch.source.max() < task.source_vocab_size
        if batch.source_keep is not None:
            assert batch.source_keep.shape == batch.source.shape
            assert (batch.source[~batch.source_keep] == task.pad_id).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_max_len_can_read_every_batch(name):
    task = one_of(name)
    for batch in batches(task):
        assert batch.inputs.shape[1] <= task.max_len
        assert batch.source is None or batch.source.shape[1] <= task.max_len


@pytest.mark.parametrize("name", NAMES)
def test_padding_is_at_the_end_and_never_asked(name):
    task = one_of(name)
    for batch in batches(task):
        if batch.keep is None:
            continue
        assert (batch.inputs[~batch.keep] == task.pad_id).all()
        assert (batch.keep[:, 1:] <= batch.keep[:, :-1]).all()
        assert batch.keep[:, 0].all()
        if task.n_classes is None:
            assert (batch.targets[~batch.keep] == IGNORE).all()


@pytest.mark.parametrize("name", NAMES)
def test_every_row_asks_something(name):
    task = one_of(name)
    for batch in batches(task):
        assert (batch.targets.view(len(batch), -1) != IGNORE).any(1).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_a_pure_function_of_seed_and_step(name):
    one, other = build(name), build(name)
    for step in (5, 700, 3):
        one.train_batch(0, step, 16)
    one.train_batch(1, 3, 16)
    assert equal(one.train_batch(0, 3, 16), other.train_batch(0, 3, 16))
    assert equal(one.train_batch(0, 700, 16), other.train_batch(0, 700, 16))


@pytest.mark.parametrize("name", NAMES)
def test_evaluation_sets_are_a_pure_function_of_the_seed(name):
    one, other = build(name), build(name)
    one.evaluations("test", 1)
    for split in SPLITS:
        ours, theirs = one.evaluations(split, 0), other.evaluations(split, 0)
        assert [e.name for e in ours] == [e.name for e in theirs]
        assert ours[0].name == ""
        for a, b in zip(ours, theirs, strict=True):
            assert len(a.batches) == len(b.batches) > 0
            assert all(equal(x, y) for x, y in zip(a.batches, b.batches, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_other_seeds_and_steps_give_other_examples(name):
    task = build(name)
    first = task.train_batch(0, 0, 32)
    assert not equal(first, task.train_batch(0, 1, 32))
    assert not equal(first, task.train_batch(1, 0, 32))
    ours, theirs = (task.evaluations("test", seed)[0].batches for seed in (0, 1))
    assert not all(a.inputs.shape == b.inputs.shape and equal(a, b) for a, b in zip(ours, theirs, strict=False))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [0, 7])
def test_no_split_shares_an_example_with_another(name, seed):
    task = build(name)
    assert task.overlap(seed) in (0, None)
    if not name.startswith(("text", "code")):  # a text may repeat itself; its windows are told apart by place
        assert shared_rows(task, seed) == 0


@pytest.mark.parametrize("name", NAMES)
def test_tasks_draw_from_no_global_random_stream(name):
    states = torch.get_rng_state(), str(np.random.get_state()), random.getstate()
    task = build(name)
    task.train_batch(0, 0, 16)
    for split in SPLITS:
        task.evaluations(split, 0)
    task.overlap(0)
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1:] == (str(np.random.get_state()), random.getstate())


@pytest.mark.parametrize("name", [name for name in NAMES if one_of(name).n_classes is None])
def test_answering_with_the_token_that_is_read_is_mostly_wrong(name):
    task = one_of(name)
    asked = right = 0
    for batch in batches(task):
        asked += int((batch.targets != IGNORE).sum())
        right += int((batch.targets == batch.inputs).sum())
    assert right / asked < 0.4


@pytest.mark.parametrize("name", [name for name in NAMES if one_of(name).n_classes is None and name != "recall"])
def test_what_is_asked_is_what_is_read_next(name):
    task = one_of(name)
    for batch in batches(task):
        keep = torch.ones_like(batch.inputs, dtype=torch.bool) if batch.keep is None else batch.keep
        checked = (batch.targets[:, :-1] != IGNORE) & keep[:, 1:]
        assert torch.equal(batch.targets[:, :-1][checked], batch.inputs[:, 1:][checked])


@pytest.mark.parametrize("name", NAMES)
def test_references_are_readable_and_one_a_row(name):
    task = one_of(name)
    batch = task.evaluations("test", 0)[0].batches[0]
    references = task.references(batch)
    assert len(references) == len(batch)
    assert all(isinstance(reference, str) and reference for reference in references)
    assert not any("<pad>" in reference or "<eos>" in reference for reference in references)


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_reads_back_as_the_tokens_it_came_from(name):
    task = build(name, level="char") if name == "translation" else build(name)
    batch = task.evaluations("test", 0)[0].batches[0]
    for row in range(0, len(batch), 7):
        tokens, keep = (batch.inputs, batch.keep) if batch.source is None else (batch.source, batch.source_keep)
        real = tokens[row] if keep is None else tokens[row][keep[row]]
        if batch.source is None and task.n_classes is None:
            first = int((batch.targets[row] != IGNORE).nonzero()[0])
            real = real[: first + 1]
        text = task.decode(real.tolist()) if batch.source is None else task.decode_source(real.tolist())
        if "\ufffd" not in text and "<unk>" not in text:
            assert task.encode(text) == real.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_tokens_outside_the_vocabulary_are_named(name):
    task = one_of(name)
    with pytest.raises(ValueError, match=str(task.vocab_size)):
        task.decode([task.vocab_size])


@pytest.mark.parametrize("name", NAMES)
def test_decoders_of_answers_start_and_stop_at_named_tokens(name):
    task = one_of(name)
    if task.eos_id is None:
        return
    batch = task.evaluations("test", 0)[0].batches[0]
    last = torch.where(batch.targets != IGNORE, torch.arange(batch.targets.shape[1]), -1).max(1).values
    assert (batch.targets[torch.arange(len(batch)), last] == task.eos_id).all()
    assert (batch.inputs[:, 0] == task.bos_id).all()
    assert task.pad_id not in (task.bos_id, task.eos_id)


@pytest.mark.parametrize("name", NAMES)
def test_lengths_are_numbers_for_every_set_named_after_one(name):
    for one in one_of(name).evaluations("test", 0):
        if one.name.startswith("len_"):
            assert one.name == f"len_{one.length}"


def numeric_options() -> list[tuple[str, str]]:
    found = []
    for name in NAMES:
        hints = typing.get_type_hints(TASKS.entry(name).cls.__init__)
        kinds = {key: {hints[key], *typing.get_args(hints[key])} for key in TASKS.options(name)}
        found += [(name, key) for key, kind in kinds.items() if kind & {int, float}
                  and typing.get_origin(hints[key]) is not typing.get_origin(typing.Sequence[int])]
    return found


@pytest.mark.parametrize("name, option", numeric_options())
def test_a_number_that_makes_no_sense_is_refused_by_task_option_and_value(name, option):
    with pytest.raises(ValueError, match=f"task '{name}'") as error:
        build(name, **{option: -1})
    assert option in str(error.value)
    assert "-1" in str(error.value)


@pytest.mark.parametrize("name", NAMES)
def test_building_again_and_making_a_batch_are_fast(name):
    build(name).train_batch(0, 0, 64)

    def seconds(action) -> float:
        start = time.process_time()
        action()
        return time.process_time() - start

    task = build(name)
    assert min(seconds(lambda: build(name)) for _ in range(3)) < 0.05
    steps = [lambda first=first: [task.train_batch(0, first + i, 64) for i in range(64)] for first in (0, 64, 128)]
    assert min(seconds(step) for step in steps) / 64 < 0.002


def test_a_task_of_ones_own_registers_with_one_line():
    @TASKS.register("ones")
    class Ones(Task):
        """Always one."""

    assert "ones" in TASKS.names()
    del TASKS._entries["ones"]
    assert "ones" not in TASKS.names()
