"""Why does it repeat itself? The check tells loops of decoding from a model that runs in circles, and held-out text."""

import pytest
import torch
from torch import nn

from experiments.config import Spec
from experiments.diagnosis.case import Budget
from experiments.diagnosis.repeats import repeated, repeats_itself
from experiments.diagnosis.target import stored
from experiments.training.execute import execute
from tests.experiments.diagnosis_faults import case
from tests.experiments.training_runs import config, job

torch.set_num_threads(1)
TEXT = Spec("text", context=64, eval_tokens=1024, test_tokens=256)


class Loop(nn.Module):
    """After token t comes t + 1 in a ring of five, with odds of e^sharp to 1 against any other."""

    def __init__(self, vocab: int, sharp: float) -> None:
        super().__init__()
        self.logits = sharp * torch.eye(vocab)[(torch.arange(vocab) + 1) % 5]

    def forward(self, tokens_BL):
        return self.logits[tokens_BL]


class Knows(nn.Module):
    """Goes on as the held-out text does."""

    def __init__(self, rows, vocab: int) -> None:
        super().__init__()
        self.rows, self.vocab = rows, vocab

    def forward(self, tokens_BL):
        n = tokens_BL.shape[1]
        return 20.0 * torch.eye(self.vocab)[self.rows[: len(tokens_BL), 1 : n + 1]]


def trained(tmp_path, make, **changes):
    """A case whose run has ended with the model that `make` gives."""
    found = case(**{"task": TEXT, **changes})
    found.weights = tmp_path / "weights.safetensors"
    found.__dict__["trained"] = make(found)
    return list(repeats_itself(found))


@pytest.mark.parametrize(("text", "share"), [
    ("abcdefgh", 0.0), ("abababab", 3 / 5), ("aaaaaaa", 3 / 4), ("abcdabcd", 1 / 5), ("abc", 0.0),
])
def test_repeated_n_grams_are_those_that_came_before(text, share):
    assert repeated([[ord(c) for c in text]]) == pytest.approx(share)


def test_a_loop_that_samples_leave_is_the_decoding(tmp_path):
    (found,) = trained(tmp_path, lambda c: Loop(c.task.vocab_size, 4.0))
    assert (found.check, found.severity, found.symptom) == ("repeats_itself", "hint", "greedy text repeats itself")
    assert found.evidence.startswith("4-grams that came before in the same text: greedy 89%, sample,temperature=1.0 ")
    assert "held-out text " in found.evidence
    assert "8 texts of 48 tokens" in found.evidence
    assert found.cause.endswith("it is the decoding, and a model that is not sure enough of what comes next")
    assert found.change.startswith("--decode ")
    assert "train.steps=240" in found.change


def test_a_model_whose_samples_run_in_circles_is_itself_to_blame(tmp_path):
    (found,) = trained(tmp_path, lambda c: Loop(c.task.vocab_size, 20.0))
    assert (found.severity, found.symptom) == ("harmful", "the model repeats itself whatever the decoding")
    assert "more varied data" in found.change


def test_a_model_that_goes_on_as_held_out_text_does_is_not_accused(tmp_path):
    def knows(c):
        batch = c.task.evaluations("validation", c.config.seed)[0].batches[0]
        return Knows(torch.cat([batch.inputs, batch.targets[:, -1:]], 1), c.task.vocab_size)

    assert trained(tmp_path, knows) == []


def test_where_there_is_no_running_text_nothing_is_said(tmp_path):
    for task in (Spec("markov", length=20, vocab=6, eval_rows=64), Spec("recall")):
        assert trained(tmp_path, lambda c: Loop(c.task.vocab_size, 20.0), task=task) == []
    found = case(task=TEXT)
    assert list(repeats_itself(found)) == []  # a configuration has written nothing yet


def test_a_short_training_on_prose_writes_loops(tmp_path):
    made = job(config(steps=60, lr=1e-2, batch_size=16, task=TEXT, eval_every=30), tmp_path)
    execute(made)
    (found,) = repeats_itself(stored(tmp_path / "tiny" / "runs" / made.run_id, Budget()))
    assert found.severity == "hint"
