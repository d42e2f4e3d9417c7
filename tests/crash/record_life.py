"""A broker that leaves every kind of record in its log, for tests of what damage to one of them costs.

Plain messages, scheduled ones, such of several queues, rings and last values with what they replaced, acknowledgements,
a purge, a deleted queue, transactions in one window, over several, over a checkpoint, aborted and never committed.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from annulet.broker.durability.durable_declarations import DurableDeclarations
from annulet.broker.recovery import recovery
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.message.message import Message, Origin
from annulet.core.queue.queue import Queue
from annulet.store.files.data_format import LOG_DIRECTORY
from annulet.store.files.files import UNFINISHED_SUFFIX
from annulet.store.log.checkpoint import BALLAST_FILE
from annulet.store.log.log import MessageLog
from annulet.store.log.space import SEGMENT_BYTES_MIN
from annulet.store.segments.segment import SEGMENT_SUFFIX
from annulet.store.segments.segment_index import index_number, index_path
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from tests.bulk.helpers import Bench, bench, crash_image

RING: Final = 5
KEYS: Final = 3
HOUR: Final = 3_600_000
BODY: Final = b"ANR1" * 12
"""Of each message: begins like a record, wherever a reader that lost its place looks for the next one."""

NEWS: Final = "news"
READERS: Final = ("first", "second", "third")
QUEUES: Final[dict[str, dict[str, Any]]] = {
    "work": {},
    "moved": {},
    "ring": {"x-ring-size": RING},
    "last": {"x-last-value-key": "key"},
    "later": {},
    "purged": {},
    "uncommitted": {},
    **{name: {} for name in READERS},
}


def body_of(number: int) -> bytes:
    return b"%08d" % number + BODY


def number_of(body: bytes) -> int:
    return int(body[:8])


def contents(here: Bench) -> dict[str, list[bytes]]:
    """Return the bodies of each queue, in the order they will be delivered."""
    return {
        name: [entry.message.body for entry in [*queue.order.entries(), *queue.schedule.entries()]]
        for name, queue in here.host.queues.items()
    }


class Life:
    """What clients do to the broker."""

    def __init__(self, here: Bench) -> None:
        self.here = here
        self.numbers = itertools.count(1)

    def declare(self) -> None:
        for name, arguments in QUEUES.items():
            self.here.declare(name, arguments=arguments)
        declarations = DurableDeclarations(self.here.host, self.here.broker.catalogue)
        declarations.exchange(NEWS, "fanout", durable=True, auto_delete=False, internal=False, arguments={})
        for name in READERS:
            declarations.bind_queue(self.here.host.queues[name], NEWS, "", {})

    async def durable(self) -> None:
        await self.here.broker.commit.durable()

    def send(self, queue: str, count: int = 1, *, exchange: str = "", delay: int = 0) -> None:
        host, now = self.here.host, self.here.broker.clock()
        for number in itertools.islice(self.numbers, count):
            basic = BasicProperties()
            basic.delivery_mode = 2
            basic.headers = {"key": number % KEYS} if not delay else {"x-delay": delay + number}
            message = Message(
                encode_properties(basic), body_of(number), Origin(exchange, queue, "test", VIEW),
                durable=True, accepted_at=now,
            )  # fmt: skip
            message.deliver_at = VIEW.deliver_at(message)
            host.publisher.publish(message, host.route(exchange, queue), now)

    def acknowledge(self, name: str, count: int = 1) -> None:
        queue = self.here.host.queues[name]
        for entry in queue.acquire(count, -1, self.here.broker.clock()):
            queue.acknowledge(entry)

    async def plain(self) -> None:
        """Messages of one queue, of three, scheduled ones, replaced ones, and acknowledgements of some of them."""
        self.send("work", 6)
        self.send("", 4, exchange=NEWS)
        await self.durable()
        self.send("later", 2, delay=HOUR)
        self.send("ring", RING)
        self.send("last", KEYS)
        await self.durable()
        self.acknowledge("work", 2)
        self.acknowledge("first", 2)
        self.acknowledge("second")
        await self.durable()
        self.send("ring", 3)
        self.send("last", 2)
        await self.durable()

    async def emptied(self, gone: str, count: int) -> None:
        """Two purges, but for what comes after them, and a queue that is deleted."""
        self.here.declare(gone)
        self.send("purged", count)
        self.send(gone, 3)
        await self.durable()
        host, now = self.here.host, self.here.broker.clock()
        for name in ("purged", "later"):
            host.queues[name].purge(now)
        self.send("later", 2, delay=HOUR)
        self.send("purged", 2)
        await self.durable()
        host.delete_queue(host.queues[gone], now)
        await self.durable()

    async def transactions(self) -> None:
        """One in a window, and one over two of them that is aborted."""
        effects = self.here.host.effects
        effects.begin_transaction()
        self.send("moved", 2)
        self.acknowledge("work")
        effects.end_transaction()
        await self.durable()
        effects.begin_transaction()
        self.send("uncommitted")
        effects.resume_transaction(await self.suspended())
        self.send("uncommitted")
        effects.abort_transaction()

    async def begin(self, queue: str) -> int:
        """Begin a transaction and have on the disk what it has so far."""
        self.here.host.effects.begin_transaction()
        self.send(queue, 2)
        return await self.suspended()

    async def end(self, transaction: int) -> None:
        """Go on with a transaction, and commit it."""
        effects = self.here.host.effects
        effects.resume_transaction(transaction)
        self.send("moved")
        self.acknowledge("work")
        effects.end_transaction()
        await self.durable()

    async def suspended(self) -> int:
        effects = self.here.host.effects
        transaction = effects.suspend_transaction()
        await self.durable()
        return transaction

    async def last_window(self) -> None:
        """Some of each in one window."""
        effects = self.here.host.effects
        self.send("work", 2)
        self.send("", 1, exchange=NEWS)
        self.send("ring", 2)
        self.send("later", 1, delay=HOUR)
        self.acknowledge("third")
        effects.begin_transaction()
        self.send("moved", 2)
        self.acknowledge("work")
        effects.end_transaction()
        await self.durable()


def removed(queue: Queue) -> Counter[str]:
    """Return how many messages left a queue for each reason but acknowledgement, which a crash may forget."""
    found = Counter(queue.statistics().removed)
    del found[RemovalReason.ACKNOWLEDGED.value]
    return +found


def lighten(data: Path) -> None:
    """Let go of the space that the log reserved, so that tests copy and read kilobytes. What is indexed stays so."""
    log = data / LOG_DIRECTORY
    for path in (*log.glob(f"*{UNFINISHED_SUFFIX}"), log / BALLAST_FILE):
        path.unlink(missing_ok=True)
    for path in log.glob(f"*{SEGMENT_SUFFIX}"):
        if not index_path(path).exists():
            os.truncate(path, len(path.read_bytes().rstrip(b"\0")) + 64)  # a record may end with zeros


class Left(NamedTuple):
    """A data directory as a killed broker left it, what was in its queues and had left them, and their ids.

    ``indexed``: its segments that have an index.
    """

    data: Path
    contents: dict[str, list[bytes]]
    removed: dict[str, Counter[str]]
    names: dict[int, str]
    indexed: set[int]


async def leave(directory: Path, *, segments: bool = False) -> Left:
    """Run a broker in the directory, and return what is left of it when it is killed. ``segments``: in several."""
    with pytest.MonkeyPatch.context() as patch:
        if segments:
            patch.setattr(recovery, "MessageLog", SmallSegments)
        return await _leave(directory)


class SmallSegments(MessageLog):
    """A log in the smallest segments."""

    @classmethod
    def open(cls, directory: Path | str, **options: Any) -> MessageLog:
        return MessageLog.open(directory, segment_bytes=SEGMENT_BYTES_MIN, **options)


async def _leave(directory: Path) -> Left:
    """No upkeep comes between: where the checkpoint stands is not left to chance."""
    living = directory / "living"
    async with bench(living) as here:
        life, commit = Life(here), here.broker.commit
        async with commit.upkeep_paused():
            life.declare()
            for gone in ("gone", "gone then"):
                await life.plain()
                await life.emptied(gone, 3)
                await life.transactions()
            opened = await life.begin("moved")
        await commit.maintain(checkpoint=True)
        async with commit.upkeep_paused():
            await life.end(opened)
            await life.plain()
            await life.emptied("gone too", AT_ONCE_MAX + 1)
            await life.transactions()
            opened = await life.begin("uncommitted")
            await life.last_window()
            left = crash_image(living, directory / "left")
        found = contents(here) | {"uncommitted": []}
        gone_by = {name: removed(queue) for name, queue in here.host.queues.items()}
        names = {queue.queue_id: name for name, queue in here.host.queues.items()}
        here.host.effects.resume_transaction(opened)
        here.host.effects.abort_transaction()
    lighten(left)
    indexed = {number for path in left.glob("messages/*") if (number := index_number(path.name)) is not None}
    return Left(left, found, gone_by, names, indexed)
