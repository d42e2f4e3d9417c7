"""Publishing: a message into all queues its route leads to, or into none of them.

Most routes are static: their queues refuse nothing and nothing on the way counts, copies or checks. A message of such a
route goes straight into its queues. Every other send is planned first: filters, turns, diverts, duplicates and limits
are decided for all of its copies, and only then anything is changed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from annulet.core.base.errors import LimitExceeded, RoutingTooLong
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.steps import Steps
from annulet.core.host.duplicate_ids import DuplicateCaches
from annulet.core.host.limited_addresses import LimitedAddresses, counting
from annulet.core.host.send_plan import DROPPED, DUPLICATE, ROUTED, Claims, Leg
from annulet.core.model.entry import REMOVED
from annulet.core.model.loss_ledger import LossLedger, LossRecord
from annulet.core.routing.diverts import ORIGINAL_ADDRESS, copy_for
from annulet.core.routing.routes import Route, Walk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.core.configuration.address_settings import AddressSettingsRepository
    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.bindings import Binding
    from annulet.core.routing.exchanges import Exchange
    from annulet.core.routing.routing_graph import RoutingGraph


class Publisher:
    """Sends messages to the queues of a graph.

    Attributes:
        graph: the nodes and routes of a virtual host.
        limited: the addresses with limits.
        duplicates: the ids that addresses have accepted.
        duplicates_dropped: how many messages duplicate detection kept out.
        routing_refused: how many messages had a way of too many steps.
    """

    def __init__(
        self,
        graph: RoutingGraph,
        ledger: LossLedger,
        address_settings: AddressSettingsRepository,
        limited: LimitedAddresses,
    ) -> None:
        self.graph = graph
        self.effects = graph.effects
        self.ledger = ledger
        self.limited = limited
        self.accounts = limited.accounts
        self.duplicates = DuplicateCaches()
        self.duplicates_dropped = 0
        self.routing_refused = 0
        self._settings = address_settings

    # ------------------------------------------------------------------ sending

    def publish(
        self,
        message: Message,
        route: Route,
        now: int,
        *,
        duplicate_id: str = "",
        further_keys: tuple[str, ...] = (),
        forwarded: bool = False,
    ) -> int:
        """Put a message into every queue of its route, once each, and store it when it is durable.

        ``duplicate_id``: the sender's id, for an address that has seen it before; ``further_keys``: routing keys the
        sender added (RabbitMQ's CC and BCC); ``forwarded``: the broker sends it on, so nothing may refuse it. Returns
        how many queues it was routed to: 0 means unroutable; a duplicate and what a full address drops count as
        routed. A route of an older generation is looked up anew. Raises :class:`LimitExceeded`; then no queue has it.
        """
        if duplicate_id or further_keys or not route.static or route.generation != self.graph.generation:
            current = self.graph.renewed(route)
            if current is None:
                return 0
            if duplicate_id or further_keys or not current.fixed:
                legs = self.plan(
                    message,
                    current,
                    Claims(),
                    duplicate_id=duplicate_id,
                    further_keys=further_keys,
                    forwarded=forwarded,
                )
                return self.apply(legs, now)
            if not current.static and not forwarded:
                self._ask(message, current.queues)
            route = current
        queues = route.queues
        if len(queues) == 1:
            queue = queues[0]
            entry = queue.enqueue(message, now)
            if entry.state != REMOVED:
                if message.durable and queue.durable:
                    self.effects.store(message, [entry])
                else:
                    self.effects.unstored(entry)
            return 1
        self.enqueue_all(message, queues, now)
        return len(queues)

    def send_to_address(
        self,
        name: str,
        message: Message,
        now: int,
        routing_type: str = "",
        *,
        duplicate_id: str = "",
        forwarded: bool = False,
    ) -> int:
        """Send a message to a node by name: an address or exchange, ``address::queue``, or a queue.

        An exchange goes by the message's routing key. Returns as :meth:`publish`; a name that is nowhere is 0.
        """
        route = self.graph.route_to(name, message.origin.routing_key, routing_type)
        return self.publish(message, route, now, duplicate_id=duplicate_id, forwarded=forwarded)

    def _ask(self, message: Message, queues: list[Queue]) -> None:
        for queue in queues:
            if queue.may_refuse:
                refusal = queue.refusal(message)
                if refusal:
                    raise LimitExceeded(refusal)

    def enqueue_all(self, message: Message, queues: list[Queue], now: int) -> None:
        """Put a message into these queues, and store it once for those that survive."""
        self.store_entered(message, [queue.enqueue(message, now) for queue in queues])

    def enqueue_one(self, message: Message, queue: Queue, now: int) -> QueueEntry | None:
        """Put a message into a queue, and store nothing. A queue that was deleted since it was chosen gets none."""
        if queue.deleted:
            self.accounts.missed(queue, message)
            return None
        return queue.enqueue(message, now)

    def store_entered(self, message: Message, entries: list[QueueEntry]) -> None:
        """Store a message once for those of its queues that survive, after it has entered all of them."""
        stored = []
        for entry in entries:
            if entry.state != REMOVED:
                if message.durable and entry.queue.durable:
                    stored.append(entry)
                else:
                    self.effects.unstored(entry)
        if stored:
            self.effects.store(message, stored)

    # ------------------------------------------------------------------ planned sends

    def plan(
        self,
        message: Message,
        route: Route,
        claims: Claims,
        *,
        duplicate_id: str = "",
        further_keys: tuple[str, ...] = (),
        forwarded: bool = False,
    ) -> list[Leg]:
        """Decide where a message and the copies diverts make of it go; nothing changes but whose turn it is.

        ``claims`` grows by what the legs will take. Raises :class:`LimitExceeded`, also for a way that is too long.
        """
        steps = Steps()  # of the message with all its copies
        before = steps.left
        try:
            return self._plan(message, route, claims, steps, duplicate_id, further_keys, forwarded=forwarded)
        except RoutingTooLong:
            self.routing_refused += 1
            raise
        finally:
            self.graph.steps_taken += before - steps.left

    def _plan(
        self,
        message: Message,
        route: Route,
        claims: Claims,
        steps: Steps,
        duplicate_id: str,
        further_keys: tuple[str, ...],
        *,
        forwarded: bool,
    ) -> list[Leg]:
        legs: list[Leg] = []
        applied: set[str] = set()
        rescued = False  # a message without a taker goes to the dead-letter address once
        waiting: deque[tuple[Message, Route, tuple[str, ...]]] = deque([(message, route, further_keys)])
        while waiting:
            sent, way, keys = waiting.popleft()
            walk = Walk(self.graph, routing_type=way.routing_type, applied=applied, steps=steps)
            leg = Leg(sent, way.address, self._queues_of(walk, sent, way, keys), duplicate_id)
            legs.append(leg)
            self._judge(leg, claims, forwarded=forwarded)
            if leg.fate != ROUTED:
                continue
            for diversion in walk.diversions:
                routing_type = diversion.divert.routing_type_for(way.routing_type)
                for target in diversion.divert.forwarding_addresses:
                    onward = self.graph.route_to(target, sent.origin.routing_key, routing_type, forwarded=True)
                    waiting.append((diversion.copy(sent, onward.exchange, onward.routing_key), onward, ()))
            if not leg.queues and not walk.diversions and not rescued and not forwarded:
                rescued = True
                rescue = self._rescue(sent, way)
                if rescue is not None:
                    waiting.append((rescue[0], rescue[1], ()))
        return legs

    def plan_forward(self, message: Message, exchange_name: str, keys: tuple[str, ...]) -> list[Leg]:
        """Decide where a message goes that the broker itself sends on: dead letters, expired and dropped ones.

        Nothing refuses it, as no publisher could be told, and an exchange that is closed to publishers is open to it.
        Empty when the exchange is gone.
        """
        if exchange_name not in self.graph.exchanges:
            return []
        route = self.forwarding_route(exchange_name, keys[0])
        return self.plan(message, route, Claims(), further_keys=keys[1:], forwarded=True)

    def forwarding_route(self, exchange_name: str, routing_key: str) -> Route:
        """Return the route of what the broker sends on through an exchange that exists; it may be an internal one."""
        if self.graph.exchanges[exchange_name].internal:
            return Route(exchange_name, routing_key, [], self.graph.generation, static=False)
        return self.graph.route(exchange_name, routing_key)

    def apply(self, legs: list[Leg], now: int) -> int:
        """Carry out a plan. Returns how many queues the message was routed to, as :meth:`publish`."""
        reached = 0
        for leg in legs:
            reached += len(leg.queues)
            if leg.fate == ROUTED:
                self._enter(leg, now)
                continue
            reached += not leg.queues
            if leg.fate == DUPLICATE:
                self.duplicates_dropped += 1
            else:
                self._drop(leg, now)
        return reached

    def _queues_of(self, walk: Walk, message: Message, route: Route, further_keys: tuple[str, ...]) -> list[Queue]:
        if route.fixed and not further_keys:
            return route.queues
        route.refuse()
        start = self.graph.exchanges[route.exchange]
        queues = walk.follow(start, route.routing_key, message)
        for key in further_keys:
            queues = walk.follow(start, key, message)
        return queues

    def _judge(self, leg: Leg, claims: Claims, *, forwarded: bool) -> None:
        """Return the fate of a leg, and claim its share. Raises :class:`LimitExceeded`."""
        if leg.duplicate_id and self._settings.resolve(leg.address).id_cache_size == 0:
            leg.duplicate_id = ""  # detection is off
        duplicate_id = leg.duplicate_id
        if duplicate_id and (
            self.duplicates.has(leg.address, duplicate_id) or claims.has_identifier(leg.address, duplicate_id)
        ):
            leg.fate = DUPLICATE
            return
        size = leg.message.size
        account = self.limited.account_of(leg.address) if counting(leg.queues) else None
        if account is not None:
            claimed = claims.of_account(account)
            while account.drops(size, claimed) and self.accounts.hurry_settlements():
                pass
            if account.drops(size, claimed):
                leg.account = account
                leg.fate = DROPPED
                return
            refusal = "" if forwarded else account.refusal(size, claimed)
            while refusal and self.accounts.hurry_settlements():
                refusal = account.refusal(size, claimed)
            if refusal:
                self.accounts.note_refused(account)
                raise LimitExceeded(refusal)
            leg.account = account
        if not forwarded:
            for queue in leg.queues:
                if queue.may_refuse:
                    more = claims.of_queue(queue)
                    refusal = queue.refusal(leg.message, more.messages, more.bytes)
                    if refusal:
                        raise LimitExceeded(refusal)
        claims.add(leg)

    def _enter(self, leg: Leg, now: int) -> None:
        self.begin_entering(leg)
        self.enqueue_all(leg.message, leg.queues, now)
        self.end_entering(leg)

    def put_back(self, leg: Leg, sequence: int, since: int, now: int) -> None:
        """Carry out the leg of a message to the one queue that it had left, at its place there."""
        if leg.fate != ROUTED:
            self.apply([leg], now)
            return
        self.begin_entering(leg)
        self.store_entered(leg.message, [queue.put_back(leg.message, sequence, since, now) for queue in leg.queues])
        self.end_entering(leg)

    def begin_entering(self, leg: Leg) -> None:
        """Before the message of a leg that is routed enters its queues: count it where its address counts."""
        message, queues = leg.message, leg.queues
        if message.expires_at and self._settings.resolve(leg.address).no_expiry:
            message.expires_at = 0
        counted = 0 if leg.account is None else counting(queues)
        if leg.account is not None and counted:  # those of a dead letter may have been left out as a cycle
            self.accounts.charge(leg.account, message, counted)

    def end_entering(self, leg: Leg) -> None:
        """After it has entered them: have its address remember its id."""
        if leg.duplicate_id and leg.queues:
            settings = self._settings.resolve(leg.address)
            size = settings.id_cache_size
            self.duplicates.add(leg.address, leg.duplicate_id, size)
            if settings.persist_id_cache:
                self.effects.duplicate_noted(leg.address, leg.duplicate_id, size)

    def _drop(self, leg: Leg, now: int) -> None:
        message = leg.message
        assert leg.account is not None
        self.accounts.note_dropped(leg.account)
        self.ledger.add(
            LossRecord(
                queue=leg.address,
                sequence=0,  # it never entered a queue
                reason=RemovalReason.OVERFLOW,
                key="",
                size=message.size,
                priority=message.priority,
                accepted_at=message.accepted_at,
                at=now,
                publisher=message.origin.publisher,
                replaced_by=0,
                durable=message.durable,
                rule=leg.account.rule,
            )
        )

    def _rescue(self, message: Message, route: Route) -> tuple[Message, Route] | None:
        """Return the copy of an unroutable message for the dead-letter address, where its address wants that."""
        settings = self._settings.resolve(route.address)
        target = settings.dead_letter_address
        if not settings.send_to_dla_on_no_route or not target or target == route.address:
            return None
        onward = self.graph.route_to(target, message.origin.routing_key, forwarded=True)
        copy = copy_for(message, {ORIGINAL_ADDRESS: route.address}, onward.exchange, onward.routing_key)
        return copy, onward

    # ------------------------------------------------------------------ what addresses have settings for

    def judge_route(self, route: Route) -> None:
        """Find out whether limits of addresses or queues, or address settings, have a say in each message."""
        settings = self._settings.resolve(route.address)
        if route.queues:
            self.limited.account_of(route.address)  # an address that is full already says so before the next send
        if (
            not settings.limits.unlimited
            or settings.no_expiry
            or (not route.queues and settings.send_to_dla_on_no_route)
        ):
            route.static = route.fixed = False
        elif any(queue.may_refuse for queue in route.queues):
            route.static = False

    # ------------------------------------------------------------------ duplicates

    def binding_removed(self, binding: Binding) -> None:
        """Drop the ids of a node that lost its last queue (Artemis)."""
        source = binding.source
        if binding.queue is not None and (source.dropped or not source.queue_bindings):
            self.forget_duplicates(source.name)

    def exchange_dropped(self, exchange: Exchange) -> None:
        """Drop the ids of a node that led to its queues through others. A queue of its name keeps its messages."""
        if exchange.name not in self.graph.queues:
            self.forget_duplicates(exchange.name)

    def restore_duplicates(self, address: str, duplicate_ids: Iterable[str]) -> None:
        """Put back the ids an address had accepted before the broker ended, oldest first."""
        self.duplicates.restore(address, duplicate_ids, self._settings.resolve(address).id_cache_size)

    def forget_duplicates(self, address: str) -> None:
        """Drop the ids of an address that lost its last queue."""
        if self.duplicates.forget(address):
            self.effects.duplicates_forgotten(address)


def present_ones(queues: list[Queue]) -> list[Queue]:
    """Return those that are not deleted."""
    return [queue for queue in queues if not queue.deleted]
