"""A broker of its own for tools that use RabbitMQ's management API."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest

from tests.broker_process import BrokerProcess


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with AMQP and HTTP."""
    with BrokerProcess(tmp_path_factory.mktemp("managed")) as process:
        yield process


@pytest.fixture
def connected(managed: BrokerProcess) -> Iterator[pika.BlockingConnection]:
    """A connection of a client with one channel and one consumer of the queue ``consumed``."""
    connection = pika.BlockingConnection(pika.URLParameters(f"{managed.amqp_url}/%2F?heartbeat=0"))
    channel = connection.channel()
    channel.queue_declare("consumed")
    channel.basic_consume("consumed", lambda *_: None, consumer_tag="ct")
    yield connection
    if connection.is_open:
        channel.queue_delete("consumed")
        connection.close()
