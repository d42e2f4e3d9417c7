"""Issue 30, A10: what a data directory holds is for the broker's user alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from annulet import testing
from annulet.broker.broker import Broker
from annulet.store.files.errors import BackupError
from tests.store.data_directories import declare, put


def modes(directory: Path) -> dict[str, int]:
    return {
        str(path.relative_to(directory)): path.lstat().st_mode & 0o777 for path in [directory, *directory.rglob("*")]
    }


def assert_private(directory: Path) -> None:
    found = modes(directory)
    assert {"messages", "lock", "catalogue.sqlite", "format.json"} <= found.keys()
    for name, mode in found.items():
        assert mode == (0o700 if (directory / name).is_dir() else 0o600), name


async def use(broker: Broker, backup: Path) -> None:
    declare(broker, "work")
    put(broker, "work", b"message")
    await broker.commit.durable()
    await broker.commit.maintain(checkpoint=True)
    await broker.backups.start(backup)
    await broker.backups.wait()
    assert broker.backups.finished == 1


@pytest.mark.parametrize("umask", [0, 0o022, 0o277])
async def test_the_umask_does_not_matter(tmp_path: Path, umask: int) -> None:
    """A10: "Data directory 0755, segments 0640": 0700 and 0600, with journals, spill files, lock and backups."""
    former = os.umask(umask)
    try:
        async with testing.broker(data_dir=tmp_path / "data", http=False) as running:
            await use(running.broker, tmp_path / "backup")
            assert_private(tmp_path / "data")
            assert {"catalogue.sqlite-wal", "spill"} <= modes(tmp_path / "data").keys()
        assert_private(tmp_path / "data")
        assert set(modes(tmp_path / "backup").values()) == {0o700, 0o600}
    finally:
        os.umask(former)


async def test_what_an_older_version_made_is_tightened_at_start(tmp_path: Path) -> None:
    """A10: directories and files that others may read are made private; what is none of the broker's is left alone."""
    data = tmp_path / "data"
    async with testing.broker(data_dir=data, http=False) as running:
        await use(running.broker, tmp_path / "backup")
    for path in [data, *data.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    (data / "notes.txt").touch()
    (data / "notes.txt").chmod(0o644)
    async with testing.broker(data_dir=data, http=False):
        found = modes(data)
        assert found.pop("notes.txt") == 0o644
        assert set(found.values()) == {0o700, 0o600}


async def test_a_backup_directory_with_a_nul_character_is_refused(tmp_path: Path) -> None:
    """A5: a NUL in the name of a backup directory is an error of its sender, not of the broker."""
    async with testing.broker(data_dir=tmp_path, http=False) as running:
        with pytest.raises(BackupError, match="has a NUL character; give a path without it"):
            await running.broker.backups.start(Path("/tmp/a\0b"))
        with pytest.raises(BackupError, match="cannot be used"):
            await running.broker.backups.start(Path("/" + "a" * 300))
