"""Data directories that earlier versions wrote open with all their messages and definitions; newer ones are refused."""

from __future__ import annotations

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from annulet import testing
from annulet.store.database import catalogue_schema, history
from annulet.store.files.data_format import CATALOGUE_FILE, FORMAT_VERSION, HISTORY_FILE, read_format
from annulet.store.files.errors import StoreError
from tests.durability.site import Site, persistent

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "data-formats"
ARCHIVES = sorted(FOLDER.glob("*.tar.xz"))
NEWEST = FOLDER / f"catalogue-{catalogue_schema.SCHEMA_VERSION}.tar.xz"
CONTENTS = {
    "plain": [f"message {number}" for number in range(1, 8)],
    "board": ["message 5", "message 6", "message 7"],
    "latest": ["message 6", "message 7"],
    "ranked": [f"message {number}" for number in range(8)],
}
ARGUMENTS = {
    "plain": {},
    "board": {"x-ring-size": 3},
    "latest": {"x-last-value-key": "k"},
    "ranked": {"x-max-priority": 5},
}


def unpack(archive: Path, data: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(data, filter="data")


def schema_version(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def test_there_is_an_archive_of_each_schema_version_of_the_catalogue() -> None:
    found = {archive.name.removesuffix(".tar.xz") for archive in ARCHIVES}
    assert found >= {f"catalogue-{version}" for version in range(1, catalogue_schema.SCHEMA_VERSION + 1)}


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name.removesuffix(".tar.xz"))
async def test_an_earlier_directory_opens_with_all_messages_and_definitions(archive: Path, tmp_path: Path) -> None:
    unpack(archive, tmp_path)
    assert str(schema_version(tmp_path / CATALOGUE_FILE)) == archive.name.split("-")[1].removesuffix(".tar.xz")
    site = Site(tmp_path)
    async with site.broker() as running:
        kept = {name: await running.messages(name) for name in CONTENTS}
        assert {name: sorted(each.body.decode() for each in those) for name, those in kept.items()} == CONTENTS
        channel = await site.channel()
        for name, arguments in ARGUMENTS.items():  # refused if the queue is not the same
            await channel.declare_queue(name, durable=True, arguments=arguments)
        exchange = await channel.declare_exchange("events", "topic", durable=True)
        await exchange.publish(persistent("new"), "all.y")
    async with site.broker() as running:
        for name in CONTENTS:
            assert b"new" in [each.body for each in await running.messages(name)], name
    assert schema_version(tmp_path / CATALOGUE_FILE) == catalogue_schema.SCHEMA_VERSION
    assert schema_version(tmp_path / HISTORY_FILE) == history.SCHEMA_VERSION
    found = read_format(tmp_path)
    assert found is not None
    assert found.version == FORMAT_VERSION


@pytest.mark.parametrize("file", [CATALOGUE_FILE, HISTORY_FILE])
async def test_a_file_of_a_newer_schema_version_is_refused_in_words(file: str, tmp_path: Path) -> None:
    unpack(NEWEST, tmp_path)
    with closing(sqlite3.connect(tmp_path / file)) as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(StoreError, match=r"schema version 99, .*start the newer version again"):
        async with testing.broker(data_dir=tmp_path, http=False):
            pytest.fail("the broker must not start")
