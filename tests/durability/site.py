"""What tests of a real restart share: a broker stopped and started on one data directory, and a queue ``q`` in it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aio_pika

import annulet.testing
from annulet.broker.settings.static_definitions import StaticDefinitions
from annulet.core.message.message import PropertyValue
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue


class Site:
    """A broker that is stopped and started again on one data directory, one block at a time."""

    def __init__(self, directory: Path) -> None:
        self.clock = annulet.testing.VirtualClock()
        self.directory = directory
        self.address_settings: dict[str, dict[str, PropertyValue]] = {}  # of the next start, by pattern
        self._running: annulet.testing.RunningBroker
        self._connections: list[aio_pika.abc.AbstractConnection]

    @contextlib.asynccontextmanager
    async def broker(self) -> AsyncIterator[annulet.testing.RunningBroker]:
        """Start the broker; at the end of the block end its clients' connections, then the broker."""
        connections: list[aio_pika.abc.AbstractConnection] = []
        settings = [{"match": pattern, **given} for pattern, given in self.address_settings.items()]
        definitions = StaticDefinitions(address_settings=settings)
        async with annulet.testing.broker(
            data_dir=self.directory, http=False, clock=self.clock, definitions=definitions
        ) as running:
            self._running, self._connections = running, connections
            try:
                yield running
            finally:
                for connection in connections:
                    await connection.close()

    async def channel(self, *, confirms: bool = True) -> aio_pika.abc.AbstractChannel:
        """Open a channel on a connection of its own."""
        connection = await aio_pika.connect(self._running.amqp_url)
        self._connections.append(connection)
        return await connection.channel(publisher_confirms=confirms)

    async def crash(self, copy: Path) -> Site:
        """Copy the directory as it is now, for a site that finds what a broker leaves that is killed here."""
        await self._running.broker.commit.durable()
        shutil.copytree(self.directory, copy)
        site = Site(copy)
        site.clock = self.clock
        return site


async def declare(site: Site, **arguments: Any) -> aio_pika.abc.AbstractChannel:
    """Declare ``q``, and return a channel with confirms."""
    channel = await site.channel()
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    await channel.declare_queue("q", durable=True, arguments=named)
    return channel


def persistent(body: str, **properties: Any) -> aio_pika.Message:
    """A persistent message whose header ``k`` is the body's first letter."""
    headers = {"k": body[:1], **properties.pop("headers", {})}
    mode = aio_pika.DeliveryMode.PERSISTENT
    return aio_pika.Message(body.encode(), delivery_mode=mode, headers=headers, **properties)


async def publish(channel: aio_pika.abc.AbstractChannel, *bodies: str, **properties: Any) -> None:
    """Send persistent messages to ``q``."""
    for body in bodies:
        await channel.default_exchange.publish(persistent(body, **properties), "q")


def queue_of(running: annulet.testing.RunningBroker, name: str = "q") -> Queue:
    """Return a queue whose numbers agree."""
    queue = running.broker.hosts["/"].queues[name]
    check_invariants(queue)
    return queue


def bodies(queue: Queue) -> list[str]:
    """Bodies of what is pending, in order of dispatch."""
    return [entry.message.body.decode() for entry in queue.order.entries()]
