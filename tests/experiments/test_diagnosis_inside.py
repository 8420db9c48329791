"""What `inside` finds: roles by known attention, maps that add up, text of every kind of task, and two demonstrations."""

import json

import pytest
import torch

from experiments.commands.inside import command
from experiments.config import ConfigError, Spec
from experiments.diagnosis.case import Budget
from experiments.diagnosis.demonstrations import attention_memory, histogram, random_vectors
from experiments.diagnosis.inside import gather, packed
from experiments.diagnosis.roles import THRESHOLDS, Role, _scores, name_of, summary
from experiments.diagnosis.target import stored
from experiments.records import EXPERIMENT, INSIDE, read_json, write_json
from experiments.training.execute import execute
from experiments.training.looking.probes import Seen
from tests.experiments.training_runs import config, job

torch.set_num_threads(1)
LENGTH = 24


def seen(weights, causal=True, name="decoder.layers.0.self_attention"):
    visible = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    visible = visible.tril() if causal else visible
    weights = (weights * visible)[None, None]
    return Seen(name, weights, weights, visible[None, None], torch.ones(1, 1, LENGTH, dtype=torch.bool))


def uniform(causal):
    visible = torch.ones(LENGTH, LENGTH).tril() if causal else torch.ones(LENGTH, LENGTH)
    return visible / visible.sum(-1, keepdim=True)


@pytest.mark.parametrize(("role", "weights", "causal"), [
    ("previous token", torch.cat([torch.eye(LENGTH)[:1], torch.eye(LENGTH)[:-1]]), True),
    ("itself", torch.eye(LENGTH), True),
    ("first token", torch.eye(LENGTH)[:1].repeat(LENGTH, 1), True),
    ("uniform", uniform(True), True),
    ("uniform", uniform(False), False),
    ("next token", torch.eye(LENGTH).roll(1, 1), False),
    ("local", sum(torch.eye(LENGTH).roll(-shift, 1) for shift in range(4)) / 4, True),
])
def test_a_head_is_called_by_what_it_does(role, weights, causal):
    scores = {name: float(value[0]) for name, value in _scores(seen(weights, causal)).items()}
    assert name_of(scores) == role
    assert scores[role] >= THRESHOLDS[role]


def test_a_head_without_a_clear_role_is_mixed():
    assert name_of({"previous token": 0.39, "uniform": 0.94}) == "mixed"
    assert name_of({"previous token": 0.9, "induction": 0.41}) == "induction"
    heads = [Role("a", 0, "mixed", {}), Role("a", 1, "uniform", {}), Role("a", 2, "uniform", {})]
    assert summary(heads) == "2 uniform, 1 mixed"


def test_places_of_two_texts_have_no_distance():
    scores = _scores(seen(uniform(False), causal=False, name="decoder.layers.0.cross_attention"))
    assert set(scores) == {"uniform", "first token"}


def test_entropy_and_saturation_leave_short_rows_and_padding_out():
    half = torch.eye(LENGTH)
    half[12:] = uniform(True)[12:]
    whole = seen(half)
    real = torch.ones(1, 1, LENGTH, dtype=torch.bool)
    real[..., :12] = False
    late = Seen(whole.name, whole.weights, whole.scores, whole.visible, real)
    assert float(whole.saturated()) == pytest.approx(5 / 17)  # rows 7 to 11 of those that may see 8 keys or more
    assert float(late.saturated()) == 0.0
    assert float(late.entropy()) == pytest.approx(1.0, abs=1e-6)


TEXT = config(steps=6)
KINDS = {
    "decoder": (TEXT, "It is a truth"),
    "encoder": (config(steps=4, task=Spec("word_order", eval_rows=64),
                       model={"architecture": "encoder", "positional": Spec("sinusoidal")}), "cat chases mouse"),
    "encoder_decoder": (config(steps=4, task=Spec("scan"),
                               model={"architecture": "encoder_decoder", "positional": Spec("rope")}), "walk twice"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Finished tiny runs, one an architecture: results folder and run ids."""
    results, ids = tmp_path_factory.mktemp("results"), {}
    for kind, (asked, _) in KINDS.items():
        made = job(asked, results)
        execute(made)
        ids[kind] = made.run_id
    write_json(results / "tiny" / EXPERIMENT, {"name": "tiny"})
    return results, ids


@pytest.fixture(scope="module", params=KINDS)
def looked(request, runs):
    """(content, kind) of inside.json of a run."""
    results, ids = runs
    command(ids[request.param], KINDS[request.param][1], results, False)
    return read_json(results / "tiny" / "runs" / ids[request.param] / INSIDE), request.param


def test_maps_show_every_head_on_the_text(looked):
    content, kind = looked
    attentions = {"decoder": 2, "encoder": 2, "encoder_decoder": 6}[kind]
    assert len(content["maps"]) == len(content["heads"]) == 2 * attentions
    for one in content["maps"]:
        weights = torch.tensor([[float(value) for value in row.split()] for row in one["rows"]])
        assert float((weights.sum(-1) - 100).abs().max()) <= 0.5 * weights.shape[1] + 1  # whole percents
        of_source = one["attention"].startswith("encoder") and kind == "encoder_decoder"
        assert weights.shape[0] == len(content["source_tokens"] if of_source else content["tokens"])
        assert "cross" not in one["attention"] or weights.shape[1] == len(content["source_tokens"])


def test_text_is_shown_as_its_tokens(looked):
    content, kind = looked
    if kind == "decoder":
        assert content["tokens"][:6] == ["I", "t", "␣", "i", "s", "␣"]
    if kind == "encoder":
        assert content["tokens"] == ["cat", "chases", "mouse"]
        assert content["answer"]
        assert content["samples"] == []
    if kind == "encoder_decoder":
        assert content["source_tokens"][:2] == ["walk", "twice"]
    if kind != "encoder":
        assert [sample["decode"] for sample in content["samples"]] == ["greedy", "sample,temperature=1.0"]
        assert content["answer"] is None


def test_inside_json_stays_small(looked, runs):
    results, ids = runs
    assert (results / "tiny" / "runs" / ids[looked[1]] / INSIDE).stat().st_size < 100_000


def test_start_and_end_of_training_stand_side_by_side(looked):
    content, _ = looked
    assert all(row["rms"] > 0 and row["start_rms"] > 0 for row in content["activations"])
    assert any(row["rms"] != row["start_rms"] for row in content["activations"])
    for when in ("start", "end"):
        assert sum(content["logits"][when]["logits"]["share"]) == pytest.approx(1, abs=1e-3)
    assert {row["attention"] for row in content["scores"]} == {one["attention"] for one in content["maps"]}


def test_without_a_text_the_first_validation_row_is_read(runs):
    results, ids = runs
    content = gather(stored(results / "tiny" / "runs" / ids["decoder"], Budget()))
    assert len(content["tokens"]) == 12
    assert content["samples"][0]["prompt"]


def test_a_text_that_the_task_cannot_read_is_refused(runs):
    results, ids = runs
    with pytest.raises(ConfigError, match="text 'cat eats mouse': task 'word_order' has no symbol 'eats'"):
        command(ids["encoder"], "cat eats mouse", results, False)
    with pytest.raises(ConfigError, match="text '': has no token"):
        command(ids["decoder"], "", results, False)


def test_a_run_without_weights_has_nothing_inside(runs, tmp_path):
    results, ids = runs
    source = results / "tiny" / "runs" / ids["decoder"]
    (tmp_path / "config.json").write_bytes((source / "config.json").read_bytes())
    with pytest.raises(ConfigError, match="has no weights yet"):
        command(str(tmp_path), None, results, False)


def test_the_content_is_printed_as_json_and_written_elsewhere(runs, tmp_path, capsys):
    results, ids = runs
    assert command(ids["decoder"], "It is", results, True, out=tmp_path / "new") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == read_json(tmp_path / "new" / INSIDE)
    assert printed["run_id"] == ids["decoder"]


def test_scores_of_random_vectors_spread_as_the_root_of_their_width():
    found = random_vectors()
    for row in found["widths"]:
        assert row["std"] == pytest.approx(row["d"] ** 0.5, rel=0.06)
        assert row["scaled_std"] == pytest.approx(1, rel=0.06)
        assert row["scaled_saturated"] == 0.0
    saturated = {row["d"]: row["saturated"] for row in found["widths"]}
    assert saturated[8] < 0.02
    assert saturated[64] == pytest.approx(0.20, abs=0.06)
    assert saturated[512] == pytest.approx(0.61, abs=0.06)


def test_written_out_attention_grows_with_the_square_of_the_length_and_fused_does_not():
    found = attention_memory()
    assert found["slope_length"]["written out"] == pytest.approx(2, abs=0.06)
    assert found["slope_length"]["fused"] == pytest.approx(1, abs=0.06)
    assert found["slope_heads"]["written out"] == pytest.approx(1, abs=0.1)
    assert found["slope_heads"]["fused"] == pytest.approx(0, abs=0.1)


def test_histograms_are_shares_between_their_edges():
    found = histogram(torch.tensor([0.0, 0.1, 0.9, 1.0]), 2, (0.0, 1.0))
    assert found == {"edges": [0.0, 0.5, 1.0], "share": [0.5, 0.5]}
    assert packed(torch.tensor([[1.25, -2.0]]), 1) == ["1.2 -2.0"]
