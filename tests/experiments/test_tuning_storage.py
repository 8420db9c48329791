"""Where studies lie: how SQLite is opened, which URLs are refused, and that each storage holds what it is told."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from experiments.config import ConfigError
from experiments.tuning.request import Request
from experiments.tuning.storage import open_storage, shown
from tests.experiments.tuning_kit import InstantEngine, experiment, rates, tune, tune_until_killed


def pragma(storage, name):
    with storage.engine.connect() as connection:
        return connection.exec_driver_sql(f"PRAGMA {name}").scalar()


def test_sqlite_keeps_a_write_ahead_log_and_takes_the_write_lock_at_once(tmp_path):
    storage = open_storage(None, tmp_path)
    assert (tmp_path / "study.db").exists()
    assert pragma(storage, "journal_mode") == "wal"
    assert pragma(storage, "synchronous") == 1
    with storage.engine.begin() as one:
        one.exec_driver_sql("SELECT 1")
        import sqlite3

        other = sqlite3.connect(tmp_path / "study.db", timeout=0.01)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.close()
    storage.engine.dispose()


@pytest.mark.parametrize("url", ["postgres://me@host/db", "mysql://host/db", "somewhere", "redis://host"])
def test_a_url_that_is_none_of_the_forms_is_refused_with_them(url, tmp_path):
    with pytest.raises(ConfigError) as error:
        open_storage(url, tmp_path)
    assert "write sqlite:///FILE, postgresql+psycopg://USER@HOST/DATABASE, or journal:FILE" in str(error.value)


@pytest.mark.slow  # needs psycopg
def test_a_database_that_does_not_answer_is_told_without_its_password(tmp_path):
    with pytest.raises(ConfigError) as error:
        open_storage("postgresql://me:secret@127.0.0.1:1/db", tmp_path)
    assert "'postgresql+psycopg://me:***@127.0.0.1:1/db' does not answer" in str(error.value)
    assert "secret" not in str(error.value)
    assert shown("postgresql+psycopg://me@host/db") == "postgresql+psycopg://me@host/db"


@pytest.mark.parametrize("text", ["name: q\n", "[]\n", '{"op_code": 99}\n'])
def test_a_file_that_is_no_journal_is_told_and_left_alone(text, tmp_path):
    (tmp_path / "my.yaml").write_text(text)
    with pytest.raises(ConfigError, match="--storage: cannot open"):
        open_storage(f"journal:{tmp_path / 'my.yaml'}", tmp_path)
    assert (tmp_path / "my.yaml").read_text() == text


def test_a_file_that_is_no_database_is_told(tmp_path):
    (tmp_path / "study.db").write_text("not a database, but long enough to be looked at " * 40)
    with pytest.raises(ConfigError, match=r"cannot open '.*study.db'"):
        open_storage(None, tmp_path)


@pytest.mark.parametrize("form", ["sqlite:///{}/other.db", "journal:{}/study.log"])
def test_every_file_storage_resumes_after_a_death(form, tmp_path):
    url = form.format(tmp_path)
    _, straight = tune(tmp_path / "a", experiment(), Request(trials=6, storage=url, study="straight"))
    request = Request(trials=6, storage=url, study="killed")
    assert tune_until_killed(tmp_path / "b", experiment(), request, 2)
    _, resumed = tune(tmp_path / "b", experiment(), request)
    assert rates(resumed) == rates(straight)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory):
    """URL of a PostgreSQL server of our own on loopback; the package is Debian's `postgresql`."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    programs = found[-1].parent if found else Path(shutil.which("initdb") or "/usr/bin/initdb").parent
    home = Path("/tmp") / f"tuning-postgresql-{free_port()}"  # the socket's path must be short
    home.mkdir()
    is_root = subprocess.run(["id", "-u"], capture_output=True, text=True, check=True).stdout.strip() == "0"
    as_server = ["runuser", "-u", "postgres", "--"] if is_root else []
    if is_root:
        shutil.chown(home, "postgres", "postgres")
    port, data, quiet = free_port(), home / "data", {"check": True, "stdout": subprocess.DEVNULL, "cwd": "/"}
    subprocess.run([*as_server, programs / "initdb", "-D", data, "-U", "tuner", "-A", "trust", "--no-sync"], **quiet)
    options = f"-c listen_addresses=127.0.0.1 -p {port} -k {home}"
    log = ["-l", home / "log", "-w"]
    subprocess.run([*as_server, programs / "pg_ctl", "-D", data, *log, "-o", options, "start"], **quiet)
    yield f"postgresql://tuner@127.0.0.1:{port}/postgres"
    subprocess.run([*as_server, programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **quiet)
    shutil.rmtree(home)


@pytest.mark.slow
def test_postgresql_holds_a_study_through_a_death(postgresql, tmp_path):
    _, straight = tune(tmp_path / "a", experiment(), Request(trials=8, study="straight"))
    request = Request(trials=8, storage=postgresql, study="killed")
    assert tune_until_killed(tmp_path / "b", experiment(), request, 3)
    began = time.monotonic()
    outcome, resumed = tune(tmp_path / "b", experiment(), request)
    print(f"{(time.monotonic() - began) / 5:.3f} s a trial")
    assert outcome.exit_code == 0
    assert rates(resumed) == rates(straight)
    assert not (tmp_path / "b" / "valley-killed" / "study.db").exists()


@pytest.mark.slow
def test_two_experiments_share_one_postgresql(postgresql, tmp_path):
    for name in ("one", "two"):
        outcome, trials = tune(tmp_path, experiment(name=name), Request(trials=3, storage=postgresql, study="shared"))
        assert outcome.exit_code == 0
        assert len(trials) == 3


@pytest.mark.slow
def test_a_changed_question_is_refused_on_postgresql_too(postgresql, tmp_path):
    tune(tmp_path, experiment(), Request(trials=1, storage=postgresql, study="same"))
    with pytest.raises(ConfigError, match="was begun with another question"):
        tune(tmp_path, experiment(goal="max"), Request(trials=1, storage=postgresql, study="same"))


@pytest.mark.slow
@pytest.mark.parametrize("form", [None, "journal:{}/study.log"])
def test_the_dashboard_opens_a_study_as_it_is(form, tmp_path):
    storage = None if form is None else form.format(tmp_path)
    tune(tmp_path, experiment(vary={"model.norm": ["rmsnorm"]}), Request(trials=3, storage=storage), InstantEngine(2))
    address = f"sqlite:///{tmp_path}/valley-tune/study.db" if storage is None else str(tmp_path / "study.log")
    port = free_port()
    program = Path(sys.executable).parent / "optuna-dashboard"
    command = [program, address, "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            names = {study["study_name"] for study in ask(f"http://127.0.0.1:{port}/api/studies")["study_summaries"]}
        finally:
            server.kill()
    assert names == {"valley-tune/baseline", "valley-tune/norm=rmsnorm"}


def ask(url, patience=60.0):
    until = time.monotonic() + patience
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.3)
