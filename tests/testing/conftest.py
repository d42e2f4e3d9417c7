"""Clients for the tests of the test kit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

import annulet.testing
from annulet.testing import ThreadedBroker
from annulet.testing.session import BrokerSession


@contextlib.contextmanager
def channel_of(broker: ThreadedBroker, **options: object) -> Iterator[BlockingChannel]:
    """Give a channel of pika, and close its connection if the test did not."""
    parameters = pika.URLParameters(broker.amqp_url)
    for name, value in options.items():
        setattr(parameters, name, value)
    connection = pika.BlockingConnection(parameters)
    yield connection.channel()
    if connection.is_open:
        connection.close()


@pytest.fixture(scope="module")
def session() -> Iterator[BrokerSession]:
    """One thread for the brokers of a module."""
    session = BrokerSession()
    yield session
    session.close()


@pytest.fixture
def broker(session: BrokerSession) -> Iterator[ThreadedBroker]:
    """An empty broker in a thread."""
    started = session.start()
    yield started
    started.stop()


@pytest.fixture
def channel(broker: ThreadedBroker) -> Iterator[BlockingChannel]:
    """A channel of pika to it."""
    with channel_of(broker) as channel:
        yield channel


@pytest.fixture
def durable_broker() -> Iterator[ThreadedBroker]:
    """A broker with a directory of its own."""
    with annulet.testing.broker(durable=True) as started:
        yield started
