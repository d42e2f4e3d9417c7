"""A broker in the test's own loop, and crash images of its directory."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from annulet.broker.broker import Broker
from annulet.bulk.server import BulkService
from annulet.core.message import Message, Origin
from annulet.core.queue import Queue
from annulet.testing import in_process
from annulet.wire.amqp091.properties import VIEW, BasicProperties, encode_properties


class Bench:
    """A running broker with what tests do to it."""

    def __init__(self, broker: Broker, url: str) -> None:
        self.broker = broker
        self.url = url
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
            self.host.publish(message, self.host.route("", queue), now)
        await self.broker.commit.durable()

    def bodies(self, queue: str) -> list[bytes]:
        return [entry.message.body for entry in self.host.queues[queue].browse()]


@asynccontextmanager
async def bench(directory: Path | None = None, **settings: Any) -> AsyncIterator[Bench]:
    """Run a broker; in memory without a directory."""
    async with in_process.broker(data_dir=directory, bulk=True, http=False, **settings) as running:
        yield Bench(running.broker, running.bulk_url)


def crash_image(directory: Path, target: Path) -> Path:
    """Copy what a broker killed at this moment would leave behind, without its lock."""
    shutil.copytree(directory, target)
    return target
