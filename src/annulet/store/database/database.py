"""Opening the SQLite files of a data directory: checked first, then updated, otherwise refused by name."""

from __future__ import annotations

import functools
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from annulet.store.database.journal import journal_damage
from annulet.store.files.files import create_private

if TYPE_CHECKING:
    from annulet.store.files.errors import StoreError

READ_ERRORS: Final = (sqlite3.Error, msgspec.MsgspecError, ValueError, TypeError, LookupError)
"""Errors of reading damaged content: SQLite's own, and invalid values."""

SURROUNDINGS: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_SHMSIZE,  # no room for the index of the journal
    }
)
"""SQLite's errors about the disk, permissions and other users of the file: its content is not damaged."""

SURROUNDINGS_REMEDY: Final = "the file is as it was: free space on its disk, or make it writable, and start again"

DESCRIPTION: Final = """
SELECT master.name, info.name, info.type, info."notnull", info.pk
FROM sqlite_master AS master LEFT JOIN pragma_table_info(master.name) AS info WHERE master.name NOT LIKE 'sqlite_stat%'
"""
"""Every table and index of a file, with the columns of tables."""

IN_MEMORY: Final = ":memory:"
"""SQLite's name for a database without a file: a new one each time, so there is nothing to check."""

DAMAGES_SHOWN: Final = 3
"""Number of damages of a file in a message: the first determines the remedy."""


class DatabaseKind(NamedTuple):
    """One kind of file: its name for people, its tables, and the remedy for damage."""

    name: str
    version: int  # of the tables; in the file as SQLite's user_version
    tables: str  # statements that make them
    migrations: dict[int, str]  # statements that lead from a version, 1 or higher, to the next one
    synced: bool  # every transaction is on disk before the next one begins
    error: type[StoreError]
    remedy: str


def open_database(path: str, kind: DatabaseKind) -> sqlite3.Connection:
    """Return a connection to a sound file with the present tables; a missing file is created.

    Raises the error of its kind when the file is damaged or of a newer version. Such a file is only changed by its own
    journal.
    """
    damage = journal_damage(f"{path}-wal") if kind.synced else ""
    if damage:
        raise unreadable(path, kind, damage)
    create_private(path)
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise unreadable(path, kind, error) from error
    try:
        _prepare(connection, path, kind)
    except READ_ERRORS as error:
        connection.close()
        raise unreadable(path, kind, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: str, kind: DatabaseKind) -> None:
    if path == IN_MEMORY:
        connection.deserialize(_image(kind.tables, kind.version))
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={'FULL' if kind.synced else 'NORMAL'}")
    if path == IN_MEMORY:
        return
    _check_integrity(connection)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > kind.version:
        raise kind.error(
            f"{kind.name} {path} has schema version {version}, this version of Annulet knows {kind.version}; "
            "start the newer version again, or, if none ever ran here, restore the file from a backup"
        )
    if version and any(step not in kind.migrations for step in range(version, kind.version)):
        raise sqlite3.DatabaseError(f"it has schema version {version}, which no version of Annulet wrote")
    _empty_journal(connection)
    script = "".join(kind.migrations[step] for step in range(version, kind.version)) if version else kind.tables
    if script:
        connection.executescript(f"BEGIN;{script}PRAGMA user_version={kind.version};COMMIT;")
    _check_tables(connection, kind)


def _check_integrity(connection: sqlite3.Connection) -> None:
    """Let SQLite check the whole file. Raises ``sqlite3.DatabaseError`` with the findings."""
    found = connection.execute(f"PRAGMA integrity_check({DAMAGES_SHOWN})").fetchall()
    if found != [("ok",)]:
        raise sqlite3.DatabaseError("; ".join(str(text) for (text,) in found))


def _empty_journal(connection: sqlite3.Connection) -> None:
    """Move the rest of the journal after a crash into the file.

    The next write would overwrite only the beginning of a torn transaction. If it was torn too, the rest of the former
    one, including its end, would look like a commit behind damage.
    """
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as error:
        if not is_of_surroundings(error):  # a full disk keeps nothing from starting
            raise


def _check_tables(connection: sqlite3.Connection, kind: DatabaseKind) -> None:
    """Compare names and types with those of a new file, because SQLite accepts any text in them."""
    differing = _described(kind.tables).symmetric_difference(connection.execute(DESCRIPTION))
    if differing:
        names = sorted({str(name) for name, *_ in differing})
        raise sqlite3.DatabaseError(f"its tables are not those of schema version {kind.version}: {', '.join(names)}")


@functools.cache
def _image(tables: str, version: int) -> bytes:
    """Return the content of a new file. To copy it takes a tenth of the time of making it, 4 ms."""
    with closing(sqlite3.connect(IN_MEMORY)) as fresh:
        fresh.executescript(f"BEGIN;{tables}PRAGMA user_version={version};COMMIT;")
        return bytes(fresh.serialize())


@functools.cache
def _described(tables: str) -> frozenset[Any]:
    """Return the description of a new file with these tables."""
    with closing(sqlite3.connect(IN_MEMORY)) as fresh:
        fresh.executescript(tables)
        return frozenset(fresh.execute(DESCRIPTION))


def unreadable(path: str, kind: DatabaseKind, damage: Exception | str) -> StoreError:
    """Return the exception for a file that cannot be read, so that an undamaged one is not moved away."""
    remedy = SURROUNDINGS_REMEDY if is_of_surroundings(damage) else kind.remedy
    return kind.error(f"{kind.name} {path} cannot be read: {damage}; {remedy}")


def is_of_surroundings(damage: Exception | str) -> bool:
    """Return whether the error concerns the surroundings of a file, not its content."""
    code = getattr(damage, "sqlite_errorcode", sqlite3.SQLITE_OK)  # none where Python itself could not decode a text
    return not SURROUNDINGS.isdisjoint({code, code & 0xFF})
