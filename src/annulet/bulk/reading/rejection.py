"""Rejecting single messages of a lease: marked now, rejected when their positions are done.

A batch that Spark repeats must read the same rows, so a poison message stays where it is until its batch has been
committed. The mark is in the catalogue before the caller is answered; setting it twice is setting it once.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from typing import TYPE_CHECKING

from annulet.broker.durability.leased import REJECTED_FLAG, unpack_positions
from annulet.bulk.protocol.errors import InvalidRequestError
from annulet.store.database.definitions import LeaseRange

if TYPE_CHECKING:
    from annulet.bulk.reading.lease import Lease
    from annulet.store.database.catalogue import Catalogue


def mark_rejected(catalogue: Catalogue, lease: Lease, positions: Collection[int]) -> int:
    """Mark positions of a lease, all or none. Returns how many were not marked before.

    Raises :class:`InvalidRequestError` for a position that the lease does not have.
    """
    ordered = sorted(set(positions))
    for position in ordered:
        if position not in lease.held:
            raise InvalidRequestError(
                f"lease {lease.name!r}: position {position} cannot be rejected, its positions {lease.acknowledged + 1} "
                f"to {lease.last} are those not done yet; reject rows of the batch that is being processed"
            )
    with catalogue.transaction():
        for span in catalogue.lease_ranges(lease.host, lease.name):
            inside = ordered[bisect_left(ordered, span.first) : bisect_right(ordered, span.last)]
            if inside:
                catalogue.set_lease_range(lease.host, lease.name, _marked(span, inside))
    fresh = [lease.held[position] for position in ordered if not lease.held[position].rejected]
    for message in fresh:
        message.rejected = True
    return len(fresh)


def _marked(span: LeaseRange, positions: list[int]) -> LeaseRange:
    packed: array[int] = unpack_positions(span.sequences)
    for position in positions:
        packed[position - span.first] |= REJECTED_FLAG
    return LeaseRange(span.first, span.last, packed.tobytes())
