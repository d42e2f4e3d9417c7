from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from annulet.store.database.catalogue import Catalogue
from annulet.store.files.errors import CatalogueError, StoreError
from annulet.store.files.full_disk import PATHS_MAX, SECONDS_BETWEEN_LINES, FullDiskLog, free_bytes, is_full
from tests.store.log.test_log_tools import opened, upkeep
from tests.store.simulated_files import SimulatedFiles


def refused(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def test_what_is_a_full_disk() -> None:
    assert is_full(refused(errno.ENOSPC))
    assert is_full(refused(errno.EDQUOT))
    assert not is_full(refused(errno.EIO))
    error = StoreError("no")
    error.__cause__ = refused(errno.ENOSPC)
    assert is_full(error)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA max_page_count=1")
        with pytest.raises(sqlite3.OperationalError) as full:
            connection.execute("CREATE TABLE t (value)")
        assert is_full(full.value)


def test_a_line_a_minute_names_path_room_and_remedy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seconds = [0.0]
    log = FullDiskLog(lambda: seconds[0])
    for _ in range(3):
        assert log.note(refused(errno.ENOSPC), tmp_path, "a checkpoint")
    assert not log.note(refused(errno.EIO), tmp_path, "a checkpoint")
    (line,) = caplog.messages
    assert line.startswith(f"disk full: a checkpoint cannot be written to {tmp_path}, where ")
    assert f"bytes are free ([Errno {errno.ENOSPC}]" in line
    assert "free space on that disk" in line
    assert all(record.exc_info is None for record in caplog.records)
    seconds[0] += SECONDS_BETWEEN_LINES
    log.note(refused(errno.EDQUOT), tmp_path, "a checkpoint")
    log.note(refused(errno.EDQUOT), "/nowhere at all", "a checkpoint")
    assert len(caplog.messages) == 3
    assert "where -1 bytes are free" in caplog.messages[-1]
    assert free_bytes(tmp_path) > 0
    for number in range(PATHS_MAX):
        log.note(refused(errno.ENOSPC), f"/{number}", "a file")
    assert len(caplog.messages) == 3 + PATHS_MAX


def test_upkeep_on_a_full_disk_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    files = SimulatedFiles(capacity=20 << 10)
    log = opened(files)
    for _ in range(20):
        upkeep(log, checkpoint=True)
    assert len([text for text in caplog.messages if "/simulated" in text]) <= 1


def fill(catalogue: Catalogue) -> None:
    for number in range(1000):
        catalogue.add_virtual_host(f"{number:0200d}")


def test_a_catalogue_on_a_full_disk_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    catalogue = Catalogue(tmp_path / "catalogue.sqlite")
    catalogue._connection.execute("PRAGMA max_page_count=1")
    with pytest.raises(CatalogueError, match="free space on that disk"):
        fill(catalogue)
    assert f"disk full: definitions cannot be written to {tmp_path}" in caplog.text
