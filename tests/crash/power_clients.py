"""What clients do that only the databases remember: declarations, bindings, changed settings, duplicate ids.

For :mod:`tests.crash.mortal_broker`, when all of the machine loses power and not the broker alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from annulet.broker.durability.durable_declarations import DurableDeclarations
from annulet.core.message.message import Message, Origin
from annulet.store.files.errors import DiskFullError
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from tests.bulk.helpers import Bench
from tests.crash.mortal_broker import QUEUES, ROUND, Clients, Order, body_of

EXCHANGE = "news"
ONCE = "once"
SWIFT = "swift"
RESIZED = "resized"
POWER_ROUND = (
    "declare", "once", *ROUND[:5], "resize", "declare", "swift", *ROUND[5:9], "undeclare", "once", "resize", "declare",
    *ROUND[9:], "swift", "undeclare",
)  # fmt: skip


def made_name(number: int) -> str:
    return f"made-{number}"


def duplicate_id(number: int) -> str:
    return f"id-{number}"


class PowerClients(Clients):
    """The steps of ``POWER_ROUND``."""

    queues: ClassVar[dict[str, dict[str, Any]]] = {**QUEUES, ONCE: {}, SWIFT: {}, RESIZED: {"x-ring-size": 1}}

    def __init__(self, here: Bench, order: Order, tell: Callable[..., None]) -> None:
        super().__init__(here, order, tell)
        self.declarations = DurableDeclarations(here.host, here.broker.catalogue)
        self.made = [name for name in here.host.queues if name.startswith(made_name(0)[:-1])]

    async def declare(self) -> None:
        """Declare a queue and bind it; a message of it is confirmed after that."""
        (number,) = self.take(1)
        name, now, routing_key = made_name(number), self.here.broker.clock(), f"of.{number}"
        self.tell("try", "declare", [number])
        self.declarations.exchange(
            EXCHANGE, "topic", durable=True, auto_delete=False, internal=False, arguments={"x-note": "kept"}
        )
        queue = self.declarations.queue(
            name, now=now, durable=True, auto_delete=False, arguments={"x-ring-size": number + 1}
        )
        self.declarations.bind_queue(queue, EXCHANGE, routing_key, {})
        self.made.append(name)
        self.tell("done", "declare", [number])
        self.send(name, number)
        await self.here.broker.commit.durable()
        self.tell("done", "fill", [number])

    async def undeclare(self) -> None:
        """Delete a queue with what is in it."""
        if not self.made:
            return
        name = self.made.pop(self.chance.randrange(len(self.made)))
        self.tell("try", "undeclare", name)
        self.here.host.delete_queue(self.here.host.queues[name], self.here.broker.clock())
        if name in {record.name for record in self.here.broker.catalogue.queues("/")}:
            return  # the catalogue refused, which the broker has logged
        self.tell("done", "undeclare", name)

    async def resize(self) -> None:
        """Change a living queue as operators do."""
        (number,) = self.take(1)
        here = self.here
        self.tell("try", "resize", number + 1)
        here.broker.operator_settings.change_queue(
            here.host, here.host.queues[RESIZED], {"x-ring-size": number + 1}, here.broker.clock()
        )
        self.tell("done", "resize", number + 1)

    async def once(self) -> None:
        """Publish with ids of the sender's."""
        numbers = self.take(3)
        await self._with_ids(ONCE, numbers, lambda: None)

    async def swift(self) -> None:
        """The same, consumed before any of it is written: nothing but the ids stays."""
        queue, now = self.here.host.queues[SWIFT], self.here.broker.clock()

        def consume() -> None:
            for entry in queue.acquire(-1, -1, now):
                queue.acknowledge(entry)

        await self._with_ids(SWIFT, self.take(3), consume)

    async def _with_ids(self, name: str, numbers: list[int], meanwhile: Callable[[], None]) -> None:
        here = self.here
        self.tell("try", "ids", [name, numbers])
        for number in numbers:
            identifier, now = duplicate_id(number), here.broker.clock()
            basic = BasicProperties()
            basic.delivery_mode, basic.headers = 2, {"_AMQ_DUPL_ID": identifier}
            origin = Origin("", name, "test", VIEW)
            message = Message(encode_properties(basic), body_of(number), origin, durable=True, accepted_at=now)
            if not here.broker.accepts_durable(message.size + len(message.header), now):  # as connections do
                raise DiskFullError("refused")
            here.host.publisher.publish(message, here.host.route("", name), now, duplicate_id=identifier)
        meanwhile()
        await here.broker.commit.durable()
        self.tell("done", "ids", [name, numbers])
