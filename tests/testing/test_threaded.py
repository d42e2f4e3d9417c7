from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import httpx
import pika
import pika.exceptions
import pytest
import stomp
from pika.adapters.blocking_connection import BlockingChannel

import annulet.testing
from annulet.broker.settings.configuration import StartError
from annulet.testing import ThreadedBroker
from annulet.testing.threaded import BrokerThread
from tests.testing.conftest import channel_of


def descriptors() -> set[str]:
    """Return the open descriptors with their targets, but for the process's own figures, which stay open."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        try:
            target = str(path.readlink())
        except FileNotFoundError:  # the listing itself
            continue
        if not target.startswith("/proc/"):
            found.add(f"{path.name} {target}")
    return found


def test_neither_threads_nor_descriptors_are_left() -> None:
    with annulet.testing.broker():
        pass  # pools and imports of the first use
    threads, before = set(threading.enumerate()), descriptors()
    with annulet.testing.broker(stomp=True, http=True, durable=True) as broker:
        with channel_of(broker) as channel:
            channel.queue_declare("q", durable=True)
        assert httpx.get(f"{broker.http_url}/health/ready").status_code == 200
        assert set(threading.enumerate()) > threads
    assert set(threading.enumerate()) == threads
    assert descriptors() == before


def test_the_directory_of_a_durable_broker_is_removed(durable_broker: ThreadedBroker) -> None:
    assert durable_broker.configuration.data_directory is not None
    with annulet.testing.broker(durable=True) as broker:
        directory = broker.configuration.data_directory
        assert directory is not None
        assert directory.is_dir()
    assert not directory.exists()


def test_every_listener_opens_when_its_url_is_asked_for(broker: ThreadedBroker) -> None:
    assert broker.amqp_url.startswith("amqp://guest:guest@127.0.0.1:")
    assert broker.amqp_address[1] == int(broker.amqp_url.rpartition(":")[2])
    assert broker.stomp_url.startswith("stomp://guest:guest@127.0.0.1:")
    assert broker.stomp_url == broker.stomp_url, "it is opened once"
    assert broker.bulk_url.startswith("annulet://guest:guest@127.0.0.1:")
    connection = stomp.Connection([broker.stomp_address])
    connection.connect("guest", "guest", wait=True)
    connection.disconnect()
    assert httpx.get(f"{broker.http_url}/health/ready").status_code == 200


def test_messages_of_the_last_broker_are_gone_and_the_port_stays(
    session: annulet.testing.session.BrokerSession,
) -> None:
    urls = set()
    for _ in range(3):
        broker = session.start()
        urls.add(broker.amqp_url)
        with channel_of(broker) as channel, pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.queue_declare("q", passive=True)
        with channel_of(broker) as channel:
            channel.queue_declare("q")
        broker.stop()
        broker.stop()  # nothing happens
    assert len(urls) == 1


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [({"x-message-ttl": 3_600_000}, "expired"), ({"x-expires": 3_600_000}, "deleted")],
    ids=["message", "queue"],
)
def test_advance_returns_when_all_that_fell_due_was_done(
    broker: ThreadedBroker, channel: BlockingChannel, arguments: dict[str, int], kind: str
) -> None:
    channel.queue_declare("q", arguments=arguments)
    channel.basic_publish("", "q", b"1")
    before = broker.clock.now()
    broker.clock.advance("59m")
    assert "expired" not in broker.history("q")
    after = broker.clock.advance("1m")
    assert after - before >= 3_600_000
    assert kind in broker.history("q")
    assert broker.clock.date().timestamp() * 1000 >= after


def test_a_redelivery_delay_and_then_a_time_to_live_fall_due_each_at_its_time(
    broker: ThreadedBroker, channel: BlockingChannel
) -> None:
    """In one step to the end the message would expire before it was delivered again."""
    channel.queue_declare("q", arguments={"x-redelivery-delay": 10_000, "x-message-ttl": 60_000})
    got: list[int] = []

    def refuse(channel: BlockingChannel, method: pika.spec.Basic.Deliver, *_: object) -> None:
        got.append(method.delivery_tag)
        channel.basic_nack(method.delivery_tag)

    channel.basic_consume("q", refuse)
    channel.basic_publish("", "q", b"1")
    channel.connection.process_data_events(5)
    assert got == [1]
    broker.clock.advance("30s")
    channel.connection.process_data_events(5)
    assert got == [1, 2], "delivered again within the time"
    assert broker.history("q").count("delivered") == 2


def test_a_client_that_is_there_stays_connected_whatever_the_clock_does(broker: ThreadedBroker) -> None:
    with channel_of(broker, heartbeat=10) as channel:
        broker.clock.advance("30d")
        channel.queue_declare("q")
        assert channel.is_open


def test_a_stranger_who_says_nothing_is_cut_when_the_hand_shake_has_taken_too_long(broker: ThreadedBroker) -> None:
    with socket.create_connection(broker.amqp_address) as stranger:
        stranger.sendall(b"AMQP")
        broker.settle()
        broker.clock.advance("9s")
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.recv(1)
        stranger.setblocking(True)
        broker.clock.advance("2s")
        assert stranger.recv(100) == b""


def test_a_stopped_clock_waits(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    broker.clock.stop()
    channel.queue_declare("q", arguments={"x-message-ttl": 1})
    channel.basic_publish("", "q", b"1")
    now = broker.clock.now()
    assert len(broker.messages("q")) == 1
    assert broker.clock.advance(1) == now + 1
    assert broker.messages("q") == []
    broker.clock.run()


def test_settle_waits_for_everything_that_was_sent(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    for number in range(2000):
        channel.basic_publish("", "q", str(number).encode())
    assert len(broker.messages("q")) == 2000


def test_a_port_in_use_is_named_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(StartError, match=f"port={port} cannot be used: .*; leave port out"), BrokerThread(port):
            pass


def test_a_broker_after_its_end_says_where_it_may_be_used() -> None:
    with annulet.testing.broker() as broker:
        pass
    with pytest.raises(RuntimeError, match="was stopped"):
        broker.settle()
    with pytest.raises(RuntimeError, match="was stopped"):
        _ = broker.amqp_url


def test_the_brokers_own_thread_must_not_wait_for_itself(broker: ThreadedBroker) -> None:
    with pytest.raises(RuntimeError, match="own thread"):
        broker.do(lambda running: broker.settle())


def test_a_child_process_has_the_url_only(broker: ThreadedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="give its URL to the child"):
        broker.settle()


def test_a_thread_that_gives_no_answer_is_reported(broker: ThreadedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annulet.testing.threaded.ANSWER_SECONDS", 0.05)
    blocked = threading.Event()
    with pytest.raises(TimeoutError, match="no answer"):
        broker.do(lambda running: blocked.wait(0.5))
    monkeypatch.undo()
    broker.settle()
