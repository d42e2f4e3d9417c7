"""A broker with something to see, and a browser."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pika
import pytest

from tests.broker_process import BrokerProcess
from tests.clients.console.browser import Browser, missing

HOSTILE: Final = "<img src=x onerror=alert(1)>\u202egnp.exe"
HOSTILE_BODIES: Final = (
    b"<script>alert(1)</script>",
    "\u202etxt.exe \u2066<b>".encode(),
    bytes(range(256)) * 8,
    b'{"a": "' + b"x" * 1_000_000 + b'"}',
)


@dataclass
class Place:
    """The broker, and what tests ask it for beside the console."""

    process: BrokerProcess
    channel: Any

    @property
    def url(self) -> str:
        return self.process.http_url

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the API as the administrator."""
        login = base64.b64encode(b"guest:guest").decode()
        request = urllib.request.Request(
            f"{self.url}/api/v1/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Basic {login}"},
            method=method,
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def metrics(self) -> str:
        """Return the metrics of the broker."""
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:
            return str(answer.read().decode())

    def depth(self, queue: str) -> int:
        """Return the ready messages of a queue, by a client."""
        return int(self.channel.queue_declare(queue, passive=True).method.message_count)

    def fill(self, queue: str, count: int, **arguments: Any) -> None:
        """Declare a queue and publish to it; the channel waits for the confirm of each message."""
        self.channel.queue_declare(queue, durable=True, arguments=arguments)
        for number in range(count):
            properties = pika.BasicProperties(content_type="application/json", headers={"n": number}, delivery_mode=2)
            self.channel.basic_publish("", queue, json.dumps({"number": number}).encode(), properties)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A broker with queues of many kinds and three users."""
    if missing():
        pytest.skip(missing())
    with BrokerProcess(tmp_path_factory.mktemp("console") / "data", bulk=True) as process:
        connection = pika.BlockingConnection(pika.URLParameters(f"{process.amqp_url}?heartbeat=0"))
        try:
            place = Place(process, connection.channel())
            place.channel.confirm_delivery()
            _furnish(place)
            yield place
        finally:
            connection.close()


def _furnish(place: Place) -> None:
    channel = place.channel
    place.fill("board", 30, **{"x-ring-size": 20})
    place.fill("orders.dead", 0)
    place.fill("orders", 12, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.dead"})
    for _ in range(4):
        method, _, _ = channel.basic_get("orders")
        channel.basic_nack(method.delivery_tag, requeue=False)
    place.fill("groups", 3, **{"x-group-mode": "sticky"})
    place.fill("values", 3, **{"x-last-value-key": "n"})
    channel.queue_declare(HOSTILE, durable=True)
    hostile = pika.BasicProperties(headers={"<b>": "<i>\u202e</i>"}, delivery_mode=2)
    for body in HOSTILE_BODIES:
        channel.basic_publish("", HOSTILE, body, hostile)
    channel.exchange_declare("events", "topic", durable=True)
    channel.queue_bind("orders", "events", "order.#")
    channel.queue_bind(HOSTILE, "events", "<b>.*")
    for user, tag in (("reader", "monitoring"), ("member", "management")):
        place.api("PUT", f"users/{user}", {"password": "secret", "tags": [tag]})
    place.api("PUT", "permissions/%2F/reader", {"configure": "^$", "write": "^$", "read": ".*"})
    place.api("PUT", "permissions/%2F/member", {"configure": "^mine", "write": "^mine", "read": "^(mine|orders$)"})
    place.api("PUT", "policies/%2F/short", {"pattern": "^short", "definition": {"message-ttl": 60000}})


@pytest.fixture(scope="session")
def chromium(place: Place) -> Iterator[Browser]:
    """One browser for all tests."""
    browser = Browser()
    with browser.driver:
        yield browser
