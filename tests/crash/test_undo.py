"""A kill in the middle of an operation leaves each message in one place, and the undo brings back the rest."""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.broker_process import BrokerProcess

COUNT = 2000
RATE = 4000
UNTIL_SECONDS = 60.0


def ask(broker: BrokerProcess, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(f"{broker.http_url}/api/v1/queues/%2F/{path}", method=method)
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    octets = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(request, octets, timeout=UNTIL_SECONDS) as response:
        return json.load(response)


def bodies(broker: BrokerProcess, queue: str) -> list[int]:
    """Take all messages of a queue, which stay in it."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    channel = connection.channel()
    found = []
    while (answer := channel.basic_get(queue))[0] is not None:
        found.append(int(answer[2]))
    connection.close()
    return found


def filled(broker: BrokerProcess) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    channel = connection.channel()
    for name in ("shop", "late"):
        channel.queue_declare(name, durable=True)
    channel.confirm_delivery()
    for number in range(COUNT):
        channel.basic_publish("", "shop", str(number).encode(), pika.BasicProperties(delivery_mode=2))
    connection.close()


@pytest.mark.parametrize("operation", ["delete", "move"])
def test_a_kill_leaves_each_message_in_one_place(tmp_path: Path, operation: str) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        filled(broker)
        wanted = {"operation": operation, "everything": True, "rate": RATE}
        wanted |= {"destination": "late"} if operation == "move" else {}
        started = ask(broker, "POST", "shop/operations", wanted)
        token = started["undo"]["undo"]
        until = time.monotonic() + UNTIL_SECONDS
        while ask(broker, "GET", f"shop/operations/{started['id']}")["done"] < COUNT // 10:
            assert time.monotonic() < until, "the operation does not go on"
        broker.kill()
        broker.start()
        left, moved = bodies(broker, "shop"), bodies(broker, "late")
        (kept,) = ask(broker, "GET", "shop/undo")["items"]
        assert len(left) < COUNT, "it was killed before anything was on disk"
        taken = kept["kept"] if operation == "delete" else len(moved)
        assert len(left) + taken == COUNT
        assert not set(left) & set(moved)
        back = ask(broker, "POST", f"shop/undo/{token}", {})
        while (back := ask(broker, "GET", f"shop/operations/{back['id']}"))["state"] == "running":
            assert time.monotonic() < until + UNTIL_SECONDS, "the undo does not end"
        assert bodies(broker, "shop") == list(range(COUNT))  # at their places, before those that were left
        assert bodies(broker, "late") == []
