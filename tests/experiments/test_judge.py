"""`judge` by simulation: no effect is called so, a large one is seen at the first look, and nothing is tried twice."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from analysis.verdicts import about_change, verdicts
from analysis.verdicts.decision import decide_difference
from analysis.verdicts.looks import look
from experiments import ledger
from experiments.commands.choices import Launch
from experiments.commands.judge import Asked, command, goal_of, question_of
from experiments.config import ConfigError, RunConfig, TrainConfig
from experiments.judge import Budget, Question, judge
from experiments.runner.events import Outcome
from tests.analysis.verdict_kit import Scores

DELTA = 0.01


def question(**more):
    return Question(RunConfig(), {"model.feedforward": "swiglu"}, **more)


class Silent:
    def lines(self):
        return ["noise floor: made up"]

    def to_dict(self):
        return {"noise_floor": None, "speed_up": None}


class Found:
    """A verdict over made-up differences."""

    primary = by_seeds = True

    def __init__(self, seen):
        self.seen = seen

    @property
    def label(self):
        return self.seen.decision.label if self.seen.decision else "INCONCLUSIVE"

    @property
    def settled(self):
        return bool(self.seen.decision and self.seen.decision.decided)

    def to_dict(self):
        d = self.seen.decision
        keys = ("detail", "effect", "low", "high", "n", "p", "mde", "more_seeds")
        return {**{k: getattr(d, k) if d else None for k in keys}, "scope": "", "runs": [], "gates": [], "notes": []}

    def __str__(self):
        return self.label


class World:
    """A score source: differences per seed, and what was asked of it."""

    def __init__(self, truth, sd, number):
        self.differences = np.random.default_rng(number).normal(truth, sd, size=20)
        self.asked, self.now = [], 0.0

    def train(self, experiment):
        seeds = len(experiment.seed_list())
        if not experiment.name.endswith("-longer"):
            self.asked.append(seeds)
        self.now += 2.0 * seeds
        return Outcome()

    def decide(self, results, name):
        rule = Scores(self.differences, DELTA, decide_difference)
        return [Found(look({"change": rule}, range(self.asked[-1]), (5, 10, 20))["change"])]

    def judge(self, results, **more):
        return judge(question(), results, self.train, self.decide, lambda *a: Silent(), clock=lambda: self.now, **more)


def test_a_change_without_effect_is_called_so_in_95_of_100_tries_and_mostly_early(tmp_path):
    worlds = [World(0.0, DELTA, number) for number in range(100)]
    answers = [world.judge(tmp_path) for world in worlds]
    assert sum(a.exit_code == 3 for a in answers) >= 95
    assert sum(a.exit_code == 0 for a in answers) == 0
    assert np.mean([world.asked[-1] for world in worlds]) < 12


def test_a_quiet_change_without_effect_stops_at_the_first_look(tmp_path):
    ends = [(world.judge(tmp_path), world.asked[-1]) for world in (World(0.0, DELTA / 5, i) for i in range(100))]
    assert sum(n == 5 and a.label == "REFUTED" for a, n in ends) >= 95


def test_a_large_harm_is_seen_at_the_first_look(tmp_path):
    for number in range(20):
        world = World(-1.0, 0.05, number)
        answer = world.judge(tmp_path)
        assert (answer.exit_code, answer.detail, world.asked) == (3, "reversed", [5])


def test_a_real_gain_is_supported_and_set_against_a_longer_baseline(tmp_path):
    world = World(0.03, DELTA, 0)
    seen = []
    answer = judge(question(), tmp_path, world.train, world.decide, lambda *a: seen.append(a[2]) or Silent(), clock=lambda: 0.0)
    assert answer.exit_code == 0
    assert seen == [f"{question().claim().name}-longer"]


def test_noise_that_drowns_everything_stays_open_after_all_looks(tmp_path):
    world = World(0.012, 0.2, 3)
    answer = world.judge(tmp_path)
    assert answer.exit_code == 4
    assert world.asked == [5, 10, 20]


def test_a_budget_of_runs_is_kept(tmp_path):
    world = World(0.012, 0.2, 3)
    answer = world.judge(tmp_path, budget=Budget(runs=25))
    assert world.asked == [5, 10]
    assert answer.content["stopped"] == "the budget does not reach 20 seeds"


def test_a_budget_under_the_first_look_buys_what_it_buys_and_decides_nothing(tmp_path):
    world = World(0.5, 0.01, 3)
    answer = world.judge(tmp_path, budget=Budget(runs=6))
    assert world.asked == [3]
    assert answer.exit_code == 4


def test_a_budget_of_seconds_is_kept_by_what_runs_took_so_far(tmp_path):
    world = World(0.012, 0.2, 3)
    world.judge(tmp_path, budget=Budget(seconds=25.0))
    assert world.asked == [5, 10]


def test_a_budget_that_pays_for_nothing_is_said(tmp_path):
    world = World(0.0, 0.2, 3)
    answer = world.judge(tmp_path, budget=Budget(seconds=1.0), expect=lambda experiment: 100.0)
    assert world.asked == []
    assert answer.exit_code == 4
    assert "the budget ended first" in answer.lines[0]


def test_a_change_to_what_is_there_already_needs_no_run(tmp_path):
    same = Question(RunConfig(), {"model.norm": "layernorm"})
    answer = judge(same, tmp_path, lambda e: pytest.fail("trained"), lambda *a: [], lambda *a: Silent())
    assert answer.exit_code == 3
    assert answer.lines[0] == (
        "REFUTED (no effect): model.norm=layernorm is what the baseline has already, so every number would be the same"
    )


def test_interrupts_and_failures_have_codes_of_their_own(tmp_path):
    for outcome, code in ((Outcome(signalled=True), 130), (Outcome(failed=("x",)), 1)):
        world = World(0.012, 0.2, 3)
        world.train = lambda experiment, outcome=outcome, world=world: world.asked.append(5) or outcome
        assert world.judge(tmp_path).exit_code == code


@pytest.mark.parametrize(
    ("text", "budget"),
    [("600", Budget(seconds=600)), ("600s", Budget(seconds=600)), ("1.5m", Budget(seconds=90)), ("2h", Budget(seconds=7200)),
     ("20runs", Budget(runs=20)), ("20 runs", Budget(runs=20))],
)  # fmt: skip
def test_budgets_are_times_or_runs(text, budget):
    assert Budget.parse(text) == budget


@pytest.mark.parametrize("text", ["", "soon", "0", "-5m", "5 d"])
def test_other_budgets_are_refused(text):
    with pytest.raises(ConfigError, match="must be a time"):
        Budget.parse(text)


def test_a_question_is_the_same_whatever_its_spelling_and_another_when_anything_counts():
    assert question().key == Question(RunConfig(seed=3), {"model.feedforward": {"name": "swiglu"}}).key
    assert question().key != question(smallest_effect=0.02).key
    assert question().key != Question(RunConfig(train=TrainConfig(steps=7)), {"model.feedforward": "swiglu"}).key


def test_the_ledger_keeps_every_line_and_survives_a_torn_one(tmp_path):
    ledger.append(tmp_path, {"key": "a", "verdict": "REFUTED"})
    with open(tmp_path / ledger.LEDGER, "ab") as file:
        file.write(b'{"key": "b", "verd')
    ledger.append(tmp_path, {"key": "c", "verdict": "SUPPORTED"})
    found = ledger.read(tmp_path)
    assert [line["key"] for line in found.lines] == ["a", "c"]
    assert found.torn == 1


def test_the_ledger_prefers_a_decided_line_to_a_later_open_one(tmp_path):
    for verdict in ("INCONCLUSIVE", "REFUTED", "INCONCLUSIVE"):
        ledger.append(tmp_path, {"key": "a", "verdict": verdict})
    assert ledger.read(tmp_path).earlier("a")["verdict"] == "REFUTED"
    assert ledger.read(tmp_path).earlier("b") is None


def test_many_writers_leave_whole_lines(tmp_path):
    for child in range(4):
        if os.fork() == 0:
            for i in range(20):
                ledger.append(tmp_path, {"key": f"{child}-{i}", "verdict": "REFUTED"})
            os._exit(0)
    for _ in range(4):
        os.wait()
    found = ledger.read(tmp_path)
    assert (len(found.lines), found.torn) == (80, 0)


def asked(**more):
    return Asked(**{"sets": ["model.norm=layernorm"], "base": ["train.steps=3"], **more})


def answer(tmp_path, capsys, what, *, as_json=True):
    code = command(what, Launch(tmp_path, as_json=as_json, wandb="off"), decide=verdicts, describe=about_change)
    out = capsys.readouterr().out
    return code, json.loads(out) if as_json else out


def test_a_verdict_leaves_a_line_and_the_same_question_is_not_tried_again(tmp_path, capsys):
    code, first = answer(tmp_path, capsys, asked())
    assert (code, first["verdict"], first["exit_code"]) == (3, "REFUTED", 3)
    code, second = answer(tmp_path, capsys, asked())
    assert (code, second["told_before"]) == (3, True)
    assert len(ledger.read(tmp_path).lines) == 1
    answer(tmp_path, capsys, asked(again=True))
    assert len(ledger.read(tmp_path).lines) == 2
    _, text = answer(tmp_path, capsys, asked(), as_json=False)
    assert text.startswith("already decided: model.norm=layernorm is REFUTED, effect +0 in test/loss, n = 0")


def test_history_lists_what_was_judged(tmp_path, capsys):
    from experiments.commands.history import command as history

    assert history(tmp_path, as_json=False) == 0
    assert "nothing judged" in capsys.readouterr().out
    answer(tmp_path, capsys, asked())
    assert history(tmp_path, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["lines"][0]["change"] == "model.norm=layernorm"
    history(tmp_path, as_json=False)
    assert "REFUTED" in capsys.readouterr().out


def test_a_question_takes_baseline_metric_and_effect_from_an_experiment():
    found, _ = question_of(Asked(sets=["model.norm=rmsnorm"], experiment="length"))
    assert (found.metric, found.goal, found.smallest_effect) == ("test/len_20/accuracy", "max", 0.02)
    assert found.baseline.task.name == "copy"


def test_what_cannot_be_asked_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match="say what to change"):
        question_of(Asked(sets=[]))
    with pytest.raises(ConfigError, match="unknown norm 'rmsnrm'"):
        question_of(Asked(sets=["model.norm=rmsnrm"]))


def test_goals_follow_the_last_word_of_a_metric():
    assert [goal_of(m) for m in ("test/loss", "test/len_32/accuracy", "test/phoneme_error_rate")] == ["min", "max", "min"]


@pytest.mark.slow
def test_a_removed_norm_is_seen_within_the_first_look_for_real(tmp_path: Path, capsys):
    base = ["task={name: text, context: 32, eval_tokens: 4096, test_tokens: 8192}", "train.steps=100", "train.batch_size=16",
            "model.positional=rope"]  # fmt: skip
    code, found = answer(tmp_path, capsys, Asked(sets=["model.norm=none"], base=base))
    assert (code, found["verdict"], found["detail"], found["n"]) == (3, "REFUTED", "reversed", 5)
    assert found["runs"] == 10
    assert found["noise_floor"]["single"] > 0
    assert found["speed_up"]["ratio"] < 1
