"""kombu, and py-amqp below it: what Celery and many others are built on."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.pidbox import Mailbox

from tests.clients.support import PATIENCE_SECONDS, Peer, Scene


def drain(connection: Connection, received: list[Any], count: int) -> None:
    """Handle events until ``count`` messages came."""
    while len(received) < count:
        connection.drain_events(timeout=PATIENCE_SECONDS)


def test_producer_and_consumer_with_serialised_bodies(scene: Scene) -> None:
    exchange = Exchange(scene.name("exchange"), "topic", durable=True)
    queue = Queue(scene.name(), exchange, routing_key="orders.#", durable=True)
    sent = {"order": 17, "lines": [{"sku": "a", "price": 2.5}], "nothing": None, "name": "été"}
    received: list[tuple[Any, Any]] = []
    with Connection(scene.peer.url) as connection:
        channel = connection.channel()
        producer = Producer(channel, exchange, auto_declare=True)
        with Consumer(
            channel,
            [queue],
            accept=["json", "pickle"],
            callbacks=[lambda body, message: received.append((body, message))],
        ):
            producer.publish(sent, routing_key="orders.new", serializer="json", headers={"share": 0.25}, priority=3)
            producer.publish(sent, routing_key="orders.new", serializer="pickle", compression="zlib")
            drain(connection, received, 2)
        assert [body for body, _ in received] == [sent, sent]
        assert received[0][1].headers["share"] == 0.25
        assert received[0][1].properties["priority"] == 3
        for _, message in received:
            message.ack()


def test_confirms_and_returns(scene: Scene) -> None:
    queue = Queue(scene.name(), durable=True)
    with Connection(scene.peer.url, transport_options={"confirm_publish": True}) as connection:
        producer = connection.Producer()
        returned: list[Any] = []
        producer.on_return = lambda *arguments: returned.append(arguments)
        producer.publish({"n": 1}, routing_key=queue.name, declare=[queue], delivery_mode=2)
        with connection.SimpleQueue(queue) as simple:
            assert simple.get(timeout=PATIENCE_SECONDS).payload == {"n": 1}


def test_simple_queue(scene: Scene) -> None:
    with Connection(scene.peer.url) as connection, connection.SimpleQueue(scene.name()) as simple:
        for number in range(10):
            simple.put({"number": number})
        for number in range(10):
            message = simple.get(timeout=PATIENCE_SECONDS)
            assert message.payload == {"number": number}
            message.ack()
        with pytest.raises(simple.Empty):
            simple.get(block=False)


def test_requeue_and_reject(scene: Scene) -> None:
    with Connection(scene.peer.url) as connection, connection.SimpleQueue(scene.name()) as simple:
        simple.put("again")
        message = simple.get(timeout=PATIENCE_SECONDS)
        assert not message.delivery_info["redelivered"]
        message.requeue()
        message = simple.get(timeout=PATIENCE_SECONDS)
        assert message.delivery_info["redelivered"]
        message.reject()
        simple.put("marker")
        assert simple.get(timeout=PATIENCE_SECONDS).payload == "marker"


def test_broadcast_and_replies(scene: Scene) -> None:
    """Celery's remote control: a fanout exchange, auto-delete queues with x-expires, replies to a direct exchange."""
    namespace = scene.name("control")
    mailbox = Mailbox(namespace, type="fanout")
    calls: list[int] = []

    def double(_: Any, value: int) -> dict[str, int]:
        calls.append(value)
        return {"doubled": value * 2}

    with Connection(scene.peer.url) as workers, Connection(scene.peer.url) as controller:
        consumers = []
        for number in range(3):
            node = mailbox(workers).Node(f"worker{number}@host", channel=workers.channel())
            node.handlers["double"] = double
            consumers.append(node.listen())
        replies: list[Any] = []
        client = mailbox(controller)
        reply_queue = client.get_reply_queue()
        reply_queue(controller.channel()).declare()
        client._publish(
            "double", {"value": 21}, reply_ticket="ticket", channel=controller.channel(), timeout=PATIENCE_SECONDS
        )
        drain(workers, calls, 3)
        with Consumer(controller.channel(), [reply_queue], no_ack=True) as consumer:
            consumer.register_callback(lambda body, _: replies.append(body))
            drain(controller, replies, 3)
        assert sorted(replies, key=str) == [{f"worker{number}@host": {"doubled": 42}} for number in range(3)]
        for consumer in consumers:
            consumer.cancel()


def test_a_raised_prefetch_counts_for_the_consumer_that_is_there(scene: Scene, ours: Peer) -> None:
    """B11: kombu asks without ``global`` of every broker that is not RabbitMQ, and means the channel."""
    received: list[Any] = []
    with Connection(ours.url) as connection:
        assert connection.qos_semantics_matches_spec
        queue = Queue(scene.name(), durable=True)
        producer = connection.Producer()
        for number in range(5):
            producer.publish(number, routing_key=queue.name, declare=[queue])
        with Consumer(connection.channel(), [queue], prefetch_count=2) as consumer:
            consumer.register_callback(lambda body, _: received.append(body))
            drain(connection, received, 2)
            consumer.qos(prefetch_count=4)
            drain(connection, received, 4)
            with pytest.raises(socket.timeout):
                connection.drain_events(timeout=0.2)
    assert received == [0, 1, 2, 3]


def test_a_heartbeat_of_py_amqp_keeps_the_connection(scene: Scene) -> None:
    with Connection(scene.peer.url, heartbeat=2) as connection:
        connection.connect()
        before = connection.connection.bytes_recv
        while connection.connection.bytes_recv < before + 2:
            connection.heartbeat_check(rate=4)
            try:
                connection.drain_events(timeout=0.25)
            except socket.timeout:  # noqa: UP041  (what py-amqp raises when nothing came)
                continue
        assert connection.connected
