"""The stage of the Artemis scenarios: a virtual host under a clock turned by hand, messages of AMQP 0-9-1."""

from __future__ import annotations

from typing import Any

from annulet.core.host.transaction import Transaction
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.message.message import DEFAULT_PRIORITY, Message, Origin, PropertyValue
from annulet.core.model.consumer import Consumer
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue
from annulet.testing import VirtualClock
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, decode_properties, encode_properties
from annulet.wire.amqp091.messages.publish_headers import read_publish_headers
from tests.core.helpers import RecordingEffects, RecordingSession

SECOND = 1000


class Scene:
    """One virtual host with what the tests do to it. ``settings``: address settings by pattern."""

    def __init__(self, settings: dict[str, dict[str, PropertyValue]] | None = None) -> None:
        self.effects = RecordingEffects()
        self.host = VirtualHost("/", self.effects)
        self.clock = VirtualClock()
        for pattern, given in (settings or {}).items():
            self.host.address_settings.set(pattern, given)

    @property
    def now(self) -> int:
        return self.clock()

    def queue(self, name: str = "q", *, address: str = "", **arguments: PropertyValue) -> Queue:
        """Declare a queue with arguments as clients write them, and make it one of an address's."""
        queue = self.host.declare_queue(
            name,
            now=self.now,
            arguments={f"x-{key.replace('_', '-')}": value for key, value in arguments.items()},
            address=address,
        )
        if address:
            self.host.nodes.attach_queue(queue, address)
        return queue

    def address(self, name: str, *queues: str) -> list[Queue]:
        """Declare a multicast address with these queues."""
        self.host.nodes.declare_address(name, ("multicast",))
        return [self.queue(queue, address=name) for queue in queues]

    def message(
        self,
        body: str,
        to: str = "q",
        *,
        ttl: int = -1,
        delay: int = 0,
        priority: int | None = None,
        durable: bool = False,
        **headers: PropertyValue,
    ) -> Message:
        """Build a message as a channel does. Header ``k`` is the body's first letter unless given."""
        properties = BasicProperties()
        properties.headers = {"k": body[:1], **headers}
        if delay:
            properties.headers["x-delay"] = delay
        properties.expiration = str(ttl) if ttl >= 0 else None
        properties.priority = priority
        header = encode_properties(properties)
        return Message(
            header,
            body.encode(),
            Origin(to if to in self.host.exchanges else "", to, "guest@test", VIEW),
            durable=durable,
            priority=DEFAULT_PRIORITY if priority is None else priority,
            accepted_at=self.now,
            expires_at=self.now + ttl if ttl >= 0 else 0,
            deliver_at=read_publish_headers(header).due_at(self.now),
        )

    def send(self, *bodies: str, to: str = "q", duplicate_id: str = "", **options: Any) -> int:
        """Send messages to an address or queue; returns how many queues the last one reached."""
        reached = 0
        for body in bodies:
            message = self.message(body, to, **options)
            reached = self.host.publisher.send_to_address(to, message, self.now, duplicate_id=duplicate_id)
        return reached

    def collect(
        self, transaction: Transaction, body: str, to: str = "q", duplicate_id: str = "", **options: Any
    ) -> None:
        """Send one message within a transaction."""
        route = self.host.route_to(to, to)
        transaction.send(self.message(body, to, **options), route, duplicate_id=duplicate_id)

    def pass_time(self, milliseconds: int) -> None:
        """Let time go by and do what is due."""
        self.clock.advance(milliseconds)
        self.host.tick(self.now)

    def held(self, name: str = "q") -> list[str]:
        """Bodies of what is pending, in order of dispatch."""
        return [entry.message.body.decode() for entry in self.host.queues[name].order.entries()]

    def figures(self, names: str, name: str = "q") -> tuple[int, ...]:
        """Values of these statistics of a queue, after checking that all of its numbers agree."""
        queue = self.host.queues[name]
        check_invariants(queue)
        statistics = queue.statistics()
        return tuple(getattr(statistics, figure) for figure in names.split())

    def removed(self, reason: str, name: str = "q") -> int:
        """How many messages left a queue for this reason."""
        removed: int = self.host.queues[name].statistics().removed.get(reason, 0)
        return removed


class Client(RecordingSession):
    """A session that also notes how often each delivery came back, and which were the first of their group."""

    def __init__(self, scene: Scene, name: str = "client") -> None:
        super().__init__(name)
        self.scene = scene
        self.counts: list[int] = []
        self.firsts: list[str] = []

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        super().deliver(consumer, entry, tag)
        self.counts.append(entry.delivery_count)
        if entry in entry.queue.group_firsts:
            self.firsts.append(entry.message.body.decode())

    def listen(self, queue: Queue, tag: str = "c", **options: Any) -> Consumer:
        """Attach a consumer now."""
        return self.consume(queue, tag, now=self.scene.now, **options)

    def pull(self, queue: Queue, *, settle: bool = True) -> str | None:
        """Take one message; ``None`` when there is none."""
        taken = self.get(queue, self.scene.now, auto_acknowledge=settle)
        return None if taken is None else taken[0].message.body.decode()

    def settle_all(self) -> None:
        """Acknowledge everything that is in delivery here."""
        if self.unacknowledged:
            self.acknowledge(0, self.scene.now, multiple=True)

    def commit_all(self) -> None:
        """Acknowledge everything within a transaction and commit it."""
        transaction = Transaction(self)
        transaction.acknowledge(0, multiple=True)
        transaction.commit(self.scene.host, self.scene.now)

    def roll_back_all(self) -> None:
        """Acknowledge everything within a transaction, roll it back and give the deliveries back."""
        transaction = Transaction(self)
        transaction.acknowledge(0, multiple=True)
        transaction.rollback()
        self.recover(self.scene.now)

    def leave(self) -> None:
        """End the session; what it holds goes back."""
        self.close(self.scene.now)


def headers_of(entry: QueueEntry) -> dict[str, Any]:
    """The header table of a message."""
    return decode_properties(entry.message.header).headers or {}


def numbers(first: int, last: int) -> list[str]:
    """Bodies ``first`` to ``last - 1``."""
    return [str(number) for number in range(first, last)]
