"""A24: what went while it was on its way from the disk is not delivered, and nothing of it stays in memory.

Rows and bodies are read in the turn that asks for them, so there are two moments in which something is wanted and not
there: when the disk refuses, and when a thread has read the block it stands in and nobody has come for it yet.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from annulet.core.paging.paged_fifo import KEEP_MESSAGES
from annulet.residency.rows.page import PAGE_ITEMS_MAX
from annulet.store.files.files import OsFile
from annulet.store.log.log import MessageLog
from tests.broker.amqp091.peer import turns
from tests.residency.acceptance.deep import PATIENCE, Consumer, Deep, refuse
from tests.store.log.test_log_tools import reader_of

COUNT = 1800
STEP = 64
"""Of so many messages the last one goes."""

HELD = KEEP_MESSAGES + 10
"""What a consumer has who has begun to read what is on disk."""

KINDS: dict[str, dict[str, Any]] = {
    "rows": {},
    "bodies": {"x_priorities": 10, "x_priority_discipline": "ageing", "x_priority_age": 1 << 31},
}
"""Queues by what comes back from the disk: of the latter the entries stay in memory."""

DEPTHS = {"rows": PAGE_ITEMS_MAX + 3 * KEEP_MESSAGES, "bodies": 3 * KEEP_MESSAGES}


async def filled(deep: Deep, kind: str, **of_the_last: Any) -> tuple[list[int], list[int]]:
    """Fill a queue so that the last one of each ``STEP`` messages has these options.

    Returns these and the others, of those that nobody is handed at first.
    """
    await deep.declare("read", **KINDS[kind])
    for start in range(0, DEPTHS[kind], STEP):
        await deep.publish(range(start, start + STEP - 1), "read")
        await deep.publish([start + STEP - 1], "read", **of_the_last)
    await deep.settled()
    chosen = [number for number in range(HELD, DEPTHS[kind]) if number % STEP == STEP - 1]
    return chosen, [number for number in range(HELD, DEPTHS[kind]) if number % STEP != STEP - 1]


async def begun(deep: Deep) -> Consumer:
    """Have a consumer hold ``HELD`` messages, and a thread have read what comes behind these."""
    consumer = await deep.consumer("read", HELD)
    assert await consumer.all(HELD) == list(range(HELD))
    log = deep.broker.log
    assert isinstance(log, MessageLog)
    deadline = time.monotonic() + PATIENCE
    while not any(block.data for block in reader_of(log).ahead._blocks) and time.monotonic() < deadline:
        await turns()
    assert any(block.data for block in reader_of(log).ahead._blocks), "it was read before anybody asked for it"
    return consumer


async def emptied(deep: Deep) -> None:
    """All is gone: nothing is counted as being in memory, nor was it read for somebody who may still come."""
    await deep.written()
    deep.tick()
    assert deep.broker.pager is not None
    assert deep.queue("read").statistics().message_count == 0
    assert (deep.broker.pager.budget.used, deep.broker.pager.bodies_away) == (0, (0, 0))
    assert await deep.live_records() == 0
    await deep.broker.commit.maintain()
    assert deep.broker.log.statistics().read_ahead_bytes == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_a24_what_was_acknowledged_after_it_was_read_ahead_is_not_delivered(deep: Deep, kind: str) -> None:
    """Another consumer is handed some of it, as his selector asks for it, and is done with it first."""
    chosen, left = await filled(deep, kind, mine=True)
    consumer = await begun(deep)
    chooser = await deep.consumer("read", len(chosen), x_selector="mine")
    assert await chooser.all(len(chosen)) == chosen
    await chooser.acknowledge_all()
    await chooser.leave()
    await consumer.acknowledge_all()
    found = await consumer.numbers()
    assert found == left[: len(found)]
    assert len(found) == HELD
    await consumer.acknowledge_all()
    await consumer.leave()
    assert [*found, *await deep.drained("read")] == left
    await emptied(deep)


@pytest.mark.parametrize("ticked", [False, True], ids=["met on the way", "found by their time"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a24_what_expired_after_it_was_read_ahead_is_not_delivered(deep: Deep, kind: str, ticked: bool) -> None:
    chosen, left = await filled(deep, kind, expires_at=deep.clock() + 60_000)
    consumer = await begun(deep)
    deep.clock.advance(60_001)
    if ticked:
        deep.broker.hosts["/"].tick(deep.clock())
        await deep.written()
    found: list[int] = []
    await consumer.acknowledge_all()
    while got := await consumer.numbers():
        found += got
        await consumer.acknowledge_all()
    assert found == left
    await consumer.leave()
    removed = deep.queue("read").statistics().removed
    assert removed == {"acknowledged": HELD + len(left), "expired": len(chosen)}
    await emptied(deep)


async def test_a24_what_was_purged_while_the_disk_was_asked_is_not_delivered(
    deep: Deep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that the disk refuses is the one moment in which something is wanted and not there yet."""
    await deep.publish(range(COUNT))
    await deep.settled()
    with monkeypatch.context() as patch:
        patch.setattr(OsFile, "read", refuse)
        consumer = await deep.consumer(prefetch=COUNT)
        assert await consumer.all(KEEP_MESSAGES) == list(range(KEEP_MESSAGES))
        assert deep.queue().purge(deep.broker.clock()) == COUNT - KEEP_MESSAGES
    await deep.written()
    deep.tick()
    assert await consumer.numbers() == []
    await consumer.acknowledge_all()
    await consumer.leave()
    await deep.written()
    assert deep.queue().statistics().message_count == 0
    assert await deep.live_records() == 0
    await deep.publish(range(COUNT, COUNT + 5))
    assert await deep.drained() == list(range(COUNT, COUNT + 5))
