"""Well-behaved clients beside the hostile ones: their messages, their answers and their time must not suffer."""

from __future__ import annotations

import http.client
import threading
import time
from types import TracebackType

import pika
import pyarrow as pa

from annulet.bulk.client import BulkClient
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.url import parse_url
from tests.clients.stomp_client import StompClient
from tests.hostile.delays import Delays
from tests.hostile.site import Site

PAUSE_SECONDS = 0.005
"""Between two messages of a neighbour."""

HEALTH_SECONDS = 0.25
"""Between two questions for the broker's health."""

BULK_SECONDS = 0.1
"""Between two batches."""

PATIENCE_SECONDS = 60.0
"""How long a neighbour waits for what must come."""


class Neighbour:
    """Publishes numbers into a queue of its own and takes them back; runs while it is the context of a block.

    ``longest``: seconds of the longest wait for a confirm or delivery; ``stall``: the same without what the machine
    added to it. :meth:`check` tells what was lost or doubled.
    """

    name = ""

    def __init__(self, site: Site, delays: Delays) -> None:
        self.site = site
        self.longest = 0.0
        self.stall = 0.0
        self._delays = delays
        self.published = 0
        self.taken: list[int] = []
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as failure:  # noqa: BLE001 - raised again by check, in the test's thread
            self.failure = failure

    def work(self) -> None:
        """Work until :attr:`stopping`."""
        raise NotImplementedError

    @property
    def stopping(self) -> bool:
        """Whether the neighbour should end."""
        return self._stop.wait(PAUSE_SECONDS)

    def waited(self, began: float) -> None:
        """Note how long something took that began at ``began`` of the monotonic clock."""
        now = time.monotonic()
        self.longest = max(self.longest, now - began)
        if now - began > self.stall:
            self.stall = max(self.stall, now - began - self._delays.within(began, now))

    def __enter__(self) -> Neighbour:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)

    def check(self) -> None:
        """Expect that the neighbour did its work and every message came once, in order."""
        assert not self._thread.is_alive(), f"{self.name} is stuck after {self.published} messages"
        assert self.failure is None, f"{self.name}: {self.failure!r}"
        assert self.published > 0, f"{self.name} published nothing"
        assert self.taken == list(range(self.published)), (
            f"{self.name}: {self.published} published, {len(self.taken)} taken, {len(set(self.taken))} different"
        )


class PikaNeighbour(Neighbour):
    """AMQP 0-9-1: persistent, confirmed, acknowledged."""

    name = "AMQP neighbour"

    def work(self) -> None:
        """Publish one message, wait for its confirm, take it, acknowledge."""
        connection = self.site.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("neighbour-amqp", durable=True)
        channel.queue_purge("neighbour-amqp")
        while not self.stopping:
            began = time.monotonic()
            channel.basic_publish(
                "", "neighbour-amqp", str(self.published).encode(), pika.BasicProperties(delivery_mode=2)
            )
            self.published += 1
            method, _, body = channel.basic_get("neighbour-amqp")
            assert method is not None, f"message {self.published - 1} is not there"
            channel.basic_ack(method.delivery_tag)
            self.taken.append(int(body))
            self.waited(began)
        connection.close()


class StompNeighbour(Neighbour):
    """STOMP: send with a receipt, subscribed with individual acknowledgement."""

    name = "STOMP neighbour"

    def work(self) -> None:
        """Send one message, wait for its receipt and its delivery."""
        client = StompClient(self.site.ports["stomp"]).connect()
        client.subscribe("/queue/neighbour-stomp", "n", "client-individual")
        while not self.stopping:
            began = time.monotonic()
            client.send("/queue/neighbour-stomp", str(self.published), persistent="true")
            self.published += 1
            frame = client.messages.get(timeout=PATIENCE_SECONDS)
            client.connection.ack(frame.headers["ack"])
            self.taken.append(int(frame.body))
            self.waited(began)
        client.connection.disconnect()


class HealthNeighbour(Neighbour):
    """A load balancer that asks for the broker's health; every answer has to be 200."""

    name = "health"

    def work(self) -> None:
        """Ask again and again."""
        while not self.stopping:
            began = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", self.site.ports["http"], timeout=PATIENCE_SECONDS)
            connection.request("GET", "/health/ready")
            answer = connection.getresponse().status
            connection.close()
            assert answer == 200, f"health answered {answer}"
            self.taken.append(self.published)
            self.published += 1
            self.waited(began)
            self._stop.wait(HEALTH_SECONDS)


class BulkNeighbour(Neighbour):
    """Bulk transfer, as a stream of Spark uses it: a stage, its commit, and the same rows by a lease."""

    name = "bulk neighbour"

    def work(self) -> None:
        """Publish one row, take it by the lease, acknowledge."""
        connection = self.site.connect()
        connection.channel().queue_declare("neighbour-bulk", durable=True)
        connection.close()
        client = BulkClient(parse_url(self.site.process.bulk_url))
        opening = protocol.OpenLease(queue="neighbour-bulk", lease="neighbour", owner="neighbour", fresh=True)
        lease = client.act(opening)["generation"]
        while not self.stopping:
            began = time.monotonic()
            batch, after = self.published, len(self.taken)
            rows = pa.record_batch({"body": [str(batch).encode()]})
            stage = f"{batch}-0-0-{'0' * 32}"
            client.put(protocol.PutStage(query="neighbour", stage=stage), rows.schema, [rows])
            client.act(protocol.CommitPublish(query="neighbour", batch=batch, stages=[stage], address="neighbour-bulk"))
            self.published += 1
            upto = client.act(protocol.ExtendLease(lease="neighbour", generation=lease, start=after))["position"]
            ticket = protocol.FetchTicket(lease="neighbour", owner="neighbour", after=after, upto=upto)
            self.taken += [int(body) for one in client.get(ticket) for body in one.column("body").to_pylist()]
            self.waited(began)
            self._stop.wait(BULK_SECONDS)
        client.act(protocol.AcknowledgeLease(lease="neighbour", generation=lease, upto=len(self.taken)))
        client.close()


def neighbours(site: Site, delays: Delays) -> list[Neighbour]:
    """Return one neighbour of each kind, not yet started."""
    return [kind(site, delays) for kind in (PikaNeighbour, StompNeighbour, HealthNeighbour, BulkNeighbour)]
