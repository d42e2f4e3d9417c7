"""Staged publishes: all rows of a batch at once, once, or not at all (spark-notes §4). Lives on the broker's loop.

The stages of a commit become one log transaction that has (query id, batch id) as its outcome. When it is durable the
mark of the query is raised in the catalogue, then the stages are deleted. A crash before the commit record: nothing was
published, the commit is repeated. After it: recovery finds the outcome, and the repeated commit is answered as done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.durability.effects import HostEffects
from annulet.broker.network.unfinished import commit_limit
from annulet.bulk.protocol.errors import NotFoundError, PermissionDeniedError, RefusedError, UnavailableError
from annulet.bulk.writing.commit_room import CommitRoom, commit_bytes
from annulet.bulk.writing.encoding import Destination, PendingMessage, WriteDefaults, encode_rows
from annulet.bulk.writing.row_filling import RowFilling
from annulet.bulk.writing.stages import StageKey, StageStore
from annulet.core.base.errors import CoreError, LimitExceeded, RoutingTooLong
from annulet.core.host.commit_plan import OPERATION_STEPS
from annulet.core.host.send_plan import Claims
from annulet.core.message.message import Origin
from annulet.core.policies.staged_batches import Batches, HiddenBatch, take_back
from annulet.wire.amqp091.messages.properties import VIEW

if TYPE_CHECKING:
    from annulet.broker.broker import Broker
    from annulet.broker.settings.clock import Clock
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import Message
    from annulet.core.routing.routes import Route

logger = structlog.get_logger(__name__)

SLICE: Final = 1000
"""Messages of a commit that are looked up, promised room or published in one turn of the loop: about 5 ms. A further
queue of a message counts as one more, and so does a long way to it.

Between two turns other clients are served; the batch is invisible until the commit is durable.
"""

COMMIT_MESSAGES_MAX: Final = 2_000_000
"""Messages of one commit: looking up their routes and reserving room takes some seconds for this many."""

RECORD_OVERHEAD: Final = 256
"""Bytes the log may need of a message beside header and body: record header, names, targets, and the settlement of a
replaced message. Rather too much than a batch that fails half-way on a full disk."""


NO_BATCH: Final = -1
"""Mark of a query id of which no batch counts as published."""


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """The request of a sink at the end of a batch. ``stages`` in partition order.

    ``query`` is the id with its user and virtual host, ``former`` the name its marks had before ids belonged to a user.
    """

    host: str
    query: str
    former: str
    batch: int
    stages: tuple[str, ...]
    defaults: WriteDefaults
    mandatory: bool  # a row without a queue refuses the whole commit; else it is dropped and counted
    publisher: str  # "user@peer" for the loss ledger


class Publisher:
    """Commits staged publishes."""

    def __init__(self, broker: Broker, stages: StageStore) -> None:
        self._broker = broker
        self._stages = stages
        self.room = CommitRoom(commit_limit(broker.configuration))
        self._locks: dict[str, _QueryLock] = {}  # by query, while commits of it run or wait
        self.commits = 0
        self.messages = 0
        self.unroutable = 0

    def restore(self) -> None:
        """Raise the marks of batches whose commit reached the log, but not the catalogue, before the broker ended."""
        catalogue = self._broker.catalogue
        with catalogue.transaction():
            for query, batch in self._broker.log.outcomes.items():
                mark = catalogue.publish_mark(query)
                if mark is None or mark < batch:
                    catalogue.set_publish_mark(query, batch, self._broker.clock())

    async def commit(self, request: CommitRequest, may_write: Callable[[str], bool]) -> dict[str, int]:
        """Publish the batch unless it was published before. Returns messages published and unroutable.

        ``may_write`` tells whether the user may write to an exchange. Raises :class:`NotFoundError`,
        :class:`PermissionDeniedError`, :class:`RefusedError` with nothing published, :class:`UnavailableError` if it
        should be tried again. Durable and visible when this returns; invisible before.
        """
        lock = self._locks.setdefault(request.query, _QueryLock())
        lock.users += 1
        try:
            async with lock.lock:
                return await self._commit(request, may_write)
        finally:
            lock.users -= 1
            if not lock.users:  # a lock with waiters must not be replaced by a new one
                del self._locks[request.query]

    async def _commit(self, request: CommitRequest, may_write: Callable[[str], bool]) -> dict[str, int]:
        broker = self._broker
        if await self._published(request):
            logger.warning("a batch was published before, and is dropped", query=request.query, batch=request.batch)
            await asyncio.to_thread(self._stages.drop_batches, request.query, request.batch)
            return {"messages": 0, "unroutable": 0, "repeated": 1}
        host = broker.hosts.get(request.host)
        if host is None:
            raise NotFoundError(f"no virtual host {request.host!r}")
        with self._stages.pinned([StageKey(request.query, stage) for stage in request.stages]):
            async with self.room.taken(await asyncio.to_thread(self._weigh, request)):
                counts = await self._publish_rows(host, request, may_write)
        if not counts["messages"] and not counts["unroutable"]:
            return counts
        await broker.commit.durable()
        broker.catalogue.set_publish_mark(request.query, request.batch, broker.clock())
        await asyncio.to_thread(self._stages.drop_batches, request.query, request.batch)
        self.commits += 1
        self.messages += counts["messages"]
        self.unroutable += counts["unroutable"]
        broker.unroutable += counts["unroutable"]
        return counts

    async def _publish_rows(
        self, host: VirtualHost, request: CommitRequest, may_write: Callable[[str], bool]
    ) -> dict[str, int]:
        """Read the rows, and put them into their queues, hidden. Returns messages published and unroutable."""
        pending, size = await asyncio.to_thread(self._read, request)
        if not pending:  # a mark without a row would have needed no permission to write
            return {"messages": 0, "unroutable": 0, "repeated": 0}
        routes = _Routes(host, may_write, request)
        messages, unroutable = await self._resolve(routes, pending)
        async with _turn_of(host.batches):  # one batch at a time is put into queues, so they are shown in that order
            self._check_room(size, host, messages)
            claims = Claims()
            turn = _Turn(host)
            for item, route in messages:
                if turn.over():
                    await asyncio.sleep(0)
                    turn.begin()
                turn.spend(_promise(host, item.message, route, claims))
            unroutable += await self._publish(host, messages, routes.current(), (request.query, request.batch))
        return {"messages": len(messages), "unroutable": unroutable, "repeated": 0}

    async def _published(self, request: CommitRequest) -> bool:
        """Return whether the batch was published.

        The log has this before the catalogue, which may have refused the mark.
        """
        broker = self._broker
        query, batch = request.query, request.batch
        mark = broker.catalogue.publish_mark(query)
        if mark is not None and batch <= mark:
            return True
        logged = broker.log.outcomes.get(query)
        if mark is None and logged is None:
            return batch <= self._former_mark(request.former)
        if logged is None or batch > logged:
            return False
        await broker.commit.durable()
        broker.catalogue.set_publish_mark(query, logged, broker.clock())
        return True

    async def _resolve(
        self, routes: _Routes, pending: list[PendingMessage]
    ) -> tuple[list[tuple[PendingMessage, Route]], int]:
        messages: list[tuple[PendingMessage, Route]] = []
        unroutable = 0
        turn = _Turn(routes.host)
        for item in pending:
            if turn.over():
                await asyncio.sleep(0)
                turn.begin()
            route = routes.resolve(item, self._broker.clock())
            turn.spend(1)
            if route is None:
                unroutable += 1
            else:
                messages.append((item, route))
        return messages, unroutable

    def _weigh(self, request: CommitRequest) -> int:
        """Return the memory of the batch. In a worker thread."""
        weights = [self._stages.weigh(StageKey(request.query, stage)) for stage in request.stages]
        rows, size = sum(weight.rows for weight in weights), sum(weight.size for weight in weights)
        properties = max((weight.properties for weight in weights), default=0)
        destinations = 1 if request.defaults.complete else sum(weight.destinations for weight in weights)
        return commit_bytes(rows, size, properties, destinations)

    def _read(self, request: CommitRequest) -> tuple[list[PendingMessage], int]:
        """Read and encode all stages, and say how much of the log the durable ones may need. In a worker thread."""
        pending: list[PendingMessage] = []
        body_bytes_max = self._broker.configuration.limits.max_message_bytes
        for stage in request.stages:
            rows = 0
            for batch in self._stages.read(StageKey(request.query, stage)):
                pending.extend(encode_rows(batch, request.defaults, request.publisher, rows, body_bytes_max))
                rows += batch.num_rows
                if len(pending) > COMMIT_MESSAGES_MAX:
                    raise RefusedError(
                        f"the batch has more than {COMMIT_MESSAGES_MAX} rows: lower maxMessagesPerTrigger of its source"
                    )
        durable = [item.message for item in pending if item.message.durable]
        return pending, sum(message.size + len(message.header) + RECORD_OVERHEAD for message in durable)

    def _check_room(self, size: int, host: VirtualHost, messages: list[tuple[PendingMessage, Route]]) -> None:
        broker = self._broker
        if broker.spill_pace.full and any(_is_spilled(host, item.message, route) for item, route in messages):
            raise UnavailableError("the spill store is full and publishers are held back; let consumers catch up")
        if broker.memory_blocked:
            raise UnavailableError("the broker's memory is full and publishers are held back; let consumers catch up")
        if size and not broker.accepts_durable(size, broker.clock()):
            raise UnavailableError(f"the broker's disk has no room for the batch's {size} bytes; free space on it")

    async def _publish(
        self,
        host: VirtualHost,
        messages: list[tuple[PendingMessage, Route]],
        routes: dict[Route, Route | None],
        outcome: tuple[str, int],
    ) -> int:
        """Publish in one log transaction, make it visible when that is durable, and undo it if that fails.

        ``routes``: the present ones of the messages, which stay for this batch. Returns how many messages lost their
        queues since their routes were looked up. Limits were checked before, for the whole batch: single rows are not
        refused after that.
        """
        effects = host.effects
        assert isinstance(effects, HostEffects)
        batch = HiddenBatch()
        filling = RowFilling(host, messages, routes, batch)
        effects.begin_transaction()
        try:
            while filling.go_on(SLICE, self._broker.clock()):
                transaction = effects.suspend_transaction()
                try:
                    await asyncio.sleep(0)
                finally:
                    effects.resume_transaction(transaction)
        except BaseException:  # an open transaction would include all later records of others
            effects.abort_transaction()
            filling.end(self._broker.clock())
            self._take_back(batch, effects)
            raise
        try:
            effects.end_transaction(outcome)
        except BaseException:
            filling.end(self._broker.clock())
            self._take_back(batch, effects)
            raise
        filling.end(self._broker.clock())
        lost = filling.lost
        self._broker.commit.wait(_Showing(batch, self._broker.clock))
        if lost:
            logger.warning("rows lost their queues while a batch was published", query=outcome[0], rows=lost)
        return lost

    def _take_back(self, batch: HiddenBatch, effects: HostEffects) -> None:
        """Remove the published rows from the queues: the log has no record of them any more, and they were never
        visible."""
        for entry in batch.entries:
            entry.message.record = 0
        take_back(batch, effects, self._broker.clock())

    async def abort(self, query: str, stages: list[str]) -> None:
        """Drop stages whose batch failed. The batch is computed again under the same id."""
        for stage in stages:
            await asyncio.to_thread(self._stages.drop, StageKey(query, stage))

    def forget(self, query: str, former: str) -> None:
        """Drop the mark of a query id that will not be used again.

        A mark under ``former`` has no known user, so it stays; the user's own mark overrides it.
        """
        self._broker.log.outcomes.pop(query, None)
        if self._former_mark(former) == NO_BATCH:
            self._broker.catalogue.delete_publish_mark(query)
            return
        with self._broker.catalogue.transaction():
            self._broker.catalogue.delete_publish_mark(query)  # marks are only ever raised
            self._broker.catalogue.set_publish_mark(query, NO_BATCH, self._broker.clock())

    def _former_mark(self, former: str) -> int:
        """Return the highest batch that was published before ids belonged to a user; :data:`NO_BATCH` without one."""
        mark = self._broker.catalogue.publish_mark(former)
        return max(NO_BATCH if mark is None else mark, self._broker.log.outcomes.get(former, NO_BATCH))


@asynccontextmanager
async def _turn_of(batches: Batches) -> AsyncIterator[None]:
    """Wait until no other batch, nor a commit of a transaction, is put into the queues of a virtual host."""
    turn = asyncio.get_running_loop().create_future()

    def go_on() -> None:
        if turn.cancelled():
            batches.end()
        else:
            turn.set_result(None)

    if not batches.begin(go_on):
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it had come
                batches.end()
            raise
    try:
        yield
    finally:
        batches.end()


class _Turn:
    """How much of a commit is looked up in one turn of the loop: :data:`SLICE` messages, or queues that they go to."""

    def __init__(self, host: VirtualHost) -> None:
        self._host = host
        self.begin()

    def begin(self) -> None:
        """A new turn."""
        self._left = SLICE
        self._steps = self._host.steps_taken

    def spend(self, count: int) -> None:
        """Count a message that leads to so many queues."""
        self._left -= max(1, count)

    def over(self) -> bool:
        """Return whether other work is to have its turn."""
        return self._left - (self._host.steps_taken - self._steps) // OPERATION_STEPS <= 0


def _promise(host: VirtualHost, message: Message, route: Route, claims: Claims) -> int:
    """Check every queue and address that may refuse, with ``claims`` counting the batch's earlier rows.

    Returns how many queues were looked at. Raises :class:`UnavailableError` if one is full: the batch may be repeated
    when there is room.
    """
    current = host.renewed(route)
    if current is None or current.static:
        return 1
    try:
        return sum([len(leg.queues) for leg in host.publisher.plan(message, current, claims)])
    except RoutingTooLong as error:
        raise RefusedError(f"nothing was published: {error}") from error
    except LimitExceeded as error:
        raise UnavailableError(f"nothing was published: {error}") from error


def _is_spilled(host: VirtualHost, message: Message, route: Route) -> bool:
    """Return whether the log lacks a message for one of its queues, so that its body may be spilled."""
    return not message.durable or not all(queue.durable for queue in host.targets(message, route))


class _Showing:
    """Makes a batch visible when the window with its commit is durable, even if no client waits for the answer any
    more."""

    def __init__(self, batch: HiddenBatch, clock: Clock) -> None:
        self._batch = batch
        self._clock = clock

    def window_committed(self, window: int) -> None:  # noqa: ARG002 - of the interface; it waits for one only
        self._batch.show(self._clock())

    def window_failed(self, window: int) -> None:
        """Leave it hidden: the next start decides whether the batch exists, and nothing more becomes durable here."""


class _QueryLock:
    """One commit of a query at a time."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0  # owners and waiters of the lock


class _Routes:
    """Resolves the destinations of one commit, each once, before anything is published."""

    def __init__(self, host: VirtualHost, may_write: Callable[[str], bool], request: CommitRequest) -> None:
        self.host = host
        self._may_write = may_write
        self._request = request
        self._known: dict[Destination, tuple[Origin, Route]] = {}

    def resolve(self, item: PendingMessage, now: int) -> Route | None:
        """Give a message its origin, times and route. ``None`` if it reaches no queue and may be dropped."""
        known = self._known.get(item.destination)
        if known is None:
            known = self._known[item.destination] = self._resolve(item.destination)
        origin, route = known
        message = item.message
        message.origin = origin
        message.accepted_at = now
        message.expires_at = 0 if item.time_to_live < 0 else now + item.time_to_live
        message.deliver_at = item.schedule.due_at(now)
        if self._reaches(message, route):
            return route
        if self._request.mandatory:
            raise RefusedError(
                f"nothing was published: no queue takes messages for exchange {origin.exchange!r} with routing key "
                f"{origin.routing_key!r}; bind a queue, or set mandatory=false to drop such rows"
            )
        return None

    def _reaches(self, message: Message, route: Route) -> bool:
        """Return whether a queue gets the message; refuse the batch if its way has too many steps."""
        try:
            return bool(self.host.targets(message, route))
        except RoutingTooLong as error:
            raise RefusedError(f"nothing was published: {error}") from error

    def current(self) -> dict[Route, Route | None]:
        """Return all looked-up routes by the present routing graph; ``None`` for a deleted exchange."""
        return {route: self.host.renewed(route) for _, route in self._known.values()}

    def _resolve(self, destination: Destination) -> tuple[Origin, Route]:
        host = self.host
        exchange, routing_key = destination.exchange, destination.routing_key
        if destination.address is not None:
            if destination.address in host.queues:
                exchange, routing_key = "", destination.address
            elif destination.address and destination.address in host.exchanges:
                exchange = destination.address
            else:
                self._require_one("", destination.address)
                raise NotFoundError(
                    f"nothing was published: no queue or exchange {destination.address!r} in virtual host "
                    f"{host.name!r}; "
                    "declare it first, or correct the address"
                )
        elif exchange == "" and routing_key not in host.queues:
            self._require_one("")
            raise NotFoundError(
                f"nothing was published: no queue {routing_key!r} in virtual host {host.name!r}, which the "
                "default exchange "
                "would reach by this routing key; declare it first, or name an exchange"
            )
        self._require_one(exchange)
        try:
            route = host.route(exchange, routing_key)
        except CoreError as error:
            raise NotFoundError(f"nothing was published: {error}") from error
        return Origin(exchange, routing_key, self._request.publisher, VIEW), route

    def _require_one(self, *exchanges: str) -> None:
        """Require that the user may write to one of these, so that others do not learn of their existence."""
        if not any(self._may_write(exchange) for exchange in exchanges):
            exchange = exchanges[-1]
            raise PermissionDeniedError(
                f"nothing was published: the user may not write to exchange {exchange or '(default)'!r}"
            )
