"""A program that runs brokers which die at marked points, each in a process of its own.

It imports everything once and forks for each broker. A line of JSON on standard input starts one (:class:`Order`), and
lines of JSON on standard output say what the broker's clients tried, what they were promised, and with what it ended.
The clients live in the broker's process and call what connections, leases and staged publishes call, so that a round
takes a fraction of a second: what is under test is the way from there to the disk and back.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sqlite3
import sys
import threading
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from annulet.broker.durability.history import COUNTERS_MILLISECONDS
from annulet.broker.operation.backup import STAGING, Backup
from annulet.broker.recovery import recovery
from annulet.bulk.protocol.errors import BulkError
from annulet.bulk.reading.adoption import LeaseRequest
from annulet.bulk.writing.encoding import WriteDefaults
from annulet.bulk.writing.publisher import CommitRequest
from annulet.bulk.writing.stages import StageKey, StageStore
from annulet.core.base.errors import CoreError
from annulet.core.message.message import Message, Origin
from annulet.store.database.catalogue import Catalogue
from annulet.store.database.history import History
from annulet.store.files.data_format import CATALOGUE_FILE, HISTORY_FILE
from annulet.store.files.errors import BackupError, CatalogueError, DiskFullError, StoreError
from annulet.store.inspection.backup import BackupCopy, Staging
from annulet.store.log import maintenance
from annulet.store.log.log import MessageLog
from annulet.store.segments.head_writing import HeadTask, PendingHeads
from annulet.store.spill.spill import SpillStore
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from tests.bulk.helpers import Bench, bench
from tests.cheap_passwords import use_cheap_passwords
from tests.crash.volatile_databases import VolatileDatabases
from tests.crash.volatile_files import Fault, VolatileFiles
from tests.crash.volatile_stages import VolatileStages

SEGMENT = 16 << 10
CHECKPOINT_BYTES = 64 << 10
"""Small, so that a round of some hundred messages meets checkpoints, compaction and removal."""

DEEP_SCALE = 16
"""Segments and checkpoints of deep rounds are by so much larger: their bodies are by 64."""

STEPS_BY_TIME = 20
"""After so many steps a checkpoint is asked for as by the clock, whatever was written: early in a round, too."""

PADDING = bytes(range(256)) * 3
HOUR = 3_600_000
QUEUES: dict[str, dict[str, Any]] = {
    "work": {},
    "moved": {},
    "ring": {"x-ring-size": 5},
    "last": {"x-last-value-key": "key"},
    "later": {},
    "staged": {},
    "leased": {},
}
KEYS = 3
FILES_MAX = 10_000  # many times what a backup copies
ROUND = (
    "publish",
    "lease",
    "ring",
    "settle",
    "remember",
    "staged",
    "ring",
    "move",
    "ring",
    "last",
    "ring",
    "later",
    "ring",
    "settle",
)
"""Steps in turns. Most of what is written dies in the ring, so that segments are rewritten and removed."""
STOPPED = "stopped"
"""The point behind a clean stop."""

DEFECT = 70
"""Exit code of a broker that ended by an error no client is told; the traceback is in its log."""


class Order(NamedTuple):
    """One broker: data directory, seed of the clients, what goes wrong."""

    data: str
    seed: int
    first: int  # numbers and batches below were used in rounds before
    steps: int
    plan: list[str]  # the steps, in turns
    fault: list[Any]
    clients: str = ""  # which, see clients_of
    power: bool = False  # what SQLite did not sync is lost as well: the machine dies, not the broker alone


def body_of(number: int, copies: int = 1) -> bytes:
    return b"%08d" % number + PADDING * copies


def number_of(body: bytes) -> int:
    copies = len(body) // len(PADDING)
    assert copies > 0, "a body was cut"
    assert body[8:] == PADDING * copies, "a body was damaged"
    return int(body[:8])


def lease_request(*, fresh: bool, position: int = 0) -> LeaseRequest:
    return LeaseRequest("/", "lease", "leased", "owner", fresh=fresh, position=position)


async def commit_stage(here: Bench, batch: int, name: str) -> dict[str, int]:
    request = CommitRequest("/", "query", "", batch, (name,), WriteDefaults(address="staged"), True, "tester@here")
    return await here.service.publisher.commit(request, lambda _: True)


class Clients:
    """What clients do to one broker. Each step says what it tries, does it, waits for the promise and says so."""

    queues: ClassVar[dict[str, dict[str, Any]]] = QUEUES
    copies = 1  # of the padding, in each body
    scale = 1  # of segments and checkpoints
    files_to_copy = threading.Semaphore(0)  # of a backup: it takes no more of them than it is given

    def __init__(self, here: Bench, order: Order, tell: Callable[..., None]) -> None:
        self.here = here
        self.tell = tell
        self.data = order.data
        self.chance = random.Random(order.seed)
        self.numbers = itertools.count(order.first)
        self.batches = itertools.count(order.first)
        self.position = -1  # of the lease; -1: not opened in this run
        self.acknowledged = 0
        self.generation = 0
        self.later_times = itertools.count(2 * COUNTERS_MILLISECONDS, 2 * COUNTERS_MILLISECONDS)  # behind the clock
        self.backup_begun: Backup | None = None

    @classmethod
    def settings(cls, first: int) -> dict[str, Any]:
        """Settings of a broker for clients that begin with this number."""
        del first
        return {}

    def take(self, count: int) -> list[int]:
        return list(itertools.islice(self.numbers, count))

    def send(self, queue: str, number: int, *, durable: bool = True, priority: int = 0, **headers: Any) -> Message:
        here = self.here
        basic = BasicProperties()
        basic.delivery_mode = 2 if durable else 1
        basic.priority = priority
        basic.headers = headers
        now = here.broker.clock()
        origin = Origin("", queue, "test", VIEW)
        message = Message(
            encode_properties(basic), body_of(number, self.copies), origin,
            durable=durable, priority=priority, accepted_at=now,
        )  # fmt: skip
        message.deliver_at = VIEW.deliver_at(message)
        if durable and not here.broker.accepts_durable(message.size + len(message.header), now):  # as connections do
            raise DiskFullError("refused")
        here.host.publisher.publish(message, here.host.route("", queue), now)
        return message

    async def step(self, name: str) -> None:
        """Do one step, while a backup copies one more file; what the broker refuses is told."""
        self.files_to_copy.release()
        try:
            await self.do(name)
        except (StoreError, CoreError, BulkError, OSError) as error:
            self.tell("refused", name, str(error))

    async def do(self, name: str) -> None:
        """Do one step, whatever comes of it."""
        await getattr(self, name)()

    async def leave(self) -> None:
        """End before the broker stops."""

    async def publish(self) -> None:
        numbers = self.take(self.chance.randint(1, 6))
        self.tell("try", "publish", numbers)
        for number in numbers:
            self.send("work", number)
        await self.here.broker.commit.durable()
        self.tell("done", "publish", numbers)

    async def settle(self) -> None:
        queue = self.here.host.queues["work"]
        entries = queue.acquire(self.chance.randint(1, 5), -1, self.here.broker.clock())
        numbers = [number_of(entry.message.body) for entry in entries]
        self.tell("try", "settle", numbers)
        for entry in entries:
            queue.acknowledge(entry)
        await self.here.broker.commit.durable()
        self.tell("done", "settle", numbers)

    async def remember(self) -> None:
        """Have counters written as they are when so much time has passed, and as often."""
        broker = self.here.broker
        self.tell("try", "remember", [])
        broker.counter_rounds.tick(broker.hosts.values(), broker.clock() + next(self.later_times))
        await broker.commit.durable()
        self.tell("done", "remember", [])

    async def move(self) -> None:
        """A transaction: some go from one queue, others come to another one, all or nothing."""
        queue, effects = self.here.host.queues["work"], self.here.host.effects
        entries = queue.acquire(2, -1, self.here.broker.clock())
        facts = [self.take(3), [number_of(entry.message.body) for entry in entries]]
        self.tell("try", "move", facts)
        effects.begin_transaction()
        try:
            for number in facts[0]:
                self.send("moved", number)
            for entry in entries:
                queue.acknowledge(entry)
        except StoreError:
            effects.abort_transaction()
            raise
        effects.end_transaction()
        await self.here.broker.commit.durable()
        self.tell("done", "move", facts)

    async def ring(self) -> None:
        numbers = self.take(self.chance.randint(1, 9))
        self.tell("try", "ring", numbers)
        for number in numbers:
            self.send("ring", number)
        await self.here.broker.commit.durable()
        self.tell("done", "ring", numbers)

    async def last(self) -> None:
        numbers = self.take(self.chance.randint(1, 4))
        self.tell("try", "last", numbers)
        for number in numbers:
            self.send("last", number, key=number % KEYS)
        await self.here.broker.commit.durable()
        self.tell("done", "last", numbers)

    async def later(self) -> None:
        (number,) = self.take(1)
        self.tell("try", "later", [number, 0])
        due = self.send("later", number, **{"x-delay": HOUR + number}).deliver_at
        await self.here.broker.commit.durable()
        self.tell("done", "later", [number, due])

    async def staged(self) -> None:
        numbers, batch = self.take(3), next(self.batches)
        name = f"{batch}-0-0-{uuid.uuid4().hex}"
        self.tell("try", "stage", [batch, name, numbers])
        rows = pa.record_batch({"body": pa.array([body_of(number) for number in numbers], pa.binary())})
        await asyncio.to_thread(self.here.service.stages.write, StageKey("query", name), rows.schema, [rows])
        self.tell("done", "stage", [batch, name, numbers])
        self.tell("try", "commit", [batch, name, numbers])
        await commit_stage(self.here, batch, name)
        self.tell("done", "commit", [batch, name, numbers])

    async def lease(self) -> None:
        """What Spark does: plan a batch, read it, and acknowledge the one before."""
        here, leases = self.here, self.here.service.leases
        if self.position < 0:
            self.generation = (await leases.open(lease_request(fresh=True)))["generation"]
            self.position = self.acknowledged = 0
        numbers = self.take(3)
        self.tell("try", "lease", numbers)
        for number in numbers:
            self.send("leased", number)
        await here.broker.commit.durable()
        self.tell("try", "acknowledge", self.position)  # who asks for more has done what was before
        end = await leases.extend("/", "lease", self.generation, self.position)
        rows = await leases.fetch("/", "lease", "owner", self.position, end, fail_on_data_loss=True)
        self.tell("done", "lease", [self.position, end, [number_of(row.message.body) for row in rows]])
        await leases.acknowledge("/", "lease", self.generation, self.position)
        await here.broker.commit.durable()
        self.tell("done", "acknowledge", self.position)
        self.position = end

    async def backup_begin(self) -> None:
        """Choose the instant of a backup; its files are copied while the next steps are done."""
        target = Path(self.data).with_name(f"backup-{next(self.numbers)}")
        Clients.files_to_copy = threading.Semaphore(0)
        self.tell("try", "backup", str(target))
        self.backup_begun = backup = await self.here.broker.backups.start(target)
        while backup.state == STAGING:  # noqa: ASYNC110 - nothing tells its end
            await asyncio.sleep(0.001)

    async def backup_end(self) -> None:
        backup, self.backup_begun = self.backup_begun, None
        if backup is None:
            return
        self.files_to_copy.release(FILES_MAX)
        await self.here.broker.backups.wait()
        if backup.error:
            raise BackupError(backup.error)
        self.tell("done", "backup", backup.directory)

    async def backup(self) -> None:
        await self.backup_begin()
        await self.backup_end()


def clients_of(order: Order) -> type[Clients]:
    """Return the clients that an order names."""
    from tests.crash.deep_clients import DeepClients
    from tests.crash.kind_clients import KindClients
    from tests.crash.letter_clients import DeepLetterClients, LetterClients
    from tests.crash.power_clients import PowerClients

    kinds: dict[str, type[Clients]] = {
        "": Clients, "deep": DeepClients, "letters": LetterClients, "deep letters": DeepLetterClients,
        "kinds": KindClients, "power": PowerClients,
    }  # fmt: skip
    return kinds[order.clients]


async def run(order: Order, tell: Callable[..., None]) -> None:
    """Run a broker and its clients to the end, be it the fault or the last step."""
    kind = clients_of(order)
    async with bench(Path(order.data), **kind.settings(order.first)) as here:
        for name, arguments in kind.queues.items():
            if name not in here.host.queues:
                here.declare(name, arguments=arguments)
        tell("ready")
        clients = kind(here, order, tell)
        try:
            for number in range(order.steps):
                await clients.step(order.plan[number % len(order.plan)])
                if here.broker.commit.failed:
                    tell("failed")
                    return
                await here.broker.commit.maintain(checkpoint=number % STEPS_BY_TIME == 0)
            await clients.step("leave")
        finally:
            Clients.files_to_copy.release(FILES_MAX)  # a stopping broker waits for the thread that copies
    tell("stopped")


def mark(files: VolatileFiles, owner: type, name: str, point: str, error: type[Exception] = OSError) -> None:
    """Make a method a marked point. A rollback is none: SQLite ends a transaction whatever the disk says."""
    original = getattr(owner, name)

    def marked(*arguments: Any, **options: Any) -> Any:
        if "ROLLBACK" in arguments:
            return original(*arguments, **options)
        with files.point(point, error):
            return original(*arguments, **options)

    setattr(owner, name, marked)


def copy_when_told() -> None:
    """Let backups wait for clients between two files, so that they last as long as the steps after their begin."""
    copy = BackupCopy._copy

    def wait_and_copy(*arguments: Any) -> None:
        Clients.files_to_copy.acquire()
        copy(*arguments)

    BackupCopy._copy = wait_and_copy  # type: ignore[method-assign]


def write_heads_at_once() -> None:
    """Let heads of few messages not wait for more of them, or a short life would write none before its end."""
    task = PendingHeads.task

    def task_of_any(heads: PendingHeads, least: int = 1) -> HeadTask | None:
        return task(heads, least)

    PendingHeads.task = task_of_any  # type: ignore[method-assign]


def live(order: Order, reports: int) -> None:
    """The life of one broker, in a process of its own."""

    def tell(*line: Any) -> None:
        os.write(reports, json.dumps(line).encode() + b"\n")

    files = VolatileFiles(Path(order.data).with_name("attic"), order.seed, Fault(*order.fault), tell)

    class VolatileLog(MessageLog):
        @classmethod
        def open(cls, directory: Path | str, **options: Any) -> MessageLog:
            return MessageLog.open(directory, files=files, segment_bytes=SEGMENT * scale, **options)

    class VolatileSpill(SpillStore):
        def __init__(self, directory: Path, limit: int) -> None:
            super().__init__(directory, limit, files)

    if order.power:
        VolatileDatabases(files, Path(order.data), (CATALOGUE_FILE, HISTORY_FILE))
    stages = VolatileStages(files, Path(order.data))
    os.fsync = stages.sync  # type: ignore[assignment]
    files.at_death.append(stages.lose)
    scale = clients_of(order).scale
    recovery.MessageLog = VolatileLog  # type: ignore[misc]
    recovery.SpillStore = VolatileSpill  # type: ignore[misc]
    maintenance.CHECKPOINT_BYTES = CHECKPOINT_BYTES * scale  # type: ignore[misc]
    mark(files, MessageLog, "write", "window written")
    mark(files, MessageLog, "complete", "window completed")
    mark(files, Catalogue, "set_publish_mark", "publish mark", CatalogueError)
    mark(files, Catalogue, "add_lease_range", "lease range", CatalogueError)
    mark(files, Catalogue, "_change", "catalogue change", CatalogueError)
    mark(files, History, "write", "history write", sqlite3.OperationalError)
    mark(files, Staging, "link_log", "backup linked")
    mark(files, Staging, "link_stages", "backup stages linked")
    mark(files, Catalogue, "copy_to", "backup catalogue", BackupError)
    mark(files, History, "copy_to", "backup history", BackupError)
    mark(files, BackupCopy, "_copy", "backup copied")
    copy_when_told()
    write_heads_at_once()
    mark(files, StageStore, "write", "stage written")
    mark(files, StageStore, "read", "stage read")
    mark(files, StageStore, "drop", "stage dropped")
    try:
        asyncio.run(run(order, tell))
        with files.point(STOPPED):  # a stop that was clean is on the disk when it is over
            pass
    except (StoreError, OSError) as error:
        tell("ended", f"{type(error).__name__}: {error}")
    files.write_back("heads")  # which are never synced
    tell("met", files.met)


def main() -> None:
    """Take orders until standard input ends."""
    use_cheap_passwords()
    reports = os.dup(1)
    for line in sys.stdin:
        order = Order(*json.loads(line))
        child = os.fork()
        if child == 0:
            code = 0
            try:
                log = os.open(f"{order.data}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(log, 1)
                os.dup2(log, 2)
                live(order, reports)
            except BaseException:  # noqa: BLE001 - it is told by the exit code
                traceback.print_exc()
                code = DEFECT
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        os.write(reports, json.dumps(["exit", os.waitstatus_to_exitcode(status)]).encode() + b"\n")


if __name__ == "__main__":
    from tests.crash import mortal_broker  # what other clients derive from is there, and not in this one's copy of it

    mortal_broker.main()
