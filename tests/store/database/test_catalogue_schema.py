"""Each value of the catalogue is there twice, so that a flipped bit makes a difference."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from annulet.store.database.catalogue import Catalogue
from annulet.store.database.catalogue_schema import CHECKS, MIGRATIONS, SCHEMA, SCHEMA_VERSION, TABLES
from annulet.store.database.definitions import QueueRecord, SubscriptionRecord


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        yield connection


def test_each_column_of_each_table_is_in_an_index_beside_it(connection: sqlite3.Connection) -> None:
    names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    tables = [name for (name,) in connection.execute(names)]
    assert len(tables) == SCHEMA.count("CREATE TABLE")
    for table in tables:
        columns = {name: key for _, name, _, _, _, key in connection.execute(f"PRAGMA table_info({table})")}
        doubled: set[str | None] = set()
        for _, index, _, origin, _ in connection.execute(f"PRAGMA index_list({table})").fetchall():
            parts = {name for _, _, name, *_ in connection.execute(f"PRAGMA index_xinfo({index})")}
            if origin == "c" or None in parts:  # else it is the table itself
                doubled |= parts
        if None in doubled:  # the number of the row, which is its key
            doubled |= {name for name, key in columns.items() if key}
        assert columns.keys() <= doubled, table


def test_a_file_of_the_version_before_gets_the_doubles(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{TABLES}PRAGMA user_version=4;")
        connection.execute("INSERT INTO queues VALUES (7, '/', 'q', 0, '{}', '', 0)")
        connection.commit()
    for _ in range(2):
        with closing(Catalogue(path)) as catalogue:
            assert catalogue.queues("/") == [QueueRecord(7, "q", False)]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        found = connection.execute("SELECT COUNT(*) FROM sqlite_master WHERE name LIKE '%_check'").fetchone()
        assert found == (SCHEMA.count("CREATE TABLE"),)


def test_there_is_a_way_from_each_version() -> None:
    assert set(MIGRATIONS) == set(range(1, SCHEMA_VERSION))


def test_queues_that_may_be_subscriptions_of_an_older_version_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{TABLES}{CHECKS}PRAGMA user_version=5;")
        for number, name in enumerate(("client.s", "unbound"), 1):
            connection.execute("INSERT INTO queues VALUES (?, '/', ?, 0, '{}', '', 0)", (number, name))
        connection.execute("INSERT INTO bindings VALUES ('/', 'news', 'queue', 'client.s', '', '{}')")
        connection.execute("INSERT INTO bindings VALUES ('/', 'news', 'exchange', 'unbound', '', '{}')")
        connection.commit()
    with closing(Catalogue(path)) as catalogue:
        assert catalogue.subscriptions("/") == [SubscriptionRecord("client.s", "", "", "")]
