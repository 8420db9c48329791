"""From a claim's folder to its verdicts: what lies there decides, and what is missing is said."""

import shutil

import pytest

from analysis.verdicts import markdown, released, verdicts
from experiments import records
from tests.analysis.verdict_kit import DELTA, claim_folder, only, reseal, write_card


def judged(tmp_path):
    return only(verdicts(tmp_path, "made-up"))


def run_of(tmp_path, planned, variant, seed):
    run = next(run for run in planned if (run["variant"], run["seed"]) == (variant, seed))
    return records.run_directory(tmp_path, "made-up", run["id"])


def test_a_plain_effect_is_supported_with_its_scope_and_its_command(tmp_path):
    claim_folder(tmp_path)
    verdict = judged(tmp_path)
    assert verdict.short == "SUPPORTED (strong)"
    assert verdict.effect == pytest.approx(0.05, abs=0.01)
    assert verdict.n == 5
    assert verdict.scope == "at 101,000 parameters, 153,600 tokens, lr 0.003, on text(corpus=austen, context=64): made up"
    assert verdict.rerun == "python run_all.py claims made-up"
    assert verdict.cost.runs == 10
    text = str(verdict)
    for part in ("SUPPORTED (strong)", "95", "n = 5", verdict.scope, verdict.rerun, "10 runs"):
        assert part in text


def test_no_effect_is_refuted_as_negligible(tmp_path):
    claim_folder(tmp_path, harm=0.0, seeds=10, noise=0.002)
    assert judged(tmp_path).short == "REFUTED (negligible)"


def test_an_effect_the_other_way_is_refuted_as_reversed(tmp_path):
    claim_folder(tmp_path, harm=-0.05)
    assert judged(tmp_path).short == "REFUTED (reversed)"


def test_too_much_noise_is_inconclusive_and_says_what_would_settle_it(tmp_path):
    claim_folder(tmp_path, harm=0.012, noise=0.05)
    verdict = judged(tmp_path)
    assert verdict.label == "INCONCLUSIVE"
    assert verdict.mde > DELTA
    assert not verdict.settled
    assert "more seeds would settle it" in str(verdict)


@pytest.mark.parametrize("loss", ["deleted", "half-finished", "altered"])
def test_a_lost_result_never_changes_a_verdict_in_silence(tmp_path, loss):
    planned = claim_folder(tmp_path)
    assert judged(tmp_path).label == "SUPPORTED"
    directory = run_of(tmp_path, planned, "other", 3)
    path = directory / records.RESULT
    if loss == "deleted":
        path.unlink()
    elif loss == "half-finished":
        path.write_bytes(path.read_bytes()[:200])
    else:
        path.write_bytes(path.read_bytes().replace(b'"test/loss": 2', b'"test/loss": 1', 1))
    verdict = judged(tmp_path)
    assert verdict.short == "INCONCLUSIVE (incomplete: 1 of the runs that it needs has no whole result)"
    assert not verdict.settled
    assert any(directory.name in note and "nothing is decided until they are there" in note for note in verdict.notes)


def test_a_whole_lost_run_directory_is_named_too(tmp_path):
    planned = claim_folder(tmp_path)
    directory = run_of(tmp_path, planned, "baseline", 0)
    shutil.rmtree(directory)
    verdict = judged(tmp_path)
    assert verdict.label == "INCONCLUSIVE"
    assert directory.name in " ".join(verdict.notes)


def test_a_run_lost_after_the_look_that_decided_changes_nothing(tmp_path):
    planned = claim_folder(tmp_path, seeds=10)
    (run_of(tmp_path, planned, "other", 8) / records.RESULT).unlink()
    verdict = judged(tmp_path)
    assert (verdict.label, verdict.n) == ("SUPPORTED", 5)


def test_a_run_lost_before_a_later_look_delays_it(tmp_path):
    planned = claim_folder(tmp_path, harm=0.012, noise=0.02, seeds=10)
    directory = run_of(tmp_path, planned, "other", 8)
    (directory / records.RESULT).unlink()
    verdict = judged(tmp_path)
    assert verdict.label == "INCONCLUSIVE"
    assert verdict.n == 5
    assert any(directory.name in note and "the next look waits for them" in note for note in verdict.notes)


def test_a_copy_of_a_run_is_not_read_and_is_named(tmp_path):
    planned = claim_folder(tmp_path)
    before = judged(tmp_path)
    directory = run_of(tmp_path, planned, "other", 3)
    shutil.copytree(directory, directory.with_name("other-s99-deadbeef"))
    after = judged(tmp_path)
    assert (after.label, after.effect, after.n) == (before.label, before.effect, before.n)
    assert "not planned, so not read: other-s99-deadbeef" in after.notes


def test_a_result_of_one_run_in_the_place_of_another_counts_as_lost(tmp_path):
    planned = claim_folder(tmp_path)
    source, target = (run_of(tmp_path, planned, "other", seed) for seed in (0, 1))
    shutil.copyfile(source / records.RESULT, target / records.RESULT)
    assert judged(tmp_path).label == "INCONCLUSIVE"


def test_diverged_runs_count_with_their_loss_before_training_and_are_named(tmp_path):
    claim_folder(tmp_path, harm=0.05, diverged=[("other", 1), ("other", 2)])
    verdict = judged(tmp_path)
    assert "2 of 5 runs of 'other' diverged and count with their loss before training" in verdict.notes
    assert verdict.effect > 0.3


def test_failure_rates_are_compared_exactly(tmp_path):
    rule = {"name": "rates", "more": ["other"], "fewer": ["base"], "delta": 0.2, "unit": "of runs"}
    claim_folder(tmp_path, diverged=[("other", s) for s in range(5)], rule=rule, looks=(5,))
    verdict = judged(tmp_path)
    assert verdict.short == "SUPPORTED (5/5 runs fail against 0/5)"
    assert verdict.p == pytest.approx(0.0079, abs=1e-4)


def test_three_failures_of_three_are_too_few(tmp_path):
    rule = {"name": "rates", "more": ["other"], "fewer": ["base"], "delta": 0.2, "unit": "of runs"}
    claim_folder(tmp_path, seeds=3, diverged=[("other", s) for s in range(3)], rule=rule, looks=(3,))
    assert judged(tmp_path).label == "INCONCLUSIVE"


def test_no_harm_is_supported_where_the_harm_is_shown_to_be_small(tmp_path):
    terms = [{"arm": "other", "metric": "test/loss", "weight": 1.0}, {"arm": "base", "metric": "test/loss", "weight": -1.0}]
    rule = {"name": "harmless", "terms": terms, "delta": DELTA, "unit": "nats"}
    claim_folder(tmp_path, harm=0.0, noise=0.002, rule=rule)
    assert judged(tmp_path).label == "SUPPORTED"
    shutil.rmtree(tmp_path / "made-up")
    claim_folder(tmp_path, harm=0.05, noise=0.002, rule=rule)
    assert judged(tmp_path).label == "REFUTED"


def test_a_card_that_was_changed_after_runs_says_so_in_every_verdict(tmp_path):
    claim_folder(tmp_path)
    earlier = {"hash": "b" * 64, "recorded": "2025-12-31", "changed": ["parts.delta: 0.1 -> 0.01"]}
    reseal(tmp_path / "made-up" / "claim.json", earlier=[earlier])
    assert any("THE CARD WAS CHANGED AFTER RUNS EXISTED" in note for note in judged(tmp_path).notes)


def test_without_a_card_there_is_no_verdict(tmp_path):
    claim_folder(tmp_path)
    (tmp_path / "made-up" / "claim.json").unlink()
    verdict = judged(tmp_path)
    assert verdict.short == "INCONCLUSIVE (no evidence)"
    assert "missing, so nothing says what the runs there were to decide" in verdict.notes[0]


def test_a_condition_that_does_not_hold_takes_the_verdict_back(tmp_path):
    terms = [{"arm": "other", "metric": "test/loss", "weight": 1.0}, {"arm": "base", "metric": "test/loss", "weight": -1.0}]
    guard = {"terms": [terms[0]], "says": "the loss is not below 1", "at_least": None, "at_most": 1.0}
    claim_folder(tmp_path, rule={"name": "difference", "terms": terms, "delta": DELTA, "unit": "", "guard": guard})
    verdict = judged(tmp_path)
    assert verdict.label == "INCONCLUSIVE"
    assert verdict.detail.startswith("the loss is not below 1: 2.")


def test_measured_values_decide_exact_parts(tmp_path):
    claim_folder(tmp_path, rule={"name": "exact"})
    value = {"part": "loss", "what": "leak", "value": 0.5, "low": None, "high": 1e-6}
    records.write_json(tmp_path / "made-up" / "measured.json", {"values": [value], "repeats": [], "error": None})
    assert judged(tmp_path).short == "REFUTED (leak 0.5 (not at most 1e-06))"
    records.write_json(tmp_path / "made-up" / "measured.json", {"values": [{**value, "value": 0.0}], "repeats": []})
    assert judged(tmp_path).label == "SUPPORTED"
    (tmp_path / "made-up" / "measured.json").write_text("{torn")
    verdict = judged(tmp_path)
    assert verdict.label == "INCONCLUSIVE"
    assert any("unreadable" in note for note in verdict.notes)


@pytest.mark.parametrize(("ratio", "label"), [(0.8, "SUPPORTED"), (1.3, "REFUTED"), (1.0, "INCONCLUSIVE")])
def test_a_timed_ratio_is_judged_by_its_interval(tmp_path, ratio, label):
    claim_folder(tmp_path, rule={"name": "ratio", "at_most": 1.0})
    a = [ratio * (1 + 0.02 * (-1) ** i) for i in range(30)]
    repeats = [{"part": "loss", "what": "time", "a": a, "b": [1.0] * 30}]
    records.write_json(tmp_path / "made-up" / "measured.json", {"values": [], "repeats": repeats})
    verdict = judged(tmp_path)
    assert verdict.label == label
    assert verdict.effect == pytest.approx(ratio, rel=0.01)


def test_p_is_corrected_over_all_claims_that_are_shown_together(tmp_path):
    claim_folder(tmp_path)
    one = judged(tmp_path)
    first, second = released([one, one])
    assert first.p_release == pytest.approx(2 * one.p)
    assert second.p_release == pytest.approx(2 * one.p)
    table = markdown([first, second])
    assert table.count("SUPPORTED (strong)") == 2
    assert "made-up: loss" in table


def test_a_verdict_as_plain_values_has_no_nan(tmp_path):
    claim_folder(tmp_path, rule={"name": "exact"})
    content = judged(tmp_path).to_dict()
    assert content["effect"] is None
    assert content["verdict"].startswith("INCONCLUSIVE")


def test_rates_of_learning_are_chosen_by_validation_and_neighbours_must_agree(tmp_path):
    """Three learning rates an arm; at the chosen one the claim holds, beside it the sign turns."""
    name, rates = "made-up", (1e-3, 3e-3, 1e-2)
    from tests.analysis.fabricated import fabricate

    harm = {("base", 1e-3): 0.3, ("base", 3e-3): 0.0, ("base", 1e-2): 0.3,
            ("other", 1e-3): 0.1, ("other", 3e-3): 0.05, ("other", 1e-2): 0.1}  # fmt: skip
    variants = [(f"{arm} {lr:g}", "train.lr", lr, h, 101_000) for (arm, lr), h in harm.items() if (arm, lr) != ("base", 3e-3)]
    fabricate(tmp_path, name, variants=variants)
    write_card(tmp_path, name)
    cells = [
        {"arm": arm, "lr": lr, "task": "", "variant": "baseline" if (arm, lr) == ("base", 3e-3) else f"{arm} {lr:g}"}
        for arm in ("base", "other") for lr in rates
    ]
    reseal(tmp_path / name / "claim.json", cells=cells)
    verdict = judged(tmp_path)
    assert verdict.effect == pytest.approx(0.05, abs=0.01)
    assert verdict.short == "inconclusive (fragile: neighbouring learning rates)"
    assert "lr 0.001 to 0.01" in verdict.scope
    assert not any("edge of the grid" in note for note in verdict.notes)
    assert verdict.settled


def test_a_best_rate_at_the_end_of_the_grid_is_said(tmp_path):
    from tests.analysis.fabricated import fabricate

    fabricate(tmp_path, "made-up", variants=[("other", "model.norm", "none", 0.05, 1), ("other slow", "train.lr", 1e-3, 0.3, 1)])
    write_card(tmp_path, "made-up")
    cells = [{"arm": "base", "lr": 3e-3, "task": "", "variant": "baseline"},
             {"arm": "other", "lr": 3e-3, "task": "", "variant": "other"},
             {"arm": "other", "lr": 1e-3, "task": "", "variant": "other slow"}]  # fmt: skip
    reseal(tmp_path / "made-up" / "claim.json", cells=cells)
    assert "the best learning rate lies on the edge of the grid for other (0.003)" in judged(tmp_path).notes
