"""Short words for tests that stop or kill a broker and look at what the next one finds."""

from __future__ import annotations

import shutil
from pathlib import Path

from pamqp import commands

from annulet.broker.broker import Broker
from annulet.core.message.message import Message, Origin
from annulet.core.queue.queue import Queue
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from tests.broker.amqp091.peer import Peer


def queue_of(broker: Broker, name: str = "q") -> Queue:
    return broker.hosts["/"].queues[name]


def contents(queue: Queue) -> list[bytes]:
    return [entry.message.body for entry in queue.browse()]


async def publish_all(broker: Broker, peer: Peer, *messages: bytes) -> None:
    await peer.send(1, *messages)
    await broker.commit.durable()


async def leave(peer: Peer) -> None:
    await peer.send(0, commands.Connection.Close(200, "", 0, 0))


async def crash(broker: Broker, directory: Path, copy: Path) -> None:
    """Copy the directory as it is now: what a broker finds that was killed here."""
    await broker.commit.durable()
    shutil.copytree(directory, copy)


def send_with_id(broker: Broker, duplicate_id: str, body: bytes = b"", *, exchange: str = "", key: str = "q") -> int:
    """Send a persistent message that carries its id, as a connection does. Returns the duplicates dropped so far."""
    host = broker.hosts["/"]
    properties = BasicProperties()
    properties.headers = {"_AMQ_DUPL_ID": duplicate_id}
    origin = Origin(exchange, key, "guest@test", VIEW)
    message = Message(encode_properties(properties), body, origin, durable=True, accepted_at=broker.clock())
    host.publisher.publish(message, host.route(exchange, key), broker.clock(), duplicate_id=duplicate_id)
    return host.publisher.duplicates_dropped
