"""Is the data what it should be? Splits, labels, repetition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from torch import Tensor

from experiments.diagnosis.case import Case
from experiments.diagnosis.finding import Finding
from experiments.tasks import IGNORE, Batch

SAME = 0.95  # share of asked targets that equal an input: no language repeats itself so often
STUCK = 0.5  # share of batches that came before
NGRAM, REPEATED = 13, 0.5  # tokens, and the share of n-grams that another row has too


def configuration(case: Case) -> Iterator[Finding]:
    """What the configuration's own checks say."""
    for path, text in case.problems:
        table = path.endswith("max_len") or "max_len" in text
        yield Finding(
            "configuration", "broken",
            "position table too short" if table else "the run cannot start", f"{path}: {text}",
            "positions beyond the table have no encoding" if table else "the configuration contradicts itself",
            "raise model.max_len, or leave it out so that it follows the task" if table else f"change {path or 'it'}",
        )


def overlap(case: Case) -> Iterator[Finding]:
    """Training on what is tested."""
    if case.overlap:
        yield Finding(
            "overlap", "broken", "evaluation examples occur in training", case.overlap,
            "the task draws its splits from one pool", "split by content or by place before drawing; see "
            "experiments/tasks/splits.py",
        )


def labels(case: Case) -> Iterator[Finding]:
    """Targets that equal the inputs, or the tokens before them: a missing or wrong shift."""
    batch = case.batch
    if batch.targets.shape != batch.inputs.shape:
        return
    asked = batch.targets != IGNORE
    if not bool(asked.any()):
        yield Finding(
            "labels", "broken", "nothing is asked", "0 targets of the first batch count in the loss",
            f"every target is {IGNORE}", "give the task targets",
        )
        return
    here = _share(batch.inputs == batch.targets, asked)
    before = _share(batch.inputs[:, :-1] == batch.targets[:, 1:], asked[:, 1:])
    for share, where, cause in (
        (here, "the input at their own place", "inputs and targets were not shifted against each other"),
        (before, "the input one place before", "inputs and targets were shifted the wrong way round"),
    ):
        if share > SAME and len(batch.targets[asked].unique()) > 1:
            yield Finding(
                "labels", "broken", f"targets equal {where}", f"{share:.1%} of {int(asked.sum())} asked targets "
                f"(limit {SAME:.0%}); the loss falls to nothing without anything being learned", cause,
                "inputs = tokens[:, :-1], targets = tokens[:, 1:]; the model itself never shifts",
            )
            return


def _share(equal: Tensor, asked: Tensor) -> float:
    return float((equal & asked).sum() / asked.sum().clamp_min(1))


def repetition(case: Case) -> Iterator[Finding]:
    """The same batches again and again, or rows that share long passages."""
    if case.config.train.overfit_one_batch:
        yield Finding(
            "repetition", "hint", "one batch is trained on again and again", "train.overfit_one_batch is true",
            "it was asked for", "train.overfit_one_batch=false for anything but a test of the model",
        )
        return
    seen = Counter(_key(batch) for batch in case.batches)
    again = 1 - len(seen) / len(case.batches)
    if again > STUCK:
        yield Finding(
            "repetition", "broken", "training sees the same batches again and again",
            f"{len(seen)} different among the first {len(case.batches)} batches (limit {1 - STUCK:.0%})",
            "the stream of the task does not depend on the step",
            "address the stream by (seed, step): numpy_stream(seed, 'train', step)",
        )
        return
    share = repeated_ngrams(case.batches)
    if share is not None and share > REPEATED:
        yield Finding(
            "repetition", "hint", "the training data repeats itself",
            f"{share:.0%} of {NGRAM}-grams in the first {len(case.batches)} batches occur in another row too "
            f"(limit {REPEATED:.0%})", "a small text, or passages that are in it more than once; a model trained on "
            "them repeats itself when it writes", "more text; remove duplicate passages",
        )


def _key(batch: Batch) -> tuple[int, ...]:
    tokens = batch.inputs if batch.source is None else batch.source
    return tuple(tokens.flatten().tolist())


def repeated_ngrams(batches: list[Batch]) -> float | None:
    """Share of n-grams of NGRAM tokens that more than one row has; None where there is no running text.

    Running text: decoder rows of at least twice that length of which most tokens are asked.
    """
    rows = [row for batch in batches if running(batch) for row in batch.inputs.unfold(1, NGRAM, NGRAM).tolist()]
    if not rows:
        return None
    rows_with = Counter(gram for grams in rows for gram in {tuple(gram) for gram in grams})
    return sum(n for n in rows_with.values() if n > 1) / rows_with.total()


def running(batch: Batch) -> bool:
    """Whether a batch holds running text: decoder rows of 2 NGRAM tokens or more, most of them asked."""
    if batch.source is not None or batch.targets.shape != batch.inputs.shape or batch.inputs.shape[1] < 2 * NGRAM:
        return False
    return bool((batch.targets != IGNORE).double().mean() > 0.5)
