"""The undo window: messages that operations delete, move or send back are kept for a time; an undo brings them back.

Each virtual host has a durable queue for it, :data:`UNDO_QUEUE`, made at the first operation. A removed message gets
into it in the transaction that takes it out of its queue, so a crash leaves it in exactly one of them. Of moved
messages the queue has notes, one for each slice of an operation, written in the same turn of the event loop.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from annulet.broker.durability.durable_declarations import DurableDeclarations
from annulet.broker.operation.looking import Look
from annulet.broker.operation.queue_inspection import is_exclusive
from annulet.broker.operation.undo_messages import (
    DEFINITION,
    KEPT,
    QueueDefinition,
    Run,
    UndoFacts,
    Unwrapping,
    count_of,
    definition_message,
    kept_message,
    kept_size,
    kind_of,
    moved_message,
    read_definition,
    read_facts,
    read_runs,
)
from annulet.broker.settings.configuration import UNDO_BYTES, UNDO_SECONDS
from annulet.core.base.errors import ContentUnavailable, CoreError, NotFound, PreconditionFailed
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sealed_names import UNDO_QUEUE
from annulet.core.management import select
from annulet.core.management.actions import ChangePriority, Remove
from annulet.core.management.conditions import MovedIds, conditions
from annulet.core.management.destination import Destination, Former
from annulet.core.management.keeping import NO_PRIORITY, Keeper
from annulet.core.management.operation import SLICE_BYTES, SLICE_MESSAGES
from annulet.core.management.undoing import MoveBack, Restore, Undo
from annulet.core.model.entry import BEHIND_ALL
from annulet.core.model.loss_ledger import LossLedger

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.settings.clock import Clock
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.management import Operation
    from annulet.core.management.undoing import Part
    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue
    from annulet.store.database.catalogue import Catalogue
    from annulet.store.segments.interface import Log

FORGOTTEN_A_TICK: Final = 200
"""Kept messages that are forgotten in one turn: a few milliseconds."""

COPY: Final = "copy"
"""Of this operation an undo removes the copies."""

UNDONE_OPERATIONS: Final = frozenset(
    {"delete", "purge", "expire", "cancel-scheduled", "move", "retry", COPY, "change-priority"}
)
"""Operations that can be undone; of ``expire`` what no expiry address takes."""

NOTED_OPERATIONS: Final = frozenset({"move", "retry", COPY, "change-priority"})
"""Of these, operations whose messages stay in the broker: notes of their new places are kept, of a few bytes each."""

_ALL: Final = 1 << 60

Place = tuple[str, int, bool]
"""A queue that messages are in now; their former priority, ``NO_PRIORITY`` where it was not changed; and whether their
notes are durable: the ids in these are ascending."""


class UndoBroker(Protocol):
    """The part of a broker that the undo window needs."""

    clock: Clock
    catalogue: Catalogue
    hosts: dict[str, VirtualHost]
    log: Log


@dataclass(slots=True)
class Undoable:
    """What an undo would bring back, or take away of copies. ``moved``: by place, with the ids there."""

    facts: UndoFacts
    kept: int = 0
    bytes: int = 0
    moved: dict[Place, MovedIds] = field(default_factory=dict)
    moved_count: int = 0
    places: dict[str, Queue] = field(default_factory=dict)  # the queues of these names then
    definition: QueueDefinition | None = None  # of the queue, which was deleted
    restored: Queue | None = None  # made anew by this undo, so that all former ids are free in it

    @property
    def count(self) -> int:
        """How many messages it brings back, if nothing has happened to them meanwhile."""
        return self.kept + self.moved_count

    def elsewhere(self) -> dict[str, int]:
        """Return how many messages there are in which queues."""
        counts: dict[str, int] = {}
        for (name, _, _), ids in self.moved.items():
            counts[name] = counts.get(name, 0) + ids.count
        return counts

    def add(self, message: Message, host: VirtualHost | None) -> None:
        """Take a message of the undo queue; with the ``host`` the ids of moved ones as well."""
        kind = kind_of(message)
        if kind == DEFINITION:
            self.definition = read_definition(message)
            return
        if kind == KEPT:
            self.kept += 1
            self.bytes += message.size
            return
        self.moved_count += count_of(message)
        if host is None:
            return
        for run in read_runs(message):
            queue = host.queues.get(run.queue)
            if queue is not None and _is_of(run, queue, host, message.accepted_at):
                self._add_run(run, queue, lasting=message.durable)

    def _add_run(self, run: Run, queue: Queue, *, lasting: bool) -> None:
        if self.places.setdefault(run.queue, queue) is not queue:
            return  # it was declared anew while the notes were read
        place = (run.queue, run.priority, lasting)
        if place not in self.moved:
            self.moved[place] = MovedIds()
        self.moved[place].add(run.first, run.count, run.former)


class UndoWindow:
    """The undo windows of one broker's virtual hosts. Belongs to the event loop.

    ``seconds`` and ``bytes_max`` may change at run time; they hold for what is kept already, too.
    """

    def __init__(self, broker: UndoBroker, seconds: int = UNDO_SECONDS, bytes_max: int = UNDO_BYTES) -> None:
        self.seconds = seconds
        self.bytes_max = bytes_max
        self.forgotten = 0  # messages whose time was over
        self.dropped = 0  # messages that made room for others before their time was over
        self.unkept = 0  # messages that no undo brings back, although it was wanted
        self.undone = 0  # undo operations begun
        self._broker = broker
        self._last = 0
        self._run = secrets.token_hex(4)

    def queue_of(self, host: VirtualHost) -> Queue | None:
        """Return the queue of a virtual host, ``None`` before the first operation."""
        queue = host.queues.get(UNDO_QUEUE)
        if queue is not None and queue.ledger.records_max:
            queue.ledger = LossLedger(0)  # its messages were counted when they were deleted
        return queue

    def keeper(self, host: VirtualHost, operation: str, queue: Queue, user: str) -> HostKeeper:
        """Return the keeper of a new operation.

        Raises :class:`PreconditionFailed` when its queue cannot be made.
        """
        if self.queue_of(host) is None:
            try:
                DurableDeclarations(host, self._broker.catalogue).queue(
                    UNDO_QUEUE,
                    now=self._broker.clock(),
                    durable=True,
                    auto_delete=False,
                    arguments={},
                    owner=None,
                    server_named=True,
                )
            except CoreError as error:
                raise PreconditionFailed(f'nothing can be kept for an undo: {error}; or give "undo": false') from error
            self.queue_of(host)
        now = self._broker.clock()
        self._last += 1
        token = f"{now:x}-{self._last}"
        facts = UndoFacts(token, operation, queue.name, user, now, queue.queue_id, self._run)
        return HostKeeper(self, host, facts, now + self.seconds * 1000)

    def keeps(self, operation: str) -> Callable[[QueueEntry], bool]:
        """Return the answer for a preview: whether a keeper of such an operation would have room for a message."""
        used = 0

        def has_room(entry: QueueEntry) -> bool:
            nonlocal used
            if operation in NOTED_OPERATIONS:
                return True
            size = _needed(entry)
            if used + size > self.bytes_max:
                return False
            used += kept_size(entry.message)
            return True

        return has_room

    def too_much(self) -> str:
        """Return why an operation keeps no more messages."""
        return f"undo_bytes={self.bytes_max} does not allow more"

    def keeps_queue(self, queue: Queue) -> bool:
        """Return whether the deletion of a queue can be undone; not of one that goes with its connection."""
        return self.seconds > 0 and not is_exclusive(queue)

    def fits(self, count_bytes: int) -> bool:
        """Return whether so many bytes can be kept."""
        return self.seconds > 0 and count_bytes <= self.bytes_max

    def tick(self, now: int) -> None:
        """Forget some messages whose time is over."""
        for host in self._broker.hosts.values():
            queue = host.queues.get(UNDO_QUEUE)
            for _ in range(FORGOTTEN_A_TICK if queue is not None and queue.shown_count() else 0):
                assert queue is not None, "there is one with messages"
                entry = queue.first_unexpired(now)
                if entry is None or entry.message.accepted_at + self.seconds * 1000 > now:
                    break
                self.forgotten += count_of(entry.message)
                queue.remove(entry, RemovalReason.DELETED, now)

    def make_room(self, queue: Queue, size: int, now: int) -> bool:
        """Drop the oldest messages for one of ``size`` bytes, a few at a time. Returns whether there is room."""
        for _ in range(FORGOTTEN_A_TICK):
            if queue.shown_bytes() + size <= self.bytes_max:
                return True
            entry = queue.first_unexpired(now)
            if entry is None:
                return False
            self.dropped += count_of(entry.message)
            queue.remove(entry, RemovalReason.DELETED, now)
        return queue.shown_bytes() + size <= self.bytes_max

    # ------------------------------------------------------------------ undo

    async def operations(self, host: VirtualHost, queue: str) -> tuple[list[Undoable], bool]:
        """Return what can be undone of a queue, the newest first, and whether all was examined."""
        kept_in = self.queue_of(host)
        if kept_in is None:
            return [], True
        look = _Summary(kept_in, queue)
        await look.run(self._broker.clock)
        return sorted(look.found_by.values(), key=lambda item: item.facts.at, reverse=True), look.complete

    async def plan(self, host: VirtualHost, queue: str, token: str) -> Undoable:
        """Return what an undo would bring back into a queue. Raises :class:`NotFound`."""
        kept_in = self.queue_of(host)
        look = None if kept_in is None else _Summary(kept_in, queue, host, token)
        if look is not None:
            await look.run(self._broker.clock)
        if look is None or token not in look.found_by:
            raise NotFound(
                f"nothing is kept of operation '{token}' on queue '{queue}': it was undone, or the window of "
                f"{self.seconds} seconds or {self.bytes_max} bytes is over"
            )
        if not look.complete:
            raise PreconditionFailed("the disk does not give all that is kept; check it, and try again")
        return look.found_by[token]

    def operation(self, host: VirtualHost, plan: Undoable, user: str) -> Operation:
        """Return the operation that undoes another one; it has not started.

        Raises :class:`NotFound` when the queue is gone.
        """
        queue, kept_in = host.queues.get(plan.facts.queue), self.queue_of(host)
        if queue is None or kept_in is None:
            raise NotFound(f"queue '{plan.facts.queue}' in vhost '{host.name}' is gone: declare it again, then undo")
        parts: list[Part] = []
        if plan.kept or plan.restored is not None:
            wanted = select(selector=f"undo = '{plan.facts.token}' AND kind = '{KEPT}'")
            parts.append((self._restore(host, kept_in, queue, plan), wanted))
        for (name, priority, _), ids in plan.moved.items():
            source = host.queues.get(name)
            if source is None or source is not plan.places[name]:
                continue
            back = select(everything=True, scheduled=True, conditions=conditions(among=ids))
            if plan.facts.operation == COPY:
                parts.append((Remove("undo", source, RemovalReason.MOVED), back))
            elif priority != NO_PRIORITY:
                parts.append((ChangePriority("undo", source, priority), back))
            elif source is not queue:
                parts.append((self._move_back(host, source, queue, plan.facts, ids), back))
        if not parts:
            raise NotFound("the queues that the messages were moved to are gone, and their messages with them")
        for action, _ in parts:
            action.arguments = ", ".join(part for part in (f"of {plan.facts.token}", action.arguments) if part)
        self.undone += 1
        return Undo(host, parts, plan.count, queue.name, user=user, now=self._broker.clock())

    def _restore(self, host: VirtualHost, kept_in: Queue, queue: Queue, plan: Undoable) -> Restore:
        unwrap = Unwrapping()
        has_place = _any_place if queue is plan.restored else self._places(host, queue, plan.facts)

        def former_of(entry: QueueEntry) -> Former | None:
            former = unwrap.former(entry.message, self._broker.clock())
            return former if has_place(former.sequence) else None

        return Restore(host, kept_in, queue, unwrap, former_of)

    def _move_back(self, host: VirtualHost, source: Queue, queue: Queue, facts: UndoFacts, ids: MovedIds) -> MoveBack:
        has_place = self._places(host, queue, facts)

        def former_of(entry: QueueEntry) -> Former | None:
            number = ids.former_of(entry.sequence)
            return Former(number, entry.message.accepted_at) if has_place(number) else None

        return MoveBack(host, source, queue, former_of)

    def _places(self, host: VirtualHost, queue: Queue, facts: UndoFacts) -> Callable[[int], bool]:
        """Return what says whether a message may have a former id of the queue again.

        Not in a queue that was declared anew. Of an earlier run of the broker only ids that the log knows: the others
        may have been given again.
        """
        if facts.queue_id or queue.queue_id:
            same = facts.queue_id == queue.queue_id
        else:
            same = host.lifetime_of(queue).created_at <= facts.at
        known = BEHIND_ALL if facts.run == self._run else self._broker.log.next_sequences.get(queue.queue_id, 0)
        return lambda number: same and 0 < number < known


def _any_place(number: int) -> bool:
    """Return that a queue made anew for its former messages has a place for each of these."""
    return number > 0


def _is_of(run: Run, queue: Queue, host: VirtualHost, noted_at: int) -> bool:
    """Return whether ids are of this queue, not of an earlier one of its name: each queue counts from 1."""
    if run.queue_id or queue.queue_id:
        return run.queue_id == queue.queue_id
    return host.lifetime_of(queue).created_at <= noted_at


def _needed(entry: QueueEntry) -> int:
    """Return the bytes that have to be free before a message is kept."""
    return entry.message.size + len(entry.message.header)


class HostKeeper(Keeper):
    """Keeps what one operation takes away, in the undo queue of its virtual host."""

    def __init__(self, window: UndoWindow, host: VirtualHost, facts: UndoFacts, until: int) -> None:
        super().__init__(facts.token, until)
        self._window = window
        self._host = host
        self._facts = facts
        self._bytes = 0
        self._dropped = window.dropped  # as of the last call of :meth:`effort`
        self._runs: dict[tuple[Queue, bool, int], list[Run]] = {}  # of this slice; durable ones and priorities apart

    def place(self) -> Destination:
        """Return the undo queue."""
        return Destination(self._host, self._queue())

    def _queue(self) -> Queue:
        queue = self._window.queue_of(self._host)
        if queue is None:
            raise PreconditionFailed(f"queue '{UNDO_QUEUE}' was deleted during the operation")
        return queue

    def envelope(self, entry: QueueEntry, now: int) -> Message | None:
        """Return an envelope, if there is room for it."""
        size = _needed(entry)
        message: Message | None = None
        refusal = self._window.too_much()
        try:
            if self._bytes + size <= self._window.bytes_max and self._window.make_room(self._queue(), size, now):
                message = kept_message(entry, self._facts, now)
                refusal = self.place().refusal(message)
        except (ContentUnavailable, CoreError) as error:
            refusal = str(error)
        if message is None or refusal:
            self.not_kept(1, refusal)
            return None
        self._bytes += message.size
        self.kept += 1
        return message

    def put_definition(self, definition: QueueDefinition, now: int) -> None:
        """Keep what the queue was, if there is room for it."""
        message = definition_message(definition, self._facts, now, durable=definition.durable)
        refusal = self._window.too_much()
        if self._window.make_room(self._queue(), message.size, now):
            refusal = self.place().refusal(message)
        if refusal:
            self.reason = self.reason or f"its definition is not kept: {refusal}"
        else:
            self.place().put(message, now)

    def effort(self) -> int:
        """Count each message that gave way as one of a slice."""
        before, self._dropped = self._dropped, self._window.dropped
        return (self._dropped - before) * (SLICE_BYTES // SLICE_MESSAGES)

    def moved(
        self, destination: Queue, message: Message, sequence: int, priority: int = NO_PRIORITY, *, former: int = 0
    ) -> None:
        """Note it for the end of the slice."""
        runs = self._runs.setdefault((destination, message.durable and destination.durable, priority), [])
        if not (runs and runs[-1].take(sequence, former)):
            runs.append(Run(destination.name, sequence, 1, destination.queue_id, priority, former))

    def end_slice(self, now: int) -> None:
        """Put notes of the slice's moved messages into the undo queue: one of durable ones, one of others."""
        by_queue, self._runs = self._runs, {}
        for durable in (True, False):
            runs = [run for (_, lasting, _), found in by_queue.items() if lasting == durable for run in found]
            if runs:
                self._note(runs, now, durable=durable)

    def _note(self, runs: list[Run], now: int, *, durable: bool) -> None:
        count = sum(run.count for run in runs)
        message = moved_message(runs, self._facts, now, durable=durable)
        try:
            refusal = "" if self._window.make_room(self._queue(), message.size, now) else "the undo queue is full"
            refusal = refusal or self.place().refusal(message)
            if not refusal:
                self.place().put(message, now)
        except Exception as error:  # noqa: BLE001 - of the log: the messages are moved, and that is counted and said
            refusal = str(error)
        if refusal:
            self.not_kept(count, refusal)
        else:
            self.kept += count

    def not_kept(self, count: int, reason: str) -> None:
        """Count them in the window too."""
        super().not_kept(count, reason)
        self._window.unkept += count


class _Summary(Look):
    """Adds up the messages of the undo queue, by operation on one queue; of one operation with all ids."""

    def __init__(self, kept_in: Queue, queue: str, host: VirtualHost | None = None, token: str = "") -> None:
        self.found_by: dict[str, Undoable] = {}
        self._of = queue
        self._host = host
        quoted = token.replace("'", "''")
        wanted = select(selector=f"undo = '{quoted}'") if token else select(everything=True)
        super().__init__(kept_in, wanted, None, _ALL)
        if token:
            self.looks_max = _ALL

    def show(self, entry: QueueEntry) -> bool:
        """Add it up."""
        message = entry.message
        facts = read_facts(message)
        if facts.queue != self._of:
            return False
        self.found_by.setdefault(facts.token, Undoable(facts)).add(message, self._host)
        return self._host is not None and message.absent


def describe_undoable(item: Undoable, window: UndoWindow) -> dict[str, Any]:
    """Return what can be undone as JSON. ``until``: milliseconds since 1970."""
    return {
        "undo": item.facts.token,
        "operation": item.facts.operation,
        "queue": item.facts.queue,
        "user": item.facts.user,
        "at": item.facts.at,
        "until": item.facts.at + window.seconds * 1000,
        "count": item.count,
        "kept": item.kept,
        "bytes": item.bytes,
        "moved": item.moved_count,
        "definition": item.definition is not None,
    }
