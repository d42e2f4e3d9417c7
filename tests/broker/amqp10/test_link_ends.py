"""What ends a link, suspends it or leaves a message out, and what may not follow from it."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from annulet.broker.broker import Broker
from annulet.testing.clock import VirtualClock
from annulet.wire.amqp10.frames.link_frames import Disposition, Flow
from annulet.wire.amqp10.frames.outcomes import Modified, Received, Released
from annulet.wire.amqp10.frames.performatives import Detach, Source
from annulet.wire.amqp10.frames.terminus import DURABLE_UNSETTLED_STATE
from annulet.wire.amqp10.types import conditions
from tests.broker.amqp091.peer import turns
from tests.broker.amqp10.peer import ACCEPTED, WINDOW, Peer, bodies, queue_of
from tests.broker.amqp10.test_sources import prepared, subscribe, tell, topic
from tests.residency.doubles import Disk, bodies_of


async def test_a_fault_ends_the_link_and_not_its_durable_subscription(broker: Broker) -> None:
    """Closing a link unsubscribes; being thrown out does not."""
    topic(broker)
    peer = await Peer(broker).open()
    link = await subscribe(peer, durable=2)
    await tell(broker, b"kept")
    await peer.deliveries()
    await peer.send(Flow(0, WINDOW, 0, WINDOW, link.handle, delivery_count=77, link_credit=5))
    (detach,) = await peer.all(Detach)
    assert (detach.closed, detach.error.condition) == (True, conditions.INVALID_FIELD)  # type: ignore[union-attr]
    await peer.send(Detach(link.handle, True))
    await subscribe(peer, durable=2)
    assert bodies(await peer.deliveries()) == [b"kept"]


async def test_a_link_whose_consumer_its_queue_has_ended_is_told_why_and_gives_back_what_it_holds(
    broker: Broker,
) -> None:
    peer = await prepared(broker, b"1", b"2")
    await peer.receiver("q", credit=2)
    await peer.deliveries()
    queue = broker.hosts["/"].queues["q"]
    (consumer,) = queue.consumers
    consumer.ended_for = "not all of it can be in memory"
    with capture_logs() as logs:
        queue.end_consumer(consumer, broker.clock(), serve=False)
    assert [log["reason"] for log in logs] == [consumer.ended_for]
    await turns()
    (detach,) = await peer.all(Detach)
    assert detach.closed
    assert detach.error is not None
    assert (detach.error.condition, detach.error.description) == (conditions.PRECONDITION_FAILED, consumer.ended_for)
    assert (queue.order.count, len(queue.delivering)) == (2, 0)


@pytest.mark.parametrize("settle_mode", [0, 1], ids=["unsettled", "settled"])
async def test_a_message_that_is_withheld_uses_no_credit(broker: Broker, settle_mode: int) -> None:
    peer = await prepared(broker, b"x" * 1000, b"y" * 1000, b"small")
    link = await peer.receiver("q", credit=1, max_message_size=100, snd_settle_mode=settle_mode)
    await turns()
    assert bodies(await peer.deliveries()) == [b"small"]
    await peer.detach(link)
    await peer.receiver("q", credit=5)
    assert [body for body in bodies(await peer.deliveries()) if body != b"small"] == [b"x" * 1000, b"y" * 1000]


async def test_resuming_goes_on_when_the_window_opens(broker: Broker) -> None:
    """§2.6.13: what did not fit into the peer's window at first."""
    peer = await prepared(broker, b"1", b"2", b"3", b"new")
    source = Source("q", durable=DURABLE_UNSETTLED_STATE)
    link = await peer.receiver(None, source=source, name="resumed", credit=3)
    held = await peer.deliveries()
    await peer.detach(link)
    link = await peer.receiver(None, source=source, name="resumed", unsettled={item.tag: None for item in held})
    await peer.send(Flow(3, 1, 0, WINDOW, link.handle, link.delivery_count, 5))
    first = await peer.deliveries()
    await peer.send(Flow(4, WINDOW, 0, WINDOW))
    rest = await peer.deliveries()
    assert bodies(first + rest) == [b"1", b"2", b"3", b"new"]
    assert [item.resume for item in first + rest] == [True, True, True, False]
    await peer.settle(ACCEPTED, *first, *rest)
    queue = broker.hosts["/"].queues["q"]
    assert (queue.order.count, len(queue.delivering)) == (0, 0)


@pytest.mark.parametrize("outcome", ["closed", "released", "not for this link", "too large"])
async def test_what_a_resumed_link_holds_goes_where_it_belongs(broker: Broker, outcome: str) -> None:
    """Also what it holds since before it was suspended, and was suspended again."""
    peer = await prepared(broker, b"x" * 200)
    source = Source("q", durable=DURABLE_UNSETTLED_STATE)
    unsettled: dict[bytes, Any] = {}
    item: Any = None
    for _ in range(2):
        link = await peer.receiver(None, source=source, name="resumed", credit=1, unsettled=unsettled)
        (item,) = await peer.deliveries()
        unsettled = {item.tag: None}
        await peer.detach(link)
    most = 100 if outcome == "too large" else 0
    link = await peer.receiver(
        None, source=source, name="resumed", credit=1, unsettled=unsettled, max_message_size=most
    )
    if outcome != "too large":
        (item,) = await peer.deliveries()
        assert item.resume
    other = await peer.receiver("q")
    if outcome == "closed":
        await peer.detach(link, closed=True)
    elif outcome == "released":
        await peer.settle(Released(), item)
    elif outcome == "not for this link":
        await peer.settle(Modified(undeliverable_here=True), item)
        await peer.credit(link, 1)
    await turns()
    assert len(broker.hosts["/"].queues["q"].delivering) == 0
    assert bodies(await peer.deliveries()) == []
    await peer.credit(other, 1)
    assert bodies(await peer.deliveries()) == [b"x" * 200]


@pytest.mark.parametrize(
    ("expiry", "seconds"),
    [
        ({"expiry_policy": "session-end", "timeout": 30}, 30),
        ({"expiry_policy": "link-detach", "timeout": 30}, 30),
        ({"expiry_policy": "link-detach"}, 0),
        ({"expiry_policy": "never", "timeout": 30}, -1),
        ({"timeout": 2**32 - 1}, -1),
        ({}, -1),
    ],
    ids=repr,
)
async def test_a_durable_subscription_ends_when_its_terminus_expires(
    broker: Broker, expiry: dict[str, Any], seconds: int
) -> None:
    """§3.5.6."""
    topic(broker)
    host, clock = broker.hosts["/"], broker.clock
    assert isinstance(clock, VirtualClock)
    peer = await Peer(broker).open()
    link = await subscribe(peer, durable=2, **expiry)
    assert (link.source.expiry_policy, link.source.timeout) == (
        expiry.get("expiry_policy", "session-end"),
        expiry.get("timeout", 0),
    )
    clock.advance(60_000)
    host.tick(clock())
    assert len(host.queues) == 1  # it is in use
    await peer.lose()
    assert len(host.queues) == (seconds != 0)
    if seconds > 0:
        clock.advance(1000 * seconds - 1)
        host.tick(clock())
        assert len(host.queues) == 1
        clock.advance(1)
    else:
        clock.advance(10**9)
    host.tick(clock())
    assert len(host.queues) == (seconds < 0)


async def test_a_subscription_attached_again_keeps_its_first_time_out_and_its_messages(broker: Broker) -> None:
    topic(broker)
    peer = await Peer(broker).open()
    await peer.detach(await subscribe(peer, durable=2, timeout=30))
    await tell(broker, b"kept")
    await subscribe(peer, durable=2, timeout=60)
    assert bodies(await peer.deliveries()) == [b"kept"]
    assert broker.hosts["/"].resolved_for(broker.hosts["/"].queues["client.s"]).arguments == {"x-expires": 30_000}


async def test_a_delivery_that_came_in_part_is_resumed_from_its_beginning(broker: Broker) -> None:
    """§3.4.1: a state tells from where."""
    peer = await prepared(broker, b"1")
    source = Source("q", durable=DURABLE_UNSETTLED_STATE)
    link = await peer.receiver(None, source=source, name="resumed", credit=1)
    (held,) = await peer.deliveries()
    await peer.detach(link)
    unsettled = {held.tag: Received(0, 1)}
    await peer.receiver(None, source=source, name="resumed", unsettled=unsettled, credit=1)
    (again,) = await peer.deliveries()
    assert (again.resume, again.state, again.body) == (True, Received(0, 0), b"1")


@pytest.mark.parametrize("settled", [True, False])
async def test_a_sender_that_resumes_what_it_knows_the_outcome_of_is_let_go(broker: Broker, settled: bool) -> None:
    """§2.6.13: also when the broker has been started again and knows nothing of it."""
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q", name="link", snd_settle_mode=2, unsettled={b"tag": ACCEPTED})
    resumed = peer.transfer(sender, b"", delivery_tag=b"tag", resume=True, state=ACCEPTED, settled=settled)
    await peer.send(resumed)
    assert [item.state for item in await peer.all(Disposition)] == [ACCEPTED] * (not settled)
    assert broker.hosts["/"].queues["q"].order.count == 0
    assert broker.settled_losses == 0


@pytest.mark.parametrize(("disk_state", "resumed", "later"), [
    ("sound", [b"1", b"2"], []), ("refusing", [], [b"1", b"2"]), ("damaged", [b"2"], []),
])  # fmt: skip
async def test_what_is_resumed_may_be_on_disk(
    broker: Broker, disk_state: str, resumed: list[bytes], later: list[bytes]
) -> None:
    """What the disk does not give is no delivery any more: it waits in its queue until it does."""
    peer = await prepared(broker, b"1", b"2")
    source = Source("q", durable=DURABLE_UNSETTLED_STATE)
    link = await peer.receiver(None, source=source, name="resumed", credit=2)
    held = await peer.deliveries()
    queue, disk = queue_of(broker, "q"), Disk()
    for entry in queue.unsettled():
        disk.store(queue, entry.message, entry.sequence)
    away = bodies_of(queue, disk)
    away.let_all_go(1 << 60)
    await peer.detach(link)
    disk.failing = disk_state == "refusing"
    disk.damaged = {1} if disk_state == "damaged" else set()
    await peer.receiver(None, source=source, name="resumed", unsettled={item.tag: None for item in held}, credit=5)
    again = await peer.deliveries()
    assert bodies([item for item in again if item.resume]) == resumed
    disk.failing = False
    away.retry()
    queue.wake(broker.clock())
    assert bodies([item for item in again if not item.resume] + await peer.deliveries()) == later
    assert queue.statistics().messages_unreadable == (disk_state == "damaged")
    assert (queue.order.count, len(queue.delivering)) == (0, len(resumed + later))
