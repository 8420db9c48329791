"""Many claims in one sitting: who gets seeds first, and where the time ends."""

import pytest

from analysis.verdicts import markdown, released
from experiments import claims
from experiments.claims.spending import Sitting
from experiments.commands import claims as verb
from experiments.commands.choices import Launch
from experiments.config import ConfigError
from experiments.runner.events import Outcome
from tests.experiments.test_claims_cards import Said, tiny


class Clock:
    """Time that passes only when a look is trained."""

    now = 0.0

    def __call__(self):
        return self.now


def launched(tmp_path, monkeypatch, cards, settled_at, sitting=None):
    """The looks that are trained, in order, when `settled_at[name]` seeds settle a claim."""
    asked, clock = [], Clock()

    def train(experiment):
        look = (experiment.name, len(experiment.seed_list()))
        clock.now += 0.0 if look in asked else 10.0  # what has a result is not trained again
        asked.append(look)
        return Outcome()

    def decide(results, name):
        return [Said(max((n for claim, n in asked if claim == name), default=0) >= settled_at[name])]

    monkeypatch.setattr(verb, "trainer", lambda launch: train)
    if sitting is not None:
        sitting.clock, sitting.began = clock, 0.0
        sitting.expect = lambda claim, seeds: 0.0 if (claim.name, seeds) in asked else 10.0
    said = []
    looked = verb.decide_all(cards, Launch(tmp_path), "standard", sitting or Sitting(), decide, said.append)
    return asked, looked, said


def three():
    return [tiny(name=name) for name in ("one", "two", "three")]


def test_every_claim_has_its_first_look_before_any_has_its_second(tmp_path, monkeypatch):
    asked, looked, _ = launched(tmp_path, monkeypatch, three(), {"one": 10, "two": 5, "three": 99})
    assert asked[:3] == [("one", 5), ("two", 5), ("three", 5)]
    assert {name: one.seeds for name, one in looked.items()} == {"one": 10, "two": 5, "three": 20}
    assert not any(one.stopped for one in looked.values())


def test_one_claim_alone_goes_straight_to_its_end(tmp_path, monkeypatch):
    asked, _, _ = launched(tmp_path, monkeypatch, three()[:1], {"one": 10})
    assert asked == [("one", 5), ("one", 10)]


def test_no_look_begins_that_would_not_end_in_time(tmp_path, monkeypatch):
    sitting = Sitting(45.0)
    asked, looked, said = launched(tmp_path, monkeypatch, three(), dict.fromkeys(("one", "two", "three"), 99), sitting)
    assert [n for _, n in asked if n > 5] == [10]  # the fourth look ends at 40 s, a fifth would end at 50
    assert looked["three"].stopped == "the budget does not reach 10 seeds"
    assert any("the budget does not reach 10 seeds" in line for line in said)


def test_what_has_been_decided_stays_when_the_time_is_over(tmp_path, monkeypatch):
    sitting = Sitting(25.0)  # the third first look would end at 30 s
    _, looked, _ = launched(tmp_path, monkeypatch, three(), dict.fromkeys(("one", "two", "three"), 10), sitting)
    sitting.clock.now = 1000.0
    assert {name: one.seeds for name, one in looked.items()} == {"one": 5, "two": 5, "three": 0}
    assert looked["one"].answers
    assert looked["one"].stopped == "the budget does not reach 10 seeds"
    assert sitting.fits(tiny(name="one"), 5)  # its runs are there
    assert not sitting.fits(tiny(name="one"), 10)


def test_a_claim_that_the_time_does_not_reach_is_left_without_a_run(tmp_path, monkeypatch):
    sitting = Sitting(15.0)
    asked, looked, _ = launched(tmp_path, monkeypatch, three(), dict.fromkeys(("one", "two", "three"), 5), sitting)
    assert asked == [("one", 5)]
    assert looked["two"].runs == 0


@pytest.mark.parametrize("budget", ["soon", "20runs", "-5", "0"])
def test_a_budget_that_is_not_a_time_is_told_before_anything_runs(budget, tmp_path):
    with pytest.raises(ConfigError, match="--budget"):
        verb.command(
            "mask-leak", Launch(tmp_path), "quick", decide=lambda results, name: [], release=released, table=markdown,
            budget=budget,
        )
    assert not any(tmp_path.iterdir())


def test_what_is_missing_is_estimated_from_what_is_there(tmp_path):
    from experiments.claims.spending import seconds_missing

    card = claims.get("weight-decay").at("quick")
    one, two = (seconds_missing(tmp_path, workers)(card, 5) for workers in (1, 2))
    assert one > 0
    assert two == pytest.approx(one / 2, rel=0.9)  # both are timed anew


@pytest.mark.parametrize("signalled", [False, True])
def test_a_sitting_that_is_interrupted_replaces_no_summary(signalled, tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "WHERE", {"weight-decay": "training"})
    monkeypatch.setattr(verb, "trainer", lambda launch: lambda experiment: Outcome(signalled=signalled))
    kept = []
    verb.command(
        None, Launch(tmp_path), "quick", decide=lambda results, name: [], release=released, table=markdown,
        keep=lambda names, found: kept.append(names) or tmp_path,
    )
    assert kept == ([] if signalled else [["weight-decay-quick"]])
