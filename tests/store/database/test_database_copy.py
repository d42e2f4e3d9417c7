from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from annulet.store.database.database_copy import copy_database
from annulet.store.files.errors import BackupError


def test_what_the_connection_sees_is_copied(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "one", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE numbers (number INTEGER)")
    connection.execute("INSERT INTO numbers VALUES (7)")
    copy_database(connection, tmp_path / "two")
    connection.execute("INSERT INTO numbers VALUES (8)")
    copy = sqlite3.connect(tmp_path / "two")
    assert copy.execute("SELECT number FROM numbers").fetchall() == [(7,)]
    copy.close()
    with pytest.raises(BackupError, match="cannot be copied to"):
        copy_database(connection, tmp_path / "none" / "three")
    connection.close()
