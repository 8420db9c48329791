"""What the figures show: labels and data, read back from the Figure."""

import math

import pytest

from analysis.compare import compare
from analysis.figures import forest, learning_curves, score_against_cost, score_against_length, seed_strip
from analysis.figures.curves import bands, panels
from analysis.figures.scatter import COSTS
from analysis.load import load
from analysis.style import ONE_COLUMN, SCREEN, TWO_COLUMNS, looks, robust_limits, save
from tests.analysis.fabricated import COMPONENTS, fabricate

POSITIONS = tuple(v for v in COMPONENTS if v[1] == "model.positional")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    fabricate(results, diverged={("positional=none", 3)}, failed={("scaling=none", 1)}, missing={("n_heads=1", 4)})
    fabricate(results, "length", variants=POSITIONS, metric="test/len_20/accuracy", goal="max", trained=8,
              lengths={"len_10": 10, "len_20": 20})  # fmt: skip
    loaded = {name: load(results, name) for name in ("components", "length")}
    return {name: (one, compare(one)) for name, one in loaded.items()}


def texts(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def lines(axes, gid):
    return next(line for line in axes.get_lines() if line.get_gid() == gid)


def test_the_forest_draws_the_interval_of_each_difference_best_first(found):
    _, comparison = found["components"]
    axes = forest(comparison).axes[0]
    names = texts(axes.yaxis)
    best_first = sorted(comparison.others, key=lambda row: -row.paired.difference)
    assert names == [row.variant for row in best_first]
    drawn = lines(axes, "interval feedforward=swiglu").get_xdata()
    paired = comparison.row("feedforward=swiglu").paired
    assert sorted(drawn) == pytest.approx(sorted((-paired.low, -paired.high)))
    assert axes.get_xlabel() == "Δ test loss to the baseline (nats per token)   ← better"
    assert "95 % CI (n = 4 to 5" in axes.get_title("left")


def test_the_forest_says_n_and_divergence_beside_each_row(found):
    _, comparison = found["components"]
    axes = forest(comparison).axes[0]
    right = dict(zip(texts(axes.yaxis), texts(axes.child_axes[0].yaxis), strict=True))
    assert right["positional=none"].endswith("n=4, 1/5 diverged")
    assert right["feedforward=swiglu"].endswith("n=5")
    assert right["norm=none"].startswith("+0.9")  # its interval lies beyond the axis, its numbers do not vanish
    assert axes.get_xlim()[1] < 0.8


def test_curves_come_in_one_panel_a_setting_with_the_baseline_in_each(found):
    loaded, comparison = found["components"]
    made = learning_curves(loaded, comparison)
    shown = [axes for axes in made.axes if axes.axison]
    assert [axes.get_title("left") for axes in shown] == [panel.title for panel in panels(comparison)]
    labels = [text.get_text() for text in shown[0].get_legend().get_texts()]
    assert labels == ["baseline", "none (n=4)", "sinusoidal", "learned", "alibi"]
    assert made.get_supxlabel() == "optimiser steps"
    assert made.get_supylabel() == "validation loss (nats per token)"


def test_the_curve_is_the_mean_over_finished_seeds_and_the_band_its_t_interval(found):
    loaded, comparison = found["components"]
    table = loaded.curves({"validation/loss"})
    line = learning_curves(loaded, comparison).axes[0].get_lines()[0]
    mine = table[(table["variant"] == "baseline")].groupby("step")["value"]
    assert line.get_ydata().tolist() == pytest.approx(mine.mean().tolist())
    summary = bands(table)
    last = summary[(summary["variant"] == "baseline") & (summary["step"] == 150)].iloc[0]
    assert last["high"] - last["mean"] == pytest.approx(2.776445 * mine.std().loc[150] / math.sqrt(5), rel=1e-5)
    assert summary[(summary["variant"] == "positional=none")]["n"].max() == 4


def test_a_diverged_run_has_its_own_dotted_line_with_a_cross_at_its_end(found):
    loaded, comparison = found["components"]
    axes = learning_curves(loaded, comparison).axes[0]
    dotted = [line for line in axes.get_lines() if line.get_linestyle() == ":"]
    crosses = [line for line in axes.get_lines() if line.get_marker() == "x"]
    assert len(dotted) == len(crosses) == 1
    assert crosses[0].get_xdata().tolist() == [50]


def test_a_sweep_in_which_every_run_diverged_is_drawn(tmp_path):
    every = [(name, seed) for name in ("baseline", *(v[0] for v in POSITIONS)) for seed in range(2)]
    fabricate(tmp_path, variants=POSITIONS, seeds=2, diverged=every)
    loaded = load(tmp_path, "components")
    made = learning_curves(loaded, compare(loaded))
    assert sum(line.get_marker() == "x" for line in made.axes[0].get_lines()) == len(every)


def test_single_points_leave_no_variant_off_the_axis(tmp_path):
    fabricate(tmp_path, variants=COMPONENTS[:5] + COMPONENTS[7:8], seeds=2, steps=10, every=10)
    loaded = load(tmp_path, "components")
    made = learning_curves(loaded, compare(loaded))
    assert not [text for axes in made.axes for text in axes.texts if "off the axis" in text.get_text()]


def test_costs_have_one_panel_each_and_one_legend_for_all(found):
    _, comparison = found["length"]
    made = score_against_cost(comparison)
    assert [axes.get_xlabel() for axes in made.axes] == ["parameters", "FLOPs per token", "training time (s)"]
    assert [text.get_text() for text in made.legends[0].get_texts()] == [row.variant for row in comparison.rows]
    marks = {bar.get_label(): bar.lines[0].get_xydata()[0] for bar in made.axes[0].containers}
    learned = comparison.row("positional=learned")
    assert marks["positional=learned"].tolist() == pytest.approx([105_100, learned.mean.mean])
    low, high = made.axes[0].get_ylim()
    assert all(low <= mark[1] <= high for mark in marks.values())


def test_lengths_are_on_the_axis_and_the_trained_one_is_marked(found):
    loaded, comparison = found["length"]
    axes = score_against_length(loaded, comparison).axes[0]
    assert axes.get_xticks().tolist() == [8, 10, 20]
    assert axes.get_xlabel() == "evaluation length (tokens)"
    assert axes.get_ylabel() == "test accuracy (share of tokens)"
    assert [text.get_text() for text in axes.texts] == ["trained length"]
    baseline = next(line for line in axes.get_lines() if line.get_label() == "baseline")
    assert baseline.get_ydata()[-1] == pytest.approx(comparison.baseline.mean.mean)


def test_without_lengths_there_is_no_length_figure(found):
    assert score_against_length(*found["components"]) is None


def test_the_strip_shows_every_seed_and_what_is_not_done(found):
    _, comparison = found["components"]
    axes = seed_strip(comparison).axes[0]
    points = sum(len(collection.get_offsets()) for collection in axes.collections)
    assert points == sum(row.n for row in comparison.rows)
    right = dict(zip(texts(axes.yaxis), texts(axes.child_axes[0].yaxis), strict=True))
    assert right["positional=none"] == "n=4, 1/5 diverged"
    assert right["n_heads=1"] == "n=4, 1/5 missing"
    assert right["norm=none"].startswith("n=5, mean 3.0")


@pytest.mark.parametrize("width", [SCREEN, TWO_COLUMNS, ONE_COLUMN])
def test_figures_have_the_width_of_their_column(found, width):
    loaded, comparison = found["length"]
    made = [forest(comparison, width=width), learning_curves(loaded, comparison, width=width),
            score_against_cost(comparison, width=width), score_against_length(loaded, comparison, width=width),
            seed_strip(comparison, width=width)]  # fmt: skip
    assert {figure.get_size_inches()[0] for figure in made} == {width}


def test_no_label_overlaps_another(found):
    loaded, comparison = found["components"]
    for made in (forest(comparison), seed_strip(comparison), learning_curves(loaded, comparison)):
        made.canvas.draw()
        for axes in (a for a in made.axes if a.axison):
            for axis in (axes.xaxis, axes.yaxis):
                boxes = [t.get_window_extent() for t in axis.get_ticklabels() if t.get_visible() and t.get_text()]
                assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_nothing_finished_yet_is_said_in_the_picture(tmp_path):
    names = ("baseline", *(v[0] for v in POSITIONS))
    fabricate(tmp_path, variants=POSITIONS, seeds=1, missing={(name, 0) for name in names})
    loaded = load(tmp_path, "components")
    comparison = compare(loaded)
    for made in (forest(comparison), learning_curves(loaded, comparison), score_against_cost(comparison), seed_strip(comparison)):
        assert made.axes[0].texts[0].get_text() in (
            "no variant shares two seeds with the baseline yet", "no curve has been logged yet", "no finished run yet",
        )  # fmt: skip


def test_each_variant_keeps_its_look_and_no_two_of_49_share_one():
    names = ["baseline", *(f"v{i}" for i in range(49))]
    found = looks(names)
    assert found["baseline"].color == "#000000"
    assert len({(one.color, one.marker) for one in found.values()}) == 50
    assert looks(names[:5])["v3"] == found["v3"]


def test_every_mark_stands_at_its_true_cost_inside_the_axes(found):
    for _, comparison in found.values():
        for axes, cost in zip(score_against_cost(comparison).axes, COSTS, strict=True):
            marks = {bar.get_label().split(" (n=")[0]: bar.lines[0] for bar in axes.containers}
            low, high = axes.get_xlim()
            assert set(marks) == {row.variant for row in comparison.rows}
            for name, mark in marks.items():
                assert mark.get_xdata()[0] == comparison.row(name).cost[cost]
                assert low + 0.05 * (high - low) < mark.get_xdata()[0] < high - 0.05 * (high - low)
                assert mark.get_transform() == axes.transData


def test_limits_leave_out_only_what_lies_far_away():
    assert robust_limits([0, 1, 2, 3], [1, 2, 3, 4]) is None
    low, high = robust_limits([0.0, 0.1, 0.2, 0.3, 50], [0.1, 0.2, 0.3, 0.4, 51])
    assert low < 0
    assert 0.4 < high < 1


def test_the_same_data_give_the_same_bytes(found, tmp_path):
    _, comparison = found["length"]
    for name in ("a", "b"):
        save(seed_strip(comparison), tmp_path / name, "seeds", {}, {"baseline": ["r"]}, (".svg", ".png", ".pdf"))
    for suffix in (".svg", ".png", ".pdf", ".runs.json"):
        assert (tmp_path / "a" / f"seeds{suffix}").read_bytes() == (tmp_path / "b" / f"seeds{suffix}").read_bytes()
