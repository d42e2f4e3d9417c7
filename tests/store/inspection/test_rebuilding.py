"""Bringing catalogue and log together again, and dropping what nothing names."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from annulet import testing
from annulet.store.database.catalogue import Catalogue
from annulet.store.files.data_format import CATALOGUE_FILE, LOG_DIRECTORY
from annulet.store.files.errors import CatalogueError, DirectoryInUseError, StoreError
from annulet.store.files.lock import DirectoryLock
from annulet.store.inspection.inspection import WARNING, inspect
from annulet.store.inspection.rebuilding import Rebuilt, discard, rebuild
from annulet.store.segments.queue_names import NAMES_FILE
from tests.store.data_directories import COUNT, fill

LATER = 1 << 62


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A broker with a queue of :data:`COUNT` messages that was stopped."""
    asyncio.run(fill(tmp_path / "data"))
    return tmp_path / "data"


def lose_queues(data: Path) -> None:
    with closing(sqlite3.connect(data / CATALOGUE_FILE)) as connection:
        connection.execute("DELETE FROM queues")
        connection.commit()


async def queues_of(data: Path) -> dict[str, int]:
    async with testing.broker(data_dir=data, http=False) as running:
        host = running.broker.hosts["/"]
        return {name: queue.statistics().message_count for name, queue in host.queues.items()}


async def test_a_missing_catalogue_is_made_of_what_the_log_knows(data: Path) -> None:
    (data / CATALOGUE_FILE).unlink()
    assert rebuild(data) == [Rebuilt(1, "/", "work", COUNT)]
    assert rebuild(data) == [], "all is there"
    assert inspect(data, LATER).sound
    assert await queues_of(data) == {"work": COUNT}


async def test_without_names_queues_are_called_by_their_number(data: Path) -> None:
    (data / CATALOGUE_FILE).unlink()
    (data / LOG_DIRECTORY / NAMES_FILE).unlink()
    assert rebuild(data) == [Rebuilt(1, "/", "recovered-1", COUNT)]
    assert await queues_of(data) == {"recovered-1": COUNT}


async def test_a_queue_whose_name_is_taken_gets_another_one(data: Path) -> None:
    lose_queues(data)
    with closing(Catalogue(data / CATALOGUE_FILE)) as catalogue:
        assert catalogue.add_queue("/", "work", False, {}) == 2
    assert rebuild(data) == [Rebuilt(1, "/", "work.recovered-1", COUNT)]
    assert await queues_of(data) == {"work": 0, "work.recovered-1": COUNT}


async def test_an_operator_may_drop_what_no_queue_is_there_for(data: Path) -> None:
    lose_queues(data)
    found = inspect(data, LATER)
    (finding,) = [finding for finding in found.findings if finding.severity == WARNING]
    assert f"1 (work): {COUNT}" in finding.text
    assert found.figures["unknown_queues"] == {"1": COUNT}
    assert discard(data, [1]) == {1: COUNT}
    assert inspect(data, LATER).sound
    assert await queues_of(data) == {}


def test_what_the_catalogue_knows_is_not_dropped(data: Path) -> None:
    with pytest.raises(StoreError, match="queue 1 is 'work' in the catalogue; start the broker and purge or delete it"):
        discard(data, [7, 1])
    assert inspect(data, LATER).figures["log"]["live_messages"] == COUNT


def test_what_cannot_be_done_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no message log"):
        rebuild(tmp_path / "nothing")
    with DirectoryLock(data), pytest.raises(DirectoryInUseError):
        rebuild(data)
    (data / CATALOGUE_FILE).write_bytes(b"damaged" * 1000)
    with pytest.raises(CatalogueError, match="annulet doctor --rebuild"):
        rebuild(data)
