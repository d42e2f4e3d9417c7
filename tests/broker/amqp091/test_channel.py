"""Publishing with confirms, flow, transactions and settlement, through real bytes."""

from __future__ import annotations

import pytest
from pamqp import commands, header

from annulet.broker.amqp091.publishing import TARGET_BYTES
from annulet.broker.broker import Broker
from tests.broker.amqp091.confirming import confirming
from tests.broker.amqp091.peer import Peer, bodies, persistent, publish, settlements

BASIC, CHANNEL, QUEUE, TX = commands.Basic, commands.Channel, commands.Queue, commands.Tx


async def test_the_disk_is_asked_for_room_to_name_every_queue(
    disk_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await confirming(disk_broker, durable=True)
    binds = [commands.Queue.Bind(queue=name, exchange="amq.fanout", routing_key="") for name in ("q", "r", "s")]
    declares = [commands.Queue.Declare(queue=name, durable=True) for name in ("r", "s")]
    await peer.send(1, *declares, *binds)
    asked: list[int] = []

    def has_room(size: int, now: int) -> bool:
        asked.append(size)
        return True

    monkeypatch.setattr(disk_broker.log, "has_room", has_room)
    await peer.send(1, persistent(1, "q"), persistent(1, "", exchange="amq.fanout"))
    assert asked[1] - asked[0] == 2 * TARGET_BYTES


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("expiration", ["315360000001", "9" * 40, "-1", "1.5", "soon"])
async def test_expiration_out_of_range_closes_the_channel_and_leaves_the_log_in_order(
    disk_broker: Broker, expiration: str
) -> None:
    peer = await confirming(disk_broker, durable=True)
    await peer.send(1, persistent(1, "q", expiration=expiration))
    closed = await peer.one(CHANNEL.Close)
    assert closed.reply_code == 406
    assert expiration in closed.reply_text
    await disk_broker.commit.durable()


async def test_longest_expiration_is_kept(disk_broker: Broker) -> None:
    peer = await confirming(disk_broker, durable=True)
    await peer.send(1, persistent(1, "q", expiration="315360000000"))
    await disk_broker.commit.durable()
    assert [kind for kind, _, _ in settlements(await peer.take())] == ["ack"]


async def test_user_id_of_somebody_else_closes_the_channel(broker: Broker) -> None:
    peer = await confirming(broker)
    await peer.send(1, publish(1, "q", user_id="root"))
    assert (await peer.one(CHANNEL.Close)).reply_code == 406


async def test_immediate_closes_the_connection(broker: Broker) -> None:
    peer = await confirming(broker)
    immediate = publish(1, "q").replace(b"\x01q\x00\xce", b"\x01q\x02\xce")
    await peer.send(1, immediate)
    assert (await peer.one(commands.Connection.Close)).reply_code == 540


# ---------------------------------------------------------------------- settlement and flow


async def consuming(broker: Broker, *messages: bytes, prefetch: int = 0, **consume: bool) -> Peer:
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q"), *(publish(1, "q", item) for item in messages))
    await peer.send(1, BASIC.Qos(0, prefetch), BASIC.Consume(queue="q", consumer_tag="c", **consume))
    return peer


async def test_unknown_delivery_tag_closes_the_channel_and_returns_what_it_held(broker: Broker) -> None:
    peer = await consuming(broker, b"a")
    assert bodies(await peer.take()) == [b"a"]
    await peer.send(1, BASIC.Ack(7))
    assert (await peer.one(CHANNEL.Close)).reply_code == 406
    assert broker.hosts["/"].queues["q"].order.count == 1


async def test_counters_of_deliveries_that_come_back_and_go_out_again(broker: Broker) -> None:
    peer = await consuming(broker, b"a", b"b")
    await peer.send(1, BASIC.Nack(1, False, True))
    await peer.send(1, BASIC.Ack(3), BASIC.Reject(2, False))
    counters = broker.hosts["/"].queues["q"].statistics()
    assert (counters.messages_added, counters.messages_delivered, counters.messages_returned) == (2, 3, 1)
    assert (counters.messages_acknowledged, counters.messages_rejected, counters.message_count) == (1, 1, 0)


async def test_shared_prefetch_serves_the_consumers_of_a_channel_in_turn(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="deep"), commands.Queue.Declare(queue="other"))
    await peer.send(1, publish(1, "deep", b"deep") * 6, publish(1, "other", b"other") * 2)
    await peer.send(1, BASIC.Qos(0, 1, True), BASIC.Consume(queue="deep"), BASIC.Consume(queue="other"))
    got = []
    for tag in range(1, 7):
        got += bodies(await peer.take())
        await peer.send(1, BASIC.Ack(tag))
    assert got.count(b"other") == 2, "the deep queue took every turn"


async def two_queues(broker: Broker, product: str, prefetch: int) -> Peer:
    """Return a client with two consumers on one channel, each of a queue with ten messages."""
    peer = await Peer(broker).open(1, product=product)
    for name in ("q", "r"):
        await peer.send(1, commands.Queue.Declare(queue=name), publish(1, name, name.encode()) * 10)
    await peer.send(1, BASIC.Qos(0, prefetch), BASIC.Consume(queue="q"), BASIC.Consume(queue="r"))
    return peer


async def test_a_changed_prefetch_of_py_amqp_limits_the_channel_at_once(broker: Broker) -> None:
    peer = await two_queues(broker, "py-amqp", 2)
    assert sorted(bodies(await peer.take())) == [b"q", b"q", b"r", b"r"], "as RabbitMQ while nothing has changed"
    await peer.send(1, BASIC.Qos(0, 6))
    assert len(bodies(await peer.take())) == 2, "six together"
    await peer.send(1, BASIC.Qos(0, 3), BASIC.Ack(3, True))
    assert bodies(await peer.take()) == [], "three are still out"
    await peer.send(1, BASIC.Ack(4))
    assert len(bodies(await peer.take())) == 1
    await peer.send(1, BASIC.Consume(queue="q", consumer_tag="later"), BASIC.Qos(0, 0))
    assert len(bodies(await peer.take())) == 13, "zero is no limit"


async def test_the_same_prefetch_again_leaves_consumers_of_py_amqp_their_own(broker: Broker) -> None:
    """A library that gives the count before each consumer means each of them, as on RabbitMQ."""
    peer = await Peer(broker).open(1, product="py-amqp")
    for name in ("q", "r"):
        await peer.send(1, commands.Queue.Declare(queue=name), publish(1, name, name.encode()) * 3)
        await peer.send(1, BASIC.Qos(0, 1), BASIC.Consume(queue=name))
    assert bodies(await peer.take()) == [b"q", b"r"]


async def test_a_changed_prefetch_of_others_is_for_later_consumers(broker: Broker) -> None:
    peer = await two_queues(broker, "pika", 2)
    await peer.send(1, BASIC.Qos(0, 6))
    assert len(bodies(await peer.take())) == 4
    await peer.send(1, BASIC.Consume(queue="q", consumer_tag="later"))
    assert len(bodies(await peer.take())) == 6


# ---------------------------------------------------------------------- what a delivery says of itself


async def test_a_message_that_comes_back_says_how_often_it_was_delivered(broker: Broker) -> None:
    peer = await consuming(broker, b"one", prefetch=1)
    for count in (None, 1, 2):
        frames = await peer.take()
        [delivery] = [item for item in frames if isinstance(item, BASIC.Deliver)]
        [found] = [item for item in frames if isinstance(item, header.ContentHeader)]
        assert (found.properties.headers or {}).get("x-delivery-count") == count
        assert delivery.redelivered is (count is not None)
        await peer.send(1, BASIC.Nack(delivery.delivery_tag, requeue=True))


async def test_the_first_message_of_a_group_is_marked(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    arguments = {"x-group-key": "who", "x-group-first-key": "first"}
    await peer.send(1, QUEUE.Declare(queue="q", arguments=arguments), BASIC.Consume(queue="q"))
    await peer.send(1, *(publish(1, "q", headers={"who": who}) for who in ("a", "a", "b")))
    found = [item.properties.headers for item in await peer.take() if isinstance(item, header.ContentHeader)]
    assert found == [{"who": "a", "first": True}, {"who": "a"}, {"who": "b", "first": True}]


async def test_a_rejected_message_goes_to_its_dead_letter_queue(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    await peer.send(1, QUEUE.Declare(queue="dead"), QUEUE.Declare(queue="q", arguments=arguments))
    await peer.send(1, publish(1, "q", b"bad"), BASIC.Get(queue="q"), BASIC.Reject(1, requeue=False))
    await peer.take()
    await peer.send(1, BASIC.Get(queue="dead"))
    frames = await peer.take()
    [found] = [item for item in frames if isinstance(item, header.ContentHeader)]
    assert found.properties.headers["x-death"][0]["reason"] == "rejected"
