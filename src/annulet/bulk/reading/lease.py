"""One lease: a durable list of positions 1, 2, 3, ... each pointing at a message that is in delivery to this lease.

The rules are spark-notes §3. A position is never used twice, not even after a release.

=============  ==========================================================================================
state          meaning
=============  ==========================================================================================
unclaimed      opened, but no batch of its owner was ever read: a new checkpoint may take it over, since no
               checkpoint that could miss its messages has got further than planning
claimed        its owner has read from it: only that owner, or an explicit choice, may go on with it
gone           released or expired: its messages are back in the queue, its name is free
=============  ==========================================================================================
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

from annulet.broker.durability.leased import (
    DELIVERY_COUNT_MAX,
    DELIVERY_COUNT_SHIFT,
    REDELIVERED_FLAG,
    REJECTED_FLAG,
    TRANSIENT_FLAG,
)
from annulet.bulk.protocol.gaps import Gaps
from annulet.bulk.protocol.schema import Row
from annulet.core.model.entry import DELIVERING
from annulet.core.queue.statistics import lag_of
from annulet.store.database.definitions import LeaseRecord

if TYPE_CHECKING:
    from annulet.bulk.reading.taker import SelectorTaker
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue


class CompactDelivery:
    """A position's message: its entry, and values that a replay must repeat although the broker's have changed."""

    __slots__ = ("delivery_count", "entry", "redelivered", "rejected")

    def __init__(self, entry: QueueEntry, delivery_count: int, *, redelivered: bool) -> None:
        self.entry = entry
        self.delivery_count = delivery_count
        self.redelivered = redelivered
        self.rejected = False  # to be rejected when its position is done; until then a replay reads it again

    @property
    def alive(self) -> bool:
        """Whether the message is still in delivery to the lease; not after its queue was deleted."""
        return self.entry.state == DELIVERING and not self.entry.queue.deleted

    def row(self, position: int) -> Row:
        """Return the row of this position, the same for every read."""
        entry = self.entry
        expires_at = entry.queue.expires_at(entry)
        return Row(position, entry.message, expires_at, self.delivery_count, self.redelivered, entry.sequence)

    def pack(self) -> int:
        """Pack into the unsigned 64 bits that the catalogue keeps of a position."""
        packed = self.entry.sequence | min(self.delivery_count, DELIVERY_COUNT_MAX) << DELIVERY_COUNT_SHIFT
        if not self.entry.message.durable:
            packed |= TRANSIENT_FLAG
        if self.redelivered:
            packed |= REDELIVERED_FLAG
        if self.rejected:
            packed |= REJECTED_FLAG
        return packed


def hold(entry: QueueEntry) -> CompactDelivery:
    """Make one for an entry that was just acquired."""
    return CompactDelivery(entry, entry.delivery_count, redelivered=entry.redelivered)


def unpack(packed: int, entry: QueueEntry) -> CompactDelivery:
    """Restore one for a recovered entry, as it was when its position was assigned."""
    count = packed >> DELIVERY_COUNT_SHIFT & DELIVERY_COUNT_MAX
    entry.delivery_count = count
    entry.redelivered = bool(packed & REDELIVERED_FLAG)
    if packed & TRANSIENT_FLAG:  # the lease stored it for itself; readers see the sender's value
        entry.message.durable = False
    held = CompactDelivery(entry, count, redelivered=entry.redelivered)
    held.rejected = bool(packed & REJECTED_FLAG)
    return held


def pack_positions(held: Iterable[CompactDelivery]) -> bytes:
    """Pack consecutive positions for the catalogue, in position order."""
    return array("Q", [message.pack() for message in held]).tobytes()


class Lease:
    """The state of one lease. Changed by the lease manager only, under ``lock`` where it waits for the disk."""

    __slots__ = (
        "acknowledged",
        "active_at",
        "created_at",
        "gaps",
        "generated",
        "generation",
        "held",
        "held_bytes",
        "host",
        "last",
        "lock",
        "name",
        "opener",
        "owner",
        "queue",
        "queue_id",
        "queue_name",
        "released",
        "taker",
        "user",
        "walking",
    )

    def __init__(self, host: str, name: str, queue: Queue, *, generated: bool, now: int) -> None:
        self.host = host
        self.name = name
        self.queue = queue
        self.queue_id = queue.queue_id
        self.queue_name = queue.name
        self.generated = generated  # its name was generated by the source, so no other query can continue it
        self.generation = 0
        self.user = ""  # that used it last, also before the broker started
        self.owner = ""  # the checkpoint that claimed it; empty while unclaimed
        self.opener = ""  # the checkpoint that opened it last; empty = none since the broker started
        self.created_at = now
        self.active_at = now
        self.acknowledged = 0  # positions up to here are done
        self.last = 0  # highest position ever given out
        self.held: dict[int, CompactDelivery] = {}  # by position, ascending; positions above ``acknowledged`` only
        self.held_bytes = 0  # body bytes of these
        self.gaps = Gaps()  # positions that were lost and passed over because failOnDataLoss was false
        self.released = False
        self.taker: SelectorTaker | None = None  # of a stream with a selector
        self.walking = False  # the last call found nothing, and not all of a deep grouped queue was looked through
        self.lock = asyncio.Lock()

    @property
    def key(self) -> tuple[str, str]:
        """Virtual host and name."""
        return self.host, self.name

    def take_in(self, first: int, taken: Iterable[CompactDelivery]) -> None:
        """Hold messages at the positions from ``first`` on."""
        for position, message in enumerate(taken, first):
            self.held[position] = message
            self.held_bytes += message.entry.message.size

    def let_go(self, position: int) -> CompactDelivery:
        """Hold a message no more, and return it."""
        message = self.held.pop(position)
        self.held_bytes -= message.entry.message.size
        return message

    def let_all_go(self) -> list[CompactDelivery]:
        """Hold none any more, and return them in the order of their positions."""
        held, self.held, self.held_bytes = self.held, {}, 0
        return list(held.values())

    def messages(self, after: int, upto: int) -> list[tuple[int, CompactDelivery]]:
        """Return the positions in ``(after, upto]`` with their messages, in order; some may not be leased any more.

        The work is bounded by the leased messages, however far apart a client's numbers are.
        """
        held = self.held
        positions = range(max(after, self.acknowledged) + 1, min(upto, self.last) + 1)
        if len(positions) > len(held):
            return [(position, message) for position, message in held.items() if position in positions]
        return [(position, held[position]) for position in positions if position in held]

    def record(self) -> LeaseRecord:
        """Return the record for the catalogue."""
        return LeaseRecord(
            name=self.name,
            virtual_host=self.host,
            queue_id=self.queue_id,
            generation=self.generation,
            generated=self.generated,
            created_at=self.created_at,
            active_at=self.active_at,
            acknowledged=self.acknowledged,
            last=self.last,
            owner=self.owner,
            user=self.user,
        )

    def status(self, now: int) -> dict[str, object]:
        """Describe the lease for statistics; times in milliseconds.

        ``pending`` and ``lag_milliseconds`` are of its queue: the waiting messages, and the wait of the oldest.
        """
        queue = self.queue
        return {
            "name": self.name,
            "virtual_host": self.host,
            "queue": self.queue_name,
            "generation": self.generation,
            "generated": self.generated,
            "claimed": self.owner != "",
            "user": self.user,
            "created_at": self.created_at,
            "age_milliseconds": now - self.created_at,
            "idle_milliseconds": now - self.active_at,
            "acknowledged": self.acknowledged,
            "last": self.last,
            "held": len(self.held),
            "held_bytes": self.held_bytes,
            "gap": self.gaps.count,
            "pending": queue.shown_count(),
            "lag_milliseconds": lag_of(queue, now),
        }
