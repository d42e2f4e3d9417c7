"""Messages in delivery in compact form with a quarter of the memory: shared fields, and those in the log, are left out.

A consumer may have a million messages. As a queue entry and a message each takes 272 bytes, without its body. One of a
plain queue that is stored, and whose body left memory, is compacted to 64: its individual fields, and a reference to
the :class:`SharedFields` of all similar messages of the same consumer. It replaces its entry in the tables of queue and
session; the entry is created again, without the disk, when it is needed (:func:`entry_of`). Messages that return in
compact form stay so until they are next, or become rows (:mod:`annulet.core.ordering.returned_entries`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from mypy_extensions import i32, mypyc_attr

from annulet.core.message.message import DEFAULT_PRIORITY, Message
from annulet.core.model.entry import DELIVERING, REMOVED, QueueEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.core.message.message import BodySource, Origin
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.queue_state import QueueState

NUMBER_MOST: Final = (1 << 31) - 1
"""Bytes of the largest compact message, and milliseconds between the arrivals of two of one kind: 32 bits."""

ATTEMPTS_MOST: Final = 100
"""Largest number of returned deliveries of a compact message; the history has no byte for more."""


class SharedFields:
    """The shared fields of compact messages.

    Without ``consumer`` they were returned and are pending, or ``removed``.
    """

    __slots__ = (
        "accepted_at",
        "consumer",
        "delivery_count",
        "leaving",
        "leaving_bytes",
        "origin",
        "priority",
        "queue",
        "redelivered",
        "removed",
        "returned",
        "source",
    )

    def __init__(self, queue: QueueState, origin: Origin, source: BodySource | None) -> None:
        self.queue = queue
        self.origin = origin
        self.source = source
        self.consumer: Consumer | None = None
        self.redelivered = False
        self.removed = False  # with their queue
        self.delivery_count = 0
        self.priority = DEFAULT_PRIORITY
        self.accepted_at = 0  # of the first; the others have the difference
        self.returned: SharedFields | None = None  # the kind after a return
        self.leaving = 0  # how many leave delivery in this turn and are not counted out yet
        self.leaving_bytes = 0  # their body bytes

    def fits(self, entry: QueueEntry) -> bool:
        """Return whether an entry that may be folded is of this kind."""
        message = entry.message
        return (
            entry.consumer is self.consumer
            and entry.queue is self.queue
            and message.origin is self.origin
            and message.source is self.source
            and message.priority == self.priority
            and entry.delivery_count == self.delivery_count
            and entry.redelivered is self.redelivered
            and 0 <= message.accepted_at - self.accepted_at <= NUMBER_MOST
        )

    def when_returned(self, *, counted: bool) -> SharedFields:
        """Return the kind after a return, ``counted`` as one delivery more."""
        count = self.delivery_count + int(counted)
        kind = self.returned
        if kind is None or kind.delivery_count != count:
            kind = self.returned = SharedFields(self.queue, self.origin, self.source)
            kind.redelivered = True
            kind.delivery_count = count
            kind.priority = self.priority
            kind.accepted_at = self.accepted_at
        return kind


def kind_of(entry: QueueEntry) -> SharedFields:
    """Return a new kind, of an entry that may be folded and those like it."""
    message = entry.message
    kind = SharedFields(entry.queue, message.origin, message.source)
    kind.consumer = entry.consumer
    kind.redelivered = entry.redelivered
    kind.delivery_count = entry.delivery_count
    kind.priority = message.priority
    kind.accepted_at = message.accepted_at
    return kind


@mypyc_attr(acyclic=True)
class CompactDelivery:
    """A folded message. ``link``: its kind, or its entry if that has been made since.

    The garbage collector does not track it, which saves 16 bytes: it leaves the tables of queue and session before
    these are dropped. Only a broker dropped without a stop, inside a process, would leak the queue.
    """

    __slots__ = ("age", "header", "link", "record", "sequence", "size")

    def __init__(self, kind: SharedFields, entry: QueueEntry) -> None:
        message = entry.message
        self.link: SharedFields | QueueEntry = kind
        self.sequence = entry.sequence
        self.record = message.record
        self.header = message.header
        self.size: i32 = message.size
        self.age: i32 = message.accepted_at - kind.accepted_at  # milliseconds


Slot: TypeAlias = "QueueEntry | CompactDelivery"
"""An element of the tables of deliveries."""


def may_be_folded(entry: QueueEntry) -> bool:
    """Return whether a compact message and the log have everything of an entry, apart from other references to it."""
    message, queue = entry.message, entry.queue
    return (
        entry.away
        and entry.state == DELIVERING
        and entry.consumer is not None
        and queue.may_compact()
        and entry.rank is None
        and entry.key is None
        and entry.lane is None
        and not entry.indexed
        and entry.evaluated == 0 == entry.blocked
        and entry.place == entry.sequence
        and entry.delivery_count <= ATTEMPTS_MOST
        and message.record > 0
        and message.durable
        and message.absent
        and message.away == 1
        and message.spill is None
        and message.expires_at == 0 == message.deliver_at
        and message.size <= NUMBER_MOST
    )


def entry_of(held: CompactDelivery) -> QueueEntry:
    """Return the entry of a compact message: a new one, which replaces it in its queue's table."""
    kind = held.link
    if isinstance(kind, QueueEntry):
        return kind
    queue, consumer = kind.queue, kind.consumer
    age: int = held.age  # or the sum would have 32 bits, too
    message = Message(
        held.header, b"", kind.origin, durable=True, priority=kind.priority, accepted_at=kind.accepted_at + age
    )
    message.size = held.size
    message.record = held.record
    message.source = kind.source
    message.leave()
    entry = QueueEntry(queue, message, held.sequence)
    message.near, message.away = 0, 1
    entry.away = True
    entry.redelivered = kind.redelivered
    entry.delivery_count = kind.delivery_count
    held.link = entry
    if kind.removed:
        entry.state = REMOVED
    elif consumer is not None:
        entry.state = DELIVERING
        entry.consumer = consumer
        queue.expand_delivery(entry)
    return entry


def queue_of(slot: Slot) -> QueueState:
    """Return the queue of an element of a table, without creating an entry."""
    return slot.link.queue if isinstance(slot, CompactDelivery) else slot.queue


def by_queue(slots: Iterable[Slot]) -> dict[QueueState, list[Slot]]:
    """Return elements of a table by their queue, each in the order given. Neighbours are of one queue as a rule."""
    found: dict[QueueState, list[Slot]] = {}
    former: QueueState | None = None
    there: list[Slot] = []
    for slot in slots:
        queue = queue_of(slot)
        if queue is not former:
            former = queue
            there = found.setdefault(queue, [])
        there.append(slot)
    return found


def queues_of(slots: Iterable[Slot]) -> list[QueueState]:
    """Return the queues of elements of a table, each once."""
    found: dict[QueueState, None] = {}
    former: QueueState | None = None
    for slot in slots:
        queue = queue_of(slot)
        if queue is not former:
            former = queue
            found[queue] = None
    return list(found)


def consumer_of(slot: Slot) -> Consumer | None:
    """Return the owner of an element of a table, without creating an entry."""
    return slot.link.consumer if isinstance(slot, CompactDelivery) else slot.consumer


def origin_of(slot: Slot) -> Origin:
    """Return the origin of an element of a table, without creating an entry."""
    if isinstance(slot, QueueEntry):
        return slot.message.origin
    kind = slot.link
    return kind.message.origin if isinstance(kind, QueueEntry) else kind.origin


def entry_in(slot: Slot) -> QueueEntry:
    """Return the entry of an element of a table, created if necessary."""
    return entry_of(slot) if isinstance(slot, CompactDelivery) else slot


def record_of(slot: Slot) -> int:
    """Return the record of an element of a table, 0 for none."""
    return slot.record if isinstance(slot, CompactDelivery) else slot.message.record


def removed(slot: Slot) -> bool:
    """Return whether the message of an element has left its queue, or is about to with the queue."""
    if queue_of(slot).deleted:
        return True
    if isinstance(slot, CompactDelivery):
        link = slot.link
        return link.removed if isinstance(link, SharedFields) else link.state == REMOVED
    return slot.state == REMOVED
