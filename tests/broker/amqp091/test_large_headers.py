"""A content header cannot be split: who negotiated smaller frames does not get what needs a larger one, others do."""

from __future__ import annotations

import pytest
import structlog
from pamqp import commands, header

from annulet.broker.broker import Broker
from tests.broker.amqp091.peer import Peer, bodies, publish

BASIC, QUEUE = commands.Basic, commands.Queue
SMALL = 4096
OVERHEAD = 8 + 12  # frame, and class, weight and size


def sized(size: int) -> dict[str, str]:
    """Return headers that make a content header frame of ``size`` octets; 13 are flags, table, name and type."""
    return {"k": "x" * (size - OVERHEAD - 13)}


async def two(broker: Broker, *, no_ack: bool) -> tuple[Peer, Peer]:
    """Return a publisher, and a consumer with small frames."""
    publisher = await Peer(broker).open(1)
    await publisher.send(1, QUEUE.Declare(queue="q"))
    small = await Peer(broker).open(1, frame_max=SMALL)
    await small.send(1, BASIC.Consume(queue="q", no_ack=no_ack, consumer_tag="small"))
    await small.take()
    return publisher, small


@pytest.mark.parametrize("no_ack", [True, False])
async def test_it_stays_for_others_and_nothing_waits_behind_it(broker: Broker, no_ack: bool) -> None:
    publisher, small = await two(broker, no_ack=no_ack)
    with structlog.testing.capture_logs() as lines:
        for size, content in [(SMALL + 1, b"large"), (SMALL, b"fits"), (SMALL + 1, b"large too"), (100, b"small")]:
            await publisher.send(1, publish(1, "q", content, headers=sized(size)))
    assert bodies(await small.take()) == [b"fits", b"small"]
    queue = broker.hosts["/"].queues["q"]
    assert [entry.message.body for entry in queue.order.entries()] == [b"large", b"large too"]
    assert [entry.delivery_count for entry in queue.order.entries()] == [0, 0]
    assert broker.deliveries_too_large == 2
    (line,) = [line for line in lines if line["event"] == "message withheld from a consumer"]
    assert f"a frame of {SMALL + 1} bytes, but frame-max of this connection is {SMALL}" in line["reason"]
    assert "connect with a larger frame-max" in line["reason"]
    large = await Peer(broker).open(1)
    await large.send(1, BASIC.Consume(queue="q", no_ack=True))
    assert bodies(await large.take()) == [b"large", b"large too"]


async def test_a_shared_window_is_free_again(broker: Broker) -> None:
    publisher, small = await two(broker, no_ack=False)
    await small.send(1, BASIC.Qos(0, 1, True), QUEUE.Declare(queue="other"))
    await small.send(1, BASIC.Consume(queue="other"))
    await small.take()
    await publisher.send(
        1, publish(1, "q", b"large", headers=sized(SMALL + 1)) + publish(1, "other", b"of another queue")
    )
    assert bodies(await small.take()) == [b"of another queue"]


async def test_the_client_cannot_settle_what_it_did_not_get(broker: Broker) -> None:
    publisher, small = await two(broker, no_ack=False)
    await publisher.send(1, publish(1, "q", b"small"))
    connection = publisher.connection
    queue = broker.hosts["/"].queues["q"]
    (channel,) = small.connection.channels.values()
    connection.data_received(publish(1, "q", b"large", headers=sized(SMALL + 1)))
    channel.settle(0, True)  # everything, before the loop turn ends
    await small.take()
    assert [entry.message.body for entry in queue.order.entries()] == [b"large"]
    assert queue.statistics().messages_acknowledged == 1


@pytest.mark.parametrize("no_ack", [True, False])
async def test_a_consumer_that_goes_in_the_same_turn_leaves_it_in_the_queue(broker: Broker, no_ack: bool) -> None:
    publisher, small = await two(broker, no_ack=no_ack)
    publisher.connection.data_received(publish(1, "q", b"large", headers=sized(SMALL + 1)))
    small.connection.abort()
    await publisher.take()
    queue = broker.hosts["/"].queues["q"]
    assert [entry.message.body for entry in queue.order.entries()] == [b"large"]
    assert queue.statistics().delivering_count == 0


async def test_what_the_broker_adds_to_a_delivery_is_left_out_first(broker: Broker) -> None:
    publisher, small = await two(broker, no_ack=False)
    await publisher.send(1, publish(1, "q", b"fits", headers=sized(SMALL)))
    await small.take()
    await small.send(1, BASIC.Nack(1, requeue=True))
    frames = await small.take()
    assert bodies(frames) == [b"fits"]
    (found,) = [frame for frame in frames if isinstance(frame, header.ContentHeader)]
    assert list(found.properties.headers) == ["k"]
    await small.send(1, BASIC.Cancel("small"), BASIC.Nack(2, requeue=True))
    await publisher.take()
    await publisher.send(1, BASIC.Get(queue="q", no_ack=True))
    (found,) = [frame for frame in await publisher.take() if isinstance(frame, header.ContentHeader)]
    assert list(found.properties.headers) == ["k", "x-delivery-count"]


@pytest.mark.parametrize("no_ack", [True, False])
async def test_get_closes_the_channel_and_the_message_stays(broker: Broker, no_ack: bool) -> None:
    publisher = await Peer(broker).open(1)
    await publisher.send(1, QUEUE.Declare(queue="q", arguments={"x-delivery-limit": 0}))
    await publisher.send(1, publish(1, "q", b"large", headers=sized(SMALL + 1)))
    small = await Peer(broker).open(1, frame_max=SMALL)
    closed = await small.ask(1, BASIC.Get(queue="q", no_ack=no_ack), commands.Channel.Close)
    assert closed.reply_code == 311
    assert "larger frame-max" in closed.reply_text
    queue = broker.hosts["/"].queues["q"]
    assert [entry.delivery_count for entry in queue.order.entries()] == [0]


async def test_a_browser_passes_it_over(broker: Broker) -> None:
    publisher, small = await two(broker, no_ack=False)
    await small.send(1, BASIC.Cancel("small"))
    await publisher.send(1, publish(1, "q", b"large", headers=sized(SMALL + 1)) + publish(1, "q", b"small"))
    await small.send(1, BASIC.Consume(queue="q", arguments={"x-browse": True}))
    assert bodies(await small.take()) == [b"small"]
    queue = broker.hosts["/"].queues["q"]
    assert [entry.message.body for entry in queue.order.entries()] == [b"large", b"small"]
    assert queue.copies is not None
    assert len(queue.copies.out) == 1
