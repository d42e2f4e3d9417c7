from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest

from annulet.cli.remote.failures import EXIT_NOT_FOUND, EXIT_USAGE


@pytest.fixture
def client(annulet: Any) -> Iterator[pika.BlockingConnection]:
    connection = pika.BlockingConnection(pika.URLParameters(annulet.broker.amqp_url))
    yield connection
    if connection.is_open:
        connection.close()


def test_a_connection_is_listed_shown_and_closed_with_a_reason(annulet: Any, client: pika.BlockingConnection) -> None:
    channel = client.channel()
    channel.queue_declare("consumed")
    channel.basic_consume("consumed", lambda *_: None, consumer_tag="mine")
    (found,) = annulet.json("connections", "--of", "guest")
    name = found["name"]
    (consumer,) = annulet.json("consumers", "--queue", "consumed")
    assert (consumer["consumer_tag"], consumer["channel_details"]["connection_name"]) == ("mine", name)
    assert annulet.json("connection", "show", name)["channel_list"][0]["consumer_count"] == 1
    assert "mine" in annulet.done("consumers").output
    assert "repeat with --yes" in annulet.refused(EXIT_USAGE, "connection", "close", name)
    assert "printable ASCII" in annulet.refused(EXIT_USAGE, "connection", "close", name, "--reason", "a\r\nb", "-y")
    annulet.done("connection", "close", name, "--reason", "moving house", "-y")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="moving house"):
        client.process_data_events(5)


def test_an_unknown_connection_is_not_found(annulet: Any) -> None:
    annulet.refused(EXIT_NOT_FOUND, "connection", "show", "nix")
