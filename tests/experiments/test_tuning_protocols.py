"""lr_grid and search: which runs they want, what they choose, and that nothing is trained twice."""

import itertools

import pytest

from experiments.config import ConfigError, Spec
from experiments.records import read_json
from experiments.runner.events import Outcome
from experiments.tuning.protocols import PROTOCOLS
from tests.experiments.tuning_kit import Killed, completions, experiment, launch_protocol, results_of

GRID = Spec("lr_grid", low=1e-3, high=1e-2, points=3)


def chosen(results, name="valley"):
    content = read_json(results / name / "choice.json")
    return content, {variant: of["values"].get("train.lr") for variant, of in content["variants"].items()}


def test_fixed_wants_every_variant_and_seed_once(tmp_path):
    declared = experiment(vary={"model.norm": ["rmsnorm"]}, seeds=2)
    assert len(PROTOCOLS.build(declared.protocol).runs(declared, tmp_path)) == 4
    outcome = launch_protocol(tmp_path, declared)
    assert isinstance(outcome, Outcome)
    assert len(outcome.done) == 4


def test_the_grid_is_common_and_paired(tmp_path):
    declared = experiment(vary={"model.norm": ["rmsnorm"]}, seeds=3, protocol=GRID)
    runs = PROTOCOLS.build(declared.protocol).runs(declared, tmp_path)
    cells = {(r.variant, r.config.train.lr, r.config.seed) for r in runs}
    assert cells == set(itertools.product(["baseline", "norm=rmsnorm"], [1e-3, 3.16e-3, 1e-2], range(3)))
    assert all(r.changes["train.lr"] == r.config.train.lr for r in runs)
    assert len({r.id for r in runs}) == len(runs) == 18


def test_the_default_grid_is_a_decade_on_either_side_of_the_baseline(tmp_path):
    declared = experiment(seeds=1, protocol="lr_grid")
    rates = [r.config.train.lr for r in PROTOCOLS.build(declared.protocol).runs(declared, tmp_path)]
    assert rates == [0.0003, 0.000949, 0.003, 0.00949, 0.03]


def test_every_variant_is_reported_at_its_own_best_rate(tmp_path):
    declared = experiment(vary={"model.norm": ["rmsnorm"]}, seeds=3, protocol=GRID)
    outcome = launch_protocol(tmp_path, declared, best=3e-3)
    content, lr = chosen(tmp_path)
    assert outcome.exit_code == 0
    assert len(outcome.done) == 18
    assert content["final"]
    assert lr == {"baseline": 3.16e-3, "norm=rmsnorm": 3.16e-3}
    scores = results_of(tmp_path, "valley")
    of_baseline = content["variants"]["baseline"]
    each = [scores[run]["validation/loss"] for run in of_baseline["runs"]]
    assert of_baseline["mean"] == pytest.approx(sum(each) / 3)
    assert [run.split("-s")[1][0] for run in of_baseline["runs"]] == ["0", "1", "2"]
    assert len(content["tried"]) == 18


def test_a_best_rate_on_the_edge_extends_the_grid_for_every_variant(tmp_path):
    declared = experiment(vary={"model.norm": ["rmsnorm"]}, seeds=2, protocol=GRID)
    outcome = launch_protocol(tmp_path, declared, best=2e-2)
    content, lr = chosen(tmp_path)
    assert sorted({values["train.lr"] for values in content["tried"].values()}) == [1e-3, 3.16e-3, 1e-2, 3.16e-2, 0.1]
    assert set(lr.values()) <= {1e-2, 3.16e-2}
    assert len(outcome.done) == 20
    assert set(completions(tmp_path, "valley").values()) == {1}


def test_the_grid_grows_only_so_often_and_the_choice_says_so(tmp_path):
    declared = experiment(seeds=1, protocol=GRID.replace(extend=1))
    launch_protocol(tmp_path, declared, best=1.0)
    content, lr = chosen(tmp_path)
    assert lr == {"baseline": 3.16e-2}
    assert content["variants"]["baseline"]["edge"] == "upper"
    assert "the upper end of the grid: higher ones may be better" in content["variants"]["baseline"]["warning"]


def test_diverged_rates_never_win_and_are_counted(tmp_path):
    launch_protocol(tmp_path, experiment(seeds=2, protocol=GRID), best=1e-2, diverges=5e-3)
    content, lr = chosen(tmp_path)
    assert content["final"]
    assert lr == {"baseline": 3.16e-3}
    launch_protocol(tmp_path / "all", experiment(seeds=2, protocol=GRID), diverges=0.0)
    content, lr = chosen(tmp_path / "all")
    assert lr == {"baseline": None}
    assert content["variants"]["baseline"]["warning"] == "no learning rate with a score for every seed"


def test_an_interrupted_grid_goes_on_and_trains_nothing_twice(tmp_path):
    declared = experiment(vary={"model.norm": ["rmsnorm"]}, seeds=2, protocol=GRID)
    for most in (3, 4):
        with pytest.raises(Killed):
            launch_protocol(tmp_path, declared, most=most, best=2e-2)
    launch_protocol(tmp_path, declared, best=2e-2)
    assert set(completions(tmp_path, "valley").values()) == {1}
    launch_protocol(tmp_path / "straight", declared, best=2e-2)
    assert chosen(tmp_path)[1] == chosen(tmp_path / "straight")[1]
    assert results_of(tmp_path, "valley") == results_of(tmp_path / "straight", "valley")


def test_runs_of_a_fixed_sweep_are_part_of_the_grid(tmp_path):
    fixed = experiment(seeds=2)
    launch_protocol(tmp_path, fixed)
    outcome = launch_protocol(tmp_path, fixed.replace({"protocol": Spec("lr_grid", low=1e-3, high=9e-3, points=3)}))
    assert 3e-3 in {values["train.lr"] for values in chosen(tmp_path)[0]["tried"].values()}
    assert len(outcome.done) == 4


def test_a_variant_that_sets_the_learning_rate_is_refused(tmp_path):
    declared = experiment(vary={"train.lr": [1e-2]}, protocol=GRID)
    with pytest.raises(ConfigError, match=r"protocol 'lr_grid' tunes train.lr, but 'lr=0.01' set it"):
        PROTOCOLS.build(declared.protocol).runs(declared, tmp_path)


def test_a_grid_that_is_none_is_refused(tmp_path):
    declared = experiment(protocol=GRID.replace(low=1.0))
    with pytest.raises(ConfigError, match="a grid needs 0 < low < high"):
        PROTOCOLS.build(declared.protocol).runs(declared, tmp_path)


def test_search_reports_fresh_seeds_at_each_winner(tmp_path):
    protocol = Spec("search", trials=6, sampler="qmc", seeds=1, fresh_seeds=3)
    declared = experiment(vary={"model.norm": ["rmsnorm"]}, seeds=2, protocol=protocol)
    assert PROTOCOLS.build(protocol).runs(declared, tmp_path) == []
    outcome = launch_protocol(tmp_path, declared)
    assert outcome.exit_code == 0
    winners = read_json(tmp_path / "valley-search" / "choice.json")["variants"]
    runs = PROTOCOLS.build(protocol).runs(declared, tmp_path)
    assert {run.config.seed for run in runs} == {2, 3, 4}
    assert {(run.variant, run.config.train.lr) for run in runs} == {(n, w["values"]["train.lr"]) for n, w in winners.items()}
    assert len(completions(tmp_path, "valley")) == 6
    assert len(completions(tmp_path, "valley-search")) == 12
    assert PROTOCOLS.build(protocol).reported(declared).seed_list() == [2, 3, 4]
    again = launch_protocol(tmp_path, declared)
    assert again.exit_code == 0
    assert set(completions(tmp_path, "valley").values()) == {1}
