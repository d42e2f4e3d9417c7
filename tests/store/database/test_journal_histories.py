"""Random histories of power losses in a row: a start never takes what they tore for damage, nor loses a transaction."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

from annulet.store.database.database import DatabaseKind, open_database
from annulet.store.database.journal import HEADER_BYTES
from annulet.store.files.errors import CatalogueError

TABLES = "CREATE TABLE t (number INTEGER PRIMARY KEY, text TEXT NOT NULL);"
KIND = DatabaseKind("list", 1, TABLES, {}, synced=True, error=CatalogueError, remedy="restore it")
SECTOR = 512
"""Bytes that reach the disk together."""

HISTORIES = 40
LIVES = 5
"""Of each history; the second is the first one that meets a journal that another one has gone on with."""


def change(connection: sqlite3.Connection, chance: random.Random) -> int:
    """Add one row or so many that they take frames before the end; return how many."""
    count = chance.choice([1, 1, 2, 40])
    connection.execute("BEGIN")
    text = chance.choice("ab") * chance.choice([10, 700])
    connection.executemany("INSERT INTO t (text) VALUES (?)", [(text,)] * count)
    return count


def live(path: Path, possible: set[int], chance: random.Random) -> tuple[Path, set[int]]:
    """Open a file and change it until the power fails in a transaction.

    Returns what is left, and how many rows that may have: with the transaction or without it.
    """
    with closing(open_database(str(path), KIND)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM t").fetchone()[0] in possible
        connection.execute("PRAGMA cache_size=4")
        connection.execute(f"PRAGMA wal_autocheckpoint={chance.choice([4, 30, 1000])}")
        for _ in range(chance.randrange(4)):
            change(connection, chance)
            connection.execute(chance.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
        (there,) = connection.execute("SELECT COUNT(*) FROM t").fetchone()
        before = content_of(path)
        count = change(connection, chance)
        connection.execute("COMMIT")
        after = content_of(path)
    left = path.with_name(f"{int(path.stem) + 1}.sqlite")
    if before[0] != after[0]:  # the journal is on the disk before any of it is written into the file
        before[1] = after[1]
    else:  # its header is before the rest of it
        before[1] = after[1][:HEADER_BYTES] + before[1][HEADER_BYTES:]
    share = chance.choice([0.1, 0.5, 0.9])
    for end, former, latter in zip(("", "-wal"), before, after, strict=True):
        left.with_name(left.name + end).write_bytes(torn(former, latter, share, chance))
    return left, {there, there + count}


def content_of(path: Path) -> list[bytes]:
    return [path.with_name(path.name + end).read_bytes() for end in ("", "-wal")]


def torn(before: bytes, after: bytes, share: float, chance: random.Random) -> bytes:
    """Return a file of which some of the sectors that were written last are on the disk."""
    content = bytearray(before)
    for start in range(0, len(after), SECTOR):
        if chance.random() < share:
            content.extend(bytes(max(0, min(start + SECTOR, len(after)) - len(content))))
            content[start : start + SECTOR] = after[start : start + SECTOR]
    return bytes(content)


def test_power_losses_in_a_row_keep_nothing_from_starting(tmp_path: Path, moments: random.Random) -> None:
    for history in range(HISTORIES):
        path = tmp_path / str(history) / "0.sqlite"
        path.parent.mkdir()
        possible = {0}
        for number in range(LIVES):
            print(f"history {history} life {number}")
            path, possible = live(path, possible, moments)
