"""One table, three spellings, and the runs behind every row."""

import csv
import io
import json

import pytest

from analysis import words
from analysis.compare import compare
from analysis.contents import cost_table, length_table, ordered, score_table, status_table
from analysis.load import load
from analysis.report.content import gather
from analysis.tables import Cell, Column, Table, latex
from experiments import records
from tests.analysis.fabricated import COMPONENTS, fabricate

POSITIONS = tuple(v for v in COMPONENTS if v[1] == "model.positional")


@pytest.fixture
def comparison(tmp_path):
    fabricate(tmp_path, diverged={("norm=none", 3)}, failed={("scaling=none", 1)}, missing={("n_heads=1", s) for s in range(5)})
    return compare(load(tmp_path, "components"))


def test_the_baseline_stands_first_and_n_in_every_row(comparison):
    table = score_table(comparison)
    assert [row[0].text for row in table.rows] == [row.variant for row in ordered(comparison)]
    means = [row.mean.mean for row in ordered(comparison)[1:] if row.mean]
    assert means == sorted(means)
    assert table.rows[0][0].text == "baseline"
    counts = {row[0].text: row[2].text for row in table.rows}
    assert (counts["baseline"], counts["norm=none"], counts["n_heads=1"]) == ("5", "4/5", "0/5")


def test_what_is_missing_is_a_dash_with_a_footnote(comparison):
    table = score_table(comparison)
    row = next(row for row in table.rows if row[0].text == "n_heads=1")
    assert (row[1].text, row[1].note) == ("-", "5/5 missing, not in the mean")
    text = table.to_markdown()
    number = table.footnotes()["5/5 missing, not in the mean"]
    assert f"| n_heads=1 | - ({number}) | 0/5 | - |" in text
    assert f"({number}) 5/5 missing, not in the mean" in text
    assert "Unstable: a seed diverged." in text


def test_csv_holds_full_numbers_and_the_run_ids(comparison):
    rows = list(csv.DictReader(io.StringIO(score_table(comparison).to_csv())))
    swiglu = next(row for row in rows if row["variant"] == "feedforward=swiglu")
    found = comparison.row("feedforward=swiglu")
    assert float(swiglu["difference"]) == found.paired.raw_difference
    assert float(swiglu["test/loss_mean"]) == found.mean.mean
    assert float(swiglu["p_holm"]) == found.p
    assert swiglu["run_ids"].split() == list(found.run_ids)
    assert next(row for row in rows if row["variant"] == "n_heads=1")["test/loss_mean"] == ""


def test_bold_is_for_the_one_best_and_never_for_a_tie(tmp_path):
    fabricate(tmp_path, "one", variants=POSITIONS[:2])
    alone = score_table(compare(load(tmp_path, "one")))
    assert [row[0].text for row in alone.rows if row[1].bold] == ["baseline"]
    fabricate(tmp_path, "two", variants=(("norm=rmsnorm", "model.norm", "rmsnorm", 0.0, 1),))
    tied = score_table(compare(load(tmp_path, "two")))
    assert not any(cell.bold for row in tied.rows for cell in row)
    assert any("No value is bold: " in note for note in tied.notes)


def test_latex_is_booktabs_with_nothing_unescaped(comparison):
    text = score_table(comparison).to_latex()
    for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"$\pm$", r"n\_heads=1"):
        assert rule in text
    assert text.count(r"\begin{table*}") == text.count(r"\end{table*}") == 1
    body = text.split(r"\toprule")[1].split(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len(lines) == len(comparison.rows) + 1
    assert {line.count("&") for line in lines} == {10}


def test_every_special_character_is_spelled_out_for_latex():
    assert latex("50 % of a_b & {c} #1 $2 ~^\\ <>") == (
        r"50 \% of a\_b \& \{c\} \#1 \$2 \textasciitilde{}\textasciicircum{}\textasciibackslash{} $<$$>$"
    ).replace("textasciibackslash", "textbackslash")


def test_names_in_emoji_or_brackets_compile_in_latex():
    assert latex("🙂 é") == "(U+1F642) é"
    assert latex("[red]") == "{}[red]"
    assert latex("*") == "{}*"


def test_a_table_without_a_baseline_repeats_no_row_in_latex():
    rows = [[Cell(name)] for name in "abc"]
    text = Table("t", "c", [Column("x", text=True)], rows, [()] * 3, baseline_first=False).to_latex()
    assert [line for line in text.splitlines() if line in (r"a \\", r"b \\", r"c \\")] == [r"a \\", r"b \\", r"c \\"]


def test_lengths_become_columns_and_the_trained_one_is_marked(tmp_path):
    fabricate(tmp_path, "length", variants=POSITIONS, metric="test/len_20/accuracy", goal="max", trained=8,
              lengths={"len_10": 10, "len_20": 20})  # fmt: skip
    loaded = load(tmp_path, "length")
    table = length_table(loaded, compare(loaded))
    assert [c.title for c in table.columns] == ["variant", "length 8 (trained)", "length 10", "length 20"]
    assert table.rows[0][0].text == "baseline"
    assert table.rows[0][3].bold


def test_an_experiment_without_lengths_has_no_length_table(tmp_path):
    fabricate(tmp_path, seeds=3)
    loaded = load(tmp_path, "components")
    assert length_table(loaded, compare(loaded)) is None


def test_the_score_of_copying_the_source_stands_under_the_scores(tmp_path):
    fabricate(tmp_path, seeds=3)
    assert not any("Copying" in note for note in gather(tmp_path, "components").tables["scores"].notes)
    for path in (tmp_path / "components" / "runs").glob("*/result.json"):
        result = records.read_json(path)
        records.write_json(path, {**result, "metrics": {**result["metrics"], "test/copy_loss": 4.5}})
    table = gather(tmp_path, "components").tables["scores"]
    assert table.notes[0] == "Copying the source as it is would score 4.50 (mean over the runs' test sets)."
    assert table.notes[0] in table.to_markdown()


def test_costs_are_medians_with_the_change_to_the_baseline(comparison):
    table = cost_table(comparison)
    learned = next(row for row in table.rows if row[0].text == "positional=learned")
    assert learned[1].text == "105,100 (+4.1 %)"
    assert learned[1].raw["parameters"] == 105_100


def test_the_status_table_lists_only_what_is_not_done(comparison):
    table = status_table(comparison)
    assert [row[0].text for row in table.rows] == ["norm=none", "scaling=none", "n_heads=1"]
    assert [cell.text for cell in table.rows[0]] == ["norm=none", "4/5", "1/5", "-", "-", "-", "1"]


def test_run_ids_lie_beside_every_table(comparison, tmp_path):
    hashes = {"baseline-s0": "abc"}
    table = Table("t", "c", [Column("x", text=True)], [[Cell("baseline")]], [("baseline-s0",)])
    paths = table.write(tmp_path / "out", {"experiment": "e", "hashes": hashes})
    assert [path.name for path in paths] == ["t.csv", "t.md", "t.tex", "t.runs.json"]
    content = json.loads(paths[-1].read_text())
    assert content == {"experiment": "e", "runs": {"baseline": [{"id": "baseline-s0", "hash": "abc"}]}}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (words.plus_minus(2.13456, 0.01234), "2.135 ± 0.012"),
        (words.plus_minus(2.13456, float("nan")), "2.1346"),
        (words.plus_minus(21.3456, 3.4), "21.3 ± 3.4"),
        (words.plus_minus(0.5, 0.0), "0.5000 ± 0.0000"),
        (words.interval(-0.0321, -0.0112), "−0.032 to −0.011"),
        (words.number(-0.00001, 3, sign=True), "±0.000"),
        (words.p_value(0.00042), "<0.001"),
        (words.p_value(0.0123), "0.012"),
        (words.p_value(1.0), "1"),
        (words.p_phrase(0.0001), "p < 0.001"),
        (words.percent(1.0341), "+3.4 %"),
        (words.percent(0.5), "−50 %"),
        (words.percent(1.0), "same"),
        (words.count(1_234_000), "1.23 M"),
        (words.seconds(754), "12.6 min"),
        (words.memory(412e6), "412 MB"),
        (words.metric_label("test/len_32/exact_match"), "test exact match, len 32 (share of rows)"),
        (words.metric_label("train/lr"), "train lr"),
        (words.setting({"name": "rope", "options": {"base": 500.0}}), "rope(base=500)"),
        (words.listed(["a", "b", "c"]), "a, b and c"),
        (words.listed([str(i) for i in range(12)], most=2), "0, 1 and 10 more"),
    ],
)
def test_numbers_are_written_as_a_reader_expects(value, text):
    assert value == text
