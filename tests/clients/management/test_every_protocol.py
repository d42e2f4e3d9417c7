"""Connections of every protocol are listed with what they hold, and closed with a reason that their client reads."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import pika
import pytest

from tests.broker_process import BrokerProcess
from tests.clients.management.requests import ask
from tests.clients.raw10 import RawAmqp10
from tests.clients.raw_stomp import RawStomp
from tests.clients.support import PATIENCE_SECONDS, Peer


def listed(managed: BrokerProcess, protocol: str) -> list[dict[str, Any]]:
    status, items = ask(managed, "GET", "/api/connections")
    assert status == 200
    return [item for item in items if item["protocol"] == protocol]


def close(managed: BrokerProcess, name: str) -> None:
    path = f"/api/connections/{quote(name, safe='')}"
    assert ask(managed, "DELETE", path, X_Reason="maintenance at noon") == (204, None)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while ask(managed, "GET", path)[0] != 404:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def peer(managed: BrokerProcess) -> Peer:
    return Peer(managed.amqp_url, ours=True, stomp_port=managed.stomp_port)


def test_amqp_1_0(managed: BrokerProcess, peer: Peer) -> None:
    assert ask(managed, "PUT", "/api/queues/%2F/ten", {})[0] == 201
    with RawAmqp10(peer) as client:
        client.open()
        client.session()
        client.link(0, True, "ten")
        [item] = listed(managed, "AMQP 1.0")
        assert (item["user"], item["vhost"], item["channels"], item["state"]) == ("guest", "/", 1, "running")
        channels = ask(managed, "GET", f"/api/connections/{quote(item['name'], safe='')}/channels")[1]
        assert [channel["consumer_count"] for channel in channels] == [1]
        [consumer] = ask(managed, "GET", "/api/queues/%2F/ten")[1]["consumer_details"]
        assert consumer["channel_details"]["connection_name"] == item["name"]
        path = f"/api/connections/{quote(item['name'], safe='')}"
        assert ask(managed, "DELETE", path, X_Reason="maintenance at noon") == (204, None)
        assert "maintenance at noon" in client.expect_close("amqp:connection:forced")
    assert ask(managed, "DELETE", "/api/queues/%2F/ten")[0] == 204


def test_stomp(managed: BrokerProcess, peer: Peer) -> None:
    client = RawStomp(peer).open()
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/stomped\nack:client\nreceipt:r\n\n\0")
    client.expect("RECEIPT")
    [item] = listed(managed, "STOMP 1.2")
    assert (item["user"], item["vhost"], item["channels"]) == ("guest", "/", 1)
    [consumer] = ask(managed, "GET", "/api/queues/%2F/stomped")[1]["consumer_details"]
    assert consumer["channel_details"]["connection_name"] == item["name"]
    close(managed, item["name"])
    frame = client.expect("ERROR")
    assert "maintenance at noon" in str(frame.headers)
    client.socket.close()


def test_amqp_0_9_1(managed: BrokerProcess, connected: pika.BlockingConnection) -> None:
    [item] = listed(managed, "AMQP 0-9-1")
    path = f"/api/connections/{quote(item['name'], safe='')}"
    assert ask(managed, "DELETE", path, X_Reason="maintenance at noon") == (204, None)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="maintenance at noon") as caught:
        connected.process_data_events(PATIENCE_SECONDS)
    assert caught.value.reply_code == 320
