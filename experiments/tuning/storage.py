"""Where studies lie: a SQLite file by default, PostgreSQL by URL, a journal file for folders that machines share.

SQLite as Optuna opens it locks for reading first and for writing later, so that two connections can both believe that
a trial is theirs; and it waits for the disk at every commit. Opened our way it takes the write lock at once (BEGIN
IMMEDIATE) and keeps a write-ahead log, which survives a killed process, at a tenth of the time.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.config import ConfigError

if TYPE_CHECKING:
    from optuna.storages import BaseStorage, RDBStorage

FILE = "study.db"
LOCK_SECONDS = 5  # a writer holds the journal's lock for milliseconds; one that was killed leaves it behind
JOURNAL_LINE = b'{"op_code":'  # how every line of a journal begins
FORMS = "sqlite:///FILE, postgresql+psycopg://USER@HOST/DATABASE, or journal:FILE"


def open_storage(url: str | None, folder: Path) -> BaseStorage:
    """The storage behind a URL; None = the file study.db in `folder`.

    Raises:
        ConfigError: not one of the forms, a driver that is not installed, or a database that does not answer.
    """
    quiet()
    kind, _, rest = (f"sqlite:///{(folder / FILE).absolute()}" if url is None else url).partition(":")
    if kind == "sqlite":
        return _sqlite(Path(rest.removeprefix("///")))
    if kind == "journal":
        return _journal(Path(rest))
    if kind in ("postgresql", "postgresql+psycopg"):
        return _postgresql(f"postgresql+psycopg:{rest}")
    wrong = "postgres:// is not a form that the driver knows; " if kind == "postgres" else ""
    raise ConfigError([("--storage", f"'{shown(url)}': {wrong}write {FORMS}")])


def close(storage: BaseStorage) -> None:
    """Gives database connections back; a file needs nothing."""
    engine = getattr(storage, "engine", None)
    if engine is not None:
        storage.remove_session()
        engine.dispose()


def shown(url: str | None) -> str:
    """A URL without its password, for messages and records."""
    return re.sub(r"(://[^:/@]+):[^@]*@", r"\1:***@", f"sqlite:///{FILE}" if url is None else url)


def quiet() -> None:
    """Optuna's own log lines at INFO repeat what we show; its notes on experimental parts are ours to know."""
    import warnings

    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)


def _sqlite(path: Path) -> RDBStorage:
    from optuna.storages import RDBStorage

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        storage = RDBStorage(f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": 60}})
        _write_lock_first(storage)
    except Exception as error:
        raise ConfigError([("--storage", f"cannot open '{path}': {_first_line(error)}")]) from error
    return storage


def _write_lock_first(storage: RDBStorage) -> None:
    from sqlalchemy import event

    @event.listens_for(storage.engine, "connect")
    def connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # the driver itself must not begin transactions
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    @event.listens_for(storage.engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    storage.remove_session()
    storage.engine.dispose()  # connections made so far do not know of this


def _journal(path: Path) -> BaseStorage:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_journal(path)
        lock = JournalFileOpenLock(str(path), grace_period=LOCK_SECONDS)
        return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
    except Exception as error:  # a file that is no journal raises whatever its first line leads to
        raise ConfigError([("--storage", f"cannot open '{path}': {_first_line(error)}")]) from error


def _check_journal(path: Path) -> None:
    """Optuna takes a line that it cannot read for a torn one, and would write behind it, whatever the file is."""
    if path.exists():
        with open(path, "rb") as file:
            begun = file.read(len(JOURNAL_LINE))
        if not JOURNAL_LINE.startswith(begun):
            raise ValueError("it is there and is no journal; name another file")


def _postgresql(url: str) -> RDBStorage:
    if importlib.util.find_spec("psycopg") is None:
        raise ConfigError([("--storage", "PostgreSQL needs a driver: pip install 'psycopg[binary]>=3.3,<4'")])
    from optuna.storages import RDBStorage

    try:
        return RDBStorage(url, engine_kwargs={"pool_pre_ping": True})
    except Exception as error:
        raise ConfigError([("--storage", f"'{shown(url)}' does not answer: {_first_line(error)}")]) from error


def _first_line(error: BaseException) -> str:
    text = str(error.__cause__ or error).strip().splitlines()
    return re.sub(r"password=\S+", "password=***", text[0][:200]) if text else type(error).__name__
