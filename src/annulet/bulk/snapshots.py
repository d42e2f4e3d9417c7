"""Point-in-time views of queues for batch reads: taken once at planning, read by tasks, repeatable while they live."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from annulet.bulk.errors import NotFoundError
from annulet.bulk.schema import Row

if TYPE_CHECKING:
    from annulet.core.queue import Queue

SNAPSHOT_IDLE_MAX: Final = 3600 * 1000
"""Milliseconds without a read after which a snapshot is dropped. A data frame that was planned once may be collected
again later; an hour covers a working session, and then the text of the error says what to do."""

SNAPSHOTS_MAX: Final = 64
"""Snapshots kept; the one idle for longest makes room. Each keeps the messages it shows in memory."""


class Snapshot:
    """The rows of one queue at one moment."""

    __slots__ = ("host", "queue", "rows", "used_at")

    def __init__(self, host: str, queue: str, rows: list[Row], now: int) -> None:
        self.host = host
        self.queue = queue
        self.rows = rows
        self.used_at = now


class SnapshotStore:
    """All snapshots of a broker. Lives on its loop."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._snapshots: dict[str, Snapshot] = {}

    def __len__(self) -> int:
        return len(self._snapshots)

    def take(self, host: str, queue: Queue) -> tuple[str, int]:
        """Take a snapshot of what is pending and in delivery, by sequence. Returns its id and number of rows."""
        now = self._clock()
        self.expire()
        while len(self._snapshots) >= SNAPSHOTS_MAX:
            del self._snapshots[min(self._snapshots, key=lambda name: self._snapshots[name].used_at)]
        rows = [
            Row(entry.sequence, entry.message, queue.expires_at(entry), entry.delivery_count, entry.redelivered)
            for entry in queue.browse()
        ]
        name = secrets.token_urlsafe(16)
        self._snapshots[name] = Snapshot(host, queue.name, rows, now)
        return name, len(rows)

    def find(self, host: str, name: str) -> Snapshot:
        """Return a snapshot. Raises :class:`NotFoundError`."""
        snapshot = self._snapshots.get(name)
        if snapshot is None or snapshot.host != host:
            raise NotFoundError(
                f"the point-in-time view {name!r} is gone: it was not read for {SNAPSHOT_IDLE_MAX // 60_000} minutes, "
                f"{SNAPSHOTS_MAX} newer ones were taken, or the broker was restarted. Read the queue again (a new "
                "spark.read)"
            )
        snapshot.used_at = self._clock()
        return snapshot

    def expire(self) -> int:
        """Drop what was idle for too long. Returns how many."""
        limit = self._clock() - SNAPSHOT_IDLE_MAX
        old = [name for name, snapshot in self._snapshots.items() if snapshot.used_at < limit]
        for name in old:
            del self._snapshots[name]
        return len(old)
