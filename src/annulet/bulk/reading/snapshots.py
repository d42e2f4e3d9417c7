"""Point-in-time views of queues for batch reads: taken once at planning, read by tasks.

A view of a queue in memory keeps the messages and is repeatable while it exists. One of a queue deeper than memory
keeps rows, see :mod:`annulet.bulk.reading.deep_snapshots`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from annulet.bulk.protocol.errors import NotFoundError
from annulet.bulk.protocol.protocol import BATCH_MAX
from annulet.bulk.protocol.schema import Row
from annulet.bulk.reading.deep_snapshots import QueueView, ViewRead
from annulet.core.deliveries.bodies import pin, unpin
from annulet.core.management.selection import Selection, select

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue

logger = structlog.get_logger(__name__)

SNAPSHOT_IDLE_MAX: Final = 3600 * 1000
"""Milliseconds without a read after which a snapshot is dropped. A data frame that was planned once may be collected
again later; an hour covers a working session, and then the error has the remedy."""

SNAPSHOTS_MAX: Final = 64
"""Snapshots kept; the one idle for longest makes room. Each keeps the messages it shows in memory, or rows of
them."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a view's messages, both ends included: sequence numbers, times of acceptance in milliseconds."""

    first: int = 0
    last: int = BATCH_MAX
    accepted_from: int = 0
    accepted_upto: int = BATCH_MAX

    def admit(self, entry: QueueEntry) -> bool:
        """Return whether a message is within them."""
        accepted_at = entry.message.accepted_at
        return self.first <= entry.sequence <= self.last and self.accepted_from <= accepted_at <= self.accepted_upto


NO_BOUNDS: Final = Bounds()


class Choice:
    """Bounds and a selection together."""

    __slots__ = ("_bounds", "_selection")

    def __init__(self, bounds: Bounds, selection: Selection) -> None:
        self._bounds = bounds
        self._selection = selection

    def matches(self, entry: QueueEntry) -> bool:
        """Return whether an entry is included. Passes on the view's exceptions for malformed content."""
        return self._bounds.admit(entry) and self._selection.matches(entry)

    def begin_slice(self) -> None:
        """Begin to count the steps of the selector anew."""
        self._selection.begin_slice()

    @property
    def used_up(self) -> bool:
        """Return whether the selector has taken as long as it may in one slice."""
        return self._selection.used_up


class Snapshot:
    """One queue at one instant. ``places``: the range of places in tickets, above the first number up to the second."""

    __slots__ = ("host", "places", "queue", "rows", "used_at", "view")

    def __init__(self, host: str, queue: str, rows: list[Row], now: int, view: QueueView | None = None) -> None:
        self.host = host
        self.queue = queue
        self.rows = rows  # empty where there is a view
        self.view = view  # None: the queue was in memory, and places are counted from the first row
        self.places = (0, len(rows)) if view is None else view.places
        self.used_at = now

    def read(self, after: int, upto: int, skip: int) -> list[Row] | ViewRead:
        """Return the rows with these places but the first ``skip``, or a way to read them."""
        if self.view is not None:
            return self.view.read(after, upto, skip)
        return self.rows[after:upto][skip:]


class SnapshotStore:
    """All snapshots of a broker. Lives on its loop."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._snapshots: dict[str, Snapshot] = {}

    def __len__(self) -> int:
        return len(self._snapshots)

    def take(self, host: str, queue: Queue, selector: str = "", bounds: Bounds = NO_BOUNDS) -> tuple[str, int]:
        """Take a snapshot of the messages pending and in delivery, by sequence. Returns its id and number of rows.

        ``selector`` is a JMS selector, empty for all messages, of which those within ``bounds`` count; for a queue
        deeper than memory both are evaluated when rows are read, and the number is that of all. Raises
        :class:`CoreError` if it is invalid, if the messages do not fit into memory, or if the disk refuses to read a
        body.
        """
        selection = Choice(bounds, select(selector=selector, everything=not selector))
        now = self._clock()
        self.expire()
        while len(self._snapshots) >= SNAPSHOTS_MAX:
            self._drop(min(self._snapshots, key=lambda name: self._snapshots[name].used_at))
        pages = queue.order.pages_behind()
        if pages is not None:
            view = QueueView(queue, pages, selection)
            snapshot, count = Snapshot(host, queue.name, [], now, view), view.count
        else:
            rows = _rows_of(queue, selection)
            snapshot, count = Snapshot(host, queue.name, rows, now), len(rows)
        name = secrets.token_urlsafe(16)
        self._snapshots[name] = snapshot
        return name, count

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
        """Drop snapshots that were idle for too long. Returns their number."""
        limit = self._clock() - SNAPSHOT_IDLE_MAX
        old = [name for name, snapshot in self._snapshots.items() if snapshot.used_at < limit]
        for name in old:
            self._drop(name)
        return len(old)

    def _drop(self, name: str) -> None:
        unpin([row.message for row in self._snapshots.pop(name).rows])


def _rows_of(queue: Queue, selection: Choice) -> list[Row]:
    """Return the rows of a queue in memory, whose bodies stay there until they are unpinned."""
    rows = []
    unreadable = 0
    for entry in queue.browse():
        try:
            chosen = selection.matches(entry)
        except Exception:  # noqa: BLE001 - views raise errors of rooms this one does not know; they are counted
            unreadable += 1
            continue
        if chosen:
            expires_at = queue.expires_at(entry)
            rows.append(Row(entry.sequence, entry.message, expires_at, entry.delivery_count, entry.redelivered))
    if unreadable:
        logger.warning("a selector cannot read messages, so they do not match", queue=queue.name, count=unreadable)
    pin(queue, [row.message for row in rows])
    return rows
