"""What RabbitMQ 4.3 refuses a strict broker refuses, with the reply code of RabbitMQ, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from annulet.testing.session import BrokerSession
from tests.testing.conftest import channel_of

QUORUM = {"x-queue-type": "quorum"}


@pytest.fixture
def strict_channel(session: BrokerSession) -> Iterator[BlockingChannel]:
    """A channel of pika to a broker with the rules of RabbitMQ 4.3."""
    started = session.start(strict="rabbitmq-4.3")
    with channel_of(started) as channel:
        yield channel
    started.stop()


@pytest.mark.parametrize(
    ("flags", "arguments", "word"),
    [
        ({}, {"x-queue-type": "quorum", "x-max-priority": 5}, "'x-max-priority' for queue 'q' in vhost '/' of queue"),
        ({}, {"x-queue-type": "quorum", "x-queue-mode": "lazy"}, "x-queue-mode"),
        ({}, {"x-delivery-limit": 5}, "x-delivery-limit"),
        ({}, {"x-dead-letter-strategy": "at-least-once"}, "x-dead-letter-strategy"),
        ({}, {"x-quorum-initial-group-size": 3}, "x-quorum-initial-group-size"),
        ({}, {"x-queue-version": 1}, "unsupported queue version 1"),
        ({}, {"x-dead-letter-routing-key": "k"}, "routing_key_but_no_dlx_defined"),
        ({}, {"x-max-length": 1, "x-overflow": "ring"}, "'ring' is none of drop-head"),
        ({}, {"x-queue-leader-locator": "nearest"}, "'nearest' is none of client-local"),
        ({"auto_delete": True}, QUORUM, "invalid property 'auto-delete'"),
        ({"exclusive": True}, QUORUM, "invalid property 'exclusive-owner'"),
    ],
)
def test_a_declaration_of_a_queue_is_refused(
    strict_channel: BlockingChannel, flags: dict[str, bool], arguments: dict[str, Any], word: str
) -> None:
    with pytest.raises(ChannelClosedByBroker) as refused:
        strict_channel.queue_declare("q", **{"durable": True, **flags}, arguments=arguments)
    assert refused.value.reply_code == 406
    assert word in refused.value.reply_text


def test_a_quorum_queue_needs_a_name(strict_channel: BlockingChannel) -> None:
    with pytest.raises(ChannelClosedByBroker, match="server-named queue for type quorum"):
        strict_channel.queue_declare("", durable=True, arguments=QUORUM)


@pytest.mark.parametrize(
    ("durable", "arguments", "word"),
    [
        (False, {}, "transient_nonexcl_queues"),
        (True, {"x-queue-master-locator": "min-masters"}, "queue_master_locator"),
    ],
)
def test_a_removed_feature_ends_the_connection(
    strict_channel: BlockingChannel, durable: bool, arguments: dict[str, Any], word: str
) -> None:
    with pytest.raises(ConnectionClosedByBroker, match=word) as refused:
        strict_channel.queue_declare("q", durable=durable, arguments=arguments)
    assert refused.value.reply_code == 541


@pytest.mark.parametrize("condition", ["if_unused", "if_empty"])
def test_a_quorum_queue_is_not_deleted_on_a_condition(strict_channel: BlockingChannel, condition: str) -> None:
    strict_channel.queue_declare("q", durable=True, arguments=QUORUM)
    with pytest.raises(ConnectionClosedByBroker, match=condition.replace("_", "-")) as refused:
        strict_channel.queue_delete("q", **{condition: True})
    assert refused.value.reply_code == 540


def test_a_get_from_a_quorum_queue_with_a_single_active_consumer_is_refused(strict_channel: BlockingChannel) -> None:
    strict_channel.queue_declare("q", durable=True, arguments={**QUORUM, "x-single-active-consumer": True})
    with pytest.raises(ChannelClosedByBroker, match="single active consumer") as refused:
        strict_channel.basic_get("q")
    assert refused.value.reply_code == 405


def test_an_argument_for_consumers_of_streams_is_refused(strict_channel: BlockingChannel) -> None:
    strict_channel.queue_declare("q", durable=True)
    with pytest.raises(ChannelClosedByBroker, match="x-stream-offset") as refused:
        strict_channel.basic_consume("q", lambda *_: None, arguments={"x-stream-offset": "first"})
    assert refused.value.reply_code == 406


@pytest.mark.parametrize("type_name", ["address", "x-delayed-message"])
def test_an_exchange_of_another_type_is_refused(strict_channel: BlockingChannel, type_name: str) -> None:
    with pytest.raises(ChannelClosedByBroker, match=f"unknown exchange type '{type_name}'") as refused:
        strict_channel.exchange_declare("e", type_name, arguments={"x-delayed-type": "direct"})
    assert refused.value.reply_code == 406


def test_a_window_in_bytes_is_refused(strict_channel: BlockingChannel) -> None:
    with pytest.raises(ConnectionClosedByBroker, match="prefetch_size!=0") as refused:
        strict_channel.basic_qos(prefetch_size=1000)
    assert refused.value.reply_code == 540


def test_a_global_window_is_one_of_each_consumer(strict_channel: BlockingChannel) -> None:
    strict_channel.queue_declare("q", durable=True)
    for number in range(4):
        strict_channel.basic_publish("", "q", str(number).encode())
    strict_channel.basic_qos(prefetch_count=1, global_qos=True)
    got: list[str] = []
    for tag in ("a", "b"):
        strict_channel.basic_consume(
            "q", lambda _channel, method, _properties, _body: got.append(method.consumer_tag), consumer_tag=tag
        )
    while len(got) < 2:
        strict_channel.connection.process_data_events(time_limit=10)
    assert sorted(got) == ["a", "b"]


def test_all_that_rabbitmq_takes_is_taken(strict_channel: BlockingChannel) -> None:
    strict_channel.queue_declare("old", durable=True, arguments={"x-max-priority": 5, "x-queue-mode": "lazy"})
    strict_channel.queue_declare("own", exclusive=True, arguments={"x-unheard-of": 1})
    strict_channel.queue_declare("", exclusive=True, auto_delete=True)
    strict_channel.queue_declare("new", durable=True, arguments={**QUORUM, "x-delivery-limit": 3})
    strict_channel.queue_declare("new", passive=True)
    strict_channel.exchange_declare("e", "topic")
    strict_channel.basic_consume("new", lambda *_: None, arguments={"x-priority": 3})
    strict_channel.queue_delete("old", if_unused=True, if_empty=True)
    assert strict_channel.is_open


def test_rules_that_there_are_none_of_are_named(session: BrokerSession) -> None:
    with pytest.raises(ValueError, match=r"strict='rabbitmq-9' is none of rabbitmq-4\.3"):
        session.start(strict="rabbitmq-9")


def test_a_broker_without_rules_takes_it(session: BrokerSession) -> None:
    started = session.start()
    parameters = pika.URLParameters(started.amqp_url)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare("q", arguments={"x-queue-type": "quorum", "x-max-priority": 5})
    channel.basic_qos(prefetch_size=1000)
    assert channel.is_open
    connection.close()
    started.stop()
