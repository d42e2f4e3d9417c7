"""The catalogue's SQLite file: how it is opened, its schema, and bringing an older schema up to date."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from annulet.store.errors import CatalogueError

APPLICATION_ID: Final = 0x414E4C54
"""SQLite's mark for whose file it is ("ANLT")."""

_SCHEMA_1: Final = """
CREATE TABLE virtual_hosts (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE users (name TEXT PRIMARY KEY, password_hash TEXT NOT NULL, tags TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE permissions (
    user TEXT NOT NULL REFERENCES users(name) ON DELETE CASCADE,
    virtual_host TEXT NOT NULL REFERENCES virtual_hosts(name) ON DELETE CASCADE,
    configure TEXT NOT NULL, write TEXT NOT NULL, read TEXT NOT NULL,
    PRIMARY KEY (user, virtual_host)
) WITHOUT ROWID;
CREATE TABLE exchanges (
    virtual_host TEXT NOT NULL REFERENCES virtual_hosts(name) ON DELETE CASCADE,
    name TEXT NOT NULL, type TEXT NOT NULL, durable INTEGER NOT NULL,
    auto_delete INTEGER NOT NULL, internal INTEGER NOT NULL, arguments TEXT NOT NULL,
    PRIMARY KEY (virtual_host, name)
) WITHOUT ROWID;
CREATE TABLE queues (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    virtual_host TEXT NOT NULL REFERENCES virtual_hosts(name) ON DELETE CASCADE,
    name TEXT NOT NULL, durable INTEGER NOT NULL, auto_delete INTEGER NOT NULL,
    exclusive INTEGER NOT NULL, arguments TEXT NOT NULL,
    UNIQUE (virtual_host, name)
);
CREATE TABLE bindings (
    virtual_host TEXT NOT NULL REFERENCES virtual_hosts(name) ON DELETE CASCADE,
    source TEXT NOT NULL, destination_type TEXT NOT NULL, destination TEXT NOT NULL,
    routing_key TEXT NOT NULL, arguments TEXT NOT NULL,
    PRIMARY KEY (virtual_host, source, destination_type, destination, routing_key, arguments)
) WITHOUT ROWID;
CREATE TABLE leases (
    virtual_host TEXT NOT NULL REFERENCES virtual_hosts(name) ON DELETE CASCADE,
    name TEXT NOT NULL,
    queue_id INTEGER NOT NULL REFERENCES queues(id) ON DELETE CASCADE,
    generation INTEGER NOT NULL, generated INTEGER NOT NULL, created_at INTEGER NOT NULL, active_at INTEGER NOT NULL,
    acknowledged_position INTEGER NOT NULL, last_position INTEGER NOT NULL,
    PRIMARY KEY (virtual_host, name)
) WITHOUT ROWID;
CREATE INDEX leases_of_queue ON leases(queue_id);
CREATE TABLE lease_ranges (
    virtual_host TEXT NOT NULL, lease TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    sequences BLOB NOT NULL,
    PRIMARY KEY (virtual_host, lease, first),
    FOREIGN KEY (virtual_host, lease) REFERENCES leases(virtual_host, name) ON DELETE CASCADE
);
CREATE TABLE publish_marks (query TEXT PRIMARY KEY, batch INTEGER NOT NULL, updated_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE queue_counters (
    queue_id INTEGER PRIMARY KEY REFERENCES queues(id) ON DELETE CASCADE, counters TEXT NOT NULL
);
"""


def _create(connection: sqlite3.Connection) -> None:
    for statement in _SCHEMA_1.split(";"):
        if statement.strip():
            connection.execute(statement)


MIGRATIONS: Final[list[Callable[[sqlite3.Connection], None]]] = [_create]
"""Step ``i`` takes a file from version ``i`` to ``i + 1``. Steps are only ever added."""


def open_database(path: Path | str, migrations: list[Callable[[sqlite3.Connection], None]]) -> sqlite3.Connection:
    """Open or create the database, durable with every commit (WAL, synchronous=FULL), and migrate it.

    Raises :class:`CatalogueError` for a damaged file, one of another program, or one of a newer version.
    """
    connection: sqlite3.Connection | None = None
    try:
        # check_same_thread: the loop thread of a restarted broker in one process may be another one.
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        used = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
        if used and owner != APPLICATION_ID:
            raise CatalogueError(f"{path} is a database of another program; give an empty data directory")
        if version > len(migrations):
            raise CatalogueError(
                f"catalogue {path} has schema version {version}, this program knows {len(migrations)}; "
                "start the newer program that wrote it"
            )
        if used:
            _check(connection, path)
        _migrate(connection, version, migrations)
    except sqlite3.DatabaseError as error:
        if connection is not None:
            connection.close()
        raise _unreadable(path, error) from error
    except CatalogueError:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: Path | str) -> None:
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise _unreadable(path, found)


def _unreadable(path: Path | str, reason: object) -> CatalogueError:
    return CatalogueError(
        f"catalogue {path} cannot be read: {reason}; restore it from a backup, "
        "or move it away and import the definitions again (messages of queues it named are then dropped)"
    )


def _migrate(
    connection: sqlite3.Connection, version: int, migrations: list[Callable[[sqlite3.Connection], None]]
) -> None:
    """Run the missing steps in one transaction, so that a crash leaves the old version."""
    if version == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in migrations[version:]:
            step(connection)
        connection.execute(f"PRAGMA user_version={len(migrations)}")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
