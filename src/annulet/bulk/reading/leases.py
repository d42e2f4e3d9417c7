"""The lease manager: open, extend, fetch, acknowledge, renew, release (spark-notes §3). Lives on the broker's loop.

Order of writing, and why a crash in between is harmless:

* extend: messages reach the log (``durable()``), then their positions reach the catalogue, then the caller is answered.
  A crash before the catalogue: the messages are pending again, and no client has seen them.
* acknowledge: settlements reach the log (``durable()``), then the catalogue's positions are dropped. A crash in between
  leaves positions without messages that the query has finished; the query repeats the acknowledgement.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.durability.leased import SEQUENCE_MASK, LeaseSum, unpack_positions
from annulet.broker.security.authentication import User
from annulet.bulk.protocol.errors import (
    InvalidRequestError,
    LeaseFencedError,
    LeaseGoneError,
    NotFoundError,
    RefusedError,
)
from annulet.bulk.reading.acquisition import SLICE, Room, acquire, make_durable, stop_choosing
from annulet.bulk.reading.adoption import (
    LeaseRequest,
    check_queue,
    check_request,
    check_takeover,
    continue_lease,
    continue_without,
)
from annulet.bulk.reading.lease import CompactDelivery, Lease, pack_positions, unpack
from annulet.bulk.reading.rejection import mark_rejected
from annulet.core.base.errors import CoreError, NotFound
from annulet.store.database.definitions import LeaseRange

if TYPE_CHECKING:
    from annulet.broker.broker import Broker
    from annulet.bulk.protocol.schema import Row
    from annulet.core.queue.queue import Queue

logger = structlog.get_logger(__name__)

GENERATED_LEASE_IDLE_MAX: Final = 6 * 3600 * 1000
"""Milliseconds after which an unused lease with a generated name returns its messages.

Only its own checkpoint can continue it; six hours are longer than a night's maintenance. A lease named by the user has
no limit.
"""

GENERATION_BITS: Final = 48
"""Bits of the number a new lease's generations start from, at random: two leases of one name never share one."""

LEASES_MAX: Final = 10_000
"""Leases of a broker. Each costs a few hundred bytes; more mean that jobs generate names without ever reusing them."""


SLICE_COUNTED: Final = 20_000
"""Leased messages whose sizes are added up before other work gets a turn: 3 to 5 ms."""


class LeaseManager:
    """All leases of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._leases: dict[tuple[str, str], Lease] = {}
        self._used_by: dict[tuple[str, str], User] = {}  # the user that used a lease last

    # ------------------------------------------------------------------ start

    def restore(self) -> None:
        """Put the messages of the catalogue's leases back into delivery. Before any client may connect."""
        catalogue = self._broker.catalogue
        now = self._broker.clock()
        for record in catalogue.leases():
            host = self._broker.hosts.get(record.virtual_host)
            queues = {} if host is None else {queue.queue_id: queue for queue in host.queues.values()}
            queue = queues.get(record.queue_id)
            if queue is None:
                logger.warning("lease dropped: its queue is gone", lease=record.name, host=record.virtual_host)
                catalogue.delete_lease(record.virtual_host, record.name)
                continue
            lease = Lease(record.virtual_host, record.name, queue, generated=record.generated, now=record.created_at)
            lease.generation = record.generation
            lease.owner = record.owner
            lease.user = record.user
            if record.user:
                self._used_by[record.virtual_host, record.name] = User(record.user)
            lease.active_at = now  # the time the broker was down does not count as inactivity
            lease.acknowledged = record.acknowledged
            lease.last = record.last
            self._restore_held(lease)
            self._enter(lease)

    def _restore_held(self, lease: Lease) -> None:
        recovered = {entry.sequence: entry for entry in lease.queue.leased_entries()}
        for span in self._broker.catalogue.lease_ranges(lease.host, lease.name):
            for position, packed in enumerate(unpack_positions(span.sequences), span.first):
                entry = recovered.get(packed & SEQUENCE_MASK)
                if entry is not None and position > lease.acknowledged:
                    lease.take_in(position, [unpack(packed, entry)])
        logger.info("lease restored", lease=lease.name, queue=lease.queue_name, held=len(lease.held), last=lease.last)

    # ------------------------------------------------------------------ open

    async def open(self, request: LeaseRequest) -> dict[str, int]:
        """Create or find a lease and hand out a new generation: from now on older ones are refused.

        Returns generation, position (where a fresh checkpoint starts) and gap (positions that are lost to this
        checkpoint, only with ``fail_on_data_loss`` false). Raises :class:`LeaseInUseError`, :class:`LeaseGoneError`
        and others.
        """
        check_request(request)
        key = request.host, request.name
        opened: dict[str, int] | None = None
        while opened is None:
            lease = self._leases.get(key)
            if lease is None:
                opened = self._open_new(request)
            else:
                async with lease.lock:  # of this lease alone: an extend that walks a deep queue has it for seconds
                    opened = await self._open_existing(request, lease)
        logger.info("lease opened", lease=request.name, queue=request.queue, **opened)
        return opened

    def _open_new(self, request: LeaseRequest) -> dict[str, int]:
        """Create the lease. Without a wait, so that no other open can create one of this name meanwhile."""
        lease = self._create(request)
        if not request.fresh:
            continue_without(request, lease)
        opened = self._hand_out(request, lease, 0)
        self._enter(lease)
        return opened

    async def _open_existing(self, request: LeaseRequest, lease: Lease) -> dict[str, int] | None:
        """Open a lease that is there, under its lock. None if it ended during the wait for that: its name is free."""
        if lease.released:
            return None
        if lease.queue.deleted:
            await self._forget(lease, "its queue was deleted")
            return None
        return self._hand_out(request, lease, await self._adopt(request, lease))

    def _hand_out(self, request: LeaseRequest, lease: Lease, gap: int) -> dict[str, int]:
        """Give the lease's next generation to this checkpoint."""
        lease.generation += 1
        lease.opener = request.owner
        if not request.fresh:
            lease.owner = request.owner
        lease.active_at = self._broker.clock()
        lease.gaps.note(request.position - gap, request.position)
        self._broker.catalogue.set_lease(lease.record())
        return {"generation": lease.generation, "position": lease.acknowledged, "gap": gap}

    def _enter(self, lease: Lease) -> None:
        self._leases[lease.key] = lease
        lease.queue.add_lease(lease.key)

    def _create(self, request: LeaseRequest) -> Lease:
        if len(self._leases) >= LEASES_MAX:
            raise RefusedError(f"{LEASES_MAX} leases exist; release those that no query comes back to")
        queue = self.queue(request.host, request.queue)
        check_queue(queue)
        try:
            self._broker.hosts[request.host].check_consumer(queue, exclusive=False)
        except CoreError as error:
            raise RefusedError(str(error)) from error
        lease = Lease(request.host, request.name, queue, generated=request.generated, now=self._broker.clock())
        # Positions start again, so a run with an earlier lease of this name must not be accepted for this one.
        lease.generation = secrets.randbits(GENERATION_BITS)
        return lease

    async def _adopt(self, request: LeaseRequest, lease: Lease) -> int:
        """Give the existing lease of this name to this checkpoint if it is allowed to have it. Returns the gap."""
        if not request.fresh:
            return continue_lease(request, lease)
        check_takeover(request, lease)
        if request.on_existing == "release":
            await self._give_back(lease)
        lease.owner = ""
        return 0

    # ------------------------------------------------------------------ extend and acknowledge

    async def extend(  # noqa: PLR0913 - one keyword per field of the request
        self,
        host: str,
        name: str,
        generation: int,
        start: int,
        *,
        messages_max: int = -1,
        bytes_max: int = -1,
        last_sequence: int = -1,
        selector: str = "",
        fail_on_data_loss: bool = True,
    ) -> int:
        """Acknowledge up to ``start``, then offer positions above it: those already leased first, then new messages.

        At most ``messages_max`` positions and ``bytes_max`` body bytes (-1: no limit; one message always fits); new
        ones only up to the queue's sequence number ``last_sequence`` (-1: no limit), and only what ``selector`` admits.
        Returns the end position; ``start`` when there is nothing, or nothing was found yet. Repeatable for one
        ``start``. Everything is durable when this returns.
        """
        lease = self._lease(host, name, generation)
        async with lease.lock:
            self._fence(lease, generation)
            self._refuse_deleted(lease)
            self._check_start(lease, start, fail_on_data_loss=fail_on_data_loss)
            settled = await self._settle(lease, start)
            end, size = await self._offered(lease, start, messages_max, bytes_max)
            taken: list[CompactDelivery] = []
            full = end > start and (messages_max == end - start or 0 <= bytes_max <= size)
            try:
                if end == lease.last and not full and last_sequence != 0:
                    rest = Room(
                        -1 if messages_max < 0 else messages_max - (end - start),
                        -1 if bytes_max < 0 else bytes_max - size,
                        max(last_sequence, 0),
                    )
                    await acquire(self._broker, lease, taken, rest, selector)
                if settled or taken:
                    await self._register(lease, start, taken)
            except BaseException:  # no client was told of these messages, so they return
                self._return(lease, taken)
                raise
            lease.active_at = self._broker.clock()
        return end + len(taken)

    def looking(self, host: str, name: str, last_sequence: int) -> bool:
        """Return whether a deep backlog has more to examine, up to ``last_sequence`` (-1: no limit), for a lease
        without a message so far: by its selector, or past messages of other consumers' groups.
        """
        lease = self._find(host, name)
        if lease.taker is None:
            return lease.walking
        return lease.taker.looking(max(last_sequence, 0))

    async def acknowledge(self, host: str, name: str, generation: int, upto: int) -> None:
        """Everything up to ``upto`` is done. Cumulative and repeatable; durable when this returns."""
        lease = self._lease(host, name, generation)
        async with lease.lock:
            self._fence(lease, generation)
            if upto > lease.last:
                raise InvalidRequestError(
                    f"lease {name!r}: position {upto} cannot be acknowledged, {lease.last} is the last one given out"
                )
            lease.active_at = self._broker.clock()
            if await self._settle(lease, upto):
                await self._register(lease, upto, [])

    async def reject(self, host: str, name: str, positions: Collection[int]) -> int:
        """Have these positions rejected instead of acknowledged when they are done; see :func:`mark_rejected`."""
        lease = self._find(host, name)
        async with lease.lock:
            self._refuse_released(lease)
            self._refuse_deleted(lease)
            return mark_rejected(self._broker.catalogue, lease, positions)

    async def _settle(self, lease: Lease, upto: int) -> bool:
        """Acknowledge leased messages in slices; return whether anything changed. Does not wait for the log."""
        lease.gaps.forget(upto)
        if upto <= lease.acknowledged:
            return False
        done = [position for position in lease.held if position <= upto]
        for number, position in enumerate(done, 1):
            message = lease.let_go(position)
            if message.rejected:
                lease.queue.reject(message.entry, self._broker.clock())
            else:
                lease.queue.acknowledge(message.entry)
            if number % SLICE == 0:
                await asyncio.sleep(0)
        lease.queue.wake(self._broker.clock())
        return True

    async def _offered(self, lease: Lease, start: int, messages_max: int, bytes_max: int) -> tuple[int, int]:
        """Walk over the leased messages above ``start``, within the limits, in slices. Returns end and body bytes."""
        end, size = start, 0
        while end < lease.last and not 0 <= messages_max <= end - start:
            message = lease.held.get(end + 1)
            length = 0 if message is None else message.entry.message.size
            if end > start and 0 <= bytes_max < size + length:
                break
            size += length
            end += 1
            if (end - start) % SLICE_COUNTED == 0:
                await asyncio.sleep(0)
        return end, size

    async def _register(self, lease: Lease, upto: int, taken: list[CompactDelivery]) -> None:
        """Make settlements and new messages durable in the log, then the positions in the catalogue.

        In slices up to the step in which they become the lease's: that one takes 10 ms for 200,000.
        """
        packed: list[bytes] = []
        for first in range(0, len(taken), SLICE):
            if first:
                await asyncio.sleep(0)
            following = taken[first : first + SLICE]
            for message in following:  # once more: a failed transaction removed the record of its own message
                make_durable(self._broker, lease, message.entry)
            packed.append(pack_positions(following))
        for message in [message for message in taken if not message.entry.message.record]:  # during the slices
            make_durable(self._broker, lease, message.entry)
        await self._broker.commit.durable()
        self._refuse_deleted(lease)
        before = lease.acknowledged, lease.last
        first = lease.last + 1
        lease.acknowledged, lease.last = max(lease.acknowledged, upto), lease.last + len(taken)
        catalogue = self._broker.catalogue
        try:
            with catalogue.transaction():
                catalogue.set_lease(lease.record())
                if upto > before[0]:
                    catalogue.delete_lease_ranges(lease.host, lease.name, upto)
                if taken:
                    catalogue.add_lease_range(lease.host, lease.name, LeaseRange(first, lease.last, b"".join(packed)))
        except BaseException:
            lease.acknowledged, lease.last = before
            raise
        lease.take_in(first, taken)

    @staticmethod
    def _refuse_deleted(lease: Lease) -> None:
        if lease.queue.deleted:
            raise LeaseGoneError(
                f"lease range gone: queue {lease.queue_name!r} was deleted while lease {lease.name!r} read it. "
                "Declare it again and start with a new checkpoint, or set failOnDataLoss=false and restart the query"
            )

    def _check_start(self, lease: Lease, start: int, *, fail_on_data_loss: bool) -> None:
        if start < 0:
            raise InvalidRequestError(f"lease {lease.name!r}: start {start} is no position")
        if start > lease.last:
            raise InvalidRequestError(f"lease {lease.name!r}: start {start} is above its last position {lease.last}")
        if start < lease.acknowledged and fail_on_data_loss:
            raise LeaseGoneError(
                f"lease range gone: positions {start + 1} to {lease.acknowledged} of lease {lease.name!r} were "
                "acknowledged "
                "already; the checkpoint is older than the lease. Start with a new checkpoint, or set "
                "failOnDataLoss=false"
            )

    # ------------------------------------------------------------------ fetch

    async def fetch(
        self, host: str, name: str, owner: str, after: int, upto: int, *, fail_on_data_loss: bool
    ) -> list[Row]:
        """Return the rows of positions ``(after, upto]``, in order. Repeatable; an old generation may still read.

        Very many are made in slices.

        The first read of a batch claims the lease for its checkpoint. Raises :class:`LeaseGoneError` if a message is
        not leased any more, unless ``fail_on_data_loss`` is false: then it is left out and counted.
        """
        lease = self._find(host, name)
        if lease.owner == "" and lease.opener in ("", owner):
            lease.owner = owner
            try:
                self._broker.catalogue.set_lease(lease.record())
            except BaseException:  # a claim that a crash would undo is none
                lease.owner = ""
                raise
        elif lease.owner != owner:
            raise LeaseFencedError(f"lease {name!r} was taken over by another checkpoint; this query must stop")
        lease.active_at = self._broker.clock()
        rows: list[Row] = []
        found = lease.messages(after, upto)
        for first in range(0, len(found), SLICE):
            if first:
                await asyncio.sleep(0)
            rows += [message.row(position) for position, message in found[first : first + SLICE] if message.alive]
        missing = upto - after - len(rows)
        if missing and fail_on_data_loss:
            raise LeaseGoneError(
                f"lease range gone: {missing} of positions {after + 1} to {upto} of lease {name!r} are not held "
                "any more: "
                "acknowledged, released, expired, or their queue was deleted. Start with a new checkpoint, or set "
                "failOnDataLoss=false to go on with the rest"
            )
        if lease.gaps.note(after, upto, [row.position for row in rows]):
            logger.warning("lease positions lost", lease=name, after=after, upto=upto, missing=missing)
        return rows

    # ------------------------------------------------------------------ upkeep

    def renew(self, host: str, name: str, generation: int) -> None:
        """Keep an idle lease from expiring."""
        self._lease(host, name, generation).active_at = self._broker.clock()

    async def release(self, host: str, name: str) -> int:
        """End a lease by hand: its messages return to their places in the queue. Returns their number.

        Raises :class:`LeaseGoneError` if there is none, or if it ended while this waited: a lease that was opened
        under its name since then is another one.
        """
        lease = self._find(host, name)
        async with lease.lock:
            self._refuse_released(lease)
            count = len(lease.held)
            await self._forget(lease, "released")
        return count

    async def end(self, host: str, name: str) -> int:
        """As :meth:`release`, for the API of operators. Raises :class:`~annulet.core.base.errors.NotFound`."""
        try:
            return await self.release(host, name)
        except LeaseGoneError as error:
            raise NotFound(str(error)) from error

    def note_user(self, host: str, name: str, user: User) -> None:
        """Remember by which user a lease was used, over restarts, too."""
        lease = self._leases.get((host, name))
        if lease is None:
            return
        self._used_by[host, name] = user
        if lease.user != user.name:
            lease.user = user.name
            self._broker.catalogue.set_lease(lease.record())

    async def revoke(self, gone: Callable[[User], bool]) -> int:
        """End the leases that users that are gone used last: their messages return. Returns how many."""
        count = 0
        for host, name in [key for key, user in self._used_by.items() if gone(user)]:
            with contextlib.suppress(LeaseGoneError):  # it ended meanwhile
                await self.release(host, name)
                count += 1
        return count

    async def expire(self) -> int:
        """End the leases that were idle for longer than their limit. Returns how many."""
        count = 0
        for lease in [lease for lease in self._leases.values() if self._is_over(lease) and not lease.lock.locked()]:
            async with lease.lock:
                if not lease.released and self._is_over(lease):  # the leases before it took some time
                    await self._forget(lease, "queue deleted" if lease.queue.deleted else "idle for too long")
                    count += 1
        return count

    def _is_over(self, lease: Lease) -> bool:
        idle = self._broker.clock() - lease.active_at
        return lease.queue.deleted or (lease.generated and idle > GENERATED_LEASE_IDLE_MAX)

    async def _forget(self, lease: Lease, why: str) -> None:
        """Drop the lease, which has not ended yet, under its lock: from the catalogue first.

        A crash in between leaves its messages pending, as they should be.
        """
        held = len(lease.held)
        self._broker.catalogue.delete_lease(lease.host, lease.name)
        lease.released = True
        stop_choosing(lease, self._broker.clock())
        self._leases.pop(lease.key, None)
        self._used_by.pop(lease.key, None)
        lease.queue.end_lease(lease.key, self._broker.clock())
        self._return(lease, lease.let_all_go())
        await self._broker.commit.durable()
        logger.info("lease ended", lease=lease.name, queue=lease.queue_name, why=why, returned=held)

    async def _give_back(self, lease: Lease) -> None:
        """Return all leased messages and continue with unused positions."""
        held = lease.let_all_go()
        lease.acknowledged = lease.last
        catalogue = self._broker.catalogue
        with catalogue.transaction():
            catalogue.set_lease(lease.record())
            catalogue.delete_lease_ranges(lease.host, lease.name, lease.last)
        self._return(lease, held)
        await self._broker.commit.durable()

    def _return(self, lease: Lease, held: list[CompactDelivery]) -> None:
        lease.queue.return_entries([message.entry for message in held], self._broker.clock())

    # ------------------------------------------------------------------ looking up

    def queue(self, host_name: str, name: str) -> Queue:
        """Return a queue that may be read. Raises :class:`NotFoundError`, :class:`RefusedError`."""
        host = self._broker.hosts.get(host_name)
        if host is None:
            raise NotFoundError(f"no virtual host {host_name!r}; write it percent-encoded behind the port of the url")
        if name not in host.queues:
            raise NotFoundError(
                f"no queue {name!r} in virtual host {host_name!r}: declare it first, or correct the option"
            )
        try:
            return host.queue_for(name)
        except CoreError as error:
            raise RefusedError(str(error)) from error

    def queue_of(self, host: str, name: str) -> str:
        """Return the name of a lease's queue, for permission checks. Raises :class:`LeaseGoneError`."""
        return self._find(host, name).queue_name

    def group_key_of(self, host: str, name: str) -> str:
        """Return the property that names the groups of a lease's queue; empty is the protocol's group id."""
        return self._find(host, name).queue.settings.group_key

    def status(self, host: str, name: str) -> dict[str, object]:
        """Describe one lease."""
        return self._find(host, name).status(self._broker.clock())

    def of_queue(self, queue: Queue) -> list[dict[str, object]]:
        """Describe the leases of a queue, by name."""
        now = self._broker.clock()
        return [self._leases[key].status(now) for key in sorted(queue.leases)]

    def statistics(self, host: str | None = None) -> list[dict[str, object]]:
        """Describe all leases, for the queues' statistics."""
        now = self._broker.clock()
        return [lease.status(now) for lease in self._leases.values() if host in (None, lease.host)]

    def sums(self) -> dict[tuple[str, str], LeaseSum]:
        """Return the figures of the queues that have leases, by virtual host and name. O(leases)."""
        found: dict[tuple[str, str], LeaseSum] = {}
        for lease in self._leases.values():
            place = lease.host, lease.queue_name
            before = found.get(place, LeaseSum(0, 0, lease.created_at))
            oldest = min(before.oldest_created_at, lease.created_at)
            found[place] = LeaseSum(before.leases + 1, before.messages + len(lease.held), oldest)
        return found

    def _find(self, host: str, name: str) -> Lease:
        lease = self._leases.get((host, name))
        if lease is None:
            raise LeaseGoneError(
                f"lease range gone: lease {name!r} does not exist in virtual host {host!r}; it was released or "
                "expired. "
                "Start with a new checkpoint, or set failOnDataLoss=false and restart the query"
            )
        return lease

    def _lease(self, host: str, name: str, generation: int) -> Lease:
        lease = self._find(host, name)
        self._fence(lease, generation)
        return lease

    @staticmethod
    def _refuse_released(lease: Lease) -> None:
        if lease.released:
            raise LeaseGoneError(f"lease range gone: lease {lease.name!r} was released or expired")

    def _fence(self, lease: Lease, generation: int) -> None:
        self._refuse_released(lease)
        if generation != lease.generation:
            raise LeaseFencedError(
                f"lease {lease.name!r} was taken over: this run has generation {generation}, the current one is "
                f"{lease.generation}. Another run of the query is alive; this one must stop"
            )
