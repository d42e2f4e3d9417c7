"""Copying an open SQLite database page by page."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from annulet.store.files.errors import BackupError
from annulet.store.files.files import create_private

if TYPE_CHECKING:
    from pathlib import Path


def copy_database(connection: sqlite3.Connection, path: Path) -> None:
    """Write the connection's view to a new file. It is not synced: the caller copies and syncs it.

    Blocks the thread for all pages, so that nothing can change between two of them. Raises :class:`BackupError`.
    """
    try:
        create_private(str(path))
        with closing(sqlite3.connect(path)) as copy:
            copy.execute("PRAGMA synchronous=OFF")
            connection.backup(copy)
    except (sqlite3.Error, OSError) as error:
        raise BackupError(f"the database cannot be copied to {path}: {error}; look at the disk") from error
