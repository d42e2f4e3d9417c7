"""Opening SQLite files: what is refused, by what text, and that nothing of it is changed."""

from __future__ import annotations

import resource
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from annulet.store.database.database import DatabaseKind, open_database, unreadable
from annulet.store.database.journal import FRAME_HEADER_BYTES, HEADER_BYTES
from annulet.store.files.errors import HistoryError

PAGE = 4096
INDEX_BYTES = 32768
"""Of a journal, in a file beside it."""

TABLES = "CREATE TABLE t (number INTEGER PRIMARY KEY, text TEXT NOT NULL);"
CHECK = "CREATE INDEX t_check ON t (text);"
KIND = DatabaseKind("diary", 2, TABLES + CHECK, {1: CHECK}, synced=True, error=HistoryError, remedy="burn it")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with two rows, closed."""
    path = tmp_path / "diary.sqlite"
    with closing(open_database(str(path), KIND)) as connection:
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, "monday"), (2, "tuesday")])
    return path


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(statement)


def refused(path: Path, text: str) -> None:
    before = path.read_bytes()
    with pytest.raises(HistoryError, match=rf"diary {path} cannot be read: .*{text}.*; burn it"):
        open_database(str(path), KIND)
    assert path.read_bytes() == before


def test_a_file_is_made_and_found_again(path: Path) -> None:
    assert path.stat().st_mode & 0o077 == 0
    with closing(open_database(str(path), KIND)) as connection:
        assert connection.execute("SELECT text FROM t").fetchall() == [("monday",), ("tuesday",)]
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    with closing(open_database(":memory:", KIND._replace(synced=False))) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (1,)


def test_a_file_that_sqlite_cannot_open_is_named(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 250) / ("y" * 250)  # the system takes longer paths than SQLite
    folder.mkdir(parents=True)
    path = folder / "diary.sqlite"
    with pytest.raises(HistoryError, match=rf"diary {path} cannot be read: .*; the file is as it was"):
        open_database(str(path), KIND)


def test_an_older_file_gets_what_it_lacks(path: Path) -> None:
    change(path, "DROP INDEX t_check; PRAGMA user_version=1")
    for _ in range(2):
        with closing(open_database(str(path), KIND)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (2,)
            assert connection.execute("SELECT COUNT(*) FROM t").fetchone() == (2,)


def test_a_newer_file_and_versions_nobody_wrote(path: Path) -> None:
    change(path, "PRAGMA user_version=3")
    with pytest.raises(HistoryError, match=r"schema version 3, .* knows 2; start the newer version .* from a backup"):
        open_database(str(path), KIND)
    change(path, "PRAGMA user_version=-1")
    refused(path, "version -1, which no version of Annulet wrote")
    change(path, "PRAGMA user_version=0")
    refused(path, "already exists")
    change(path, "PRAGMA user_version=1")
    refused(path, "already exists")


def test_a_value_that_differs_from_its_double_is_damage(path: Path) -> None:
    content = path.read_bytes()
    assert content.count(b"monday") == 2
    path.write_bytes(content.replace(b"monday", b"mondaz", 1))
    refused(path, "t_check")


def test_tables_of_other_names_or_types_are_damage(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b"number INTEGER", b"nummer INTEGER"))
    refused(path, "not those of schema version 2: t")
    path.write_bytes(content.replace(b"text TEXT", b"text TENT"))
    refused(path, "not those of schema version 2: t")
    path.write_bytes(content.replace(b"CREATE TABLE", b"CREATE \xc1ABLE"))  # SQLite quotes it
    refused(path, "")


def test_a_damaged_journal_is_damage_where_each_transaction_was_synced(path: Path) -> None:
    with closing(open_database(str(path), KIND)) as connection:
        for number in range(3, 7):
            connection.execute("INSERT INTO t VALUES (?, 'x')", (number,))
        left, journal = path.read_bytes(), bytearray(Path(f"{path}-wal").read_bytes())
    journal[HEADER_BYTES + FRAME_HEADER_BYTES + 5] ^= 1
    path.write_bytes(left)
    Path(f"{path}-wal").write_bytes(journal)
    refused(path, "frame 0 of its journal")
    open_database(str(path), KIND._replace(synced=False)).close()


def left_by_power_loss(path: Path, rows: int) -> Path:
    """Return a copy of what is there after a transaction of so many rows, the first page of it not on the disk."""
    left = path.with_name(f"left-{path.name}")
    with closing(open_database(str(path), KIND)) as connection:
        connection.execute("INSERT INTO t (text) VALUES ('whole')")
        before = Path(f"{path}-wal").read_bytes()
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t (text) VALUES (?)", [("x" * 1000,)] * rows)
        connection.execute("COMMIT")
        content = bytearray(Path(f"{path}-wal").read_bytes())
        left.write_bytes(path.read_bytes())
    frames = range(HEADER_BYTES, len(content), FRAME_HEADER_BYTES + PAGE)
    end = FRAME_HEADER_BYTES + PAGE
    first = next(start for start in frames if before[start : start + end] != content[start : start + end])
    content[first + FRAME_HEADER_BYTES : first + end] = bytes(PAGE)
    Path(f"{left}-wal").write_bytes(content)
    return left


def test_two_power_losses_in_a_row_are_no_damage(path: Path) -> None:
    """What is left of the first one stands behind the second one's transaction unless the start empties the journal."""
    twice = left_by_power_loss(left_by_power_loss(path, 20), 1)
    with closing(open_database(str(twice), KIND)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM t WHERE text = 'whole'").fetchone() == (2,)
        assert connection.execute("SELECT COUNT(*) FROM t").fetchone() == (4,)


def test_a_journal_that_the_disk_has_no_room_to_empty_keeps_nothing_from_starting(path: Path) -> None:
    left = path.with_name("left.sqlite")
    with closing(open_database(str(path), KIND)) as connection:
        connection.execute("INSERT INTO t (text) VALUES (?)", ("x" * INDEX_BYTES,))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("INSERT INTO t (text) VALUES (?)", ("y" * 5000,))
        left.write_bytes(path.read_bytes())
        Path(f"{left}-wal").write_bytes(Path(f"{path}-wal").read_bytes())
    room = left.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        connection = open_database(str(left), KIND)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with closing(connection):
        assert left.stat().st_size == room, "it could not grow"
        assert connection.execute("SELECT COUNT(*) FROM t").fetchone() == (4,)


def test_a_disk_that_is_full_while_tables_change_is_no_damage(path: Path) -> None:
    change(path, "DROP INDEX t_check; PRAGMA user_version=1")
    left = path.read_bytes()
    full = KIND._replace(migrations={1: f"PRAGMA max_page_count=1; {CHECK} CREATE TABLE other (number INTEGER);"})
    with pytest.raises(HistoryError, match=r"cannot be read: database or disk is full; .*free space") as raised:
        open_database(str(path), full)
    assert "burn it" not in str(raised.value)
    assert path.read_bytes() == left
    with closing(open_database(str(path), KIND)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM t").fetchone() == (2,)


def test_no_room_for_the_index_of_the_journal_is_no_damage() -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    assert str(unreadable("path", KIND, error)).endswith("make it writable, and start again")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
    assert str(unreadable("path", KIND, error)).endswith("; burn it")


def test_a_text_that_is_none_is_damage() -> None:
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(sqlite3.OperationalError) as raised:
        connection.execute("SELECT CAST(x'ff' AS TEXT)").fetchone()
    assert str(unreadable("path", KIND, raised.value)).endswith("; burn it")
