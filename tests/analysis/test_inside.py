"""Figures of inside.json: what is written on them is what the file says."""

import base64
import io

import numpy as np
import pytest
from matplotlib import image as mpl_image

from analysis.figures.inside import FIGURES, WEIGHT, attention_maps, draw, head_roles, matrix, short_name
from analysis.figures.inside_numbers import activations, logits, memory, random_vectors, scores
from analysis.figures.inside_positions import positions
from analysis.figures.inside_steps import by_step
from analysis.layers import layer_curves
from analysis.report.charts import layers_chart
from analysis.report.inside import inside_section, png
from analysis.style import ONE_COLUMN
from experiments.records import INSIDE, Damaged, write_json

HISTOGRAM = {"edges": [-1.0, 0.0, 1.0], "share": [0.25, 0.75]}
THRESHOLDS = {"induction": 0.4, "previous token": 0.4, "uniform": 0.95}


def content(heads=2, tokens="abcd", source=(), attentions=("decoder.layers.0.self_attention",)):
    names = [(name, head) for name in attentions for head in range(heads)]

    def size(name, query):
        return len(source) if source and (name.startswith("encoder") or ("cross" in name and not query)) else len(tokens)

    return {
        "run_id": "baseline-s0-12345678", "experiment": "mine", "variant": "baseline", "hash": "12345678" * 8, "schema": 1,
        "text": "abcd", "tokens": list(tokens), "source_tokens": list(source), "thresholds": THRESHOLDS,
        "maps": [
            {"attention": name, "head": head, "rows": [" ".join(["25"] * size(name, False))] * size(name, True)}
            for name, head in names
        ],
        "heads": [
            {"attention": name, "head": head, "role": ("mixed", "uniform")[head % 2],
             "scores": {"previous token": 0.1, "uniform": (0.5, 0.97)[head % 2]}}
            for name, head in names
        ],
        "activations": [
            {"where": "decoder.layers.0.self_attention", "start_rms": 0.01, "rms": 0.5, "start_largest": 1, "largest": 2},
            {"where": "decoder.layers.0", "start_rms": 0.02, "rms": 1.5, "start_largest": 1, "largest": 2},
        ],
        "logits": {when: {"logits": HISTOGRAM, "std": 1.5, "sure": HISTOGRAM, "mean_sure": 0.25}
                   for when in ("start", "end")},
        "scores": [{"attention": name, "start_std": 0.02, "std": 2.5, "start": HISTOGRAM, "end": HISTOGRAM,
                    "saturated": [0.0], "entropy": [1.0]} for name in attentions],
        "positions": [{"what": "bias of the last query", "down": "head", "across": "key", "rows": ["-2 -1 0", "-4 -2 0"]}],
        "random_vectors": {
            "pairs": 10, "keys": 64, "limit": 0.99, "widest": 512, "products": HISTOGRAM, "scaled": HISTOGRAM,
            "widths": [{"d": d, "std": d**0.5, "scaled_std": 1.0, "saturated": d / 1000, "scaled_saturated": 0.0}
                       for d in (8, 64, 512)],
        },
        "attention_memory": {
            "lengths": [256, 512, 1024], "heads": [2, 4, 8], "at": {"heads": 4, "length": 512, "width": 64},
            "by_length": {"written out": [4**i * 2**20 for i in (1, 2, 3)], "fused": [2**i * 2**20 for i in (1, 2, 3)]},
            "by_heads": {"written out": [2**i * 2**20 for i in (1, 2, 3)], "fused": [2**20] * 3},
            "slope_length": {"written out": 2.0, "fused": 1.0}, "slope_heads": {"written out": 1.0, "fused": 0.0},
        },
        "samples": [], "answer": None,
    }  # fmt: skip


def titles(made):
    return [axes.get_title("left") for axes in made.axes if axes.get_title("left")]


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_map_shows_weights_tokens_and_the_role_of_its_head():
    made = attention_maps(content())
    assert titles(made) == ["layer 1, head 1\nmixed", "layer 1, head 2\nuniform 0.97"]
    first, second = made.axes[:2]
    assert np.array_equal(first.images[0].get_array(), np.full((4, 4), 25.0))
    assert first.images[0].get_clim() == (0, 100)
    assert ticks(first.yaxis) == ticks(first.xaxis) == list("abcd")
    assert not any(ticks(second.yaxis))


def test_cross_attention_has_the_source_as_its_keys():
    made = attention_maps(content(1, "xy", "abc", (
        "encoder.layers.0.self_attention", "decoder.layers.0.self_attention", "decoder.layers.0.cross_attention",
    )))  # fmt: skip
    assert titles(made) == ["encoder layer 1, head 1\nmixed", "layer 1, head 1\nmixed", "cross layer 1, head 1\nmixed"]
    shapes = [axes.images[0].get_array().shape for axes in made.axes[:3]]
    assert shapes == [(3, 3), (2, 2), (2, 3)]
    assert ticks(made.axes[2].xaxis) == list("abc")
    assert ticks(made.axes[2].yaxis) == list("xy")


def test_very_many_heads_are_cut_and_the_figure_says_so():
    made = attention_maps(content(49))
    assert made.get_supxlabel() == "key: the token that is looked at (the first 48 of 49 heads)"


def test_roles_are_framed_where_the_threshold_is_reached():
    axes = head_roles(content()).axes[0]
    assert ticks(axes.xaxis) == ["induction\n≥ 0.4", "previous token\n≥ 0.4", "uniform\n≥ 0.95"]
    assert ticks(axes.yaxis) == ["layer 1, head 1", "layer 1, head 2"]
    assert [text.get_text() for text in axes.texts] == ["-", "0.10", "0.50", "-", "0.10", "0.97"]
    (frame,) = axes.patches
    assert (round(frame.get_x() + frame.get_width() / 2), round(frame.get_y() + frame.get_height() / 2)) == (2, 1)


def test_sizes_before_and_after_training_are_joined_by_a_line():
    axes = activations(content()).axes[0]
    assert ticks(axes.yaxis) == ["decoder 1: self attention", "decoder 1: stream after it"]
    assert [list(line.get_xdata()) for line in axes.lines] == [[0.01, 0.02], [0.5, 1.5]]
    assert not any("mathdefault" in text for text in ticks(axes.xaxis))


def test_logits_and_scores_name_their_spread():
    left, right = logits(content()).axes
    assert legend(left) == ["before training: std 1.5", "after training: std 1.5"]
    assert legend(right) == ["before training: mean 0.25", "after training: mean 0.25"]
    (axes,) = scores(content()).axes
    assert legend(axes) == ["before: std 0.02", "after: std 2.5", "unit normal"]


def test_positions_are_drawn_as_bias_against_distance_or_as_a_picture():
    (axes,) = positions(content()).axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[-2, -1, 0], [-4, -2, 0]]
    assert list(axes.lines[0].get_xdata()) == [2, 1, 0]
    table = {"what": "added to embeddings", "down": "position", "across": "dimension", "rows": ["0 -3", "1 2"]}
    picture = positions({**content(), "positions": [table]}).axes[0].images[0]
    assert picture.get_clim() == (-3, 3)
    nothing = positions({**content(), "positions": []})
    assert nothing.axes[0].texts[0].get_text() == "this model has no position encoding"


def test_random_vectors_are_compared_with_the_root_of_their_width():
    _, spread, saturated = random_vectors(content()).axes
    root, plain, scaled = spread.lines
    assert list(root.get_ydata()) == pytest.approx(list(plain.get_ydata()))
    assert list(scaled.get_ydata()) == [1.0, 1.0, 1.0]
    assert list(saturated.lines[0].get_ydata()) == pytest.approx([0.8, 6.4, 51.2])


def test_memory_shows_measured_points_on_the_fitted_line():
    left, right = memory(content()).axes
    assert legend(left) == ["written out: slope 2.00", "fused: slope 1.00"]
    fitted, measured = left.lines[:2]
    assert list(fitted.get_ydata()) == pytest.approx(list(measured.get_ydata()))
    assert legend(right) == ["written out: slope 1.00", "fused: slope 0.00"]


def test_every_figure_fits_one_column():
    for make in FIGURES.values():
        assert make(content(), ONE_COLUMN).get_size_inches()[0] == pytest.approx(ONE_COLUMN)


def test_every_figure_is_written_with_the_run_behind_it(tmp_path):
    write_json(tmp_path / INSIDE, content())
    paths = draw(tmp_path, suffixes=(".png",))
    assert [path.name for path in paths] == [f"{name}.png" for name in FIGURES]
    assert all(path.stat().st_size > 3000 for path in paths)
    behind = (tmp_path / "inside" / "attention.runs.json").read_text()
    assert "baseline-s0-12345678" in behind


def test_an_attention_without_weights_is_said_to_have_none():
    bare = {**content(), "maps": [], "heads": [], "scores": []}
    for make in (attention_maps, head_roles, scores):
        assert "this attention has no" in make(bare).axes[0].texts[0].get_text()


def test_an_altered_file_is_not_drawn(tmp_path):
    write_json(tmp_path / INSIDE, content())
    path = tmp_path / INSIDE
    path.write_text(path.read_text().replace("abcd", "abce"))
    with pytest.raises(Damaged, match="does not match its checksum"):
        draw(tmp_path)


def test_names_are_short():
    assert short_name("decoder.layers.0.self_attention") == "layer 1"
    assert short_name("encoder.layers.11.self_attention") == "encoder layer 12"
    assert short_name("decoder.layers.1.cross_attention") == "cross layer 2"
    assert matrix(["1 2", "3 4.5"]).tolist() == [[1.0, 2.0], [3.0, 4.5]]


def test_a_page_shows_samples_and_maps_and_needs_no_other_file(tmp_path):
    made = {**content(), "samples": [{"decode": "greedy", "prompt": "ab", "text": "<b>cd</b>"}]}
    write_json(tmp_path / INSIDE, made)
    section = inside_section(tmp_path)
    assert section["samples"] == made["samples"]
    assert [(one["name"], one["role"]) for one in section["maps"]] == [
        ("layer 1, head 1", "mixed"), ("layer 1, head 2", "uniform 0.97"),
    ]
    assert section["maps"][0]["alt"] == "attention of layer 1, head 1: 4 queries on 4 keys; mixed"


def test_a_page_says_nothing_of_what_nobody_looked_at_or_altered(tmp_path):
    assert inside_section(tmp_path) is None
    (tmp_path / INSIDE).write_text("{}")
    assert inside_section(tmp_path) is None


def test_map_images_hold_the_weights(tmp_path):
    weights = np.array([[0, 100], [50, 25]], dtype=np.uint8)
    kind, data = png(weights).split(",")
    assert kind == "data:image/png;base64"
    image = mpl_image.imread(io.BytesIO(base64.b64decode(data)), format="png")
    assert image.shape[:2] == (2, 2)
    expected = np.array([[WEIGHT(value / 100)[:3] for value in row] for row in weights.tolist()])
    assert np.abs(image[..., :3] - expected).max() < 0.01


def by_step_rows():
    return [
        {"step": step, "decoder.layers.0/rms": 0.01 * 10**step, "decoder.layers.1/rms": 0.02 * 10**step,
         "decoder.layers.0.self_attention/entropy": 1 - 0.1 * step, "decoder.layers.0.feedforward/dead": 0.0,
         "encoder.layers.0/gradient": 1.0, "decoder.final_norm/gradient": 0.5, "logits/sure": 0.1 * step,
         "decoder.layers.0/unknown": 7.0}
        for step in (0, 1, 2)
    ]  # fmt: skip


def test_a_quantity_has_a_line_for_each_layer():
    curves = layer_curves(by_step_rows())
    assert curves["residual stream, root mean square"] == {
        "layer 1": [(0, 0.01), (1, 0.1), (2, 1.0)], "layer 2": [(0, 0.02), (1, 0.2), (2, 2.0)],
    }  # fmt: skip
    assert list(curves["gradient norm on the recorded batch"]) == ["encoder layer 1", "final norm"]
    assert curves["mean probability of the likeliest token"] == {"logits": [(0, 0.0), (1, 0.1), (2, 0.2)]}
    assert not [label for label in curves if "unknown" in label]
    assert layer_curves([]) == layer_curves([{"step": 1}]) == {}


def test_layers_over_steps_are_drawn_a_panel_a_quantity():
    made = by_step({**content(), "by_step": by_step_rows()})
    panels = [axes for axes in made.axes if axes.has_data()]
    assert [axes.get_title(loc="left") for axes in panels] == list(layer_curves(by_step_rows()))
    stream = panels[0]
    assert stream.get_yscale() == "log"
    assert [line.get_label() for line in stream.get_lines()] == ["layer 1", "layer 2"]
    assert stream.get_lines()[1].get_ydata() == pytest.approx([0.02, 0.2, 2.0])
    assert made.get_supxlabel() == "optimiser steps"


def test_a_run_without_a_record_says_how_to_have_one():
    (axes,) = by_step(content()).axes
    assert axes.texts[0].get_text() == "the layers were not recorded while it trained; run with --record for that"


def test_a_run_page_is_given_the_layers_with_a_look_for_each():
    chart = layers_chart(by_step_rows())
    assert chart["metrics"]["residual stream, root mean square"]["layer 2"] == [[0, 0.02], [1, 0.2], [2, 2.0]]
    assert chart["on"] == ["layer 1", "layer 2", "encoder layer 1", "final norm", "logits"]
    assert len({(look["color"], look["dash"]) for look in chart["looks"].values()}) == 5
    assert layers_chart([]) is None
