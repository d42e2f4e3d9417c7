"""The plan of a commit: the operations of a transaction, and the decisions about them before any is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import LimitExceeded, TransactionRefused, TransactionTooLarge
from annulet.core.deliveries.taken_deliveries import TakenDeliveries
from annulet.core.host.send_plan import DUPLICATE, ROUTED, Claims
from annulet.core.model.compact_messages import entry_in, queue_of, record_of
from annulet.core.model.entry import DELIVERING, DeliveryCopy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from annulet.core.host.publishing import Publisher
    from annulet.core.host.send_plan import Leg
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import Message
    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_state import QueueState
    from annulet.core.routing.routes import Route

OPERATION_STEPS: Final = 20
"""Steps of routing that take as long as deciding one operation more: 5 µs."""

ALL_OPERATIONS: Final = 1 << 62
"""More than a transaction can have."""

LIMIT_TRANSACTION: Final = "max_transaction_operations"
"""Name of the bound of a transaction's operations, as settings and metrics have it."""


class Send:
    """One message of a transaction. ``cancels``: it only takes back the scheduled message of this name."""

    __slots__ = ("cancels", "duplicate_id", "further_keys", "message", "route")

    def __init__(
        self, message: Message, route: Route, duplicate_id: str, further_keys: tuple[str, ...], cancels: str = ""
    ) -> None:
        self.message = message
        self.route = route
        self.duplicate_id = duplicate_id
        self.further_keys = further_keys
        self.cancels = cancels


class Return:
    """Deliveries of a transaction that go back to their queues; see ``Queue.return_entries``."""

    __slots__ = ("counted", "exclude", "taken")

    def __init__(self, counted: bool, exclude: Consumer | None) -> None:
        self.taken = TakenDeliveries()
        self.counted = counted
        self.exclude = exclude


class Operations:
    """The operations that a transaction has collected: sends, and deliveries with their tags by what becomes of them.

    ``dropped`` and ``requeued`` ones are rejected. Of very many those that are folded stay so until their slice.
    """

    __slots__ = ("before", "dropped", "requeued", "returns", "sends", "settlements")

    def __init__(self) -> None:
        self.sends: list[Send] = []
        self.settlements = TakenDeliveries()
        self.before: Callable[[QueueEntry], None] | None = None  # called with each dropped one before it is
        self.dropped = TakenDeliveries()
        self.requeued = TakenDeliveries()
        self.returns: list[Return] = []

    @property
    def count(self) -> int:
        """How many sends and settlements there are."""
        return len(self.sends) + len(self.settlements) + len(self.dropped) + len(self.requeued) + self.returned

    @property
    def returned(self) -> int:
        """How many deliveries go back with a count or a consumer of their own."""
        return sum([len(back.taken) for back in self.returns])

    @property
    def stored(self) -> int:
        """How many settlements may be of stored messages."""
        settled = self.stored_settlements
        for back in self.returns:
            settled += sum([record_of(slot) > 0 for slot in back.taken.slots()])  # the last attempt may be over
        return settled + sum([bool(send.cancels) for send in self.sends])

    @property
    def stored_settlements(self) -> int:
        """How many acknowledgements and rejections without requeue are of stored messages."""
        settled = sum([record_of(slot) > 0 for slot in self.settlements.slots()])
        return settled + sum([record_of(slot) > 0 for slot in self.dropped.slots()])

    def drop(self, slots: Iterable[Slot]) -> list[QueueEntry]:
        """Return the entries of dropped deliveries, whose turn has come."""
        entries = [entry_in(slot) for slot in slots]
        if self.before is not None:
            for entry in entries:
                self.before(entry)
        return entries

    def deliveries(self) -> list[TakenDeliveries]:
        """Return the deliveries that are settled, by the kind of their settlement."""
        return [self.settlements, self.dropped, self.requeued, *[back.taken for back in self.returns]]

    def returning(self, *, counted: bool, exclude: Consumer | None) -> TakenDeliveries:
        """Return where a delivery is added that goes back so."""
        last = self.returns[-1] if self.returns else None
        if last is None or last.counted is not counted or last.exclude is not exclude:
            last = Return(counted, exclude)
            self.returns.append(last)
        return last.taken


class CommitPlan:
    """Decides every send of a transaction that is not simple, a part of them at a time.

    Everything that could refuse a send is asked, with what the earlier sends take counted in. ``operations`` counts
    what the commit does: a message counts for each queue that it, or its dead letter, goes to now, as queues may have
    been bound since it was sent. More than ``most`` (0: any number) raise :class:`TransactionTooLarge`. ``alone``: it
    is one send without a transaction, so a duplicate is dropped and a refusal is that of the send.
    """

    __slots__ = (
        "_alone",
        "_asked",
        "_claims",
        "_collected",
        "_host",
        "_leaving",
        "_may_leave",
        "_most",
        "operations",
        "plans",
    )

    def __init__(self, host: VirtualHost, collected: Operations, most: int, *, alone: bool = False) -> None:
        self._alone = alone
        self._host = host
        self._collected = collected
        self._most = most
        self._claims = Claims()
        self.operations = collected.count
        self.plans: list[tuple[Route | None, list[Leg] | None]] = []  # a route alone: nothing can refuse the send
        self._bound()
        rejected = len(collected.dropped) + len(collected.requeued) + collected.returned
        self._may_leave = rejected if most else 0  # deliveries that may be dead-lettered
        self._asked = 0  # of these
        self._leaving = _leaving(collected)

    def go_on(self, count: int) -> bool:
        """Decide about ``count`` more; a further queue, or a long way, counts as more. Returns whether others are left.

        Raises :class:`TransactionRefused` for a full queue or address and for a duplicate id, and
        :class:`TransactionTooLarge`.
        """
        until = self._work() + count
        while self._asked < self._may_leave and self._work() < until:
            until -= 1
            self._asked += 1
            self._count_dead_letter(next(self._leaving))
        plans, sends = self.plans, self._collected.sends
        while len(plans) < len(sends) and self._work() < until:
            until -= 1
            plans.append(self._decide(sends[len(plans)], len(plans) + 1))
        return self._asked < self._may_leave or len(plans) < len(sends)

    def promise(self, *, sends: bool) -> None:
        """Have the log set room aside for the commit, and for the ``sends`` if these are not there yet.

        Raises what the effects raise without room, before anything that a client could see is done.
        """
        stored = self._collected.stored
        durable: list[tuple[Message, Sequence[QueueState]]] = []
        if sends:
            for send, (route, legs) in zip(self._collected.sends, self.plans, strict=True):
                if not send.message.durable or send.cancels:
                    continue
                if legs is not None:
                    durable += [(leg.message, leg.queues) for leg in legs if leg.fate == ROUTED]
                elif route is not None:
                    durable.append((send.message, route.queues))
        if durable or stored:
            self._host.effects.promise(durable, stored)

    def _work(self) -> int:
        """Return how much was decided, beside one for each operation."""
        return self.operations + self._host.steps_taken // OPERATION_STEPS

    def _decide(self, send: Send, number: int) -> tuple[Route | None, list[Leg] | None]:
        host = self._host
        route = None if send.cancels else host.renewed(send.route)
        if route is None:
            return None, None
        if route.static and not send.duplicate_id and not send.further_keys:
            self.operations += max(0, len(route.queues) - 1)
            self._bound()
            return route, None
        try:
            legs = host.publisher.plan(
                send.message, route, self._claims, duplicate_id=send.duplicate_id, further_keys=send.further_keys
            )
        except LimitExceeded as error:
            if self._alone:
                raise
            raise TransactionRefused(f"transaction refused, nothing of it was done: send {number}: {error}") from error
        accepting = {leg.address for leg in legs if leg.fate == ROUTED}
        for leg in legs:
            if (
                leg.fate == DUPLICATE and leg.address not in accepting and not self._alone
            ):  # else two diverts copy it to one address
                raise TransactionRefused(
                    f"transaction refused, nothing of it was done: send {number} to '{leg.address}' has duplicate "
                    f"id '{send.duplicate_id}', which that address has accepted before; leave out messages "
                    "sent already"
                )
        self.operations += max(0, sum([len(leg.queues) for leg in legs]) - 1)
        self._bound()
        return route, legs

    def _count_dead_letter(self, entry: QueueEntry | None) -> None:
        """Count the queues that a dead letter of this transaction goes to: its copies are sent with it."""
        if entry is None or isinstance(entry, DeliveryCopy):
            return
        if entry.state == DELIVERING and not entry.queue.deleted:  # else the rejection has no effect
            self.operations += self._host.dead_letters.reach(entry)
            self._bound()

    def _bound(self) -> None:
        if 0 < self._most < self.operations:
            raise TransactionTooLarge(
                f"transaction of at least {self.operations} sends and settlements refused, nothing of it was done: at "
                f"most {self._most} are allowed ({LIMIT_TRANSACTION}), and a message counts for each of its queues; "
                "commit more often or raise the limit"
            )


def _leaving(collected: Operations) -> Iterator[QueueEntry | None]:
    """Yield the deliveries that leave the session, ``None`` for one that is not to be dead-lettered."""
    for slot in collected.dropped.slots():
        yield entry_in(slot)
    for slot in collected.requeued.slots():
        yield entry_in(slot) if _last_attempt(slot, 1) else None
    for back in collected.returns:
        for slot in back.taken.slots():
            yield entry_in(slot) if _last_attempt(slot, int(back.counted)) else None


def _last_attempt(slot: Slot, counted: int) -> bool:
    """Return whether a delivery that is returned, and counted so often with that, is dead-lettered instead."""
    most = queue_of(slot).settings.max_delivery_attempts
    return most > 0 and most <= entry_in(slot).delivery_count + counted


def renew(publisher: Publisher, leg: Leg) -> None:
    """Adapt a leg that was planned some turns before: a message that was promised room has it.

    Queues that were deleted meanwhile get nothing, and an id that an address has accepted meanwhile is a duplicate.
    """
    if any(queue.deleted for queue in leg.queues):
        leg.queues = [queue for queue in leg.queues if not queue.deleted]
    if leg.account is not None:
        leg.account = publisher.limited.account_of(leg.address)
    if leg.fate == ROUTED and leg.duplicate_id and publisher.duplicates.has(leg.address, leg.duplicate_id):
        leg.fate = DUPLICATE
