"""What a report writes, and that every number of it can be traced to run ids."""

import json
import re
import shutil
import subprocess

import pytest

from analysis.report import ReportError, write_paper, write_report, write_site
from analysis.report.site import tail
from experiments import records
from tests.analysis.fabricated import COMPONENTS, fabricate

POSITIONS = tuple(v for v in COMPONENTS if v[1] == "model.positional")
LENGTH = {"variants": POSITIONS, "metric": "test/len_20/accuracy", "goal": "max", "lengths": {"len_10": 10, "len_20": 20}}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    fabricate(folder, variants=POSITIONS, diverged={("positional=none", 3)}, failed={("positional=learned", 1)})
    return folder


@pytest.fixture(scope="module")
def page(results):
    return write_report(results, "components")


def test_the_report_holds_page_text_tables_and_figures(page):
    folder = page.parent
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    for figure in ("differences", "curves", "costs", "seeds"):
        assert {f"figures/{figure}{s}" for s in (".png", ".svg", ".runs.json")} <= names
    for table in ("scores", "costs", "status"):
        assert {f"tables/{table}{s}" for s in (".csv", ".md", ".tex", ".runs.json")} <= names
    assert {"index.html", "report.md"} <= names


def test_the_page_needs_nothing_beside_it(page):
    text = page.read_text()
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=[\"'](?!data:)", text)
    assert "@import" not in text
    assert "Content-Security-Policy" in text
    assert len(text) < 1_500_000


def test_every_section_is_there(page):
    text = page.read_text()
    for words in (
        "Which parts of a small transformer matter", "Best value of each part", "<h2 id=\"table\">", "<h2 id=\"figures\">",
        "<h2 id=\"curves\">", "<h2 id=\"cost\">", "Protocol: what was held equal", "<h2 id=\"sure\">", "<h2 id=\"runs\">",
        "How to repeat", "Not in these numbers", "fixed at 0.003 for every variant, not tuned, cosine schedule",
    ):  # fmt: skip
        assert words in text, words


def test_every_planned_run_is_listed_with_its_status_and_command(page, results):
    text, markdown = page.read_text().replace("<wbr>", ""), (page.parent / "report.md").read_text()
    meta = records.read_json(results / "components" / records.EXPERIMENT)
    for run in meta["runs"]:
        assert f">{run['id']}<" in text
        assert f"[{run['id']}](../runs/{run['id']}/)" in markdown
    assert "python run_all.py run components --only RUN --redo" in text
    assert "diverged at step 50: the loss is not finite" in text
    assert "out_of_memory: needs 9.1 GB, has 2.0 GB" in text


def test_figures_and_tables_name_their_runs_with_hashes(page, results):
    meta = records.read_json(results / "components" / records.EXPERIMENT)
    hashes = {run["id"]: run["hash"] for run in meta["runs"]}
    files = sorted(page.parent.rglob("*.runs.json"))
    assert len(files) == 7
    for path in files:
        content = json.loads(path.read_text())
        assert content["definition"] == meta["definition"]
        for runs in content["runs"].values():
            assert all(hashes[run["id"]] == run["hash"] for run in runs)


def test_the_mean_in_the_page_is_the_mean_of_the_listed_runs(page, results):
    rows = (page.parent / "tables" / "scores.csv").read_text().splitlines()
    heads = rows[0].split(",")
    for line in rows[1:]:
        row = dict(zip(heads, line.split(","), strict=True))
        found = [records.read_run(results / "components" / "runs" / run).result for run in row["run_ids"].split()]
        values = [r["metrics"]["test/loss"] for r in found if r is not None and r["status"] == "done"]
        assert float(row["test/loss_mean"]) == pytest.approx(sum(values) / len(values), rel=1e-12)
        assert int(row["n"]) == len(values)


def test_writing_again_gives_the_same_bytes(page, results):
    before = {path: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()}
    write_report(results, "components")
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_a_report_is_written_at_every_stage_of_a_sweep(tmp_path, keep):
    names = ("baseline", *(v[0] for v in POSITIONS[:2]))
    fabricate(tmp_path, variants=POSITIONS[:2], seeds=3, missing={(n, s) for n in names for s in range(keep, 3)})
    text = write_report(tmp_path, "components").read_text()
    assert "No answer yet" in text
    assert f"{3 * (3 - keep)} of 9 runs without a result yet" in text


def test_a_run_directory_that_is_not_planned_is_named_and_not_read(tmp_path):
    fabricate(tmp_path, variants=POSITIONS[:1], seeds=3)
    (tmp_path / "components" / "runs" / "stray-s0-00000000").mkdir()
    assert "stray-s0-00000000" in (write_report(tmp_path, "components").parent / "report.md").read_text()


def test_an_altered_metrics_file_is_named(tmp_path):
    runs = fabricate(tmp_path, variants=POSITIONS[:1], seeds=3)
    with open(tmp_path / "components" / "runs" / runs[0]["id"] / records.METRICS, "a") as file:
        file.write('{"step": 151, "validation/loss": 0.1}\n')
    text = (write_report(tmp_path, "components").parent / "report.md").read_text()
    assert f"Curves left out, because metrics.jsonl was altered after the run: {runs[0]['id']}." in text


def test_an_unknown_experiment_is_one_message(tmp_path):
    with pytest.raises(ReportError, match="no experiment 'x' under"):
        write_report(tmp_path, "x")


def test_the_site_has_a_page_for_everything_and_names_what_it_cannot_read(tmp_path):
    runs = fabricate(tmp_path, "one", variants=POSITIONS[:1], seeds=3)
    fabricate(tmp_path, "broken", variants=POSITIONS[:1], seeds=1)
    (tmp_path / "broken" / records.EXPERIMENT).write_text("{")
    overview = write_site(tmp_path)
    assert overview == tmp_path / "report" / "index.html"
    assert "experiment.json: unreadable" in overview.read_text()
    pages = {path.stem for path in (tmp_path / "report" / "experiments" / "one" / "runs").iterdir()}
    assert pages == {run["id"] for run in runs}


def test_pages_of_runs_that_are_gone_are_gone_too(tmp_path):
    fabricate(tmp_path, "one", variants=POSITIONS[:1], seeds=1)
    write_site(tmp_path)
    stale = tmp_path / "report" / "experiments" / "old" / "index.html"
    stale.parent.mkdir()
    stale.write_text("old")
    write_site(tmp_path)
    assert not stale.exists()


def test_a_site_over_nothing_says_so(tmp_path):
    assert "There is no experiment under this results folder yet." in write_site(tmp_path / "none").read_text()


def test_the_end_of_a_long_log_is_read_from_its_end(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("\n".join(f"line {i}" for i in range(100_000)))
    assert tail(path, 2) == "line 99998\nline 99999"
    assert tail(tmp_path / "none") == ""


def test_the_paper_kit_states_n_protocol_and_test_and_compiles_where_latex_is(tmp_path):
    fabricate(tmp_path, "length", **LENGTH, trained=8, diverged={("positional=none", 3)})
    folder = write_paper(tmp_path, "length")
    text = (folder / "tables" / "scores.tex").read_text()
    for words in (r"\toprule", "Holm-corrected over 4 variants", "5 seeds per variant", "learning rate: fixed at 0.003", r"$\pm$"):
        assert words in text, words
    names = {path.name for path in (folder / "figures").glob("*.pdf")}
    assert names == {f"{f}-{w}.pdf" for f in ("differences", "curves", "costs", "lengths", "seeds")
                     for w in ("one-column", "two-columns")}  # fmt: skip
    latex = shutil.which("pdflatex")
    if latex:
        command = [latex, "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout[-2000:]
        assert "Overfull" not in done.stdout
        assert (folder / "main.pdf").stat().st_size > 10_000
