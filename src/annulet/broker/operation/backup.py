"""Backups of the running broker: one at a time, an instant between two windows, then a copy beside the traffic."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from annulet.store.files.data_format import CATALOGUE_FILE, HISTORY_FILE, LOG_DIRECTORY, STAGE_DIRECTORY
from annulet.store.files.errors import BackupError, StoreError
from annulet.store.inspection.backup import BackupCopy, Staging, check_target, open_staging
from annulet.store.log.log import MessageLog

if TYPE_CHECKING:
    from pathlib import Path

    from annulet.broker.connections.services import BrokerServices

logger = structlog.get_logger(__name__)

BACKUPS_REMEMBERED: Final = 20
"""Backups of this run that can still be asked about."""

STAGING: Final = "staging"
COPYING: Final = "copying"
FINISHED: Final = "finished"
FAILED: Final = "failed"


@dataclass(slots=True)
class Backup:
    """One backup. ``state`` is ``staging``, ``copying``, ``finished`` or ``failed``; times are in ms since 1970, or 0.

    ``taken_at`` is the instant: everything confirmed before it is in the backup, nothing that came later.
    """

    number: int
    directory: str
    state: str = STAGING
    started_at: int = 0
    taken_at: int = 0
    ended_at: int = 0
    files: int = 0
    bytes: int = 0
    copied_bytes: int = 0
    error: str = ""

    @property
    def running(self) -> bool:
        """It has not ended."""
        return self.state in (STAGING, COPYING)

    def as_dict(self) -> dict[str, Any]:
        """All fields, for the API."""
        return asdict(self)


class Backups:
    """Takes backups and remembers the latest. Belongs to the event loop."""

    def __init__(self, broker: BrokerServices) -> None:
        self.finished = 0
        self.failures = 0
        self._broker = broker
        self._remembered: deque[tuple[Backup, BackupCopy | None]] = deque(maxlen=BACKUPS_REMEMBERED)
        self._number = 0
        self._starting = False
        self._cancelled = threading.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, directory: Path) -> Backup:
        """Begin a backup into an empty directory, or one that is not there. Raises :class:`BackupError`."""
        broker = self._broker
        data = broker.configuration.data_directory
        if data is None:
            raise BackupError(
                "this broker keeps everything in memory; start it with --data to have something to back up"
            )
        if self._starting or (self._task is not None and not self._task.done()):
            raise BackupError("a backup is under way; wait for its end: GET /api/v1/backups")
        if broker.stopping or broker.commit.failed:
            raise BackupError("the broker stops, or its disk failed; start it again first")
        self._starting = True
        try:
            await asyncio.to_thread(check_target, directory, data)
        except OSError as error:
            raise BackupError(f"directory {directory} cannot be used: {error.strerror}; give another") from error
        finally:
            self._starting = False
        self._number += 1
        backup = Backup(self._number, str(directory), started_at=broker.clock())
        self._remembered.append((backup, None))
        self._task = asyncio.get_running_loop().create_task(self._run(backup, directory, data))
        logger.info("backup started", directory=str(directory))
        return backup

    def list(self) -> list[Backup]:
        """Return the backups that are remembered, the newest first, with their progress."""
        for backup, copy in self._remembered:
            if copy is not None:
                backup.copied_bytes = copy.copied
        return [backup for backup, _ in reversed(self._remembered)]

    async def wait(self) -> None:
        """Return when no backup is under way."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def stop(self) -> None:
        """Cancel the running backup: it fails, and its target is as it was."""
        self._cancelled.set()
        await self.wait()

    async def _run(self, backup: Backup, directory: Path, data: Path) -> None:
        staging: Staging | None = None
        try:
            staging = await asyncio.to_thread(open_staging, data)
            await self._stage(backup, staging, data)
            copy = BackupCopy(staging, directory, backup.taken_at, self._cancelled)
            self._remembered[-1] = (backup, copy)
            backup.files, backup.bytes, backup.state = len(staging.files), staging.bytes, COPYING
            await asyncio.to_thread(copy.run)
        except (StoreError, OSError) as error:
            backup.state, backup.error = FAILED, str(error)
            self.failures += 1
            logger.error("backup failed", directory=backup.directory, error=str(error))  # noqa: TRY400 - the text says it
        else:
            backup.state = FINISHED
            self.finished += 1
            logger.info("backup finished", directory=backup.directory, files=backup.files, bytes=backup.bytes)
        finally:
            backup.ended_at = self._broker.clock()
            if staging is not None:
                with suppress(OSError):  # the next backup, or the next start, removes it
                    await asyncio.to_thread(staging.remove)

    async def _stage(self, backup: Backup, staging: Staging, data: Path) -> None:
        """Choose the instant: all messages published by now are on disk, and nothing writes to the files."""
        broker = self._broker
        log = broker.log
        assert isinstance(log, MessageLog)
        ends: dict[int, int] = {}

        def on_loop() -> None:
            backup.taken_at = broker.clock()
            ends.update(log.written_ends())
            broker.catalogue.copy_to(staging.directory / CATALOGUE_FILE)

        def on_disk() -> None:
            staging.link_log(data / LOG_DIRECTORY, ends)
            staging.link_stages(data / STAGE_DIRECTORY)
            staging.add(CATALOGUE_FILE)
            if broker.history is not None:
                broker.history.history.copy_to(staging.directory / HISTORY_FILE)
                staging.add(HISTORY_FILE)

        await broker.commit.durable()
        async with broker.commit.upkeep_paused():
            await broker.commit.between_windows(on_loop, on_disk)
