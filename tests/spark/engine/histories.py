"""Random histories of commands to queues of every composition, and the broker's core driven directly with them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import msgspec

from annulet.core.base.errors import CoreError
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.configuration.arguments.consumers import parse_consumer_arguments
from annulet.core.configuration.arguments.queues import describe
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.management import expire_messages, select
from annulet.core.model.consumer import Consumer, CreditWindow, LinkCredit
from annulet.core.model.entry import QueueEntry
from annulet.core.model.forwarder import Forwarder
from annulet.core.model.loss_ledger import LossRecord
from annulet.core.queue.queue import Queue
from annulet.core.routing.node_effects import NodeEffects
from annulet.core.sessions.session import Session, UnknownDeliveryTag
from annulet.spark.engine.commands import LINK, Command, CommandRefused, parse_command
from annulet.spark.engine.content import connection_of, header_of, message_of
from tests.core.model_suite.compositions import Composition
from tests.core.model_suite.policies import (
    BROWSERS,
    COLOUR,
    FAIR_KEY,
    LAST_VALUE_KEY,
    LIFETIMES,
    LOCAL,
    PRIORITIES,
    SCHEDULES,
    SELECTORS,
    SORT_KEY,
)

NOW = 1_700_000_000_000
SESSIONS = ("one", "two", "three")
CONSUMERS = ("a", "b")

Given = tuple[str, int, str, bytes]
"""Queue, sequence, document, body: as a shard takes them."""


def given(queue: str, sequence: int, body: bytes = b"", **fields: Any) -> Given:
    document = {"queue": queue, "sequence": sequence, **fields}
    return queue, sequence, msgspec.json.encode(document).decode(), body


class Chooser:
    """Commands that make sense often enough, of one queue."""

    def __init__(self, chance: random.Random, queue: str, composition: Composition) -> None:
        self.chance = chance
        self.queue = queue
        self.settings = composition.settings
        self.traits = composition.traits
        self.now = NOW
        self.messages = 0

    def configure(self) -> dict[str, Any]:
        return {"command": "configure", "arguments": describe(self.settings), "at": self.now}

    def next(self) -> tuple[dict[str, Any], bytes]:
        chance = self.chance
        self.now += chance.choice((0, 0, 0, 1, 1, 2, 5))
        kind = chance.choices(
            ("publish", "consume", "credit", "cancel", "get", "acknowledge", "reject", "requeue", "release", "rollback",
             "close", "pause", "resume", "purge", "advance", "expire"),
            (14, 5, 2, 1, 2, 6, 2, 3, 2, 1, 1, 0.3, 1, 0.2, 2, 0.5),
        )[0]  # fmt: skip
        session = chance.choice(SESSIONS)
        fields: dict[str, Any] = {"command": kind, "at": self.now}
        if kind == "publish":
            return {**fields, **self.message()}, bytes(chance.choice((1, 2, 0, 3, 9)))
        if kind in ("pause", "resume", "purge", "advance"):
            return fields, b""
        if kind == "expire":
            return {**fields, "arguments": self.selection()}, b""
        fields["session"] = session
        if kind in ("acknowledge", "reject", "requeue", "release"):
            fields |= {"tag": chance.choice((0, 1, 2, 3, 4, 5, 6, 8)), "multiple": chance.random() < 0.6}
        elif kind == "consume":
            fields |= self.consumer()
        elif kind == "credit":
            fields |= {"consumer": chance.choice(CONSUMERS), "credit": chance.choice((0, 1, 3))}
        elif kind == "cancel":
            fields["consumer"] = chance.choice(CONSUMERS)
        elif kind == "get":
            fields |= {"credit": chance.choice((1, 2)), "automatic": chance.random() < 0.2}
        return fields, b""

    def message(self) -> dict[str, Any]:
        chance, traits, settings = self.chance, self.traits, self.settings
        self.messages += 1
        properties: dict[str, Any] = {LAST_VALUE_KEY: chance.choice(("a", "b", None, "c"))}
        if settings.sort_key:
            properties[SORT_KEY] = chance.choice((None, 1, 2, 2.0, "a", "b", True))
        if settings.fair_key:
            properties[FAIR_KEY] = chance.choice(("x", "y", None))
        if SELECTORS in traits:
            properties[COLOUR] = chance.choice(("red", "blue"))
        message: dict[str, Any] = {
            "message_id": f"m{self.messages}",
            "properties": {name: value for name, value in properties.items() if value is not None},
            "priority": chance.choice((None, 0, 9, 4, 5)),
            "group": chance.choice(("a", "b", "", "c")) if settings.group_mode else "",
            "connection": chance.choice(SESSIONS) if LOCAL in traits else "",
        }
        if LIFETIMES in traits and chance.random() < 0.5:
            message["expires_at"] = self.now + chance.choice((2, 5, 20))
        if SCHEDULES in traits and chance.random() < 0.5:
            message["deliver_at"] = self.now + chance.choice((3, 6, 10))
        if chance.random() < 0.1:
            message["duplicate_id"] = f"d{chance.randrange(5)}"
        return message

    def selection(self) -> dict[str, Any]:
        first = self.chance.randrange(1, self.messages + 2)
        return self.chance.choice((
            {}, {"ids": [first, first + 1]}, {"everything": True, "limit": 1, "scheduled": True},
            {"selector": f"{LAST_VALUE_KEY} = 'a'"}, {"everything": True, "selector": "TRUE"}, {"ids": first},
        ))  # fmt: skip

    def consumer(self) -> dict[str, Any]:
        chance, traits = self.chance, self.traits
        arguments: dict[str, Any] = {}
        if SELECTORS in traits and chance.random() < 0.7:
            arguments["selector"] = f"{COLOUR} = '{chance.choice(('red', 'blue'))}'"
        if BROWSERS in traits and chance.random() < 0.5:
            arguments["x-browse"] = chance.choice(("follow", "snapshot"))
        if LOCAL in traits and chance.random() < 0.5:
            arguments["x-no-local"] = True
        if PRIORITIES in traits:
            arguments["x-priority"] = chance.choice((0, 1, 2))
        return {
            "consumer": chance.choice(CONSUMERS),
            "credit": chance.choice((1, 2, 3, 0, -1)),
            "credit_bytes": chance.choice((-1, -1, 6)),
            "credit_mode": chance.choice(("prefetch", "prefetch", "link")),
            "automatic": chance.random() < 0.1,
            "arguments": arguments,
        }


def history(seed: int, compositions: dict[str, Composition], length: int) -> list[Given]:
    """``length`` commands to these queues, the first of each configures it; sequences grow over all."""
    chance = random.Random(seed)
    choosers = [Chooser(chance, queue, composition) for queue, composition in compositions.items()]
    commands: list[Given] = []
    for chooser in choosers:
        commands.append(given(chooser.queue, len(commands) + 1, **chooser.configure()))
    while len(commands) < length:
        chooser = chance.choice(choosers)
        fields, body = chooser.next()
        commands.append(given(chooser.queue, len(commands) + 1, body, **fields))
    return commands


class DirectSession(Session):
    """Keeps what it is handed: consumer, tag, message, redelivered, attempts."""

    def __init__(self, name: str, deliveries: list[tuple[Any, ...]]) -> None:
        super().__init__(name)
        self.connection_identity = connection_of(name)
        self.deliveries = deliveries

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        self.note(entry, tag, consumer.tag)

    def deliver_settled(self, consumer: Consumer, entry: QueueEntry) -> bool:
        taken = super().deliver_settled(consumer, entry)
        if consumer.window.binds_settled:
            consumer.window.take(entry.message.size)
        return taken

    def note(self, entry: QueueEntry, tag: int, consumer: str | None) -> None:
        self.deliveries.append(
            (self.name, consumer, tag, header_of(entry.message.header).message_id, entry.redelivered,
             entry.delivery_count)
        )  # fmt: skip


class DirectForwarder(Forwarder):
    """Sends nothing on, and remembers what should be: message and reason."""

    def __init__(self, host: VirtualHost) -> None:
        super().__init__()
        self.host = host
        self.forwards: list[tuple[int, str]] = []

    def takes(self, queue: Queue, reason: RemovalReason) -> bool:
        return self.host.dead_letters.takes(queue, reason)

    def add(self, queue: Queue, entry: QueueEntry, reason: RemovalReason, now: int, loss: LossRecord | None) -> None:
        self.forwards.append((entry.sequence, reason.value))


@dataclass
class Direct:
    """A virtual host of the broker's core, one call for each command, ticked when something is due."""

    name: str
    deliveries: list[tuple[Any, ...]] = field(default_factory=list)
    sessions: dict[str, DirectSession] = field(default_factory=dict)
    outcomes: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.host = VirtualHost("/", NodeEffects())
        self.host.forwarder = self.forwarder = DirectForwarder(self.host)
        self.now = 0

    @property
    def queue(self) -> Queue:
        return self.host.queues[self.name]

    def losses(self) -> list[tuple[Any, ...]]:
        return [(record.sequence, record.reason.value, record.replaced_by, record.at) for record in
                self.host.ledger.query(queue=self.name)]  # fmt: skip

    def run(self, one: Given) -> None:
        command = parse_command(one[2])
        if self.name in self.host.queues:
            while (due := self.queue.next_due_at()) and due <= command.at:
                self.now = max(self.now, due)
                self.host.tick(self.now)
                if self.queue.next_due_at() == due:
                    break
        self.now = max(self.now, command.at)
        try:
            getattr(self, command.command)(command, one[3])
            self.outcomes.append(True)
        except (CoreError, UnknownDeliveryTag, KeyError, CommandRefused):
            self.outcomes.append(False)

    def configure(self, command: Command, body: bytes) -> None:
        self.host.declare_queue(self.name, now=self.now, arguments=command.arguments)

    def publish(self, command: Command, body: bytes) -> None:
        message = message_of(command, body, self.now)
        self.host.publisher.publish(
            message, self.host.route("", self.name), self.now, duplicate_id=command.duplicate_id
        )

    def consume(self, command: Command, body: bytes) -> None:
        session = self.sessions.setdefault(command.session, DirectSession(command.session, self.deliveries))
        if command.consumer in session.consumers:
            raise CommandRefused
        self.host.check_consumer(self.queue, exclusive=False)
        settings = parse_consumer_arguments(command.arguments or {})
        window = CreditWindow(command.credit, command.credit_bytes)
        if command.credit_mode == LINK:
            window = LinkCredit()
            window.grant(max(0, command.credit))
        consumer = Consumer(
            session, self.queue, command.consumer, window=window, auto_acknowledge=command.automatic,
            priority=settings.priority, settings=settings,
        )  # fmt: skip
        session.attach(consumer, self.now)

    def credit(self, command: Command, body: bytes) -> None:
        window = self.sessions[command.session].consumers[command.consumer].window
        if isinstance(window, LinkCredit):
            window.grant(command.credit)
        else:
            window.messages_max, window.bytes_max = command.credit, -1
        self.queue.wake(self.now)

    def cancel(self, command: Command, body: bytes) -> None:
        if self.sessions[command.session].detach(command.consumer, self.now) is None:
            raise CommandRefused

    def get(self, command: Command, body: bytes) -> None:
        session = self.sessions.setdefault(command.session, DirectSession(command.session, self.deliveries))
        non_destructive = self.queue.settings.non_destructive
        for _ in range(min(command.credit, 1) if non_destructive else command.credit):
            taken = session.get(self.queue, self.now, auto_acknowledge=command.automatic)
            if taken is None:
                return
            session.note(taken[0], taken[1], None)

    def acknowledge(self, command: Command, body: bytes) -> None:
        self.sessions[command.session].acknowledge(command.tag, self.now, multiple=command.multiple)

    def reject(self, command: Command, body: bytes) -> None:
        self.sessions[command.session].reject(command.tag, self.now, requeue=False, multiple=command.multiple)

    def requeue(self, command: Command, body: bytes) -> None:
        self.sessions[command.session].reject(command.tag, self.now, requeue=True, multiple=command.multiple)

    def release(self, command: Command, body: bytes) -> None:
        entries = self.sessions[command.session].take(command.tag, multiple=command.multiple)
        if entries:
            self.queue.return_entries(entries, self.now, counted=False)
            self.queue.wake(self.now)

    def rollback(self, command: Command, body: bytes) -> None:
        self.sessions[command.session].recover(self.now)

    def close(self, command: Command, body: bytes) -> None:
        self.sessions.pop(command.session).close(self.now)

    def pause(self, command: Command, body: bytes) -> None:
        self.queue.pause(self.now)

    def resume(self, command: Command, body: bytes) -> None:
        self.queue.resume(self.now)

    def purge(self, command: Command, body: bytes) -> None:
        self.queue.purge(self.now)

    def expire(self, command: Command, body: bytes) -> None:
        given = command.arguments or {}
        if not isinstance(given.get("ids", []), list):
            raise CommandRefused
        if given:
            operation = expire_messages(self.host, self.queue, select(**given), user="", now=self.now)
            while not operation.step(self.now):
                pass

    def advance(self, command: Command, body: bytes) -> None:
        """Time went on before the command."""
