"""One SQLite file: its schema and versions, its settings, transactions, what its complaints mean."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec

from .seen import Broken, Unusable

T = TypeVar("T")

_PATIENCE_AT_OPENING: Final = 2.0  # a client waits for its first answer
_PATIENCE: Final = 5.0
_BETWEEN_ATTEMPTS: Final = 0.01

_APPLICATION: Final = 0x4D435057
# A file's `user_version` says through how many of these steps it has gone. They are only ever added to.
_STEPS: Final = (
    (
        """CREATE TABLE server (
            id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, names BLOB NOT NULL, instructions BLOB NOT NULL,
            revision TEXT NOT NULL, first_seen REAL NOT NULL, last_seen REAL NOT NULL, size INTEGER NOT NULL
        )""",
        """CREATE TABLE tool (
            server INTEGER NOT NULL REFERENCES server ON DELETE CASCADE,
            name TEXT NOT NULL, hash TEXT NOT NULL, definition BLOB NOT NULL, PRIMARY KEY (server, name)
        )""",
        "CREATE INDEX tool_by_hash ON tool (hash)",
    ),
    (
        """CREATE TABLE earlier (
            id INTEGER PRIMARY KEY, server INTEGER NOT NULL REFERENCES server ON DELETE CASCADE,
            name TEXT NOT NULL, hash TEXT NOT NULL, definition BLOB NOT NULL, UNIQUE (server, name, hash)
        )""",
        "CREATE INDEX earlier_by_hash ON earlier (hash)",
    ),
    ("CREATE TABLE approved (id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, text BLOB NOT NULL)",),
)
VERSION: Final = len(_STEPS)

_SETTINGS: Final = (
    "synchronous = NORMAL",  # the last records may be lost with the power, never what was there
    "foreign_keys = ON",
    "trusted_schema = OFF",
    "cell_size_check = ON",
    "temp_store = MEMORY",
    "cache_size = -512",
    "wal_autocheckpoint = 256",  # a workbench that was killed leaves that much to read at a start
    f"journal_size_limit = {4 * 1024 * 1024}",
)

# Complaints that say nothing about what is in the file.
_BLAMELESS: Final = frozenset(
    {
        sqlite3.SQLITE_AUTH,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)


class Database:
    """A connection to one file. It may be used from any thread, by one at a time.

    What SQLite complains of within a `transaction` is raised as Broken or Unusable.
    """

    def __init__(self, path: str) -> None:
        """Opens the file, and brings an empty or older one to this version."""
        with _translating():
            self._db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                self._wait_until_current()
                self._db.execute(f"PRAGMA busy_timeout = {_PATIENCE * 1000:.0f}")
                for setting in _SETTINGS:
                    self._db.execute(f"PRAGMA {setting}")
            except BaseException:
                self._db.close()
                raise
        self.execute = self._db.execute
        self.executemany = self._db.executemany

    def close(self) -> None:
        with _translating():
            self._db.close()

    @contextmanager
    def transaction(self, kind: str = "DEFERRED") -> Iterator[None]:
        with _translating(), self._db:  # which commits or rolls back
            self._db.execute(f"BEGIN {kind}")
            yield

    def number(self, statement: str) -> int:
        return checked(self._db.execute(statement).fetchone()[0], int)

    def _wait_until_current(self) -> None:
        # SQLite's own way of waiting would not see that another workbench has done it meanwhile, and does not
        # wait at all for the journal's mode.
        give_up = time.monotonic() + _PATIENCE_AT_OPENING
        while True:
            try:
                version = self._version_now()
                if version != VERSION:
                    if not version:
                        # An empty file has nothing to lose with the power, and the first start no time.
                        self._db.execute("PRAGMA synchronous = OFF")
                    self._db.execute("PRAGMA journal_mode = WAL")
                    self._take_steps()
                return
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                    raise
                time.sleep(_BETWEEN_ATTEMPTS)

    def _version_now(self) -> int:
        with self._db:
            self._db.execute("BEGIN")  # so that all of it is read at one moment
            return self._version()

    def _take_steps(self) -> None:
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            version = self._version()  # another workbench may have been quicker
            for step in _STEPS[version:]:
                for statement in step:
                    self._db.execute(statement)
            self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._db.execute(f"PRAGMA user_version = {VERSION}")

    def _version(self) -> int:
        """Through how many steps the file has gone: none if it is empty."""
        version, application = self.number("PRAGMA user_version"), self.number("PRAGMA application_id")
        if application != _APPLICATION:
            if version or application or self.number("SELECT count(*) FROM sqlite_master"):
                raise Unusable("it is the database of another program")
            return 0
        if version > VERSION:
            raise Unusable("a newer version of MCP Workbench has written it")
        if version < 1:
            raise Broken(f"there is no version {version} of it")
        return version


def checked(value: Any, kind: type[T]) -> T:
    """SQLite's columns take values of any type, so a damaged file may hold others than were written."""
    return msgspec.convert(value, kind, builtin_types=(bytes,))


@contextmanager
def _translating() -> Iterator[None]:
    try:
        yield
    except (sqlite3.InterfaceError, sqlite3.ProgrammingError):
        raise  # these are ours to mend
    except sqlite3.Error as error:
        kind = Unusable if _code(error) in _BLAMELESS else Broken
        raise kind(str(error)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:  # the complaint, too, may quote anything
        raise Broken(str(error)) from error


def _code(error: sqlite3.Error) -> int | None:
    """What SQLite calls it, without the details; None if Python could not read what it gave."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
