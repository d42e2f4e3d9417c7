"""Honest clients that come and go for an hour: connections, channels, links, subscriptions, queues of every kind.

Everything a round opens is closed or deleted in it, so the broker has its first size again afterwards.
"""

from __future__ import annotations

import base64
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pika

from tests.clients.amqp10 import Client, data, proton_missing, proton_process, rhea_missing, rhea_process
from tests.clients.stomp_client import StompClient
from tests.hostile.site import Site

QUEUE_KINDS: tuple[dict[str, object], ...] = (
    {}, {"x-ring-size": 10}, {"x-last-value-key": "key"}, {"x-priorities": 10}, {"x-sort-key": "key"},
    {"x-group-mode": "sticky"}, {"x-non-destructive": True, "x-ring-size": 10}, {"x-single-active-consumer": True},
)  # fmt: skip

ROUND_SECONDS = 0.05
"""Between two rounds of a kind of client."""


class HonestClients:
    """Threads that each repeat rounds of one kind until told to stop; ``rounds`` counts them by kind.

    ``pause``: seconds between two rounds of a kind.
    """

    def __init__(self, site: Site, pause: float = ROUND_SECONDS) -> None:
        self._pause = pause
        self.rounds: dict[str, int] = {}
        self.failures: list[str] = []
        self._site = site
        self._stack = ExitStack()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin all kinds that this machine has clients for."""
        for kind, work in self._kinds():
            self.rounds[kind] = 0
            thread = threading.Thread(target=self._repeat, args=(kind, work))
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End after the rounds that are under way."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._stack.close()

    def _repeat(self, kind: str, work: Callable[[int], None]) -> None:
        while not self._stop.wait(self._pause):
            try:
                work(self.rounds[kind])
            except Exception as failure:  # noqa: BLE001 - whatever it is, the run reports it and fails
                self.failures.append(f"{kind}, round {self.rounds[kind]}: {failure!r}")
                return
            self.rounds[kind] += 1

    def _kinds(self) -> Iterator[tuple[str, Callable[[int], None]]]:
        yield "amqp-0-9-1", self._amqp091
        yield "stomp", self._stomp
        yield "http", self._http
        for name, missing, process in (
            ("proton", proton_missing, proton_process), ("rhea", rhea_missing, rhea_process),
        ):  # fmt: skip
            if not missing():
                url = self._site.process.amqp_url
                client = Client(self._stack.enter_context(process()), url)
                yield name, self._amqp10(name, client)

    def _amqp091(self, number: int) -> None:
        connection = self._site.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        arguments = QUEUE_KINDS[number % len(QUEUE_KINDS)]
        queue = f"honest-{number % 50}"
        channel.queue_declare(queue, durable=bool(number % 2), arguments=dict(arguments))
        for value in range(20):
            headers = {"key": value % 5, "group-id": f"g{value % 3}"}
            channel.basic_publish("", queue, b"x" * 500, pika.BasicProperties(delivery_mode=2, headers=headers))
        other = connection.channel()
        other.basic_qos(prefetch_count=5)
        for method, _, _ in other.consume(queue, inactivity_timeout=0.05):
            if method is None:
                break
            if method.delivery_tag % 3:
                other.basic_ack(method.delivery_tag)
        other.close()
        channel.queue_delete(queue)
        connection.close()

    def _stomp(self, number: int) -> None:
        client = StompClient(self._site.ports["stomp"]).connect()
        destination = f"/{'topic' if number % 2 else 'queue'}/honest-stomp-{number % 20}"
        client.subscribe(destination, "s", "client-individual", **{"auto-delete": "true"})
        for value in range(10):
            client.send(destination, str(value))
            client.connection.ack(client.next().headers["ack"])
        client.connection.unsubscribe("s")
        client.connection.disconnect()

    def _http(self, number: int) -> None:
        token = base64.b64encode(b"guest:guest").decode()
        path = ("/metrics", "/api/v1/queues", "/api/v1/overview", "/health/ready")[number % 4]
        connection = http.client.HTTPConnection("127.0.0.1", self._site.ports["http"], timeout=30)
        connection.request("GET", path, headers={"Authorization": f"Basic {token}"})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status != 200:
            raise AssertionError(f"{path} answered {answer.status}")

    def _amqp10(self, name: str, client: Client) -> Callable[[int], None]:
        def work(number: int) -> None:
            connection = client.connect()
            address = f"honest-{name}-{number % 20}"
            sender = connection.sender(address)
            receiver = connection.receiver(address)
            sender.accepted(*(data(b"x" * 500) for _ in range(10)))
            receiver.take(10)
            sender.detach()
            receiver.detach()
            connection.close()
            client.close()

        return work


def run_for(
    site: Site,
    seconds: float,
    each: Callable[[HonestClients], None],
    *,
    every: float = 30.0,
    pause: float = ROUND_SECONDS,
) -> HonestClients:
    """Let honest clients work for so long; ``each`` is called every so many seconds meanwhile."""
    clients = HonestClients(site, pause)
    clients.start()
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end and not clients.failures:
            time.sleep(max(0.0, min(every, end - time.monotonic())))
            each(clients)
    finally:
        clients.stop()
    return clients
