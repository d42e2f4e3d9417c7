"""Taking messages out of a queue for a lease, all or those a selector admits, and storing them for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from annulet.bulk.protocol.errors import InvalidRequestError, UnavailableError
from annulet.bulk.reading.lease import CompactDelivery, Lease, hold
from annulet.bulk.reading.taker import SelectorTaker, check_selectable
from annulet.core.base.errors import CoreError
from annulet.core.deliveries.bodies import exchange
from annulet.core.host.retroactive import copy_of
from annulet.core.queue.pull_waits import PullWaiter

if TYPE_CHECKING:
    from annulet.broker.broker import Broker
    from annulet.core.model.entry import QueueEntry

SLICE: Final = 2000
"""Messages acquired or settled before other work gets a turn: about 10 ms."""

LOOK_PAUSE_SECONDS: Final = 0.005
"""Between two looks whether a selector found something in a deep backlog: the length of a turn of its walk."""

LOOK_SECONDS: Final = 5.0
"""Longest wait of one call for that, or for a walk past messages of other consumers' groups.

The client repeats the call, so that neither side considers the other dead.
"""


@dataclass(frozen=True, slots=True)
class Room:
    """How much may be taken: messages and body bytes (-1: no limit), and up to which sequence (0: no limit)."""

    messages: int
    bytes: int
    last_sequence: int


async def acquire(broker: Broker, lease: Lease, taken: list[CompactDelivery], room: Room, selector: str) -> None:
    """Take messages from the lease's queue into ``taken``, in slices, and store unstored ones.

    One message always fits. In a deep backlog it waits for the first message that a selector admits, or whose group has
    no consumer, :data:`LOOK_SECONDS` at most; ``lease.walking``: for the latter that was not long enough. Raises
    :class:`InvalidRequestError` for an invalid selector, :class:`RefusedError` on a queue that does not support one.
    """
    if not selector:
        stop_choosing(lease, broker.clock())
        await _acquire_all(broker, lease, taken, room)
        return
    lease.walking = False
    taker = _taker(broker, lease, selector)
    try:
        await _acquire_chosen(broker, lease, taker, taken, room)
    except BaseException:
        taker.withdraw(broker.clock())
        raise


def stop_choosing(lease: Lease, now: int) -> None:
    """Let the lease take everything again."""
    if lease.taker is not None:
        lease.taker.close(now)
        lease.taker = None


def make_durable(broker: Broker, lease: Lease, entry: QueueEntry) -> None:
    """Store a transient message for this lease alone: a replay after a crash of the broker must find it.

    A copy, since the original may be in other queues, which would settle a record that does not belong to them.
    """
    message = entry.message
    if message.record:
        return
    if not broker.accepts_durable(message.size + len(message.header), broker.clock()):
        raise UnavailableError(
            f"queue {lease.queue_name!r}: the disk has no room to keep transient messages for a lease"
        )
    copy = copy_of(message)
    accounts = lease.queue.accounts
    if accounts is not None:
        accounts.replaced(entry, copy)
        accounts.released(entry)
    exchange(entry, copy)
    lease.queue.effects.store(copy, [entry])


async def _acquire_all(broker: Broker, lease: Lease, taken: list[CompactDelivery], room: Room) -> None:
    """Take the first messages. While none was found and there is more to walk past, wait for it."""
    size = 0
    walk = _Walk(broker, lease, room.last_sequence)
    while room.messages < 0 or len(taken) < room.messages:
        slice_max = SLICE if room.messages < 0 else min(SLICE, room.messages - len(taken))
        rest = -1 if room.bytes < 0 else room.bytes - size
        if taken and room.bytes >= 0 and rest <= 0:
            return
        entries = lease.queue.acquire(slice_max, rest, broker.clock(), last_sequence=room.last_sequence)
        taken += [hold(entry) for entry in entries]  # all of them, before anything can fail
        for entry in entries:
            size += entry.message.size
            make_durable(broker, lease, entry)
        if len(entries) < slice_max:
            if taken or not await walk.goes_on():
                return
            continue
        await asyncio.sleep(0)


class _Walk(PullWaiter):
    """A lease that pulled in vain from a deep grouped queue and waits for the walk behind its pull.

    It waits for messages up to ``last_sequence`` (0: no limit) or the queue's present end, not for later arrivals.
    """

    def __init__(self, broker: Broker, lease: Lease, last_sequence: int) -> None:
        self._broker = broker
        self._lease = lease
        self._upto = last_sequence + 1 if last_sequence else lease.queue.next_sequence
        self._deadline = broker.loop.time() + LOOK_SECONDS
        self._ended = asyncio.Event()
        lease.walking = False

    def look_again(self) -> None:
        """Let the lease pull again."""
        self._ended.set()

    async def goes_on(self) -> bool:
        """Wait until the lease should pull again. False: there is nothing for it, or it took too long."""
        queue = self._lease.queue
        self._ended.clear()
        if not queue.await_pull(self, self._upto, self._broker.clock()):
            return False
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._ended.wait()
        except TimeoutError:
            self._lease.walking = True
            return False
        finally:
            queue.stop_awaiting(self)
        return True


async def _acquire_chosen(
    broker: Broker, lease: Lease, taker: SelectorTaker, taken: list[CompactDelivery], room: Room
) -> None:
    """Take matches; while none was found and there is more to examine, wait for it."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LOOK_SECONDS
    size = 0
    while True:
        slice_max = SLICE if room.messages < 0 else min(SLICE, room.messages - len(taken))
        rest = -1 if room.bytes < 0 else room.bytes - size
        looking = taker.looking(room.last_sequence)  # before, so that matches found in the meantime are not missed
        entries = taker.take(slice_max, rest, room.last_sequence, broker.clock())
        taken += [hold(entry) for entry in entries]  # all of them, before anything can fail
        for entry in entries:
            size += entry.message.size
            make_durable(broker, lease, entry)
        full = len(taken) == room.messages or 0 <= room.bytes <= size
        if full or (taken and len(entries) < slice_max) or (not taken and not (looking and loop.time() < deadline)):
            return
        if entries:
            await asyncio.sleep(0)
        else:
            taker.open(slice_max, rest)
            await asyncio.sleep(LOOK_PAUSE_SECONDS)


def _taker(broker: Broker, lease: Lease, selector: str) -> SelectorTaker:
    """Return the taker of this lease; a new one if the query was restarted with another selector."""
    taker = lease.taker
    if taker is not None and taker.selector == selector and not taker.cancelled:
        return taker
    check_selectable(lease.queue)
    stop_choosing(lease, broker.clock())
    try:
        lease.taker = SelectorTaker(lease.queue, lease.name, selector, broker.clock())
    except CoreError as error:
        raise InvalidRequestError(f"option selector: {error}") from error
    return lease.taker
