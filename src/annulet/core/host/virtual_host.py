"""A virtual host: its queues, declared, changed and deleted; the parts that clients reach by it; and the due work."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import AccessRefused, NotFound, PreconditionFailed, ResourceLocked
from annulet.core.base.reply_names import is_reply_name
from annulet.core.base.sealed_names import is_sealed_name
from annulet.core.configuration.address_settings import (
    AddressSettingsRepository,
    PolicyRepository,
    ResolvedQueue,
    change_queue,
    refresh,
    resolve_queue,
)
from annulet.core.configuration.address_settings.resolution import OPERATOR
from annulet.core.configuration.arguments import Arguments, parse_queue_arguments
from annulet.core.configuration.arguments.unknown import ACCEPT, WARN
from annulet.core.configuration.redeclaration import require_same, require_same_settings
from annulet.core.host.auto_created import NEVER, Lifetime, address_due_at, queue_due_at, sooner
from annulet.core.host.dead_letters import DeadLetters
from annulet.core.host.departures import Departures
from annulet.core.host.limited_addresses import LimitedAddresses
from annulet.core.host.nodes import NodeDirectory
from annulet.core.host.owned_queues import QUEUES_AT_ONCE, OwnedQueues
from annulet.core.host.publishing import Publisher
from annulet.core.host.refreshing import Refreshing
from annulet.core.host.retroactive import is_ring_name
from annulet.core.host.retroactive_rings import RetroactiveRings
from annulet.core.message.filters import compile_filter
from annulet.core.model.loss_ledger import LossLedger
from annulet.core.policies.staged_batches import Batches
from annulet.core.policies.timed_queues import TimedQueues
from annulet.core.queue.live_changes import require_whole
from annulet.core.queue.queue import Queue, as_queue
from annulet.core.routing.routing_graph import ROUTES_MAX, RoutingGraph

if TYPE_CHECKING:
    from annulet.core.base.settings import ConsumerSettings, QueueSettings
    from annulet.core.configuration.address_settings import AddressPattern, Policy, ResolvedSettings
    from annulet.core.message.message import Message
    from annulet.core.model.forwarder import Forwarder
    from annulet.core.model.queue_state import QueueState
    from annulet.core.policies.queue_policies import QueuePolicies
    from annulet.core.routing.bindings import Binding
    from annulet.core.routing.diverts import Divert
    from annulet.core.routing.exchanges import Address, Exchange
    from annulet.core.routing.node_effects import NodeEffects
    from annulet.core.routing.routes import Route


__all__ = ["ROUTES_MAX", "VirtualHost"]

SELECTOR_PLACE: Final = "queue setting 'selector'"


class VirtualHost(RoutingGraph):
    """Everything clients can name, and nothing of another virtual host: nodes, edges, and the queues behind them.

    ``address_settings``, ``policies``: the settings that addresses and queues get by their names; empty unless the
    caller brings some. Both may change at any time; queues follow at once.

    Attributes:
        publisher: sends messages to the queues.
        nodes: finds nodes by their names, and makes those that settings create automatically.
        rings: the messages that retroactive addresses keep for queues that join later.
        limited: the addresses with limits; ``accounts`` are the open ones among them.
        dead_letters: forwards messages that leave a queue for another address.
        refreshing: the queues that are about to follow a change of policies or address settings.
        departures: the deleted queues that are not forgotten before their last letter is sent.
        unknown_arguments: treatment of arguments without effect.
        reply_queues: how many of ``queues`` are for answers of one channel.
        queues_max: how many queues there may be, apart from reply queues; -1: any number.
    """

    def __init__(
        self,
        name: str,
        effects: NodeEffects,
        *,
        ledger: LossLedger | None = None,
        address_settings: AddressSettingsRepository | None = None,
        policies: PolicyRepository | None = None,
    ) -> None:
        super().__init__(name, effects)
        self.ledger = LossLedger() if ledger is None else ledger
        self.address_settings = AddressSettingsRepository() if address_settings is None else address_settings
        self.policies = PolicyRepository() if policies is None else policies
        self.limited = LimitedAddresses(self, self.address_settings)
        self.accounts = self.limited.accounts
        self.publisher = Publisher(self, self.ledger, self.address_settings, self.limited)
        self.nodes = NodeDirectory(self)
        self.rings = RetroactiveRings(self)
        self.departures = Departures(self)
        self.refreshing = Refreshing(self)
        self.dead_letters = DeadLetters(self)
        self.dead_letters.ensure_target = self.nodes.ensure_target
        self.forwarder: Forwarder = self.dead_letters  # of queues that are declared from now on
        self.batches = Batches()
        self.unknown_arguments = WARN
        self.reply_queues = 0
        self.queues_max = -1
        self._lifetimes: dict[Queue, Lifetime] = {}
        self._declared: dict[Queue, ResolvedQueue] = {}
        self._owned: dict[object, dict[Queue, None]] = {}  # exclusive queues, by their connection
        self._reaps_declared = self._some_reap_declared()
        self._timed = TimedQueues()
        self._round: list[QueuePolicies] | None = None  # still to be visited in this round, the next one last
        self._following = NEVER  # the first time that one of those before is due at
        self.address_settings.listeners.append(self.address_settings_changed)
        self.policies.listeners.append(self.policy_changed)

    # ------------------------------------------------------------------ queues

    def queue_for(self, name: str, owner: object | None = None) -> Queue:
        """Return a queue that ``owner``'s connection may use. Raises :class:`NotFound`, :class:`ResourceLocked`."""
        queue = self.queues.get(name)
        if queue is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.name}'")
        self.check_owner(queue, owner)
        return queue

    def listed_queues(self) -> list[Queue]:
        """Return the queues that may be listed by name: all but reply queues, whose names allow answering."""
        return [queue for queue in self.queues.values() if not is_reply_name(queue.name)]

    def check_owner(self, queue: QueueState, owner: object | None) -> None:
        """Check that a connection may use a queue, which may be exclusive to another one.

        Raises :class:`ResourceLocked`.
        """
        holder = as_queue(queue).owner
        if holder is not None and holder is not owner:
            raise ResourceLocked(
                f"cannot obtain exclusive access to locked queue '{queue.name}' in vhost '{self.name}': "
                "it belongs to another connection"
            )

    def declare_queue(  # noqa: PLR0913 - one keyword per property
        self,
        name: str,
        *,
        now: int,
        durable: bool = False,
        auto_delete: bool = False,
        owner: object | None = None,
        arguments: Arguments | None = None,
        queue_id: int = 0,
        server_named: bool = False,
        address: str = "",
        auto_created: bool = False,
        configured: bool = False,
    ) -> Queue:
        """Create a queue, or check that the existing one is the same.

        ``owner``: the connection an exclusive queue belongs to. ``server_named``: the broker chose the name, which may
        then start with ``amq.``. ``address``: the address whose settings apply; its own name unless given.
        ``auto_created``, ``configured``: see :class:`~annulet.core.host.auto_created.Lifetime`. Raises
        :class:`ResourceLocked`, :class:`PreconditionFailed`, :class:`InvalidArgument`, :class:`AccessRefused`.
        """
        self.latest = max(self.latest, now)
        given: Arguments = {} if arguments is None else arguments
        if name in self.queues:
            queue = self.queue_for(name, owner)
            self._require_same(queue, given, durable=durable, auto_delete=auto_delete, exclusive=owner is not None)
            queue.note_use(now)
            return queue
        if not server_named:
            self._refuse_name("queue", name)
        self._refuse_beyond_limit(name)
        ring = is_ring_name(name)
        resolved = self._resolve(name, address, given, queue_id)
        selector = compile_filter(resolved.settings.selector, SELECTOR_PLACE)
        self.departures.free_name(name)
        queue = Queue(
            name,
            resolved.settings,
            self.effects,
            self.ledger,
            durable=durable,
            auto_delete=auto_delete,
            owner=owner,
            queue_id=queue_id,
            forwarder=self.forwarder,
        )
        queue.batches = self.batches
        queue.use_timed(self._timed, always=auto_created)
        queue.note_use(now)
        self._lifetimes[queue] = Lifetime(
            address or name, auto_created=auto_created, configured=configured or ring, created_at=now
        )
        if selector is not None:
            self.filters[queue] = selector
        self._admit(queue, resolved)
        if resolved.without_effect:
            self.effects.arguments_without_effect(queue, resolved.without_effect)
        return queue

    def _refuse_beyond_limit(self, name: str) -> None:
        """Raise :class:`PreconditionFailed` when the virtual host has as many queues as it may."""
        if 0 <= self.queues_max <= len(self.queues) - self.reply_queues and not is_reply_name(name):
            raise PreconditionFailed(
                f"cannot declare queue '{name}': queue limit in vhost '{self.name}' ({self.queues_max}) is reached; "
                "delete some or have max-queues raised"
            )

    def _resolve(self, name: str, address: str, given: Arguments, queue_id: int) -> ResolvedQueue:
        if _keeps_its_settings(name):
            return resolve_queue(name, name, given, AddressSettingsRepository())
        unknown = ACCEPT if queue_id else self.unknown_arguments  # with an id it is one that was declared once
        return resolve_queue(
            name, address or name, given, self.address_settings, self.policies, unknown=unknown, known=queue_id != 0
        )

    def _admit(self, queue: Queue, resolved: ResolvedQueue) -> None:
        queue.note_origins(resolved.origins)
        self._declared[queue] = resolved
        if self.accounts.by_address:
            self.limited.tell(queue)
        self.queues[queue.name] = queue
        self.reply_queues += is_reply_name(queue.name)
        queue.events = self.effects.events_of(queue)
        self._bindings_to_queue[queue] = {}
        if queue.owner is not None:
            self._owned.setdefault(queue.owner, {})[queue] = None
        self.graph_changed()

    def _require_same(
        self, queue: Queue, given: Arguments, *, durable: bool, auto_delete: bool, exclusive: bool
    ) -> None:
        """Compare with the queue's declaration, and with its present settings."""
        what = f"queue '{queue.name}' in vhost '{self.name}'"
        require_same("durable", what, durable, queue.durable)
        require_same("auto_delete", what, auto_delete, queue.auto_delete)
        require_same("exclusive", what, exclusive, queue.owner is not None)
        resolved = self._declared[queue]
        declared = parse_queue_arguments(resolved.arguments, queue.name, unknown=ACCEPT)
        require_same_settings(
            what,
            parse_queue_arguments(given, queue.name, unknown=self.unknown_arguments),
            declared,
            queue.settings,
            resolved.origins,
        )

    def update_queue(self, queue: Queue, settings: QueueSettings, now: int) -> None:
        """Change the settings of a live queue, here and not on the queue: routes depend on its filter and limits.

        Differing values belong to the operator from now on: they follow no policy or address setting any more.

        Raises :class:`PreconditionFailed` when ``max_consumers`` is below the consumers it has, or if the settings need
        all messages in memory and these do not fit, and the errors of :meth:`Queue.update` for unchangeable settings.
        """
        self._require_room(queue, settings)
        require_whole(queue, settings)
        current = self._declared[queue]
        changed = {
            field: OPERATOR for field in current.origins if getattr(settings, field) != getattr(current.settings, field)
        }
        self._change(queue, replace(current, settings=settings, origins={**current.origins, **changed}), now)

    def change_queue(self, queue: Queue, changes: Arguments, now: int) -> None:
        """Change some settings of a live queue, given as arguments: an operator's word, which no policy overrides.

        Raises :class:`InvalidArgument` for wrong arguments and those that cannot change, :class:`PreconditionFailed` as
        :meth:`update_queue`.
        """
        resolved = change_queue(self._declared[queue], changes)
        self._require_room(queue, resolved.settings)
        require_whole(queue, resolved.settings)
        self._change(queue, resolved, now)

    def restore_settings(self, queue: Queue, former: ResolvedQueue, now: int) -> None:
        """Give a queue settings that it had, with their origins; raises as :meth:`update_queue`."""
        self._require_room(queue, former.settings)
        require_whole(queue, former.settings)
        self._change(queue, former, now)

    def _require_room(self, queue: Queue, settings: QueueSettings) -> None:
        if 0 <= settings.max_consumers < queue.takers:
            raise PreconditionFailed(
                f"max-consumers of queue '{queue.name}' in vhost '{self.name}' cannot be {settings.max_consumers}: "
                f"it has {queue.takers} consumers; cancel some first"
            )

    def _change(self, queue: Queue, resolved: ResolvedQueue, now: int) -> None:
        """Carry out a change from any source; routes depend on filter and limits."""
        selector = compile_filter(resolved.settings.selector, SELECTOR_PLACE)
        if resolved.settings != queue.settings:
            queue.update(resolved.settings, now)
        queue.note_origins(resolved.origins)
        self._declared[queue] = resolved
        if selector is None:
            self.filters.pop(queue, None)
        else:
            self.filters[queue] = selector
        self.graph_changed()

    def delete_queue(self, queue: Queue, now: int, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue with its bindings, messages and consumers. Returns how many messages were pending.

        Raises :class:`PreconditionFailed` when ``if_unused`` and it has consumers, or ``if_empty`` and messages pend or
        are scheduled.
        """
        if queue.deleted:
            return 0
        what = f"queue '{queue.name}' in vhost '{self.name}'"
        if if_unused and queue.users:
            raise PreconditionFailed(
                f"{what} in use: it has {queue.consumers.count} consumers and {len(queue.leases)} leases; end them or "
                "delete without if-unused"
            )
        queue.tick(now)
        if if_empty:
            queue.finish_slices(now)
        held = queue.order.count + queue.schedule.count
        if if_empty and held:
            raise PreconditionFailed(f"{what} not empty: it holds {held} messages; purge it or delete without if-empty")
        edges = self.bindings_of_queue(queue)
        del self.queues[queue.name]
        self.reply_queues -= is_reply_name(queue.name)
        del self._bindings_to_queue[queue]
        owned = self._owned.get(queue.owner) if queue.owner is not None else None
        if owned is not None:
            owned.pop(queue, None)
            if not owned:
                del self._owned[queue.owner]
        del self._lifetimes[queue]
        self._timed.discard(queue)
        del self._declared[queue]
        self.filters.pop(queue, None)
        self.graph_changed()
        if queue.name not in self.exchanges:  # an address of this name keeps its ids for its other queues
            self.publisher.forget_duplicates(queue.name)
        pending = queue.delete(now)
        self.drop_edges(edges)
        self.accounts.queue_gone(queue)
        self.departures.begin(queue)
        self.rings.queue_deleted(queue)
        return pending

    def write_down(self, queue: Queue) -> None:
        """Store an implicitly created durable queue; if that fails it does not exist."""
        if not queue.durable:
            return
        try:
            self.effects.queue_created(queue)
        except BaseException:
            self.delete_queue(queue, self.latest)
            raise

    # ------------------------------------------------------------------ diverts

    def add_divert(self, divert: Divert) -> None:
        """Let a divert take part in routing. Raises :class:`PreconditionFailed` when its name is taken."""
        if self.diverts.add(divert):
            self.graph_changed()

    def remove_divert(self, name: str) -> None:
        """Take a divert out. Raises :class:`NotFound`."""
        self.diverts.remove(name)
        self.graph_changed()

    # ------------------------------------------------------------------ sources of settings

    def settings_of(self, address: str) -> ResolvedSettings:
        """Return the settings of an address, merged from all that match it."""
        return self.address_settings.resolve(address)

    def settings_address_of(self, queue: Queue) -> str:
        """Return the address whose settings apply to a queue: the one it was declared for, else its own name."""
        lifetime = self._lifetimes.get(queue)
        return queue.name if lifetime is None else lifetime.address  # deleted, and its last messages are still going

    def lifetime_of(self, queue: Queue) -> Lifetime:
        """Return the lifetime of an existing queue."""
        return self._lifetimes[queue]

    def resolved_for(self, queue: Queue) -> ResolvedQueue:
        """Return the settings of a queue with the origin of each, and those set aside."""
        return self._declared[queue]

    def address_settings_changed(self, pattern: AddressPattern) -> None:
        """Let the queues, the addresses and their rings follow a change of address settings: very many in slices."""
        self.rings.settings_changed(pattern)
        self._reaps_declared = self._some_reap_declared()
        self.refreshing.begin(
            [queue for queue in self.queues.values() if pattern.matches(self._lifetimes[queue].address)]
        )
        for address in list(self.publisher.duplicates.addresses()):
            if pattern.matches(address):
                self.publisher.duplicates.resize(address, self.settings_of(address).id_cache_size)
        self.limited.limit([address for address in self.accounts.by_address if pattern.matches(address)])
        self.limited.uncounted = True
        self.graph_changed()

    def _some_reap_declared(self) -> bool:
        """Return whether any address setting deletes unused declared queues."""
        given = [self.address_settings.get(pattern) for pattern in self.address_settings.patterns()]
        return any(settings is not None and settings.values.get("auto_delete_created_queues") for settings in given)

    def policy_changed(self, policy: Policy) -> None:
        """Let the queues follow a change of policies, very many of them in slices."""
        del policy  # another may apply in its place, to queues it never matched
        self.refreshing.begin(list(self.queues.values()))

    def refresh_queue(self, queue: Queue) -> None:
        """Let a queue follow the policies and address settings that are in force."""
        if not _keeps_its_settings(queue.name):
            self._change(queue, refresh(self._declared[queue], self.address_settings, self.policies), self.latest)

    # ------------------------------------------------------------------ consumers

    def check_consumer(self, queue: Queue, *, exclusive: bool) -> None:
        """Check that one more consumer may be attached. Raises :class:`AccessRefused` (AMQP 0-9-1 §1.8.3.3)."""
        # An exclusive consumer excludes all others: of more than one none is examined.
        if queue.takers <= 1 and any(consumer.exclusive for consumer in queue.consumers):
            raise AccessRefused(
                f"queue '{queue.name}' in vhost '{self.name}' in exclusive use by another consumer; "
                "cancel that one first"
            )
        if exclusive and queue.users:
            raise AccessRefused(
                f"queue '{queue.name}' in vhost '{self.name}' has {queue.consumers.count} consumers and "
                f"{len(queue.leases)} leases; exclusive use needs a queue without any"
            )
        if 0 <= queue.settings.max_consumers <= queue.takers:
            raise AccessRefused(
                f"queue '{queue.name}' in vhost '{self.name}' has {queue.takers} consumers and max-consumers is "
                f"{queue.settings.max_consumers}; cancel one first"
            )

    def check_reader(self, queue: Queue, settings: ConsumerSettings) -> None:
        """Check that a consumer may load all of a queue, if it has to and cannot read it in place.

        Raises :class:`PreconditionFailed` if it does not fit into memory, or if the disk refuses to read it.
        """
        if not settings.looks_at_all:
            return
        if queue.order.pages_behind() is None:
            queue.read_in("a consumer that browses, selects, replays or leaves its own messages out")
        elif queue.grouped_lanes is not None and not settings.browse:  # its group may have to wait for a match
            queue.read_in("a consumer that selects, replays or leaves its own messages out, where there are groups,")

    def consumer_removed(self, state: QueueState, now: int) -> bool:
        """Delete an auto-delete queue that lost its last consumer; call after each consumer that ends.

        A session that closes returns its deliveries first. Returns whether the queue was deleted.
        """
        queue = as_queue(state)
        if queue.deleted or queue.users:
            return False
        if (queue.auto_delete and queue.had_consumer) or self._abandoned(queue, now):
            self.delete_queue(queue, now)
            return True
        return False

    def connection_closed(self, owner: object, now: int) -> list[Queue]:
        """Delete the exclusive queues of a connection that ended, and return them; very many go in slices of work."""
        owned = list(self._owned.get(owner, ()))
        for queue in owned[:QUEUES_AT_ONCE]:
            self.delete_queue(queue, now)
        if len(owned) > QUEUES_AT_ONCE:
            self.effects.later(OwnedQueues(self, owned[QUEUES_AT_ONCE:]), now)
        return owned

    def _abandoned(self, queue: Queue, now: int) -> bool:
        due_at = self._reaped_at(queue)
        return due_at != NEVER and due_at <= now

    def unused_at(self, queue: Queue) -> int:
        """Return the time at which an unused queue will be deleted; 0 for never."""
        at = self._reaped_at(queue)
        if queue.settings.expires >= 0 and not queue.users:
            at = sooner(at, queue.last_used_at + queue.settings.expires)
        return at

    def _reaped_at(self, queue: Queue) -> int:
        lifetime = self._lifetimes[queue]
        if not lifetime.auto_created and not self._reaps_declared:  # called each second for every queue
            return NEVER
        return queue_due_at(queue, lifetime, self.settings_of(lifetime.address))

    # ------------------------------------------------------------------ what follows changes of the graph

    def address_added(self, address: Address) -> None:
        """Have the rings of a new address set up before its first message."""
        self.rings.address_added(address)

    def address_dropped(self, address: Address) -> None:
        """Delete the messages an address kept for later queues."""
        self.rings.address_dropped(address)

    def before_routing(self) -> None:
        """Update the rings before a route is looked up."""
        self.rings.before_routing()

    def kept_for(self, address: Address, binding: Binding) -> list[Message]:
        """Return copies of the messages an address kept, for a queue about to join."""
        return self.rings.kept_for(address, binding)

    def queue_joined(self, address: Address, binding: Binding, kept: list[Message]) -> None:
        """Give a queue that joined an address the kept messages, if filters admit them."""
        self.rings.queue_joined(address, binding, kept)

    def binding_removed(self, binding: Binding) -> None:
        """Drop the duplicate ids of a node that lost its last queue."""
        self.publisher.binding_removed(binding)

    def exchange_dropped(self, exchange: Exchange) -> None:
        """Drop the duplicate ids of a node that is gone."""
        self.publisher.exchange_dropped(exchange)

    def judge_route(self, route: Route) -> None:
        """Find out whether limits or address settings have a say in each message of a route."""
        self.publisher.judge_route(route)

    # ------------------------------------------------------------------ due work

    def tick(self, now: int) -> int:
        """Do all due work: expiry, schedules, unused queues and addresses. Returns when more is due; 0 for never.

        Messages and queues that arrive later may be due earlier, so call it at least every second. Being late costs
        memory and counters only: an expired message is never delivered.
        """
        self._round = None
        following = self.tick_some(now, 1 << 62)
        assert following is not None
        return following

    def tick_some(self, now: int, most: int) -> int | None:
        """Do it for so many queues, one call after the other. Returns what :meth:`tick` does, ``None`` before the last.

        Queues in which nothing can fall due are left out, unless a setting may end any of them when it is unused.
        Queues examined first request from their effects to be woken for work that falls due in between.
        """
        if self._round is None:
            self.rings.settle(now)
            self._round = [*(self.queues.values() if self._reaps_declared else self._timed.queues)]
            self._round.reverse()
            self._following = NEVER
        self.latest = max(self.latest, now)
        for _ in range(min(most, len(self._round))):
            queue = as_queue(self._round.pop())
            if queue.deleted:  # an earlier one took it along
                self._timed.discard(queue)
                continue
            if not queue.is_timed() and not self._lifetimes[queue].auto_created:
                self._timed.discard(queue)
            queue.tick(now)
            goes_at = self.unused_at(queue)
            if goes_at and goes_at <= now:
                self.delete_queue(queue, now)
                continue
            self._following = sooner(self._following, sooner(queue.next_due_at(), goes_at))
        if self._round:
            return None
        self._round = None
        for address in [address for address in self.addresses.values() if address.auto_created]:
            due_at = address_due_at(address, self.settings_of(address.name), now)
            if due_at and due_at <= now:
                self.nodes.delete_address(address.name)
            else:
                self._following = sooner(self._following, due_at)
        return self._following


def _keeps_its_settings(name: str) -> bool:
    """Return whether policies and address settings are not for the queue of this name."""
    return is_ring_name(name) or is_reply_name(name) or is_sealed_name(name)
