"""What of many verdicts is committed, and the README's table that is made from it."""

from pathlib import Path

import pandas as pd
import pytest

from analysis.verdicts import markdown, released, verdicts
from analysis.verdicts.readme import BEGIN, END, main, rewritten, table
from analysis.verdicts.summary import read, summarise
from experiments import records
from tests.analysis.verdict_kit import claim_folder

ROOT = Path(__file__).resolve().parents[2]


def stored(results, name="made-up", **changes):
    """A claim's verdict.json, as the verb leaves it."""
    found = released(verdicts(results, name))
    records.write_json(results / name / "verdict.json", {
        "schema": 1, "claim": name, "statement": "It hurts.", "source": "nobody", "hash": "a" * 64,
        "verdicts": [one.to_dict() for one in found], "seeds": 5, "runs": 10, "runs_saved": 0, "stopped": "", **changes,
    })
    return found


def summary(tmp_path, names=("made-up",), **changes):
    claim_folder(tmp_path / "results")
    found = stored(tmp_path / "results", **changes)
    return summarise(tmp_path / "kept", tmp_path / "results", names, found, "python run_all.py claims"), found


def test_a_summary_holds_verdicts_scores_and_curves_of_every_run(tmp_path):
    readme, found = summary(tmp_path)
    text = readme.read_text()
    assert "python run_all.py claims" in text
    assert markdown(found) in text
    assert "torch 2." in text
    assert "Everything on the cards was run" in text
    runs = pd.read_csv(tmp_path / "kept" / "runs" / "made-up.csv")
    assert len(runs) == 10
    assert runs["test/loss"].notna().all()
    curves = pd.read_csv(tmp_path / "kept" / "curves" / "made-up.csv")
    assert set(curves["run_id"]) == set(runs["run_id"])
    kept = read(tmp_path / "kept")
    assert kept["made"]["runs"] == 10
    assert kept["claims"][0]["verdicts"][0]["label"] == "SUPPORTED"


def test_runs_that_were_not_needed_are_counted(tmp_path):
    readme, _ = summary(tmp_path, runs_saved=30)
    assert "- 30 runs fewer than" in readme.read_text()


def test_what_was_not_run_is_said(tmp_path):
    readme, _ = summary(tmp_path, names=("made-up", "never"), stopped="the budget does not reach 10 seeds")
    text = readme.read_text()
    assert "- `made-up`: more than 5 seeds (the budget does not reach 10 seeds)" in text
    assert "- `never`: nothing (not run)" in text


def test_a_second_summary_replaces_the_first(tmp_path):
    summary(tmp_path)
    (tmp_path / "kept" / "runs" / "old.csv").write_text("old")
    summarise(tmp_path / "kept", tmp_path / "results", ["made-up"], [], "again")
    assert not (tmp_path / "kept" / "runs" / "old.csv").exists()


def test_the_readme_gets_its_table_and_keeps_the_rest(tmp_path):
    summary(tmp_path)
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert main([str(readme), str(tmp_path / "kept")]) == 0
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| It hurts. (`made-up`) | **supported**: other has a higher loss: +0.0" in text


def test_a_readme_without_a_place_for_the_table_is_refused(tmp_path):
    summary(tmp_path)
    with pytest.raises(ValueError, match="needs one line"):
        rewritten("nothing here", read(tmp_path / "kept"))


def test_the_readme_shows_what_is_committed():
    content = read(ROOT / "results" / "reference")
    assert len(content["claims"]) > 20
    assert table(content) in (ROOT / "README.md").read_text(encoding="utf-8")
