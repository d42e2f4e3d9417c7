"""Converts rows back to entries: restores message and entry from the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from annulet.core.message.message import Message, Origin, logged_message
from annulet.core.model.entry import QueueEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from annulet.core.queue.queue import Queue
    from annulet.residency.rows.rows import Rows


class StoredMessage(Protocol):
    """A message as the log gives it."""

    @property
    def header(self) -> bytes:
        """Encoded properties."""

    @property
    def body(self) -> bytes:
        """Payload."""

    @property
    def origin(self) -> tuple[str, str, str, str]:
        """Exchange, routing key, publisher and name of the view."""

    @property
    def priority(self) -> int:
        """As its sender gave it."""

    @property
    def accepted_at(self) -> int:
        """Milliseconds since 1970."""

    @property
    def expires_at(self) -> int:
        """Milliseconds since 1970; 0 for never."""

    @property
    def targets(self) -> list[tuple[int, int]]:
        """The (queue id, sequence) pairs it was stored for."""


class Stretch(Protocol):
    """A read-ahead request of a thread."""

    ended: bool
    """The thread is done, whether it could read it or not."""

    @property
    def dropped(self) -> bool:
        """Return whether it was not used in time, so that it has to be requested again."""

    def tell(self, then: Callable[[], None]) -> bool:
        """Have the thread call ``then`` when it is done; ``False`` when it is, and there is no need."""


class MessageReader(Protocol):
    """Reads records. :class:`annulet.store.segments.interface.Log` is one."""

    def read(self, records: Sequence[int]) -> Sequence[StoredMessage | None]:
        """Return the messages in this order, ``None`` for damaged ones. Raises ``OSError``."""

    def lack(self, records: Sequence[int], needles: Sequence[list[bytes]]) -> bool:
        """Say, if it is known, that no header has all octets of one of the ``needles``. Raises ``OSError``."""

    def holds(self, record: int, queue_id: int) -> bool:
        """Return whether a queue is not done with a record yet."""

    def held(self, records: list[int], queue_id: int) -> list[int]:
        """Return the places of those of some records that a queue is not done with."""

    @property
    def written_below(self) -> int:
        """Records below it can be read."""

    def messages(
        self, queue_id: int, records: Sequence[int], sequences: Sequence[int], origins: list[Origin]
    ) -> list[Message | None]:
        """Return the messages of a queue's rows, made with these origins. ``None`` and ``OSError`` as above.

        Ranges of ``records`` and ``sequences`` avoid a loop over the numbers.
        """

    def fitting(self, records: Sequence[int], size: int) -> int:
        """Return how many of these come with ``size`` bytes read, at least 1, without reading any."""

    def prefetch(self, records: Sequence[int]) -> Stretch | None:
        """Have these read ahead. Returns the last stretch of them that a thread will read, if one does."""


def read_singly(reader: MessageReader, records: Sequence[int]) -> list[StoredMessage | None]:
    """Return the messages that can be read of some that could not be read together."""
    found: list[StoredMessage | None] = []
    for record in records:
        try:
            found.append(reader.read([record])[0])
        except OSError:  # the caller reports the missing ones and the reason
            found.append(None)
    return found


def fitting(reader: MessageReader, rows: Rows, size: int) -> Rows:
    """Return the first of these rows, as many as ``size`` bytes contain; at least one."""
    records = rows.records if rows.plain else [record for record in rows.records if record]
    left = reader.fitting(records, size) if records else 0
    if left == len(records):
        return rows
    for place, record in enumerate(rows.records):
        if record and not left:
            return rows.leading(place)
        left -= record > 0
    return rows


def run_entries_of(
    queue: Queue, messages: list[Message | None], first: int, *, redelivered: bool, count: int
) -> tuple[list[QueueEntry], int]:
    """Return what :func:`entries_of` does for a run of rows: sequences from ``first`` on, and all else is the same."""
    entries: list[QueueEntry] = []
    size = 0
    sequence = first
    for message in messages:
        if message is not None:
            entry = QueueEntry(queue, message, sequence)
            entry.redelivered = redelivered
            entry.delivery_count = count
            entries.append(entry)
            size += message.size
        sequence += 1
    return entries, size


def plain_entries_of(queue: Queue, rows: Rows, messages: Sequence[Message | None]) -> tuple[list[QueueEntry], int]:
    """Return what :func:`entries_of` does for rows that are all alike: no entry kept, every origin whole."""
    entries = [
        QueueEntry(queue, message, sequence)
        for message, sequence in zip(messages, rows.sequences, strict=True)
        if message is not None
    ]
    if rows.came_back:
        marked = {sequence for sequence, mark in zip(rows.sequences, rows.redelivered, strict=True) if mark}
        for entry in entries:
            entry.redelivered = entry.sequence in marked
    if rows.counted:
        counts = dict(zip(rows.sequences, rows.counts, strict=True))
        for entry in entries:
            entry.delivery_count = counts[entry.sequence]
    return entries, sum([entry.message.size for entry in entries])


def entries_of(queue: Queue, rows: Rows, stored: Sequence[StoredMessage | None]) -> tuple[list[QueueEntry], int]:
    """Return the entries of ``rows`` and the body bytes read. ``stored`` are the messages of the rows that have one.

    A record of another message counts as damaged.
    """
    entries: list[QueueEntry] = []
    size = 0
    queue_id = queue.queue_id
    origins: dict[tuple[str, str, Origin], Origin] = {}
    following = iter(stored)
    for (sequence, record, origin, partial, redelivered, count), kept in zip(rows.each(), rows.kept, strict=True):
        if not record:
            if kept is not None:
                entries.append(kept)
            continue
        found = next(following)
        if found is None or (queue_id, sequence) not in found.targets:
            continue
        assert origin is not None
        if partial:
            exchange, routing_key = found.origin[:2]
            place = (exchange, routing_key, origin)
            whole = origins.get(place)
            if whole is None:
                whole = Origin(exchange, routing_key, origin.publisher, origin.view, origin.connection)
                origins[place] = whole
        else:
            whole = origin
        message = logged_message(
            record, found.header, found.body, whole, found.priority, found.accepted_at, found.expires_at
        )
        entry = QueueEntry(queue, message, sequence)
        entry.redelivered = redelivered
        entry.delivery_count = count
        entries.append(entry)
        size += len(found.body)
    return entries, size


def with_needles(
    rows: Rows, stored: Sequence[StoredMessage | None], needles: list[list[bytes]]
) -> tuple[Rows, list[StoredMessage | None]]:
    """Leave out the rows of sound messages whose header lacks something of each of ``needles``.

    Only if its view declares that texts are stored verbatim.
    """
    left = type(rows)()
    kept: list[StoredMessage | None] = []
    following = iter(stored)
    for index, record in enumerate(rows.records):
        if record:
            found = next(following)
            origin = rows.origins[index]
            if found is not None and origin is not None and origin.view.verbatim_texts:
                header = found.header
                if not any(all(needle in header for needle in together) for together in needles):
                    continue
            kept.append(found)
        left.sequences.append(rows.sequences[index])
        left.records.append(record)
        left.kept.append(rows.kept[index])
        left.origins.append(rows.origins[index])
        left.partial.append(rows.partial[index])
        left.redelivered.append(rows.redelivered[index])
        left.counts.append(rows.counts[index])
    return left, kept


def unread_entries_of(queue: Queue, rows: Rows) -> list[QueueEntry]:
    """Return the entries of ``rows`` without content: enough to settle their records."""
    entries: list[QueueEntry] = []
    for (sequence, record, origin, _, redelivered, count), kept in zip(rows.each(), rows.kept, strict=True):
        if not record:
            if kept is not None:
                entries.append(kept)
            continue
        assert origin is not None
        message = Message(b"", b"", origin, durable=True)
        message.record = record
        entry = QueueEntry(queue, message, sequence)
        entry.redelivered = redelivered
        entry.delivery_count = count
        entries.append(entry)
    return entries
