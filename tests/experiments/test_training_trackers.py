"""metrics.jsonl always; mirrors that may fail without harm; wandb quiet and offline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from experiments.config import ConfigError
from experiments.records import METRICS
from experiments.training import wandb_mirror
from experiments.training.session import Watchers
from experiments.training.trackers import About, Guarded, MetricsFile
from experiments.training.wandb_mirror import WandbMirror, check_wandb
from tests.experiments.training_runs import config, rows, run, timeless

ABOUT = About("baseline-s0-abc", "tiny", "baseline", 0, {"train": {"lr": 0.1}}, ("quick",))


class Raising:
    """A tracker that fails whenever it is asked for anything."""

    def __init__(self, only: str = "") -> None:
        self.only, self.asked = only, 0

    def _do(self, what: str) -> None:
        self.asked += 1
        if self.only in ("", what):
            raise ConnectionError("no route\nto host")

    def start(self, about: About) -> None:
        self._do("start")

    def log(self, row: Mapping[str, Any]) -> None:
        self._do("log")

    def flush(self) -> None:
        self._do("flush")

    def summary(self, scores: Mapping[str, Any]) -> None:
        self._do("summary")

    def finish(self, status: str) -> None:
        self._do("finish")


class Remembering(Raising):
    """A tracker that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__("nothing")
        self.rows: list[dict[str, Any]] = []
        self.scores: dict[str, Any] = {}

    def log(self, row: Mapping[str, Any]) -> None:
        self.rows.append(dict(row))

    def summary(self, scores: Mapping[str, Any]) -> None:
        self.scores = dict(scores)


@pytest.mark.parametrize("only", ["", "start", "log", "flush", "summary", "finish"])
def test_a_tracker_that_raises_costs_one_warning_and_nothing_else(only: str, tmp_path: Path) -> None:
    healthy = Remembering()
    with pytest.warns(RuntimeWarning) as caught:
        result = mirrored(tmp_path / "a", Raising(only), healthy)
    assert [str(warning.message) for warning in caught] == [
        "Raising failed and is left out of this run (ConnectionError: no route); nothing is lost"
    ]
    assert timeless(result) == timeless(run(config(), tmp_path / "b"))
    assert rows(tmp_path / "a") == rows(tmp_path / "b")
    assert len(healthy.rows) == len(rows(tmp_path / "a"))
    assert healthy.scores == result["metrics"]


def mirrored(directory: Path, *trackers: Raising) -> dict[str, Any]:
    mirrors = Guarded(list(trackers))
    mirrors.start(ABOUT)
    result = run(config(), directory, Watchers(mirrors=mirrors))
    mirrors.finish("done")
    return result


def test_a_tracker_that_raised_is_not_asked_again(recwarn: pytest.WarningsRecorder) -> None:
    broken = Raising()
    mirrors = Guarded([broken])
    mirrors.start(ABOUT)
    mirrors.log({"step": 1})
    mirrors.finish("done")
    assert broken.asked == 1
    assert mirrors.dropped == ["Raising"]
    assert len(recwarn) == 1


def test_even_where_warnings_are_errors_a_tracker_cannot_stop_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    Guarded([Raising()]).start(ABOUT)  # the settings of this project's tests make warnings errors
    assert "Raising failed and is left out of this run" in capsys.readouterr().out


def test_lines_are_whole_strict_json_and_numbers_that_are_none_are_left_out(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    file.log({"step": 1, "train/loss": float("nan"), "train/lr": 0.1, "x": float("inf")})
    file.flush(sync=True)
    assert (tmp_path / METRICS).read_text() == '{"step": 1, "train/lr": 0.1}\n'
    assert file.size == (tmp_path / METRICS).stat().st_size


def test_a_file_goes_on_after_what_it_is_told_to_keep(tmp_path: Path) -> None:
    first = MetricsFile(tmp_path)
    first.log({"step": 1})
    first.flush()
    kept = first.size
    first.log({"step": 2})
    first.flush()
    again = MetricsFile(tmp_path, keep=kept)
    again.log({"step": 2, "again": True})
    again.flush()
    lines = [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()]
    assert lines == [{"step": 1}, {"step": 2, "again": True}]


def test_nothing_is_written_between_flushes_and_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    file.log({"step": 1})
    assert (tmp_path / METRICS).stat().st_size == 0
    (tmp_path / METRICS).unlink()
    (tmp_path / METRICS).mkdir()
    with pytest.raises(OSError):
        file.flush()


@pytest.mark.parametrize("mode, sentence", [
    ("offlne", "wandb: unknown mode 'offlne'. Did you mean 'offline'? Known: off, offline, online"),
    ("online", "wandb: mode 'online' needs a key: run `wandb login`, or set WANDB_API_KEY; or use 'offline' and sync "
     "later"),
])
def test_a_mode_that_cannot_work_is_refused_before_any_run(
    mode: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wandb_mirror, "_has_key", lambda: False)
    with pytest.raises(ConfigError) as caught:
        check_wandb(mode)
    assert str(caught.value) == sentence


def test_the_modes_that_need_nothing_import_nothing() -> None:
    code = ("import sys; from experiments.training.wandb_mirror import check_wandb; check_wandb('off'); "
            "check_wandb('offline'); sys.exit(any(name in sys.modules for name in ('wandb', 'torch')))")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unreachable_service_costs_one_warning_and_offline_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def init(self: WandbMirror, about: About, mode: str) -> str:
        asked.append(mode)
        if mode == "online":
            raise TimeoutError("no answer in 15 s")
        return "run"

    monkeypatch.setattr(WandbMirror, "_init", init)
    monkeypatch.setattr(wandb_mirror, "_unreachable", False)
    with pytest.warns(RuntimeWarning, match=r"cannot be reached \(TimeoutError: no answer in 15 s\); this run is"):
        assert WandbMirror("online", tmp_path)._open(ABOUT) == "run"
    WandbMirror("online", tmp_path)._open(ABOUT)
    assert asked == ["online", "offline", "offline"]


OFFLINE = """
import sys
from pathlib import Path
from experiments.training.trackers import About
from experiments.training.wandb_mirror import WandbMirror
for i in range(2):
    mirror = WandbMirror("offline", Path(sys.argv[1]))
    mirror.start(About(f"v=1-s{i}-abc", "tiny", "v=1", i, {"train": {"lr": 0.1}}, ("quick",)))
    for step in (1, 2):
        mirror.log({"step": step, "train/loss": 1.0 / step})
    mirror.summary({"test/loss": 0.25})
    mirror.finish("done")
"""


def test_offline_mirrors_are_really_written_under_results_in_silence_and_without_touching_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    clean = {k: v for k, v in os.environ.items() if not k.startswith("WANDB_")}
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, str(tmp_path / "results")], capture_output=True, text=True, check=True,
        env={**clean, "HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert list(home.iterdir()) == []
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["wandb"]
    files = sorted((tmp_path / "results" / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(files) == 2
    content = b"".join(file.read_bytes() for file in files)
    for part in (b"v=1-s0-abc", b"v=1-s1-abc", b"tiny", b"train/loss", b"test/loss", b"quick", b"status"):
        assert part in content
