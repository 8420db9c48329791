"""Who is better, who is best, and what may be said about it."""

import math

import numpy as np
import pytest
from scipy import stats

from analysis.answer import answer, missing, parts
from analysis.compare import compare, lookup
from analysis.load import ReportError, load
from analysis.words import part_name
from experiments import records
from tests.analysis.fabricated import COMPONENTS, fabricate


def compared(tmp_path, **options):
    fabricate(tmp_path, **options)
    return compare(load(tmp_path, "components"))


def scores(tmp_path, variant):
    table = load(tmp_path, "components").scores
    part = table[(table["metric"] == "test/loss") & (table["variant"] == variant) & (table["status"] == "done")]
    return part.set_index("seed")["value"]


def test_the_paired_difference_is_that_of_a_plain_paired_t_test(tmp_path):
    comparison = compared(tmp_path)
    row = comparison.row("feedforward=swiglu")
    both = scores(tmp_path, "feedforward=swiglu") - scores(tmp_path, "baseline")
    oracle = stats.ttest_1samp(both, 0)
    assert row.paired.raw_difference == pytest.approx(both.mean())
    assert row.paired.difference == pytest.approx(-both.mean())  # less loss is better
    assert row.paired.p == pytest.approx(oracle.pvalue)
    low, high = oracle.confidence_interval()
    assert (-row.paired.high, -row.paired.low) == (pytest.approx(low), pytest.approx(high))
    assert (row.paired.wins, row.n_pairs) == (5, 5)


def test_p_is_corrected_over_every_planned_variant(tmp_path):
    comparison = compared(tmp_path)
    raw = np.array([row.paired.p for row in comparison.others])
    order, m = np.argsort(raw), len(raw)
    steps = np.minimum(1, np.maximum.accumulate(raw[order] * np.arange(m, 0, -1)))
    assert [comparison.others[i].p for i in order] == pytest.approx(steps.tolist())


def test_variants_without_results_still_count_in_the_correction(tmp_path):
    gone = {(v[0], s) for v in COMPONENTS if v[0] != "feedforward=swiglu" for s in range(5)}
    comparison = compared(tmp_path, missing=gone)
    row = comparison.row("feedforward=swiglu")
    assert row.p == pytest.approx(min(1.0, row.paired.p * len(COMPONENTS)))
    assert comparison.row("norm=none").verdict == "no result"
    assert math.isnan(comparison.row("norm=none").p)


def test_pairs_are_the_seeds_that_both_sides_have(tmp_path):
    comparison = compared(tmp_path, missing={("baseline", 0)}, failed={("positional=none", 4)})
    row = comparison.row("positional=none")
    assert row.n == 4
    assert row.n_pairs == 3
    shared = scores(tmp_path, "positional=none").loc[1:3] - scores(tmp_path, "baseline").loc[1:3]
    assert row.paired.raw_difference == pytest.approx(shared.mean())


def test_a_diverged_run_is_counted_never_averaged_and_never_best(tmp_path):
    comparison = compared(tmp_path, diverged={("feedforward=swiglu", 3)})
    row = comparison.row("feedforward=swiglu")
    assert (row.counts["diverged"], row.n, row.verdict) == (1, 4, "unstable")
    assert row.mean.mean == pytest.approx(scores(tmp_path, "feedforward=swiglu").mean())
    assert row.mean.mean < comparison.baseline.mean.mean  # it would lead
    assert "feedforward=swiglu" not in [r.variant for r in comparison.ranked]
    assert answer(comparison).best != "feedforward=swiglu"
    assert "1 of 60 runs diverged; they are in no mean" in " ".join(missing(comparison))


def test_divergence_is_tested_by_fisher(tmp_path):
    comparison = compared(tmp_path, diverged={("norm=none", s) for s in range(5)})
    assert comparison.row("norm=none").p_divergence == pytest.approx(0.00794, abs=1e-5)
    assert comparison.row("norm=none").verdict == "unstable"
    assert math.isnan(comparison.row("positional=none").p_divergence)


@pytest.mark.parametrize("seeds", [1, 2])
def test_nobody_is_best_on_fewer_than_three_seeds(tmp_path, seeds):
    comparison = compared(tmp_path, seeds=seeds)
    found = answer(comparison)
    assert comparison.leaders == []
    assert (found.best, found.certain) == (None, False)
    assert "no winner is named on fewer than 3 seeds" in found.sentence
    assert {row.verdict for row in comparison.others} == {"too few seeds"}


def test_the_answer_names_the_best_how_sure_and_the_cost(tmp_path):
    found = answer(compared(tmp_path))
    assert found.best == "feedforward=swiglu"
    assert found.certain
    assert "feedforward=swiglu is best: test loss: 2." in found.sentence
    assert found.sentence.startswith("Of 11 changes to the baseline (2.119 nats per token), 8 are certainly worse, most of all norm=none")
    assert "nats per token better than the baseline (95 % CI 0.0" in found.sentence
    assert "wins 5/5, n = 5)" in found.sentence
    assert "+0.4 % parameters" in found.cost


def test_noise_is_called_undecided_with_what_more_seeds_would_show(tmp_path):
    found = answer(compared(tmp_path, variants=(("norm=rmsnorm", "model.norm", "rmsnorm", -0.001, 100_700),), noise=0.02))
    assert not found.certain
    assert found.sentence.startswith(("Undecided: no variant is certainly better", "Nothing beats the baseline"))


def test_a_baseline_that_leads_everyone_is_certain_and_names_itself(tmp_path):
    variants = tuple(v for v in COMPONENTS if v[0] in ("positional=none", "positional=sinusoidal"))
    found = answer(compared(tmp_path, variants=variants))
    assert (found.best, found.certain, found.verdict) == ("baseline", True, "baseline is best")
    assert "Nothing beats the baseline (positional=rope): test loss" in found.sentence
    assert "2 of 2 variants are certainly worse" in found.sentence


def test_half_a_sweep_is_answered_and_says_so(tmp_path):
    comparison = compared(tmp_path, missing={(v[0], 4) for v in COMPONENTS})
    assert "This is from 49 of 60 runs." in answer(comparison).sentence
    assert missing(comparison)[0].startswith("11 of 60 runs without a result yet: positional=none 1/5, ")


def test_each_part_has_its_best_value(tmp_path):
    found = {part.part: part for part in parts(compared(tmp_path))}
    assert (found["model.feedforward"].best, found["model.feedforward"].certain) == ("swiglu", True)
    assert (found["model.placement"].best, found["model.placement"].sure) == ("pre", "yes")
    assert found["model.placement"].is_baseline
    assert not found["model.norm"].certain
    assert "Not told apart: 'rmsnorm'." in found["model.norm"].sentence


def test_a_part_whose_best_value_is_the_baselines_is_told_against_the_next_best(tmp_path):
    comparison = compared(tmp_path)
    part = {part.part: part for part in parts(comparison)}["model.placement"]
    both = scores(tmp_path, "placement=post") - scores(tmp_path, "baseline")
    assert part.is_baseline
    assert part.sentence.startswith(f"{both.mean():.4f} nats per token better than 'post', the next best (95 % CI ")
    assert part.sentence.endswith("wins 5/5, n = 5). The baseline has it.")
    low, high = (float(x) for x in part.sentence.split("95 % CI ")[1].split(",")[0].split(" to "))
    assert 0 < low < both.mean() < high
    assert part.cost.endswith(", against 'pre'")
    ours, theirs = comparison.baseline.cost["parameters"], comparison.row("placement=post").cost["parameters"]
    start = "same parameters" if ours == theirs else "−" if ours > theirs else "+"
    assert part.cost.startswith(f"nothing: the baseline has it; 'post' would cost: {start}")


def test_settings_have_names_that_a_reader_knows():
    assert part_name("model.positional") == "position encoding"
    assert part_name("task.n_pairs") == "n pairs"


def test_two_that_no_test_tells_apart_are_both_leaders(tmp_path):
    twins = (("feedforward=swiglu", "model.feedforward", "swiglu", -0.02, 101_000),
             ("feedforward=geglu", "model.feedforward", "geglu", -0.02, 101_000))  # fmt: skip
    comparison = compared(tmp_path, variants=twins)
    assert {row.variant for row in comparison.leaders} == {"feedforward=swiglu", "feedforward=geglu"}
    part = parts(comparison)[0]
    assert (part.certain, part.sure) == (False, "beats the baseline")


def test_a_small_certain_difference_is_the_same_for_all_that_matters(tmp_path):
    comparison = compared(tmp_path, variants=(("norm=rmsnorm", "model.norm", "rmsnorm", 0.0, 1),), smallest_effect=0.05)
    assert comparison.row("norm=rmsnorm").verdict == "same"


def test_another_metric_is_compared_by_its_own_direction(tmp_path):
    fabricate(tmp_path)
    loaded = load(tmp_path, "components")
    comparison = compare(loaded, "test/accuracy")
    assert comparison.goal == "max"
    assert comparison.smallest_effect is None
    assert comparison.row("feedforward=swiglu").verdict == "better"


def test_an_unknown_metric_is_one_clear_message(tmp_path):
    fabricate(tmp_path, seeds=1)
    with pytest.raises(ReportError, match="Known: test/accuracy, "):
        compare(load(tmp_path, "components"), "test/bleu")


def test_a_finished_run_without_the_metric_is_not_in_the_mean_and_is_named(tmp_path):
    runs = fabricate(tmp_path)
    path = records.run_directory(tmp_path, "components", runs[1]["id"]) / records.RESULT
    content = records.read_json(path)
    del content["metrics"]["test/loss"]
    records.write_json(path, content)
    comparison = compare(load(tmp_path, "components"))
    assert comparison.row("positional=none").n == 4
    assert "Some finished runs have no test/loss: positional=none." in missing(comparison)


def test_nothing_finished_yet_is_no_answer_and_no_crash(tmp_path):
    comparison = compared(tmp_path, missing={(v, s) for v in ("baseline", *(c[0] for c in COMPONENTS)) for s in range(5)})
    assert answer(comparison).sentence.startswith("No answer yet: the baseline has 0 of 5 seeds with a score")
    assert parts(comparison) == []


def test_settings_are_found_by_their_dotted_path():
    config = {"model": {"positional": {"name": "rope", "options": {"base": 10}}}, "train": {"lr": 0.1}}
    assert lookup(config, "train.lr") == 0.1
    assert lookup(config, "model.positional.base") == 10
    assert lookup(config, "model.norm") is None


def test_a_named_variant_without_changes_is_not_taken_for_the_baseline(tmp_path):
    comparison = compared(tmp_path, variants=(("same again", "", None, 0.0, 101_000), *COMPONENTS[:1]))
    row = comparison.row("same again")
    assert not row.is_baseline
    assert row.paired is not None
    assert row.verdict in ("same", "uncertain")
    assert {r.variant for r in comparison.leaders} == {"baseline", "same again"}
