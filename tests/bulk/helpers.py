"""A broker in the test's own loop, and crash images of its directory."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from annulet.application import build_broker
from annulet.broker.broker import Broker
from annulet.broker.settings.clock import system_clock
from annulet.broker.settings.configuration import LOOPBACK, BrokerConfiguration, Endpoint
from annulet.bulk.client import BulkClient
from annulet.bulk.protocol.url import parse_url
from annulet.bulk.server import BulkService
from annulet.core.message.message import Message, Origin
from annulet.core.queue.queue import Queue
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties

T = TypeVar("T")


class Bench:
    """A running broker with what tests do to it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.url = ""
        self.host = broker.hosts["/"]

    @property
    def service(self) -> BulkService:
        (service,) = [service for service in self.broker.services if isinstance(service, BulkService)]
        return service

    def declare(self, name: str, *, durable: bool = True, arguments: dict[str, Any] | None = None) -> Queue:
        queue = self.host.declare_queue(name, now=self.broker.clock(), durable=durable, arguments=arguments)
        if durable and not queue.queue_id:
            queue.queue_id = self.broker.catalogue.add_queue("/", name, auto_delete=False, arguments=arguments or {})
        return queue

    async def publish(
        self, queue: str, bodies: Sequence[bytes], *, persistent: bool = True, headers: dict[str, Any] | None = None
    ) -> None:
        """Publish; durable when this returns."""
        basic = BasicProperties()
        basic.delivery_mode = 2 if persistent else 1
        basic.headers = headers
        header = encode_properties(basic)
        now = self.broker.clock()
        for body in bodies:
            origin = Origin("", queue, "test", VIEW)
            message = Message(header, body, origin, durable=persistent, accepted_at=now)
            message.deliver_at = VIEW.deliver_at(message)
            self.host.publisher.publish(message, self.host.route("", queue), now)
        await self.broker.commit.durable()

    def bodies(self, queue: str) -> list[bytes]:
        return [entry.message.body for entry in self.host.queues[queue].browse()]


@asynccontextmanager
async def bench(directory: Path | None = None, *, bulk_port: int = 0, **settings: Any) -> AsyncIterator[Bench]:
    """Run a broker; in memory without a directory."""
    clock = settings.pop("clock", system_clock)
    configuration = BrokerConfiguration(
        data_directory=directory,
        amqp=Endpoint(LOOPBACK, 0),
        stomp=None,
        http=None,
        bulk=Endpoint(LOOPBACK, bulk_port),
        bulk_required=True,
        **settings,
    )
    broker = build_broker(configuration, clock=clock)
    await broker.start()
    try:
        made = Bench(broker)
        made.url = f"annulet://guest:guest@{LOOPBACK}:{made.service.port}/"
        yield made
    finally:
        await broker.stop()


def crash_image(directory: Path, target: Path) -> Path:
    """Copy what a broker killed at this moment would leave behind, without its lock."""
    shutil.copytree(directory, target)
    return target


async def away(work: Callable[[], T]) -> T:
    """Run a client's blocking call in a thread."""
    return await asyncio.to_thread(work)


def bulk_client(here: Bench, **changes: Any) -> BulkClient:
    """A client that does not wait; ``changes`` are parts of the address."""
    return BulkClient(dataclasses.replace(parse_url(here.url), **changes), retry_seconds=0)


def stage_name() -> str:
    return f"0-0-0-{uuid.uuid4().hex}"
