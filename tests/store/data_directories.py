"""Data directories as brokers leave them, for tests of what looks at them."""

from __future__ import annotations

import os
from pathlib import Path

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.durability.durable_declarations import DurableDeclarations
from annulet.core.message.message import Message, Origin
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties

BODY = bytes(range(250)) * 4
COUNT = 40


def put(broker: Broker, queue: str, body: bytes, *, accepted_at: int = 0) -> None:
    """Publish a persistent message to a queue by name, as an AMQP client would."""
    host, now = broker.hosts["/"], broker.clock()
    properties = BasicProperties()
    properties.delivery_mode = 2
    header = encode_properties(properties)
    origin = Origin("", queue, "guest@test", VIEW)
    message = Message(header, body, origin, durable=True, accepted_at=accepted_at or now)
    host.publisher.publish(message, host.route("", queue), now)


def declare(broker: Broker, name: str) -> None:
    """Declare a durable queue."""
    declarations = DurableDeclarations(broker.hosts["/"], broker.catalogue)
    declarations.queue(name, durable=True, auto_delete=False, arguments={}, now=broker.clock())


def body_of(number: int) -> bytes:
    return b"%06d" % number + BODY


async def fill(directory: Path, count: int = COUNT, *, queue: str = "work") -> None:
    """Run a broker on the directory that takes ``count`` messages for a durable queue, and stop it cleanly."""
    async with testing.broker(data_dir=directory, http=False) as running:
        declare(running.broker, queue)
        for number in range(count):
            put(running.broker, queue, body_of(number))
        await running.broker.commit.durable()
    shrink(directory)


def shrink(directory: Path) -> None:
    """Cut off the space that the log reserved, so that tests copy and read kilobytes."""
    for path in (directory / "messages").glob("*.segment"):
        content = path.read_bytes()
        os.truncate(path, len(content.rstrip(b"\0")) + 64)  # a record may end with zeros
    (directory / "messages" / "ballast").unlink(missing_ok=True)
