"""Connections: log-in, negotiation, heartbeats, errors and their codes; with pika."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection
from pika.exceptions import (
    AMQPConnectionError,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)
from pika.spec import Basic

from tests.clients.below_pika import bytes_received_for_heartbeats, connection_below, send_method
from tests.clients.support import Peer, Scene, bodies, channel_closed, connection_closed, wait_until


def cause_of(error: BaseException) -> BaseException:
    """pika wraps what ended a connection attempt in the errors of its attempts."""
    while error.args and isinstance(error.args[0], BaseException):
        error = error.args[0]
    return error


def test_a_wrong_password_is_refused(peer: Peer) -> None:
    with pytest.raises(ProbableAuthenticationError) as caught:
        BlockingConnection(peer.parameters(credentials=pika.PlainCredentials("guest", "wrong")))
    assert "403" in str(cause_of(caught.value))


def test_an_unknown_user_is_refused_in_the_same_words(peer: Peer) -> None:
    texts = []
    for user in ("guest", "nobody"):
        with pytest.raises(ProbableAuthenticationError) as caught:
            BlockingConnection(peer.parameters(credentials=pika.PlainCredentials(user, "wrong")))
        texts.append(str(cause_of(caught.value)))
    assert texts[0] == texts[1]


def test_an_unknown_virtual_host_is_refused(peer: Peer) -> None:
    with pytest.raises((ProbableAccessDeniedError, ConnectionClosedByBroker)) as caught:
        BlockingConnection(peer.parameters(virtual_host="missing"))
    assert "530" in str(cause_of(caught.value))
    assert "missing" in str(cause_of(caught.value))


def test_the_broker_says_what_it_is(scene: Scene, ours: Peer) -> None:
    connection = scene.connect()
    properties = connection_below(connection).server_properties
    assert properties["product"] == "Annulet"
    assert properties["version"]
    capabilities = properties["capabilities"]
    for name in (
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    ):
        assert capabilities[name] is True, name


def test_negotiation_takes_the_smaller_wish(scene: Scene) -> None:
    connection = scene.connect(channel_max=10, frame_max=8192, heartbeat=30)
    parameters = connection_below(connection).params
    assert (parameters.channel_max, parameters.frame_max, parameters.heartbeat) == (10, 8192, 30)
    channels = [connection.channel() for _ in range(10)]
    assert [channel.channel_number for channel in channels] == list(range(1, 11))
    channels[4].close()
    assert connection.channel().channel_number == 5  # a closed channel's number is free again


def test_an_idle_connection_lives_by_heartbeats(scene: Scene) -> None:
    """pika answers and sends heartbeats of 1 second while it waits; a peer that sends none would be cut in 3."""
    connection = scene.connect(heartbeat=1)
    wait_until(
        lambda: bytes_received_for_heartbeats(connection) > 0 and connection_below(connection).frames_sent > 8,
        connection,
    )
    scene.queue(connection.channel())


def test_a_silent_client_is_dropped(scene: Scene) -> None:
    watcher = scene.connect()
    silent = scene.connect(heartbeat=1)
    channel = silent.channel()
    queue = scene.queue(channel, exclusive=True)
    # Nothing runs pika's loop for this connection, so it sends nothing: the broker must notice, not the test.

    def gone() -> bool:
        try:
            watcher.channel().queue_declare(queue, passive=True)
        except pika.exceptions.ChannelClosedByBroker as error:
            return error.reply_code == 404
        return False

    wait_until(gone, watcher)
    with pytest.raises(AMQPConnectionError):
        channel.queue_declare(queue, passive=True)


def test_heartbeats_can_be_off(scene: Scene) -> None:
    connection = scene.connect(heartbeat=0)
    assert connection_below(connection).params.heartbeat == 0
    scene.queue(connection.channel())


def test_a_channel_error_leaves_connection_and_other_channels_alone(scene: Scene) -> None:
    connection = scene.connect()
    first, second = connection.channel(), connection.channel()
    queue = scene.queue(second)
    with channel_closed(404, "missing"):
        first.queue_declare("missing-" + queue, passive=True)
    second.basic_publish("", queue, b"alive")
    assert bodies(second, queue) == [b"alive"]
    third = connection.channel()
    assert third.channel_number == 1
    assert bodies(third, queue) == []


def test_publishes_sent_before_the_error_arrives_are_ignored(scene: Scene) -> None:
    """AMQP 0-9-1 §2.2.8: after channel.close everything on the channel is discarded until close-ok."""
    channel, watcher = scene.channel(), scene.channel()
    queue = scene.queue(watcher)
    with channel_closed(404):
        for number in range(20):
            send_method(
                channel,
                Basic.Publish(exchange="missing" if number == 5 else "", routing_key=queue),
                (pika.BasicProperties(), str(number).encode()),
            )
        channel.queue_declare(queue, passive=True)
    assert [int(body) for body in bodies(watcher, queue)] == [0, 1, 2, 3, 4]


def test_a_connection_error_ends_all_channels_of_that_connection_only(scene: Scene) -> None:
    connection, other = scene.connect(), scene.channel()
    queue = scene.queue(other)
    other.basic_publish("", queue, b"untouched")
    held = connection.channel()
    assert held.basic_get(queue)[2] == b"untouched"
    with connection_closed(503):
        connection.channel().exchange_declare(scene.name("exchange"), "x-unheard-of")
    assert connection.is_closed
    wait_until(lambda: other.basic_get(queue)[2] == b"untouched", other.connection)


def test_closing_is_answered(scene: Scene) -> None:
    connection = scene.connect()
    channel = connection.channel()
    channel.close(reply_code=200, reply_text="thanks")
    assert channel.is_closed
    connection.close(reply_code=320, reply_text="leaving")
    assert connection.is_closed


def test_many_connections(scene: Scene) -> None:
    connections = [scene.connect() for _ in range(40)]
    queue = scene.queue(connections[0].channel())
    for number, connection in enumerate(connections):
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", queue, str(number).encode())
    assert [int(body) for body in bodies(connections[-1].channel(), queue)] == list(range(40))


def test_a_secret_may_be_updated(scene: Scene) -> None:
    connection = scene.connect()
    done: list[object] = []
    connection_below(connection).update_secret("guest", "rotation", done.append)
    wait_until(lambda: done, connection)
    assert connection.is_open
