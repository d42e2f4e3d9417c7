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
from annulet.core.configuration.address_limits import AddressLimits
from annulet.core.host.account_row_shares import address_of
from annulet.core.host.address_accounts import AddressAccount, AddressAccounts
from annulet.core.host.duplicate_ids import DuplicateCaches
from annulet.core.host.retroactive import is_ring_name
from annulet.core.host.send_plan import DROPPED, DUPLICATE, ROUTED, Claims, Leg
from annulet.core.model.compact_messages import CompactDelivery, entry_in, origin_of
from annulet.core.model.entry import REMOVED
from annulet.core.model.loss_ledger import LossLedger, LossRecord
from annulet.core.paging.merged_areas import JoinedPages
from annulet.core.routing.diverts import ORIGINAL_ADDRESS, copy_for
from annulet.core.routing.routes import Route, Walk
from annulet.core.routing.routing_graph import RoutingGraph

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.core.configuration.address_settings import AddressSettingsRepository, ResolvedSettings
    from annulet.core.message.message import Message
    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.bindings import Binding
    from annulet.core.routing.exchanges import Exchange
    from annulet.core.routing.node_effects import NodeEffects


class Publishing(RoutingGraph):
    """A routing graph that messages are published to.

    ``duplicates_dropped`` counts the messages that duplicate detection kept out, ``routing_refused`` those whose way
    had too many steps.
    """

    def __init__(
        self, name: str, effects: NodeEffects, ledger: LossLedger, address_settings: AddressSettingsRepository
    ) -> None:
        super().__init__(name, effects)
        self.ledger = ledger
        self.address_settings = address_settings
        self.accounts = AddressAccounts(effects)
        self.uncounted = True  # queues may hold messages of addresses that were given limits after they came
        self.duplicates = DuplicateCaches()
        self.duplicates_dropped = 0
        self.routing_refused = 0

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
        if duplicate_id or further_keys or not route.static or route.generation != self.generation:
            current = self.renewed(route)
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
        route = self.route_to(name, message.origin.routing_key, routing_type)
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
            self.steps_taken += before - steps.left

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
            walk = Walk(self, routing_type=way.routing_type, applied=applied, steps=steps)
            leg = Leg(sent, way.address, self._queues_of(walk, sent, way, keys), duplicate_id)
            legs.append(leg)
            self._judge(leg, claims, forwarded=forwarded)
            if leg.fate != ROUTED:
                continue
            for diversion in walk.diversions:
                routing_type = diversion.divert.routing_type_for(way.routing_type)
                for target in diversion.divert.forwarding_addresses:
                    onward = self.route_to(target, sent.origin.routing_key, routing_type, forwarded=True)
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
        if exchange_name not in self.exchanges:
            return []
        route = self.forwarding_route(exchange_name, keys[0])
        return self.plan(message, route, Claims(), further_keys=keys[1:], forwarded=True)

    def forwarding_route(self, exchange_name: str, routing_key: str) -> Route:
        """Return the route of what the broker sends on through an exchange that exists; it may be an internal one."""
        if self.exchanges[exchange_name].internal:
            return Route(exchange_name, routing_key, [], self.generation, static=False)
        return self.route(exchange_name, routing_key)

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
        start = self.exchanges[route.exchange]
        queues = walk.follow(start, route.routing_key, message)
        for key in further_keys:
            queues = walk.follow(start, key, message)
        return queues

    def _judge(self, leg: Leg, claims: Claims, *, forwarded: bool) -> None:
        """Return the fate of a leg, and claim its share. Raises :class:`LimitExceeded`."""
        if leg.duplicate_id and self.settings_of(leg.address).id_cache_size == 0:
            leg.duplicate_id = ""  # detection is off
        duplicate_id = leg.duplicate_id
        if duplicate_id and (
            self.duplicates.has(leg.address, duplicate_id) or claims.has_identifier(leg.address, duplicate_id)
        ):
            leg.fate = DUPLICATE
            return
        size = leg.message.size
        account = self.account_of(leg.address) if _counting(leg.queues) else None
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

    def begin_entering(self, leg: Leg) -> None:
        """Before the message of a leg that is routed enters its queues: count it where its address counts."""
        message, queues = leg.message, leg.queues
        if message.expires_at and self.settings_of(leg.address).no_expiry:
            message.expires_at = 0
        counting = 0 if leg.account is None else _counting(queues)
        if leg.account is not None and counting:  # those of a dead letter may have been left out as a cycle
            self.accounts.charge(leg.account, message, counting)

    def end_entering(self, leg: Leg) -> None:
        """After it has entered them: have its address remember its id."""
        if leg.duplicate_id and leg.queues:
            settings = self.settings_of(leg.address)
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
        settings = self.settings_of(route.address)
        target = settings.dead_letter_address
        if not settings.send_to_dla_on_no_route or not target or target == route.address:
            return None
        onward = self.route_to(target, message.origin.routing_key, forwarded=True)
        copy = copy_for(message, {ORIGINAL_ADDRESS: route.address}, onward.exchange, onward.routing_key)
        return copy, onward

    # ------------------------------------------------------------------ what addresses have settings for

    def settings_of(self, address: str) -> ResolvedSettings:
        """Return the settings of an address, merged from all that match it."""
        return self.address_settings.resolve(address)

    def judge_route(self, route: Route) -> None:
        """Find out whether limits of addresses or queues, or address settings, have a say in each message."""
        settings = self.settings_of(route.address)
        if route.queues:
            self.account_of(route.address)  # an address that is full already says so before the next send
        if (
            not settings.limits.unlimited
            or settings.no_expiry
            or (not route.queues and settings.send_to_dla_on_no_route)
        ):
            route.static = route.fixed = False
        elif any(queue.may_refuse for queue in route.queues):
            route.static = False

    def account_of(self, address: str) -> AddressAccount | None:
        """Return the account of an address with limits, opened when the first message is about to enter; else ``None``.

        Messages already queued when the limits were set count from then on.
        """
        account = self.accounts.by_address.get(address)
        if account is not None:
            return account
        limits = self.settings_of(address).limits
        if limits.unlimited:
            return None
        if not self.accounts.by_address:
            for queue in self.queues.values():
                self.tell_accounts(queue)
        if self.uncounted:
            self._count_held()
        return self.accounts.account_for(address, limits)

    def tell_accounts(self, queue: Queue) -> None:
        """Have the accounts told of what leaves a queue.

        Not of what leaves a ring: it has no consumer, so an address would stay full for ever.
        """
        if not is_ring_name(queue.name):
            queue.accounts = self.accounts

    def limit_addresses(self, addresses: list[str]) -> None:
        """Change or close the accounts of addresses after their settings."""
        self.accounts.limit({address: self.settings_of(address).limits for address in addresses})

    def _count_held(self) -> None:
        """Open the accounts of all addresses with limits whose messages queues hold. Once per change.

        O(messages in memory, pages): messages on disk are counted there, nothing is read. Address by address it would
        be that much for each name of a send. Deliveries that are folded stay so where their address has no limits.
        """
        self.uncounted = False
        limits: dict[str, AddressLimits] = {}  # of all addresses of messages that are held
        held: dict[str, dict[Message, int]] = {}
        opened: list[tuple[Queue, str, tuple[int, int], int]] = []
        for queue in self.queues.values():
            if is_ring_name(queue.name):
                continue
            pending = queue.order.in_memory()
            held_here: list[Slot] = [*pending, *queue.schedule.entries(), *queue.delivering.slots()]
            here: dict[Message, str] = {}
            left = queue.order.paged_count()
            for slot in held_here:
                address = address_of(origin_of(slot))
                if not self._is_uncounted(address, limits):
                    left += isinstance(slot, CompactDelivery) or self._is_left(slot)
                    continue
                entry = entry_in(slot)
                if entry.state != REMOVED:
                    here[entry.message] = address
            for message, address in here.items():
                counts = held.setdefault(address, {})
                counts[message] = counts.get(message, 0) + 1
            rows = JoinedPages(queue.order.page_parts()).tally(address_of, queue.next_sequence)
            opened += [(queue, name, some, left) for name, some in rows.items() if self._is_uncounted(name, limits)]
        self._open_accounts(limits, held, opened)

    def _is_uncounted(self, address: str, limits: dict[str, AddressLimits]) -> bool:
        """Return whether an address has limits and no account yet. ``limits``: those that are known."""
        if address not in limits:
            limits[address] = self.settings_of(address).limits
        return not limits[address].unlimited and address not in self.accounts.by_address

    def _is_left(self, entry: QueueEntry) -> bool:
        """Return whether an entry is there and not charged."""
        return entry.state != REMOVED and not self.accounts.counted(entry.message)

    def _open_accounts(
        self,
        limits: dict[str, AddressLimits],
        held: dict[str, dict[Message, int]],
        opened: list[tuple[Queue, str, tuple[int, int], int]],
    ) -> None:
        """Open accounts, which count rows first, and then messages in the order in which they came."""
        for queue, address, rows, left in opened:
            account = self.accounts.account_for(address, limits[address])
            assert account is not None
            self.accounts.count_rows(queue, account, rows, left)
        for address, counts in held.items():
            account = self.accounts.account_for(address, limits[address])
            assert account is not None
            for message in _by_arrival(list(counts)):
                self.accounts.charge(account, message, counts[message])

    # ------------------------------------------------------------------ duplicates

    def binding_removed(self, binding: Binding) -> None:
        """Drop the ids of a node that lost its last queue (Artemis)."""
        source = binding.source
        if binding.queue is not None and (source.dropped or not source.queue_bindings):
            self.forget_duplicates(source.name)

    def exchange_dropped(self, exchange: Exchange) -> None:
        """Drop the ids of a node that led to its queues through others. A queue of its name keeps its messages."""
        if exchange.name not in self.queues:
            self.forget_duplicates(exchange.name)

    def restore_duplicates(self, address: str, duplicate_ids: Iterable[str]) -> None:
        """Put back the ids an address had accepted before the broker ended, oldest first."""
        self.duplicates.restore(address, duplicate_ids, self.settings_of(address).id_cache_size)

    def forget_duplicates(self, address: str) -> None:
        """Drop the ids of an address that lost its last queue."""
        if self.duplicates.forget(address):
            self.effects.duplicates_forgotten(address)


def _counting(queues: list[Queue]) -> int:
    """Return how many of these count what they hold for an address with limits: all but rings."""
    return sum(not is_ring_name(queue.name) for queue in queues)


def _by_arrival(messages: list[Message]) -> list[Message]:
    """Return messages in the order in which they came, as an account counts them: queues may have another one.

    The log has numbered those that are stored, so after a restart the order is the same. Of others the millisecond is
    known.
    """
    if all(message.record for message in messages):
        return sorted(messages, key=lambda message: message.record)
    return sorted(messages, key=lambda message: message.accepted_at)
