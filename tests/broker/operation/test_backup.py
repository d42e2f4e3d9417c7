from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import annulet.testing
from annulet.broker.broker import Broker
from annulet.broker.operation.backup import BACKUPS_REMEMBERED, FAILED, FINISHED
from annulet.store.files.data_format import CATALOGUE_FILE, STAGING_DIRECTORY
from annulet.store.files.errors import BackupError
from annulet.store.inspection import backup as disk_side
from annulet.store.inspection.inspection import inspect
from tests.store.data_directories import body_of, declare, put


def bodies(broker: Broker, queue: str = "work") -> list[bytes]:
    return [entry.message.body for entry in broker.hosts["/"].queues[queue].order.entries()]


async def test_a_broker_starts_on_a_backup_with_what_was_there_when_it_began(tmp_path: Path) -> None:
    target = tmp_path / "backup"
    async with annulet.testing.broker(data_dir=tmp_path / "data", http=False) as running:
        broker = running.broker
        declare(broker, "work")
        for number in range(50):
            put(broker, "work", body_of(number))
        backup = await broker.backups.start(target)
        declare(broker, "later")
        publishing = True

        async def publish() -> None:
            number = 50
            while publishing:
                put(broker, "work", body_of(number))
                number += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(publish())
        await broker.backups.wait()
        publishing = False
        await task
        assert backup.state == FINISHED, backup.error
        assert broker.backups.finished == 1
        assert backup.copied_bytes == backup.bytes > 0 or broker.backups.list()[0].copied_bytes == backup.bytes
        assert backup.started_at <= backup.taken_at <= backup.ended_at
        assert not (tmp_path / "data" / STAGING_DIRECTORY).exists()
        sent = len(bodies(broker))
    found = inspect(target, backup.ended_at)
    assert found.sound, found.findings
    async with annulet.testing.broker(data_dir=target, http=False) as running:
        kept = bodies(running.broker)
        assert 50 <= len(kept) <= sent
        assert kept == [body_of(number) for number in range(len(kept))], "a prefix of what was published, in order"


async def test_what_cannot_be_backed_up_is_refused_with_the_remedy(tmp_path: Path) -> None:
    async with annulet.testing.broker(http=False) as running:
        with pytest.raises(BackupError, match="start it with --data"):
            await running.broker.backups.start(tmp_path / "backup")
    async with annulet.testing.broker(data_dir=tmp_path / "data", http=False) as running:
        backups = running.broker.backups
        with pytest.raises(BackupError, match="is not empty"):
            await backups.start(tmp_path)
        with pytest.raises(BackupError, match="cannot be used: File name too long"):
            await backups.start(tmp_path / ("x" * 300))
        await backups.start(tmp_path / "one")
        with pytest.raises(BackupError, match="under way"):
            await backups.start(tmp_path / "two")
        await backups.wait()
        running.broker.commit.failed = True
        with pytest.raises(BackupError, match="disk failed"):
            await backups.start(tmp_path / "two")
        running.broker.commit.failed = False
        assert [backup.directory for backup in backups.list()] == [str(tmp_path / "one")]


async def test_a_backup_that_fails_says_why_and_the_next_one_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with annulet.testing.broker(data_dir=tmp_path / "data", http=False) as running:
        backups = running.broker.backups
        with monkeypatch.context() as patch:
            patch.setattr(
                running.broker.catalogue, "copy_to", lambda path: (_ for _ in ()).throw(BackupError(f"no {path.name}"))
            )
            failed = await backups.start(tmp_path / "one")
            await backups.wait()
        assert (failed.state, failed.error) == (FAILED, f"no {CATALOGUE_FILE}")
        assert not (tmp_path / "data" / STAGING_DIRECTORY).exists()
        assert not (tmp_path / "one").exists()
        again = await backups.start(tmp_path / "one")
        await backups.wait()
        assert again.state == FINISHED
        assert (backups.finished, backups.failures) == (1, 1)


async def test_a_stop_ends_a_backup_and_leaves_no_half_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copying, go_on = threading.Event(), threading.Event()
    original = disk_side.BackupCopy._copy

    def slow(self: disk_side.BackupCopy, file: disk_side.StagedFile) -> None:
        copying.set()
        assert go_on.wait(60)
        original(self, file)

    monkeypatch.setattr(disk_side.BackupCopy, "_copy", slow)
    async with annulet.testing.broker(data_dir=tmp_path / "data", http=False) as running:
        backup = await running.broker.backups.start(tmp_path / "backup")
        await asyncio.to_thread(copying.wait, 60)
        stopping = asyncio.create_task(running.broker.stop())
        await asyncio.sleep(0)
        go_on.set()
        await stopping
    assert backup.state == FAILED
    assert "cancelled" in backup.error
    assert not (tmp_path / "backup").exists()
    assert not (tmp_path / "data" / STAGING_DIRECTORY).exists()


async def test_what_a_killed_backup_staged_goes_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / STAGING_DIRECTORY / "messages").mkdir(parents=True)
    async with annulet.testing.broker(data_dir=tmp_path, http=False):
        assert not (tmp_path / STAGING_DIRECTORY).exists()


async def test_the_latest_backups_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with annulet.testing.broker(data_dir=tmp_path / "data", http=False) as running:
        backups = running.broker.backups
        monkeypatch.setattr(disk_side.BackupCopy, "run", lambda self: None)
        for number in range(BACKUPS_REMEMBERED + 1):
            await backups.start(tmp_path / str(number))
            await backups.wait()
        assert [backup.number for backup in backups.list()] == list(range(BACKUPS_REMEMBERED + 1, 1, -1))
