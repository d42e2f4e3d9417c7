"""Debian's python3-amqplib: a client of AMQP 0-8, as it is installed."""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.broker_process import BrokerProcess
from tests.clients.support import PATIENCE_SECONDS, Peer, Scene, bodies, depth

PACKAGES = Path("/usr/lib/python3/dist-packages")

pytestmark = [
    pytest.mark.debian,
    pytest.mark.skipif(not (PACKAGES / "amqplib").is_dir(), reason="python3-amqplib is not installed"),
]

ALL_TYPES = {
    "text": "grün",
    "integer": -(2**31),
    "decimal": Decimal("2.25"),
    "time": datetime(2026, 2, 3, 4, 5, 6),  # noqa: DTZ001 - the client knows local time only
    "table": {"inner": "x", "deeper": {"number": 7}},
}
"""A header of each type a table of 0-8 can have."""


@pytest.fixture(scope="module")
def amqp() -> Iterator[Any]:
    """The client library; its folder holds others that the tests must not see."""
    sys.path.append(str(PACKAGES))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield importlib.import_module("amqplib.client_0_8")
    finally:
        sys.path.remove(str(PACKAGES))


class Client:
    """One test's connections.

    Afterwards their sockets are closed: the library would do that while it is collected, and fail where the broker has
    ended the connection.
    """

    def __init__(self, library: Any, peer: Peer) -> None:
        self.library = library
        self.peer = peer
        self._transports: list[Any] = []

    def connect(self, **settings: Any) -> Any:
        module = sys.modules["amqplib.client_0_8.connection"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "create_transport", self._create_transport)
            return self.library.Connection(f"{self.peer.host}:{self.peer.port}", **settings)

    def _create_transport(self, host: str, connect_timeout: float | None, ssl: bool = False) -> Any:
        transport = sys.modules["amqplib.client_0_8.transport"].create_transport(host, connect_timeout, ssl)
        self._transports.append(transport)
        return transport

    def channel(self) -> Any:
        return self.connect().channel()

    def message(self, body: str | bytes, **properties: Any) -> Any:
        return self.library.Message(body, **properties)

    def close(self) -> None:
        for transport in self._transports:
            if transport.sock is not None:
                transport.sock.close()
                transport.sock = None


@pytest.fixture
def client(amqp: Any, peer: Peer) -> Iterator[Client]:
    client = Client(amqp, peer)
    yield client
    client.close()


def wait_for(channel: Any, condition: Callable[[], Any]) -> None:
    """Read what comes until ``condition`` holds."""
    channel.connection.transport.sock.settimeout(PATIENCE_SECONDS)
    while not condition():
        channel.wait()


def get(channel: Any, queue: str, **settings: Any) -> Any:
    """Take the next message; publishing has no answer in 0-8, so it may be still on its way."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        message = channel.basic_get(queue, **settings)
        if message is not None:
            return message
    pytest.fail(f"nothing in {queue} after {PATIENCE_SECONDS} seconds")


def test_declare_publish_get_and_acknowledge(client: Client, scene: Scene) -> None:
    channel, queue = client.channel(), scene.name()
    assert channel.queue_declare(queue, durable=True, auto_delete=False) == (queue, 0, 0)
    properties: dict[str, Any] = {
        "content_type": "text/plain", "content_encoding": "utf-8", "application_headers": ALL_TYPES,
        "delivery_mode": 2, "priority": 3, "correlation_id": "c", "reply_to": "r", "message_id": "m",
        "timestamp": datetime(2026, 1, 2, 3, 4, 5), "type": "t", "user_id": "guest", "app_id": "a",  # noqa: DTZ001
    }  # fmt: skip
    channel.basic_publish(client.message("körper", **properties), routing_key=queue)
    message = get(channel, queue)
    assert message.body == "körper"
    assert message.properties == properties
    assert message.delivery_info["redelivered"] is False
    channel.basic_ack(message.delivery_tag)
    assert channel.basic_get(queue) is None
    assert channel.queue_declare(queue, passive=True) == (queue, 0, 0)


def test_headers_of_every_type_reach_a_client_of_0_9_1(client: Client, scene: Scene) -> None:
    newer = scene.channel()
    queue = scene.queue(newer)
    channel = client.channel()
    channel.basic_publish(client.message(b"\x00\xff", application_headers=ALL_TYPES), routing_key=queue)
    channel.close()
    _, properties, body = newer.basic_get(queue, auto_ack=True)
    assert body == b"\x00\xff"
    assert properties.headers["text"] == "grün"
    assert properties.headers["integer"] == -(2**31)
    assert properties.headers["decimal"] == Decimal("2.25")
    assert properties.headers["time"].replace(tzinfo=None) == ALL_TYPES["time"]  # both ends run in one time zone
    assert properties.headers["table"] == {"inner": "x", "deeper": {"number": 7}}


def test_headers_of_0_9_1_come_in_types_the_client_can_read(client: Client, scene: Scene, ours: Peer) -> None:
    newer = scene.channel()
    queue = scene.queue(newer)
    headers = {
        "flag": True, "no": False, "small": 7, "large": 2**40, "none": None, "list": ["a", 1, {"deep": False}],
        "octets": b"abc", "text": "grün", "decimal": Decimal("2.25"),
    }  # fmt: skip
    newer.basic_publish("", queue, b"x", pika.BasicProperties(headers=headers))
    newer.basic_publish("", queue, b"y", pika.BasicProperties(headers=headers))
    expected = {
        "flag": 1, "no": 0, "small": 7, "large": "1099511627776", "none": "", "octets": "abc",
        "list": {"0": "a", "1": 1, "2": {"deep": 0}}, "text": "grün", "decimal": Decimal("2.25"),
    }  # fmt: skip
    channel = client.channel()
    assert get(channel, queue, no_ack=True).application_headers == expected
    received: list[Any] = []
    channel.basic_consume(queue, callback=received.append, no_ack=True)
    wait_for(channel, lambda: received)
    assert (received[0].body, received[0].application_headers) == (b"y", expected)


def test_consume_with_prefetch_reject_and_recover(client: Client, scene: Scene) -> None:
    newer = scene.channel()
    queue = scene.queue(newer)
    channel = client.channel()
    channel.basic_qos(0, 2, False)
    received: list[Any] = []
    tag = channel.basic_consume(queue, callback=received.append)
    for number in range(4):
        newer.basic_publish("", queue, str(number).encode())
    wait_for(channel, lambda: len(received) == 2)
    assert depth(newer, queue) == 2  # two more would exceed the prefetch
    channel.basic_ack(received[0].delivery_tag)
    wait_for(channel, lambda: len(received) == 3)
    channel.basic_reject(received[1].delivery_tag, requeue=True)
    wait_for(channel, lambda: len(received) == 4)
    assert [message.body for message in received] == [b"0", b"1", b"2", b"1"]
    assert [message.delivery_info["redelivered"] for message in received] == [False, False, False, True]
    channel.basic_recover(requeue=True)
    wait_for(channel, lambda: len(received) == 6)
    assert sorted(message.body for message in received[4:]) == [b"1", b"2"]
    channel.basic_cancel(tag)
    channel.basic_ack(received[-1].delivery_tag, multiple=True)
    channel.close()
    assert bodies(newer, queue) == [b"3"]


def test_transactions(client: Client, scene: Scene) -> None:
    newer = scene.channel()
    queue = scene.queue(newer)
    channel = client.channel()
    channel.tx_select()
    channel.basic_publish(client.message("dropped"), routing_key=queue)
    channel.tx_rollback()
    channel.basic_publish(client.message("kept"), routing_key=queue)
    assert depth(newer, queue) == 0
    channel.tx_commit()
    message = channel.basic_get(queue)
    assert message.body == "kept"
    channel.basic_ack(message.delivery_tag)
    channel.tx_commit()
    channel.close()
    assert bodies(newer, queue) == []


def test_an_unroutable_mandatory_message_comes_back(client: Client, scene: Scene) -> None:
    channel = client.channel()
    channel.basic_publish(
        client.message("lost", application_headers=ALL_TYPES), "amq.direct", scene.name(), mandatory=True
    )
    wait_for(channel, lambda: not channel.returned_messages.empty())
    code, text, exchange, _, message = channel.returned_messages.get()
    assert (code, text, exchange, message.body) == (312, "NO_ROUTE", "amq.direct", "lost")
    assert message.application_headers == ALL_TYPES


def test_exchanges_bindings_purge_and_delete(client: Client, scene: Scene) -> None:
    channel, exchange, queue = client.channel(), scene.name("exchange"), scene.name()
    channel.access_request("/data", active=True, read=True, write=True)
    channel.exchange_declare(exchange, "topic", auto_delete=False)
    channel.queue_declare(queue, auto_delete=False, arguments={"x-max-length": 3})
    channel.queue_bind(queue, exchange, "a.*")
    for number in range(5):
        channel.basic_publish(client.message(str(number)), exchange, "a.b")
    assert channel.queue_declare(queue, passive=True)[1] == 3  # a limit of ours as an argument of 0-8
    assert channel.queue_purge(queue) == 3
    channel.queue_unbind(queue, exchange, "a.*")
    channel.basic_publish(client.message("nowhere"), exchange, "a.b")
    assert channel.queue_delete(queue) == 0
    channel.exchange_delete(exchange)


def test_a_connection_closes_by_the_numbers_of_0_8(client: Client) -> None:
    connection = client.connect()
    channel = connection.channel()
    channel.close()
    assert not channel.is_open
    connection.close()  # returns with close-ok, and fails when the connection just ends
    assert connection.transport is None


def test_a_body_in_many_frames(client: Client, scene: Scene) -> None:
    newer = scene.channel()
    queue = scene.queue(newer)
    channel = client.channel()
    body = bytes(range(256)) * 4096
    channel.basic_publish(client.message(body), routing_key=queue)
    newer.basic_publish("", queue, body)
    assert get(channel, queue, no_ack=True).body == body
    assert get(channel, queue, no_ack=True).body == body


def test_an_error_of_a_channel_leaves_the_connection(client: Client, amqp: Any, scene: Scene) -> None:
    connection = client.connect()
    channel = connection.channel()
    missing = scene.name()
    with pytest.raises(amqp.AMQPChannelException) as caught:
        channel.queue_declare(missing, passive=True)
    assert caught.value.amqp_reply_code == 404
    assert missing in caught.value.amqp_reply_text
    assert caught.value.amqp_method_sig == (50, 10)
    assert connection.channel().queue_declare(missing, auto_delete=True)[0] == missing


def test_an_error_of_the_connection_is_told(client: Client, amqp: Any, scene: Scene, ours: Peer) -> None:
    """RabbitMQ resets the connection as soon as it has close-ok, and then the library cannot tell."""
    queue = scene.name()
    connection = client.connect()
    channel = connection.channel()
    channel.queue_declare(queue, auto_delete=False)
    channel.basic_publish(client.message("stays"), routing_key=queue)
    assert get(channel, queue).body == "stays"
    channel.basic_recover(requeue=False)
    with pytest.raises(amqp.AMQPConnectionException) as caught:
        channel.queue_declare(queue, passive=True)
    assert caught.value.amqp_reply_code == 540
    assert bodies(scene.channel(), queue) == [b"stays"]


def test_a_wrong_password_ends_the_connection(client: Client) -> None:
    with pytest.raises(OSError, match=r"closed|reset"):
        client.connect(password="wrong")
    assert client.channel().is_open  # others are not disturbed


def test_an_unknown_virtual_host_is_named(client: Client, amqp: Any, scene: Scene) -> None:
    missing = scene.name("host")
    with pytest.raises(amqp.AMQPConnectionException) as caught:
        client.connect(virtual_host=missing)
    assert caught.value.amqp_reply_code == 530
    assert missing in caught.value.amqp_reply_text


def test_a_dead_letter_can_be_read(client: Client, scene: Scene, ours: Peer) -> None:
    newer = scene.channel()
    dead = scene.queue(newer)
    queue = scene.queue(newer, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    channel = client.channel()
    channel.basic_publish(client.message("x"), routing_key=queue)
    channel.basic_reject(get(channel, queue).delivery_tag, requeue=False)
    headers = get(channel, dead, no_ack=True).application_headers
    (death,) = headers["x-death"].values()
    assert (death["queue"], death["reason"], death["count"]) == (queue, "rejected", 1)
    assert death["routing-keys"] == {"0": queue}
    assert headers["x-first-death-queue"] == queue


def test_a_broker_that_stops_says_so_and_what_was_delivered_is_there_after_a_restart(amqp: Any, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as process:
        client = Client(amqp, Peer(process.amqp_url, ours=True))
        channel = client.channel()
        channel.queue_declare("q", durable=True, auto_delete=False)
        channel.tx_select()
        channel.basic_publish(client.message("kept", delivery_mode=2), routing_key="q")
        channel.tx_commit()
        assert channel.basic_get("q").body == "kept"  # and never acknowledged
        assert process.process is not None
        process.process.terminate()
        with pytest.raises(amqp.AMQPConnectionException) as caught:
            channel.wait()
        assert caught.value.amqp_reply_code == 320
        process.process.wait(PATIENCE_SECONDS)
        process.start()
        process.wait_for_log("AMQP 0-8")
        channel = client.channel()
        message = channel.basic_get("q")
        assert (message.body, message.delivery_info["redelivered"]) == ("kept", True)
        channel.basic_ack(message.delivery_tag)
        client.close()
