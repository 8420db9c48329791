"""The cards themselves: every one can be planned, is hashed before its runs, and can be declared again from its file."""

import subprocess
import sys
from pathlib import Path

import pytest

from analysis.verdicts.rules import RULES as DECIDED
from analysis.verdicts.rules import rule_of
from experiments import claims, records
from experiments.check import checked_runs
from experiments.claims.card import EXACT, RULES, Claim, Part, difference, less, rates
from experiments.claims.launching import declare
from experiments.claims.measured import function
from experiments.claims.record import record
from experiments.claims.sequence import look_by_look
from experiments.config import ConfigError, ModelConfig, RunConfig
from experiments.files import load
from experiments.runner.events import Outcome

ROOT = Path(__file__).resolve().parents[2]
TWELVE = (
    "mask-leak", "accum-equals-batch", "attention-memory-scaling", "order-needs-position", "sqrt-dk-saturation",
    "prenorm-warmup", "residual-depth", "pe-extrapolation", "rmsnorm-equals-layernorm", "gating-not-activation",
    "heads-vs-lookups", "greedy-repeats",
)


def tiny(**more):
    return Claim(**{
        "name": "tiny", "statement": "It helps.", "source": "nobody", "baseline": RunConfig(),
        "arms": {"plain": {}, "other": {"model.norm": "rmsnorm"}},
        "parts": [Part(name="loss", says="it helps", kind="quality", rule=difference(less("other", "plain"), 0.01))], **more,
    })


@pytest.mark.parametrize("name", claims.WHERE)
def test_every_card_is_whole(name):
    card = claims.get(name)
    assert card.name == name
    assert card.statement.endswith(".")
    assert card.source
    assert card.scope
    for part in card.parts:
        assert part.rule["name"] in DECIDED
    for path in filter(None, (card.check, card.probe)):
        assert callable(function(path))


@pytest.mark.parametrize("preset", ["quick", "standard"])
def test_every_card_can_be_planned(preset):
    for name in claims.WHERE:
        card = claims.get(name).at(preset)
        if card.by_seeds:
            assert checked_runs(card.experiment(1))
            assert card.experiment(card.looks[0]).metric == card.metric


def test_the_first_twelve_are_there():
    assert set(TWELVE) <= set(claims.WHERE)


def test_every_rule_of_a_card_is_known_to_the_analysis():
    assert {rule for rules in RULES.values() for rule in rules} == set(DECIDED)


def test_quick_has_a_place_of_its_own():
    assert claims.get("rope-better").at("quick").name == "rope-better-quick"
    assert claims.get("mask-leak").at("quick").name == "mask-leak"


def test_cells_that_equal_the_baseline_are_the_baseline():
    card = tiny(rates=[1e-3, 3e-3])
    names = {card.variant(*cell) for cell in card.cells()}
    assert names == {"baseline", "plain, lr=0.001", "other, lr=0.001", "other, lr=0.003"}


def test_a_second_task_doubles_the_cells():
    card = tiny(second={"task": "code"})
    assert [cell for cell in card.cells() if cell[2] == "second"] == [("plain", None, "second"), ("other", None, "second")]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"parts": []}, "parts: a claim decides at least one thing"),
        ({"arms": {"plain": {"model.norm": "none"}, "other": {"model.norm": "rmsnorm"}}},
         "arms: one arm, at one learning rate, must be the baseline itself"),
        ({"parts": [Part(name="x", says="x", kind="quality", rule=difference(less("othr", "plain"), 0.01))]},
         "parts: unknown arm 'othr'. Did you mean 'other'? Known: other, plain"),
        ({"parts": [Part(name="x", says="x", kind="exact", rule=EXACT)]}, "check: an exact or timed part needs a check"),
    ],
)  # fmt: skip
def test_a_card_that_does_not_hang_together_says_so(changes, sentence):
    with pytest.raises(ConfigError) as error:
        tiny(**changes)
    assert sentence in str(error.value)


def test_each_kind_of_claim_has_its_own_rules():
    with pytest.raises(ConfigError, match="kind 'quality' is decided by difference or equivalence or harmless"):
        Part(name="x", says="x", kind="quality", rule=rates(["a"], ["b"], 0.1))


def test_an_unknown_claim_or_preset_names_what_there_is():
    with pytest.raises(ConfigError, match="unknown claim 'mask-leek'. Did you mean 'mask-leak'?"):
        claims.get("mask-leek")
    with pytest.raises(ConfigError, match="unknown preset 'fast'"):
        claims.get("rope-better").at("fast")


def test_the_card_is_recorded_before_the_first_run_and_stays_as_it_is(tmp_path):
    assert record(tiny(), tmp_path, "again") == []
    first = records.read_json(tmp_path / "tiny" / "claim.json")
    assert record(tiny(), tmp_path, "again") == []
    assert records.read_json(tmp_path / "tiny" / "claim.json") == first
    assert first["hash"] == tiny().hash
    assert first["late"] is False


def test_any_change_of_a_card_changes_its_hash():
    assert tiny(scope="elsewhere").hash != tiny().hash
    assert tiny(baseline=RunConfig(model=ModelConfig(d_model=32))).hash != tiny().hash


def test_a_card_changed_before_any_run_is_simply_the_new_card(tmp_path):
    record(tiny(), tmp_path, "again")
    assert record(tiny(scope="elsewhere"), tmp_path, "again") == []
    assert records.read_json(tmp_path / "tiny" / "claim.json")["earlier"] == []


def test_a_card_changed_after_runs_is_said_loudly_and_for_ever(tmp_path):
    record(tiny(), tmp_path, "again")
    finished = tmp_path / "tiny" / "runs" / "baseline-s0-00000000"
    finished.mkdir(parents=True)
    records.write_json(finished / "result.json", {})
    said = record(tiny(scope="elsewhere"), tmp_path, "again")
    assert "THE CARD WAS CHANGED AFTER RUNS EXISTED" in said[0]
    assert "scope:  -> elsewhere" in said[0]
    assert record(tiny(scope="elsewhere"), tmp_path, "again") == said


def test_a_card_recorded_after_its_runs_is_late(tmp_path):
    finished = tmp_path / "tiny" / "runs" / "baseline-s0-00000000"
    finished.mkdir(parents=True)
    records.write_json(finished / "result.json", {})
    assert "runs before the card was recorded" in record(tiny(), tmp_path, "again")[0]
    assert records.read_json(tmp_path / "tiny" / "claim.json")["late"]


@pytest.mark.parametrize("left", ["", "{", "{}", None])
def test_a_damaged_record_is_no_record_and_its_runs_make_the_card_late(left, tmp_path):
    finished = tmp_path / "tiny" / "runs" / "baseline-s0-00000000"
    finished.mkdir(parents=True)
    records.write_json(finished / "result.json", {})
    if left is None:
        records.write_json(tmp_path / "tiny" / "claim.json", {"schema": 1})
    else:
        (tmp_path / "tiny" / "claim.json").write_text(left)
    assert "runs before the card was recorded" in record(tiny(), tmp_path, "again")[0]


@pytest.mark.parametrize("name", ["pe-extrapolation", "dropout-epochs", "sqrt-dk-saturation", "scheduled-sampling"])
def test_the_experiment_of_a_claim_can_be_declared_again_from_its_file(name, tmp_path):
    experiment = claims.get(name).at("quick").experiment(2)
    again = load(str(declare(experiment, tmp_path))).experiment
    assert again == experiment
    assert [run.id for run in again.runs()] == [run.id for run in experiment.runs()]


def test_analysis_builds_the_rule_of_every_part(tmp_path):
    from analysis.verdicts.evidence import Evidence

    for name in claims.WHERE:
        card = claims.get(name).at("quick")
        record(card, tmp_path, "again")
        content = records.read_json(tmp_path / card.name / "claim.json")
        for part in content["claim"]["parts"]:
            rule = rule_of(Evidence(tmp_path, card.name, content, None, None), part)
            assert rule.by_seeds == (part["rule"]["name"] in ("difference", "equivalence", "harmless", "rates"))


def test_cards_are_torch_free():
    code = (
        "import sys; from experiments import claims\n"
        "for name in claims.WHERE: claims.get(name).at('standard').hash\n"
        "assert not {'torch', 'pandas', 'scipy'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


class Said:
    """A verdict, as far as adding seeds needs to know it."""

    primary = by_seeds = True

    def __init__(self, settled, label="SUPPORTED"):
        self.settled, self.label = settled, label

    def to_dict(self):
        return {}


FINISHED = Outcome()


def looked(settled_at, tmp_path, outcome=FINISHED, **more):
    asked = []

    def train(experiment):
        asked.append(len(experiment.seed_list()))
        return outcome

    answers = look_by_look(tiny(), tmp_path, train, lambda results, name: [Said(asked[-1] >= settled_at)], **more)
    return answers, asked


def test_seeds_are_added_only_while_something_is_open(tmp_path):
    found, asked = looked(10, tmp_path)
    assert asked == [5, 10]
    assert (found.seeds, found.runs, found.fixed, found.saved) == (10, 20, 40, 20)


def test_the_looks_end_even_if_nothing_is_settled(tmp_path):
    found, asked = looked(99, tmp_path)
    assert asked == [5, 10, 20]
    assert found.saved == 0


def test_a_failed_launch_ends_the_looks_and_says_why(tmp_path):
    found, asked = looked(99, tmp_path, outcome=Outcome(failed=("x",)))
    assert asked == [5]
    assert found.stopped == "some runs have no result"


def test_a_budget_that_does_not_reach_a_look_ends_them(tmp_path):
    found, asked = looked(99, tmp_path, afford=lambda have, need: need <= 20)
    assert asked == [5, 10]
    assert found.stopped == "the budget does not reach 20 seeds"
