"""A factorial read as one: the largest factors with their intervals, and what depends on what."""

import hashlib
import math
import random

import pytest

from analysis.factorial_report import factorial_report, write_factorial
from analysis.figures.factorial import half_normal_plot, interaction_plot, largest
from analysis.load import ReportError, load
from experiments import records
from experiments.catalog.factorial import experiment

EFFECTS = {"post": 0.2, "none": 0.05, "sinusoidal": 0.03, "swiglu": -0.04, "rmsnorm": 0.0}


def truth(changes):
    """Placement 0.2, scaling 0.05 (but 0.25 with post), swiglu -0.04, sinusoidal 0.03; norm and the rest nothing."""
    names = {value["name"] for value in changes.values()}
    return 2.0 + sum(EFFECTS.get(name, 0.0) for name in names) + (0.2 if {"post", "none"} <= names else 0.0)


def made(tmp_path, seeds=3, noise=0.005, without=(), diverged=()):
    """The shipped grid with made-up scores."""
    rng = random.Random(0)
    variants, runs = experiment.expand(), []
    for seed in range(seeds):
        block = rng.gauss(0, 0.05)
        for index, variant in enumerate(variants):
            digest = hashlib.sha256(f"{variant.name} {seed}".encode()).hexdigest()
            run = {"id": f"v{index}-s{seed}-{digest[:8]}", "variant": variant.name, "seed": seed, "hash": digest}
            runs.append(run)
            if (index, seed) not in without:
                loss = truth(variant.changes) + block + rng.gauss(0, noise)
                write(tmp_path, run, loss, (index, seed) in diverged)
    records.write_json(tmp_path / "factorial" / "experiment.json", {
        "schema": 1, "name": "factorial", "question": experiment.question, "metric": "test/loss", "goal": "min",
        "smallest_effect": 0.01, "seeds": list(range(seeds)), "baseline": "baseline",
        "baseline_config": experiment.to_dict()["baseline"],
        "variants": [{"name": v.name, "changes": dict(v.changes)} for v in variants], "runs": runs,
    })  # fmt: skip
    return load(tmp_path, "factorial")


def write(tmp_path, run, loss, has_diverged):
    folder = records.run_directory(tmp_path, "factorial", run["id"])
    folder.mkdir(parents=True)
    records.write_json(folder / records.CONFIG, {"hash": run["hash"]})
    (folder / records.METRICS).write_text('{"step": 1, "train/loss": 4.2}\n')
    records.write_json(folder / records.RESULT, {
        "run_id": run["id"], "variant": run["variant"], "seed": run["seed"], "hash": run["hash"],
        "status": "diverged" if has_diverged else "done", "metrics": {} if has_diverged else {"test/loss": loss},
        "cost": {"steps": 1}, "metrics_sha256": records.file_digest(folder / records.METRICS),
        "diverged": {"step": 1, "reason": "the loss is not finite"} if has_diverged else None,
    })  # fmt: skip


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return factorial_report(made(tmp_path_factory.mktemp("factorial")))


def test_the_grid_has_96_cells_and_presets():
    assert len(experiment.expand()) == 96
    assert set(experiment.presets) == {"quick", "standard", "full"}
    assert experiment.replace(experiment.presets["quick"]).seeds == 3


def test_the_largest_factors_come_first_with_intervals_that_hold_the_truth(report):
    assert [e.factor for e in report.main][:2] == ["placement", "scaling"]
    expected = {"post": 0.3, "none": 0.15, "swiglu": -0.04, "sinusoidal(amplitude=0.02)": 0.03, "rmsnorm": 0.0, "gelu": 0.0}
    for effect in report.main:
        if effect.level in expected:
            assert effect.result.low - 0.001 < expected[effect.level] < effect.result.high + 0.001, effect
    assert next(e for e in report.main if e.level == "rmsnorm").p > 0.05


def test_an_interaction_is_named_and_read_level_by_level(report):
    assert set(report.pairs[0]) == {"placement", "scaling"}
    found = {(e.factor, e.at): e.result.estimate for e in report.simple}
    by = "scaling" if ("scaling", "post") in found else "placement"
    inner = ("pre", "post") if by == "scaling" else ("sqrt_d_head", "none")
    assert found[by, inner[1]] - found[by, inner[0]] == pytest.approx(0.2, abs=0.01)


def test_the_answer_names_factors_sizes_and_dependence(report):
    assert report.answer.startswith("In order of size, placement (post for pre: +0.3")
    assert "over 288 runs" in report.answer
    assert "whose effects depend on each other" in report.answer


def test_the_half_normal_plot_marks_what_is_no_noise(report):
    beyond = {label for label, size in zip(report.contrasts.labels, report.contrasts.sizes, strict=True)
              if size > report.contrasts.margin}  # fmt: skip
    assert {"placement", "scaling"} <= beyond
    assert "norm" not in beyond
    axes = half_normal_plot(report).axes[0]
    assert len([line for line in axes.lines if str(line.get_gid()).startswith("effect ")]) == len(report.contrasts.labels)
    assert axes.get_ylabel() == "half-normal score"


def test_contrasts_of_a_balanced_design_share_one_standard_error(tmp_path):
    found = factorial_report(made(tmp_path, noise=0.02)).contrasts
    small = sorted(found.sizes)[: len(found.sizes) // 2]
    assert 0.005 < math.sqrt(sum(x * x for x in small) / len(small)) < 0.02


def test_interactions_are_drawn_with_intervals(report):
    made_figure = interaction_plot(report)
    assert set(largest(report)[0]) == {"placement", "scaling"}
    axes = made_figure.axes[0]
    assert axes.get_title(loc="left") == " x ".join(largest(report)[0])
    assert len(axes.containers) == 2


def test_tables_and_text_are_written(report, tmp_path):
    paths = write_factorial(report, tmp_path)
    assert {p.name for p in paths} == {"factorial.md", "factorial-main.csv", "factorial-anova.csv", "factorial-simple.csv"}
    text = paths[0].read_text()
    assert text.index("## Simple effects") < text.index("## Main effects") < text.index("## Analysis of variance")
    assert "scaling x placement" in text


def test_missing_and_diverged_runs_are_named_and_kept_apart(tmp_path):
    found = factorial_report(made(tmp_path, without=[(3, 0), (7, 2)], diverged=[(95, 1)]))
    assert len(found.missing) == 2
    assert found.fit.n == 286
    assert len(found.diverged) == 1
    assert found.contrasts is None
    text = write_factorial(found, tmp_path / "report")[0].read_text()
    assert "1 runs diverged and count with their loss before training" in text
    assert "2 planned runs have no result" in text
    assert "not balanced" in half_normal_plot(found).axes[0].texts[0].get_text()


def test_one_factor_is_no_factorial(tmp_path):
    from tests.analysis.fabricated import fabricate

    fabricate(tmp_path, "one", variants=[("other", "model.norm", "none", 0.1, 101_000)])
    with pytest.raises(ReportError, match="a factorial needs two factors or more; 1 vary here"):
        factorial_report(load(tmp_path, "one"))
