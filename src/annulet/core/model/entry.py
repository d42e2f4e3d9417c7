"""A queue entry: one queue's handle on a message, and the states it passes through.

============ ============================================== =====================================
state        meaning                                        held in
============ ============================================== =====================================
PENDING      waits for a consumer; what ring and key limits the queue's order
             count
DELIVERING   given to a consumer or lease, not settled      ``queue.delivering`` and the session
SCHEDULED    waits for a time: delayed by its sender, or    ``queue.schedule``
             by the queue's redelivery delay
REMOVED      left the queue with exactly one reason         nowhere
============ ============================================== =====================================

arrival -> PENDING or SCHEDULED; SCHEDULED -> PENDING when it falls due; PENDING -> DELIVERING by dispatch, get or
acquire; DELIVERING -> PENDING or SCHEDULED by the one return path; all -> REMOVED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from annulet.core.message.message import Message
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.queue_state import QueueState

PENDING: Final = 0
DELIVERING: Final = 1
REMOVED: Final = 2
SCHEDULED: Final = 3

STATE_NAMES: Final = ("pending", "delivering", "removed", "scheduled")

Rank: TypeAlias = "tuple[Any, ...]"
"""The first sort key of an order, before places; a smaller rank is delivered first."""

Key: TypeAlias = "tuple[str, str | int | float | bool | bytes]"
"""A key of a keep-per-key queue: type and value of a property."""


class EntryLane:
    """The lane of an entry, of which only lanes know more: :class:`annulet.core.ordering.lane.Lane`."""

    __slots__ = ()


class QueueEntry:
    """One message in one queue.

    ``sequence`` names it: strictly increasing per queue, never changed. ``place`` is its position among entries of
    equal rank: its sequence, unless it fell due from the schedule or took the place of a replaced entry.
    """

    __slots__ = (
        "away",
        "blocked",
        "consumer",
        "delivery_count",
        "evaluated",
        "indexed",
        "key",
        "lane",
        "message",
        "place",
        "queue",
        "rank",
        "redelivered",
        "sequence",
        "state",
    )

    def __init__(self, queue: QueueState, message: Message, sequence: int) -> None:
        self.queue = queue
        self.message = message
        self.sequence = sequence
        self.place = sequence
        self.rank: Rank | None = None  # None on FIFO queues: only places are compared
        self.state = PENDING
        self.delivery_count = 0  # returned deliveries; RabbitMQ's x-delivery-count, AMQP 1.0 §3.2.1
        self.consumer: Consumer | None = None  # its consumer or session while DELIVERING
        self.redelivered = False  # possibly seen by a consumer before (AMQP 0-9-1 basic.deliver)
        self.indexed = False  # its expiry is in the queue's index; neighbours of one byte each when it is compiled
        self.away = False  # its queue can do without the body now; see core.deliveries.bodies
        self.key: KeyRecord | None = None  # its key's record on a keep-per-key queue
        self.lane: EntryLane | None = None  # its lane, on queues with restricted consumers
        self.evaluated = 0  # bits of the matchers that evaluated it; see core.policies.matchers
        self.blocked = 0  # bits of the matchers that refused it
        message.near += 1

    @property
    def level(self) -> int:
        """Its priority level in its queue; 0 where all messages are equally important."""
        return self.queue.level_of(self.message)

    def __hash__(self) -> int:
        """Compiled classes that order themselves lose the inherited hash; equality stays identity."""
        return self.sequence

    def __lt__(self, other: QueueEntry) -> bool:
        """Order of dispatch: rank, then place."""
        mine = self.rank
        if mine is not None:
            theirs = other.rank
            if theirs is not None and mine != theirs:
                return mine < theirs
        return self.place < other.place

    def __repr__(self) -> str:
        return f"<QueueEntry {self.queue.name}#{self.sequence} {STATE_NAMES[self.state]}>"


BEHIND_ALL: Final = 1 << 60
"""A position that nothing has; nor has any one as much below 0."""


def level_of(entry: QueueEntry) -> int:
    """Return an entry's level of strict priorities, 0 if there are none."""
    rank = entry.rank
    if rank is None:
        return 0
    levels_up: int = rank[0]
    return -levels_up


LEVEL_SPAN: Final = 1 << 48
"""Twice more than any sequence, and than any place is below 0: the distance of two levels of strict priorities among
positions."""


def position_of(entry: QueueEntry) -> int:
    """Sort key: the order of dispatch for first in, first out, or on each level of strict priorities.

    The place, minus the level times :data:`LEVEL_SPAN`.
    """
    return entry.place - level_of(entry) * LEVEL_SPAN


def sequence_of(entry: QueueEntry) -> int:
    """Sort key: the order of arrival."""
    return entry.sequence


class KeyRecord:
    """The state of one key while a message of it is in the queue or in delivery."""

    __slots__ = ("key", "latest", "live", "recency", "recent")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.live = 0  # entries pending, delivering or waiting for redelivery
        self.latest = 0  # highest sequence accepted
        self.recency = 0  # when the latest was accepted: counts acceptances of the table
        # The last N accepted, by sequence; an entry is dropped when it leaves the queue, its number stays.
        self.recent: dict[int, QueueEntry | None] = {}

    @property
    def text(self) -> str:
        """The key as the ledger prints it."""
        return str(self.key[1])


class DeliveryCopy(QueueEntry):
    """The delivery of a browser or a consumer of a non-destructive queue: the entry itself stays in the queue."""

    __slots__ = ("original",)

    def __init__(self, original: QueueEntry) -> None:
        super().__init__(original.queue, original.message, original.sequence)
        self.original = original
        self.state = DELIVERING
        self.key = original.key
        self.delivery_count = original.delivery_count
        self.redelivered = original.redelivered
