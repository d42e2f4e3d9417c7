from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest

from annulet.cli.remote.failures import EXIT_NOT_FOUND, EXIT_USAGE
from annulet.cli.remote.options import Remote


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


def test_frames_of_a_connection_are_printed_until_it_ends(
    annulet: Any, client: pika.BlockingConnection, remote_to: Callable[..., Remote]
) -> None:
    channel = client.channel()
    channel.queue_declare("traced")
    (found,) = annulet.json("connections", "--of", "guest")
    worker = threading.Thread(target=work, args=(remote_to(), found["name"], client, channel))
    worker.start()
    ran = annulet.done("connection", "trace", found["name"], "--seconds", "60")
    worker.join()
    assert "<- #1 basic.publish(" in ran.output
    assert "<- #1 body of 6 octets\n" in ran.output
    assert "connection.close" in ran.output
    assert annulet.refused(EXIT_NOT_FOUND, "connection", "trace", "nix")


def work(remote: Remote, name: str, client: pika.BlockingConnection, channel: Any) -> None:
    """Use the connection as soon as it is traced, and close it."""
    for _ in range(500):
        if any(trace["connection"] == name for trace in remote.client.get("api", "v1", "traces")["items"]):
            break
        time.sleep(0.02)
    channel.basic_publish("", "traced", b"hidden")
    client.close()
