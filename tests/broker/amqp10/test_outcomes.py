from __future__ import annotations

from typing import Any

import pytest

from annulet.broker.broker import Broker
from annulet.core.base.removal_reasons import RemovalReason
from annulet.wire.amqp10.frames.link_frames import Disposition
from annulet.wire.amqp10.frames.outcomes import Accepted, Error, Modified, Received, Rejected, Released
from annulet.wire.amqp10.frames.terminus import Source
from annulet.wire.amqp10.messages.names import REJECTED_CONDITION, REJECTED_DESCRIPTION
from annulet.wire.amqp10.types import conditions
from tests.broker.amqp10.peer import ACCEPTED, Peer, bodies, frame, message, queue_of


async def waiting(broker: Broker, *contents: bytes, arguments: dict[str, Any] | None = None, **options: Any) -> Peer:
    """Return a peer, with messages in a queue ``q``."""
    queue_of(broker, "q", arguments)
    peer = await Peer(broker).open()
    sender = await peer.sender("q")
    for content in contents:
        assert await peer.publish(sender, message(content, **options)) == ACCEPTED
    return peer


async def test_accepted_takes_the_message_for_good(broker: Broker) -> None:
    peer = await waiting(broker, b"a", b"b")
    receiver = await peer.receiver("q", credit=10)
    found = await peer.deliveries()
    assert bodies(found) == [b"a", b"b"]
    assert [(item.header.delivery_count, item.header.first_acquirer) for item in found] == [(0, True), (0, True)]
    await peer.settle(ACCEPTED, *found)
    await peer.detach(receiver, closed=True)
    assert broker.hosts["/"].queues["q"].order.count == 0


async def test_a_range_of_dispositions_settles_all_in_it_and_no_more(broker: Broker) -> None:
    peer = await waiting(broker, b"a", b"b", b"c")
    await peer.receiver("q", credit=10)
    first, second, third = await peer.deliveries()
    await peer.send(Disposition(True, 0, second.number, True, ACCEPTED))
    queue = broker.hosts["/"].queues["q"]
    assert len(queue.delivering) == 1
    await peer.send(Disposition(True, first.number, 0xFFFF, True, ACCEPTED))  # far beyond what was sent
    assert third.number < 0xFFFF
    assert len(queue.delivering) == 0


async def test_unsettled_outcomes_are_settled_by_the_broker(broker: Broker) -> None:
    """§2.6.12: at least once; the receiver tells the outcome, the sender settles."""
    peer = await waiting(broker, b"a", b"b")
    await peer.receiver("q", credit=10)
    first, second = await peer.deliveries()
    await peer.settle(ACCEPTED, first, second, settled=False)
    told = await peer.all(Disposition)
    assert [(item.role, item.first, item.last, item.settled) for item in told] == [
        (False, first.number, second.number, True)
    ]


async def test_received_settles_nothing(broker: Broker) -> None:
    peer = await waiting(broker, b"a")
    await peer.receiver("q", credit=10)
    (delivery,) = await peer.deliveries()
    await peer.settle(Received(0, 1), delivery, settled=False)
    assert await peer.all(Disposition) == []
    assert len(broker.hosts["/"].queues["q"].delivering) == 1


@pytest.mark.parametrize(
    ("outcome", "count", "first_acquirer"),
    [
        (Released(), 0, False),
        (Modified(), 0, False),
        (Modified(delivery_failed=True), 1, False),
        (None, 1, False),  # settled without an outcome: the default one
    ],
    ids=repr,
)
async def test_given_back_messages_come_again_at_once(
    broker: Broker, outcome: Any, count: int, first_acquirer: bool
) -> None:
    peer = await waiting(broker, b"a", b"b")
    await peer.receiver("q", credit=3)
    first, second = await peer.deliveries()
    await peer.settle(outcome, first)
    (again,) = await peer.deliveries()
    assert again.body == b"a"
    assert (again.header.delivery_count, again.header.first_acquirer) == (count, first_acquirer)
    await peer.settle(ACCEPTED, again, second)
    assert broker.hosts["/"].queues["q"].order.count == 0


async def test_order_is_kept_when_messages_are_given_back(broker: Broker) -> None:
    peer = await waiting(broker, *[b"%d" % number for number in range(5)])
    await peer.receiver("q", credit=5)
    found = await peer.deliveries()
    await peer.settle(Released(), *reversed(found))
    await peer.receiver("q", credit=5)
    assert bodies(await peer.deliveries()) == [b"0", b"1", b"2", b"3", b"4"]


async def test_undeliverable_here_goes_to_another_link(broker: Broker) -> None:
    peer = await waiting(broker, b"a")
    here = await peer.receiver("q", credit=5)
    (delivery,) = await peer.deliveries()
    await peer.settle(Modified(delivery_failed=True, undeliverable_here=True), delivery)
    assert await peer.deliveries() == []
    await peer.receiver("q", credit=5)
    (there,) = await peer.deliveries()
    assert there.handle != here.answer.handle if here.answer else False
    assert there.header.delivery_count == 1


@pytest.mark.parametrize("durable", [False, True])
async def test_annotations_of_modified_reach_the_next_consumer_and_the_disk(disk_broker: Broker, durable: bool) -> None:
    peer = await waiting(disk_broker, b"a", durable=durable, annotations={"x-opt-kept": "k"})
    await peer.receiver("q", credit=1)
    (delivery,) = await peer.deliveries()
    await peer.settle(
        Modified(delivery_failed=True, message_annotations={"x-opt-note": "seen", "x-opt-n": 1}), delivery
    )
    other = await Peer(disk_broker).open()
    await other.receiver("q", credit=1)
    (again,) = await other.deliveries()
    assert again.annotations == {"x-opt-kept": "k", "x-opt-note": "seen", "x-opt-n": 1}
    assert (again.body, again.header.durable, again.header.delivery_count) == (b"a", durable, 1)


async def test_rejected_goes_to_the_dead_letters_and_says_why(broker: Broker) -> None:
    queue_of(broker, "dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    peer = await waiting(broker, b"a", b"b", arguments=arguments, application={"kept": 1})
    await peer.receiver("q", credit=5)
    first, second = await peer.deliveries()
    await peer.settle(Rejected(Error(conditions.DECODE_ERROR, "not JSON")), first)
    await peer.settle(Rejected(), second)
    await peer.receiver("dead", credit=5)
    told, untold = await peer.deliveries()
    assert (told.body, untold.body) == (b"a", b"b")
    seen = {**told.application, **told.annotations}
    assert seen[REJECTED_CONDITION] == conditions.DECODE_ERROR
    assert seen[REJECTED_DESCRIPTION] == "not JSON"
    assert told.application["kept"] == 1
    assert REJECTED_CONDITION not in {**untold.application, **untold.annotations}


async def test_rejected_without_dead_letters_is_gone_and_in_the_ledger(broker: Broker) -> None:
    peer = await waiting(broker, b"a")
    await peer.receiver("q", credit=5)
    await peer.settle(Rejected(), *await peer.deliveries())
    queue = broker.hosts["/"].queues["q"]
    assert queue.order.count == 0
    assert queue.counters.removed[RemovalReason.REJECTED] == 1


async def test_what_was_settled_before_is_settled_once(broker: Broker) -> None:
    peer = await waiting(broker, b"a")
    await peer.receiver("q", credit=5)
    (delivery,) = await peer.deliveries()
    await peer.settle(ACCEPTED, delivery)
    await peer.settle(Released(), delivery)
    await peer.settle(Accepted(), delivery, settled=False)
    assert await peer.deliveries() == []
    assert broker.hosts["/"].queues["q"].order.count == 0


async def test_what_belongs_to_a_deleted_queue_may_still_be_settled(broker: Broker) -> None:
    peer = await waiting(broker, b"a")
    await peer.receiver("q", credit=5)
    (delivery,) = await peer.deliveries()
    host = broker.hosts["/"]
    host.delete_queue(host.queues["q"], peer.connection.now)
    await peer.settle(ACCEPTED, delivery)
    assert not peer.transport.closing
    assert not peer.connection.engine.closed
    await peer.send(frame(Disposition(True, delivery.number, None, True, ACCEPTED)))


@pytest.mark.parametrize("durable", [0, 2])
async def test_links_that_come_and_go_leave_no_delivery_ids_behind(broker: Broker, durable: int) -> None:
    peer = await waiting(broker, b"a", b"b")
    for _ in range(5):
        link = await peer.receiver(None, source=Source("q", durable=durable), name="again", credit=5)
        assert len(await peer.deliveries()) == 2
        await peer.detach(link)
        assert len(broker.hosts["/"].queues["q"].delivering) == (2 if durable else 0)
    kept = 2 if durable else 0  # a suspended link holds them
    assert len(peer.connection.channels[0].outcomes) == kept  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("default", "left", "attempts"),
    [(Released(), 1, 0), (Modified(delivery_failed=True), 1, 1), (None, 1, 1), (ACCEPTED, 0, 0), (Rejected(), 0, 0)],
    ids=repr,
)
async def test_settled_without_an_outcome_is_the_default_of_the_source(
    broker: Broker, default: Any, left: int, attempts: int
) -> None:
    """§3.5.3."""
    peer = await waiting(broker, b"a")
    link = await peer.receiver(None, source=Source("q", default_outcome=default), credit=1)
    assert link.source.default_outcome == (default or Modified(delivery_failed=True))
    await peer.settle(None, *await peer.deliveries())
    queue = broker.hosts["/"].queues["q"]
    assert (queue.order.count, len(queue.delivering)) == (left, 0)
    await peer.credit(link, 1)
    assert [item.header.delivery_count or 0 for item in await peer.deliveries()] == [attempts] * left
