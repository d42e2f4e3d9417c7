"""A ring on disk that the disk let grow is as long as its size again as soon as the disk gives, without an arrival."""

from __future__ import annotations

from unittest import mock

from annulet.core.base.removal_reasons import RemovalReason
from annulet.store.files.files import OsFile
from tests.residency.acceptance.deep import Deep, refuse, until

RING = 4000
MORE = 1500


async def test_what_a_refusing_disk_had_a_ring_keep_goes_when_it_gives(deep: Deep) -> None:
    queue = await deep.declare("ring", x_ring_size=RING)
    await deep.publish(range(RING), "ring")
    await deep.settled()
    in_memory = RING - queue.order.paged_count()
    assert in_memory < RING // 2
    with mock.patch.object(OsFile, "read", refuse):
        await deep.publish(range(RING, RING + RING // 2 + MORE), "ring")
        assert queue.order.count > RING + 500
    deep.tick()
    await until(lambda: queue.ring_debt is None)
    assert queue.order.count == RING
    assert queue.counters.removed[RemovalReason.REPLACED_RING] == RING // 2 + MORE
    await deep.written()
    assert await deep.drained("ring") == list(range(RING // 2 + MORE, RING + RING // 2 + MORE))
