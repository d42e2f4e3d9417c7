"""Positions of leases as the catalogue keeps them, and recovery's part in them.

A position is one unsigned 64-bit number: the queue's sequence number below, what a replay must repeat above.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from annulet.core.base.errors import NotFound

if TYPE_CHECKING:
    from annulet.core.queue.queue import Queue
    from annulet.store.database.catalogue import Catalogue

SEQUENCE_BITS: Final = 46
"""Bits of the sequence number: 7 * 10^13 messages a queue."""
SEQUENCE_MASK: Final = (1 << SEQUENCE_BITS) - 1
REJECTED_FLAG: Final = 1 << SEQUENCE_BITS
"""The message is rejected, not acknowledged, when its position is done."""
DELIVERY_COUNT_SHIFT: Final = SEQUENCE_BITS + 1
DELIVERY_COUNT_MAX: Final = (1 << 15) - 1
"""Returned deliveries that are remembered of a position; higher counts read as this."""
TRANSIENT_FLAG: Final = 1 << 62
"""The sender did not ask for persistence; the lease made the message durable for itself."""
REDELIVERED_FLAG: Final = 1 << 63


class LeaseSum(NamedTuple):
    """Figures of all leases of one queue."""

    leases: int
    messages: int  # in delivery to them
    oldest_created_at: int  # milliseconds since 1970


class LeaseFigures(Protocol):
    """The holder of the leases."""

    def of_queue(self, queue: Queue) -> list[dict[str, object]]:
        """Describe the leases of a queue, by name."""

    def statistics(self, host: str | None = None) -> list[dict[str, object]]:
        """Describe all leases, or those of a virtual host."""

    async def end(self, host: str, name: str) -> int:
        """End a lease: its messages return. Returns their number; raises ``NotFound``."""

    def sums(self) -> dict[tuple[str, str], LeaseSum]:
        """Return the figures of the queues that have leases, by virtual host and name."""


class NoLeases:
    """A broker without bulk transfer."""

    def of_queue(self, queue: Queue) -> list[dict[str, object]]:
        """Return none."""
        del queue
        return []

    def statistics(self, host: str | None = None) -> list[dict[str, object]]:
        """Return none."""
        del host
        return []

    async def end(self, host: str, name: str) -> int:
        """Raise ``NotFound``."""
        raise NotFound(f"no lease {name!r} in virtual host {host!r}; this broker has no bulk transfer")

    def sums(self) -> dict[tuple[str, str], LeaseSum]:
        """Return none."""
        return {}


class StageFigures(Protocol):
    """The stages of bulk writes that wait for their commit."""

    def figures(self) -> tuple[int, int]:
        """Return how many stages wait, and the bytes of all, with those being written."""


class NoStages:
    """A broker without bulk transfer."""

    def figures(self) -> tuple[int, int]:
        """Return none."""
        return 0, 0


def unpack_positions(packed: bytes) -> array[int]:
    """Return the numbers of consecutive positions."""
    return array("Q", packed)


def expect_leased(catalogue: Catalogue, queues: dict[int, Queue]) -> None:
    """Tell queues which messages are in delivery to a lease, before their messages are restored."""
    for lease in catalogue.leases():
        queue = queues.get(lease.queue_id)
        if queue is None:
            continue
        for span in catalogue.lease_ranges(lease.virtual_host, lease.name):
            skip = max(0, lease.acknowledged - span.first + 1)
            queue.expect_leased(packed & SEQUENCE_MASK for packed in unpack_positions(span.sequences)[skip:])
