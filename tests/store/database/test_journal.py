"""What of a journal is damage, and what a crash left."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from annulet.store.database.journal import FRAME_HEADER_BYTES, HEADER_BYTES, find_damage, journal_damage

PAGE = 4096
FRAME = FRAME_HEADER_BYTES + PAGE
TRANSACTIONS = 5


@contextmanager
def journaled(path: Path, columns: str = "number INTEGER") -> Iterator[sqlite3.Connection]:
    """Give a connection to a new database with a journal and a table ``t``."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"CREATE TABLE t ({columns})")
        yield connection


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The journal of a database whose process died after some transactions of one page each."""
    path = tmp_path / "open.sqlite"
    with journaled(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
        for number in range(TRANSACTIONS):
            connection.execute("INSERT INTO t VALUES (?)", (number,))
        for end in ("", "-wal"):
            shutil.copyfile(f"{path}{end}", tmp_path / f"left.sqlite{end}")
    return tmp_path / "left.sqlite-wal"


def flipped(journal: Path, place: int, bit: int = 1) -> str:
    content = bytearray(journal.read_bytes())
    content[place] ^= bit
    other = journal.with_name("flipped.sqlite-wal")
    other.write_bytes(content)
    return journal_damage(str(other))


def rows(journal: Path) -> int:
    """Return what SQLite finds."""
    with closing(sqlite3.connect(journal.with_name("left.sqlite"))) as connection:
        count: int = connection.execute("SELECT COUNT(*) FROM t").fetchone()[0]
        return count


def test_a_whole_journal_and_none_are_fine(journal: Path) -> None:
    assert len(journal.read_bytes()) == HEADER_BYTES + TRANSACTIONS * FRAME
    assert journal_damage(str(journal)) == ""
    assert journal_damage(str(journal.with_name("none"))) == ""
    assert rows(journal) == TRANSACTIONS


def test_what_a_crash_tears_is_no_damage(journal: Path) -> None:
    """Any part of the last transaction may be missing, and all of a journal that was begun."""
    content = journal.read_bytes()
    last = len(content) - FRAME
    for end in (0, 1, HEADER_BYTES, HEADER_BYTES + 5, HEADER_BYTES + FRAME - 1, last + 3, len(content) - 1):
        journal.write_bytes(content[:end])
        assert journal_damage(str(journal)) == "", end
    for place in range(last, len(content), 512):
        journal.write_bytes(content[:place] + bytes(512) + content[place + 512 :])
        assert journal_damage(str(journal)) == "", place
    journal.write_bytes(bytes(len(content)))
    assert journal_damage(str(journal)) == "", "not even its header was written"


def test_what_is_left_of_an_earlier_use_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "open.sqlite"
    with journaled(path) as connection:
        for number in range(TRANSACTIONS):
            connection.execute("INSERT INTO t VALUES (?)", (number,))
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
        connection.execute("INSERT INTO t VALUES (7)")
        assert Path(f"{path}-wal").stat().st_size > HEADER_BYTES + 2 * FRAME
        assert journal_damage(f"{path}-wal") == ""


def test_what_was_rolled_back_behind_a_torn_transaction_is_no_damage(tmp_path: Path) -> None:
    """SQLite writes frames of a large transaction before it ends, and does not take them back."""
    path = tmp_path / "open.sqlite"
    journal = Path(f"{path}-wal")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA cache_size=2")
        connection.execute("CREATE TABLE t (number INTEGER, text TEXT)")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(number, "x" * 2000) for number in range(20)])
        connection.execute("ROLLBACK")
        before = journal.read_bytes()
        connection.execute("INSERT INTO t VALUES (7, '')")
        content = journal.read_bytes()
    assert len(content) == len(before), "written over what was rolled back"
    changed = [place for place, byte in enumerate(content) if byte != before[place]]
    last = HEADER_BYTES + (changed[0] - HEADER_BYTES) // FRAME * FRAME
    assert changed[-1] < last + FRAME <= len(content) - 2 * FRAME
    place = last + FRAME - 512
    journal.write_bytes(content[:place] + before[place : place + 512] + content[place + 512 :])
    assert journal_damage(str(journal)) == ""


def test_a_torn_transaction_over_one_of_an_earlier_use_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "open.sqlite"
    journal = Path(f"{path}-wal")
    with journaled(path, "number INTEGER, text TEXT") as connection:
        for number in range(TRANSACTIONS):
            connection.execute("INSERT INTO t VALUES (?, '')", (number,))
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
        before = journal.read_bytes()
        connection.execute("INSERT INTO t VALUES (6, '')")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(number, "x" * 2000) for number in range(5)])
        connection.execute("COMMIT")
        content = journal.read_bytes()
    second = HEADER_BYTES + FRAME
    torn = content[:second] + before[second : second + FRAME] + content[second + FRAME :]
    journal.write_bytes(torn)
    assert journal_damage(str(journal)) == ""


@pytest.mark.parametrize("frame", range(TRANSACTIONS - 1))
@pytest.mark.parametrize("place", [0, 3, 4, 7, 8, 12, 16, 23, FRAME_HEADER_BYTES, FRAME - 1])
def test_a_flipped_bit_before_the_last_transaction_is_damage(journal: Path, frame: int, place: int) -> None:
    found = flipped(journal, HEADER_BYTES + frame * FRAME + place, 32)
    assert f"frame {frame} of its journal" in found


@pytest.mark.parametrize("place", range(0, HEADER_BYTES, 3))
def test_a_flipped_bit_of_the_header_is_damage(journal: Path, place: int) -> None:
    assert "header of its journal" in flipped(journal, place, 4)


def test_sqlite_itself_drops_what_is_behind_a_flipped_bit(journal: Path) -> None:
    """Why it is looked for."""
    content = bytearray(journal.read_bytes())
    content[HEADER_BYTES + FRAME + 100] ^= 1
    journal.write_bytes(content)
    assert journal_damage(str(journal))
    assert rows(journal) == 1


def test_what_is_dropped_is_counted(journal: Path) -> None:
    content = bytearray(journal.read_bytes())
    content[HEADER_BYTES + FRAME + FRAME_HEADER_BYTES] ^= 1
    journal.write_bytes(content)
    assert find_damage(str(journal)).transactions == TRANSACTIONS - 1
    content[16] ^= 1  # a salt in the header
    journal.write_bytes(content)
    assert find_damage(str(journal)).transactions == TRANSACTIONS
    assert "header" in find_damage(str(journal)).text
