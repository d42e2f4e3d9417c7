"""R1 to R3, R8: very many messages that came back are rows again, in order and with their counts, over restarts."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from annulet.broker.paging.pager import FOLDED_LEAST
from annulet.core.model.entry import PENDING
from annulet.core.paging.paged_fifo import KEEP_MESSAGES, PagedFifo
from annulet.core.queue.queue import Queue
from tests.broker.amqp091.peer import turns
from tests.broker.amqp10 import peer as amqp10
from tests.broker.stomp import peer as stomp
from tests.residency.acceptance.deep import PATIENCE, Consumer, Deep, deep_broker, number_of, until

BASIC = commands.Basic
COUNT = 5000
HELD = KEEP_MESSAGES + FOLDED_LEAST + 300
"""What comes back: more than stays in memory as the next messages and is not worth a page."""

LEVELS = (6, 2)
"""Priorities: of the first one are the first ``HELD`` messages."""


def objects(queue: Queue) -> int:
    return len([entry for entry in queue.order.in_memory() if entry.state == PENDING])


async def hold(deep: Deep, name: str, count: int) -> Consumer:
    consumer = await deep.consumer(name, count)
    assert len(await consumer.all(count)) == count
    return consumer


async def given_back(deep: Deep, name: str, consumer: Consumer) -> None:
    """Have a consumer go that held messages, and what came back paged."""
    queue = deep.queue(name)
    await consumer.leave()
    await until(lambda: not queue.returns and not any(entry.consumer for entry in queue.delivering))
    await deep.settled()


async def came_back(deep: Deep, name: str, times: int) -> None:
    """Have a consumer hold the first messages so often, and go."""
    for _ in range(times):
        consumer = await hold(deep, name, HELD)
        await deep.settled()  # the bodies leave
        await given_back(deep, name, consumer)


async def told(deep: Deep, name: str, count: int, **arguments: Any) -> list[tuple[int, bool, int]]:
    """Take so many and say of each its number, whether it is marked as redelivered, and its ``x-delivery-count``."""
    consumer = await deep.consumer(name, count, **arguments)
    found: list[tuple[int, bool, int]] = []
    marked, times = False, 0
    deadline = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < deadline:
        for item in await consumer.peer.take():
            if isinstance(item, BASIC.Deliver):
                marked = item.redelivered
            elif isinstance(item, ContentHeader):
                times = (item.properties.headers or {}).get("x-delivery-count", 0)
            elif isinstance(item, ContentBody):
                found.append((number_of(item.value), marked, times))
        await turns(5)
    await consumer.leave()
    return found


@pytest.mark.parametrize("arguments", [{}, {"x_max_priority": 9}], ids=["first in, first out", "levels"])
async def test_what_came_back_is_rows_again_with_its_counts_over_restarts(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("back", **arguments)
        await deep.publish(range(HELD), "back", priority=LEVELS[0])
        await deep.publish(range(HELD, COUNT), "back", priority=LEVELS[1])
        await came_back(deep, "back", 2)
        queue = deep.queue("back")
        assert queue.order.count == COUNT
        assert objects(queue) <= FOLDED_LEAST, "the next ones, and a load"
        deep.check()
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
    for stop in ("data", "killed"):
        async with deep_broker(tmp_path / stop) as deep:
            queue = deep.queue("back")
            assert queue.order.count == COUNT
            assert objects(queue) <= KEEP_MESSAGES, "none of them was read for its count"
            deep.check()
            await as_told(deep, all_marked=stop == "killed")


async def as_told(deep: Deep, *, all_marked: bool = False) -> None:
    found = await told(deep, "back", COUNT)
    assert [number for number, _, _ in found] == list(range(COUNT))
    assert [times for _, _, times in found] == [2] * HELD + [0] * (COUNT - HELD)
    assert [marked for _, marked, _ in found] == [True] * HELD + [all_marked] * (COUNT - HELD)
    await deep.written()


async def test_what_comes_back_beside_rows_takes_its_place(deep: Deep) -> None:
    """A third consumer gives its messages back when some of those around them are rows already."""
    await deep.declare("back")
    await deep.publish(range(COUNT), "back")
    first = await hold(deep, "back", HELD // 2)
    among = await hold(deep, "back", 100)
    last = await hold(deep, "back", HELD // 2)
    await deep.settled()
    await last.leave()
    await first.leave()
    queue = deep.queue("back")
    await until(lambda: queue.order.came_back() == 2 * (HELD // 2))
    await deep.settled()
    assert objects(queue) <= FOLDED_LEAST
    await given_back(deep, "back", among)
    found = await told(deep, "back", COUNT)
    assert [number for number, _, _ in found] == list(range(COUNT))
    assert [times for _, _, times in found] == [1] * (2 * (HELD // 2) + 100) + [0] * (COUNT - 2 * (HELD // 2) - 100)


async def test_a_limit_of_deliveries_counts_those_of_rows(tmp_path: Path) -> None:
    arguments = {"x_max_delivery_attempts": 2, "x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("dead")
        await deep.declare("back", **arguments)
        await deep.publish(range(COUNT), "back")
        await came_back(deep, "back", 1)
        assert objects(deep.queue("back")) <= FOLDED_LEAST
        consumer = await hold(deep, "back", HELD)
        await deep.settled()
        await consumer.leave()
        await until(lambda: deep.queue("dead").order.count == HELD)  # they are moved in slices
        await deep.settled()
        assert numbers_of(await told(deep, "dead", HELD)) == list(range(HELD))
        assert numbers_of(await told(deep, "back", COUNT - HELD)) == list(range(HELD, COUNT))


def numbers_of(found: Sequence[tuple[int, bool, int]]) -> list[int]:
    return [number for number, _, _ in found]


async def test_a_browser_tells_the_counts_of_rows_and_of_what_is_in_memory(deep: Deep) -> None:
    await deep.declare("back")
    await deep.publish(range(HELD), "back")
    await came_back(deep, "back", 1)
    assert objects(deep.queue("back")) > 0
    assert await told(deep, "back", HELD, x_browse="snapshot") == [(number, True, 1) for number in range(HELD)]


async def test_a_purge_leaves_nothing_of_rows_in_the_history_but_all_of_what_is_in_delivery(deep: Deep) -> None:
    await deep.declare("back")
    await deep.publish(range(HELD), "back")
    await came_back(deep, "back", 1)
    queue = deep.queue("back")
    holder = await hold(deep, "back", 10)
    assert queue.purge(deep.clock()) == HELD - 10
    await deep.written()
    assert deep.broker.history is not None
    await deep.broker.commit.durable()
    known = deep.broker.history.history.delivery_counts()
    assert {known.take(*place) for place in list(known.left())} == {1}
    known = deep.broker.history.history.delivery_counts()
    assert [sequence for _, sequence in known.left()] == sorted(entry.sequence for entry in queue.delivering)
    await holder.acknowledge_all()
    await deep.written()
    assert list(deep.broker.history.history.delivery_counts().left()) == []


@pytest.mark.parametrize("restarted", [False, True])
async def test_all_protocols_tell_what_a_row_knows(tmp_path: Path, restarted: bool) -> None:
    few = 30
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("back")
        await deep.publish(range(few), "back")
        await given_back(deep, "back", await hold(deep, "back", few))
        if not restarted:
            assert all_of_it_rows(deep) == few
            await tell_all_protocols(deep)
            return
    async with deep_broker(tmp_path / "data") as deep:
        await tell_all_protocols(deep)


def all_of_it_rows(deep: Deep) -> int:
    """Make rows of a queue of a few messages that came back; return how many."""
    pager, queue = deep.broker.pager, deep.queue("back")
    assert pager is not None
    order = pager.rows_of(queue)
    assert isinstance(order, PagedFifo)
    order.keep_messages, order.fold_least = 0, 1
    return order.fold(deep.broker.log.written_below, queue.order.count)


async def tell_all_protocols(deep: Deep) -> None:
    consumer = await deep.consumer("back", 1)
    frames = await consumer.peer.take()
    (delivery,) = [item for item in frames if isinstance(item, BASIC.Deliver)]
    (header,) = [item for item in frames if isinstance(item, ContentHeader)]
    assert (delivery.redelivered, header.properties.headers["x-delivery-count"]) == (True, 1)
    link_peer = await amqp10.Peer(deep.broker).open()
    await link_peer.receiver("back", credit=1)
    (transfer,) = await link_peer.deliveries()
    assert (transfer.header.delivery_count, transfer.header.first_acquirer) == (1, False)
    stomp_peer = await stomp.Peer(deep.broker).open()
    await stomp_peer.send("SUBSCRIBE", {"id": "0", "destination": "/amq/queue/back", "ack": "client"})
    frame = stomp_peer.take()[0]
    assert (frame.headers["redelivered"], frame.headers["x-delivery-count"]) == ("true", "1")
