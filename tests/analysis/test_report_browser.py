"""The pages as a person meets them, in a headless browser."""

import json

import pytest

from analysis.report import write_report, write_site
from benchmarks import recorded
from experiments import records
from tests.analysis.browser import Browser
from tests.analysis.fabricated import COMPONENTS, fabricate

pytestmark = pytest.mark.slow
POSITIONS = tuple(v for v in COMPONENTS if v[1] == "model.positional")
ROWS = "[...document.querySelectorAll('#%s tbody tr')].filter(r => !r.hidden).map(r => r.cells[0].textContent.trim())"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    fabricate(results, diverged={("norm=none", 3)}, failed={("scaling=none", 1)}, missing={("n_heads=1", 4)})
    fabricate(results, "length", variants=POSITIONS, metric="test/len_20/accuracy", goal="max", trained=8,
              lengths={"len_10": 10, "len_20": 20})  # fmt: skip
    write_site(results)
    return results


@pytest.fixture(scope="module")
def chromium():
    found = Browser()
    yield found
    found.close()


@pytest.fixture
def browser(chromium):
    chromium.problems.clear()
    chromium.requests.clear()
    return chromium


def to_the_curves(browser, page):
    """Opens a page and goes to its curves, which are drawn when somebody comes near."""
    browser.open(page)
    browser.run("document.querySelector('.chart').scrollIntoView({behavior: 'instant'})")
    browser.run("new Promise(done => { const look = () => document.querySelector('.chart svg') ? done() : setTimeout(look, 20); look(); })")
    browser.run("document.querySelector('.chart').scrollIntoView({behavior: 'instant'})")


def experiment_page(site):
    return site / "report" / "experiments" / "components" / "index.html"


def pages(site):
    runs = sorted((site / "report" / "experiments" / "components" / "runs").iterdir())
    own = write_report(site, "components")
    return [site / "report" / "index.html", experiment_page(site), own, runs[0], *[r for r in runs if "scaling=none-s1" in r.name]]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_pages_open_fast_without_an_error_and_nothing_leaves_them(site, browser, tmp_path, width, dark):
    for page in pages(site):
        seconds = browser.open(page, width, dark=dark)
        background = browser.run("getComputedStyle(document.body).backgroundColor")
        assert browser.problems == [], page
        assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
        assert seconds < 5  # alone on a laptop it is under one
        assert browser.run("document.documentElement.scrollWidth <= window.innerWidth"), f"{page} scrolls sideways"
        assert (background == "rgb(21, 23, 26)") == dark
        assert len(browser.screenshot(tmp_path / "page.png")) > 10_000


def test_a_click_on_a_head_sorts_up_down_and_back(site, browser):
    browser.open(experiment_page(site))
    given = browser.run(ROWS % "t-scores")
    values = "[...document.querySelectorAll('#t-scores tbody tr')].map(r => Number(r.cells[1].dataset.sort))"
    click = "document.querySelectorAll('#t-scores thead button')[1].click()"
    state = "document.querySelectorAll('#t-scores thead th')[1].getAttribute('aria-sort')"
    browser.run(click)
    assert browser.run(state) == "ascending"
    assert browser.run(values) == sorted(browser.run(values))
    browser.run(click)
    assert browser.run(values) == sorted(browser.run(values), reverse=True)
    browser.run(click)
    assert browser.run(state) == "none"
    assert browser.run(ROWS % "t-scores") == given


def test_empty_cells_stay_last_in_both_directions(site, browser):
    browser.open(experiment_page(site))
    last = "[...document.querySelectorAll('#t-scores tbody tr')].at(-1).cells[0].textContent.trim()"
    for _ in range(2):
        browser.run("document.querySelectorAll('#t-scores thead button')[3].click()")
        assert browser.run(last) == "baseline"


def test_the_keyboard_sorts_too(site, browser):
    browser.open(experiment_page(site))
    browser.run("document.querySelectorAll('#t-scores thead button')[1].focus()")
    browser.press("Enter")
    assert browser.run("document.querySelectorAll('#t-scores thead th')[1].getAttribute('aria-sort')") == "ascending"
    assert browser.run(ROWS % "t-scores")[0] == "feedforward=swiglu"


def test_words_and_status_filter_the_runs(site, browser):
    browser.open(experiment_page(site))
    tools = "document.querySelector('[data-filters=t-runs]')"
    assert len(browser.run(ROWS % "t-runs")) == 60
    browser.run(f"(t => {{ t.querySelector('input').value = 'SWIGLU s1'; t.querySelector('input').dispatchEvent(new Event('input')) }})({tools})")
    assert [name[:21] for name in browser.run(ROWS % "t-runs")] == ["feedforward=swiglu-s1"]
    assert browser.run(f"{tools}.querySelector('output').textContent") == "1 of 60 shown"
    browser.run(
        f"(t => {{ t.querySelector('input').value = ''; t.querySelector('select').value = 'failed';"
        f" t.querySelector('select').dispatchEvent(new Event('change')) }})({tools})"
    )
    assert [name[:15] for name in browser.run(ROWS % "t-runs")] == ["scaling=none-s1"]


@pytest.fixture(scope="module")
def long_site(tmp_path_factory):
    """144 runs of 12 variants: more rows than a page builds at once."""
    results = tmp_path_factory.mktemp("long")
    fabricate(results, seeds=12)
    first = next(iter((results / "components" / "runs").iterdir()))
    rows = [{"step": step, "decoder.layers.0/rms": 0.5 + step, "decoder.layers.1/rms": 1.5, "logits/rms": 2.0} for step in (0, 50)]
    (first / records.BY_STEP).write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_site(results)
    return results, first.name


SHOWN = "document.querySelectorAll('#t-runs tbody tr').length"


def test_a_long_list_of_runs_opens_with_its_first_rows_and_a_button_shows_all(long_site, browser):
    browser.open(experiment_page(long_site[0]))
    assert browser.run(SHOWN) == 100
    assert browser.run("document.querySelector('[data-filters=t-runs] output').textContent") == "144 of 144 shown"
    browser.run("document.querySelector('.rest[data-of=t-runs] button').focus()")
    browser.press("Enter")
    assert browser.run(SHOWN) == 144
    assert browser.run("document.querySelector('.rest[data-of=t-runs]')") is None
    assert browser.run("document.activeElement.closest('tr').rowIndex") == 101  # the first of the new rows; 0 is the head
    assert browser.problems == []


def test_sorting_and_filtering_reach_the_rows_that_are_not_shown_yet(long_site, browser):
    browser.open(experiment_page(long_site[0]))
    names = browser.run(ROWS % "t-runs")
    browser.run("document.querySelectorAll('#t-runs thead button')[2].click(); document.querySelectorAll('#t-runs thead button')[2].click()")
    seeds = "[...document.querySelectorAll('#t-runs tbody tr')].map(r => Number(r.cells[2].textContent))"
    assert browser.run(seeds) == sorted([*range(12)] * 12, reverse=True)
    browser.open(experiment_page(long_site[0]))
    tools = "document.querySelector('[data-filters=t-runs]')"
    browser.run(f"(t => {{ t.querySelector('input').value = 's11-'; t.querySelector('input').dispatchEvent(new Event('input')) }})({tools})")
    found = browser.run(ROWS % "t-runs")
    assert len(found) == 12
    assert set(found) - set(names)
    assert browser.run(f"{tools}.querySelector('output').textContent") == "12 of 144 shown"


def test_figures_and_curves_wait_until_somebody_comes_near(long_site, browser):
    browser.open(experiment_page(long_site[0]))
    assert browser.run("document.querySelectorAll('.later').length") > 0
    assert browser.run("document.querySelector('.later').getAttribute('aria-label')").startswith("Each variant against")
    height = browser.run("document.documentElement.scrollHeight")
    for _ in range(40):
        browser.run("window.scrollBy({top: 700, behavior: 'instant'})")
        browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert browser.run("document.querySelectorAll('.later').length") == 0
    assert browser.run("document.querySelectorAll('.paper svg').length") >= 4
    assert browser.run("document.querySelectorAll('.chart polyline').length") > 0
    assert abs(browser.run("document.documentElement.scrollHeight") - height) < 0.2 * height
    assert browser.problems == []


@pytest.fixture
def fresh_browser():
    """One whose counters start at nothing."""
    found = Browser()
    yield found
    found.close()


def test_a_page_of_a_thousand_runs_is_light(tmp_path, fresh_browser):
    """Time on a shared machine says little; elements and processor time say what a page costs anywhere."""
    browser = fresh_browser
    _, results = recorded.fabricate(tmp_path, 50, 20)
    page = write_report(results, "many")
    browser.call("Performance.setTimeDomain", timeDomain="threadTicks")
    browser.call("Performance.enable")
    browser.open(page)
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    found = {metric["name"]: metric["value"] for metric in browser.call("Performance.getMetrics")["metrics"]}
    assert browser.run(SHOWN) == 100
    assert browser.run("document.querySelectorAll('*').length") < 6000
    assert found["TaskDuration"] < 2.5  # on two busy cores it is under 1; with every row and figure it was 4.4
    tools = "document.querySelector('[data-filters=t-runs]')"
    browser.run(f"(t => {{ t.querySelector('input').value = 's19-'; t.querySelector('input').dispatchEvent(new Event('input')) }})({tools})")
    assert browser.run(f"{tools}.querySelector('output').textContent") == "50 of 1000 shown"
    assert browser.problems == []


def test_everything_is_there_when_a_page_is_printed(long_site, browser):
    browser.open(experiment_page(long_site[0]))
    assert len(browser.call("Page.printToPDF")["data"]) > 100_000
    assert browser.run(SHOWN) == 144
    assert browser.run("document.querySelectorAll('.later').length") == 0
    assert browser.run("document.querySelectorAll('.chart polyline').length") > 0


def test_a_run_page_shows_its_layers_over_steps(long_site, browser):
    results, run = long_site
    browser.open(results / "report" / "experiments" / "components" / "runs" / f"{run}.html", height=4000)
    browser.run("new Promise(done => setTimeout(done, 300))")
    assert browser.run("[...document.querySelectorAll('#c-layers .key label')].filter(l => !l.hidden).map(l => l.textContent)") == ["layer 1", "layer 2"]
    assert browser.run("document.querySelectorAll('#c-layers polyline').length") == 2
    choose = "(s => { s.value = 'logits, root mean square'; s.dispatchEvent(new Event('change')) })(document.querySelector('#c-layers select'))"
    browser.run(choose)
    assert browser.run("[...document.querySelectorAll('#c-layers .key label')].filter(l => !l.hidden).map(l => l.textContent)") == ["logits"]


def test_curves_show_the_values_under_the_pointer(site, browser):
    to_the_curves(browser, experiment_page(site))
    at = "(b => ({x: b.left + b.width * .95, y: b.top + 60}))(document.querySelector('.chart svg').getBoundingClientRect())"
    place = browser.run(at)
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=place["x"], y=place["y"])
    tip = browser.run("document.querySelector('.tip').textContent")
    assert tip.startswith("step 150")
    assert "baseline: 2.1" in tip
    assert "n=5)" in tip


def test_the_arrow_keys_read_the_curves(site, browser):
    to_the_curves(browser, experiment_page(site))
    browser.run("document.querySelector('.chart svg').focus()")
    shown = []
    for key in ("ArrowRight", "ArrowRight", "End", "Home"):
        browser.press(key)
        shown.append(browser.run("document.querySelector('.tip b').textContent"))
    assert shown == ["step 50", "step 100", "step 150", "step 50"]


def test_lines_are_switched_off_and_metrics_changed(site, browser):
    to_the_curves(browser, experiment_page(site))
    count = "document.querySelectorAll('.chart polyline').length"
    before = browser.run(count)
    browser.run("document.querySelector('.key input:checked').click()")
    assert browser.run(count) == before - 1
    browser.run("(s => { s.value = 'train/loss'; s.dispatchEvent(new Event('change')) })(document.querySelector('.chart select'))")
    assert browser.run("document.querySelector('.chart select').selectedOptions[0].text") == "train loss (nats per token)"
    assert browser.run(count) == before - 1


def test_every_link_of_the_site_leads_to_a_file(site, browser):
    seen, todo = set(), [site / "report" / "index.html"]
    links = "[...document.querySelectorAll('a[href]')].map(a => decodeURIComponent(a.href))"
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".html" or (page.parent.name == "runs" and len(seen) > 8):
            continue
        seen.add(page)
        browser.open(page)
        for url in browser.run(links):
            target = type(page)(url.removeprefix("file://").split("#")[0])
            assert target.exists(), f"{page}: {url}"
            todo.append(target)
    assert len(seen) > 3


def test_a_run_page_shows_its_failure_and_how_to_repeat_it(site, browser):
    run = next(iter((site / "report" / "experiments" / "components" / "runs").glob("scaling=none-s1-*.html")))
    browser.open(run)
    text = browser.run("document.body.innerText")
    assert "out_of_memory: needs 9.1 GB, has 2.0 GB" in text
    assert f"python run_all.py run components --only {run.stem} --redo" in text


def test_names_from_users_cannot_become_markup(tmp_path, browser):
    evil = "<img src=x onerror=alert(1)>"
    fabricate(tmp_path, variants=(("norm=" + evil, "model.norm", evil, 0.1, 1),), question=f"Is {evil} </script> harmless?")
    write_site(tmp_path)
    for page in [tmp_path / "report" / "index.html", *(tmp_path / "report").rglob("runs/*.html"), experiment_page(tmp_path)]:
        browser.open(page)
        assert browser.run("document.querySelectorAll('img').length") == 0
        assert browser.problems == []


def test_a_page_prints_without_its_controls(site, browser):
    browser.open(experiment_page(site))
    browser.call("Emulation.setEmulatedMedia", media="print")
    hidden = browser.run("[...document.querySelectorAll('.tools, nav')].every(e => getComputedStyle(e).display === 'none')")
    browser.call("Emulation.setEmulatedMedia", media="")
    assert hidden
    assert records.experiments(site) == ["components", "length"]
