"""Single steps of a plan, and what undoes each. Number, order and pace are decided by the application."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from annulet.broker.durability.durable_declarations import DurableDeclarations
from annulet.broker.operation.bindings import bindings_of_destination, bindings_of_queue, bindings_of_source
from annulet.broker.operation.definitions.current import binding_item, exchange_item
from annulet.broker.operation.definitions.items import (
    ADDRESS_SETTINGS,
    BINDING,
    DIVERT,
    EXCHANGE,
    GLOBAL_PARAMETER,
    PERMISSION,
    POLICY,
    QUEUE,
    QUEUE_SETTINGS,
    USER,
    USER_LIMIT,
    VIRTUAL_HOST,
    VIRTUAL_HOST_LIMIT,
    Item,
)
from annulet.broker.operation.definitions.planning import CREATE, DELETE, Step
from annulet.broker.operation.global_parameters import CLUSTER_NAME
from annulet.broker.operation.operator_settings import read_divert
from annulet.core.base.errors import AccessRefused, NotFound, PreconditionFailed
from annulet.core.routing.bindings import TO_QUEUE
from annulet.store.database.definitions import USER as OF_USER
from annulet.store.database.definitions import VIRTUAL_HOST as OF_HOST
from annulet.store.database.definitions import PermissionRecord

if TYPE_CHECKING:
    from annulet.broker.broker import Broker
    from annulet.broker.security.authentication import User
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue

Undo = Callable[[], object]
"""Undoes a step; it may return a task that has to end first. Harmless when the step was not done."""


class Effects:
    """Does single steps. An administrator is asked for before each: its rights may be taken away meanwhile."""

    def __init__(self, broker: Broker, user: User | None) -> None:
        self.deleted: list[tuple[VirtualHost, Queue]] = []  # queues that are forgotten after their last dead letter
        self._broker = broker
        self._user = user

    def do(self, step: Step) -> None:
        """Do one step. Raises what the broker raises."""
        if self._user is not None and not self._broker.authenticator.is_administrator(self._user):
            raise AccessRefused(f"user '{self._user.name}' is no administrator any more")
        if step.action == DELETE:
            self._delete(step.item)
        else:
            self._put(step.item)

    def undo_of(self, step: Step) -> Undo:
        """Return the undo of a step that is about to be done. Its call raises the reason when it cannot be undone."""
        item = step.item
        if step.action == DELETE:
            return self._undo_of_queue(item) if item.kind == QUEUE else self._undo_of_deletion(item)
        if item.kind == QUEUE_SETTINGS:
            return self._undo_of_settings(item)
        former = step.former
        if step.action != CREATE:
            return _nothing if former is None else lambda: self._put(former)
        return _nothing if self._is_there(item) else lambda: self._take_back(item)

    def _is_there(self, item: Item) -> bool:
        """Return whether a client has made meanwhile what a step would make: then it is not the step's to undo."""
        host = self._broker.hosts.get(item.host)
        if host is None:
            return False
        if item.kind == QUEUE:
            return item.key[0] in host.queues
        if item.kind == EXCHANGE:
            return item.key[0] in host.exchanges
        if item.kind == BINDING:
            source, kind, destination, routing_key, arguments = item.key
            exchange = host.exchanges.get(source)
            return exchange is not None and (kind, destination, routing_key, arguments) in exchange.bindings
        return False

    def _take_back(self, item: Item) -> object:
        """Undo the making of an item, but not of a queue that has got messages, or of a virtual host with such."""
        hosts = self._broker.hosts
        queues: list[Any] = []
        if item.kind == VIRTUAL_HOST and item.key[0] in hosts:
            queues = list(hosts[item.key[0]].queues.values())
        elif item.kind == QUEUE and item.host in hosts:
            queues = [queue for queue in [hosts[item.host].queues.get(item.key[0])] if queue is not None]
        full = next((queue for queue in queues if queue.message_count()), None)
        if full is not None:
            raise PreconditionFailed(f"queue '{full.name}' has {full.message_count()} messages meanwhile")
        try:
            return self._delete(item)
        except NotFound:
            return None

    def _undo_of_settings(self, item: Item) -> Undo:
        """Return what lets a queue have its present settings again."""
        broker, host = self._broker, self._broker.hosts.get(item.host)
        queue = None if host is None else host.queues.get(item.key[0])
        if host is None or queue is None:
            return _nothing  # the step makes or needs a queue that is not there: there is nothing to go back to
        return broker.operator_settings.restoring(host, queue, broker.clock)

    def _undo_of_deletion(self, item: Item) -> Undo:
        """Return what makes an item again, an exchange with its bindings."""
        host = self._broker.hosts.get(item.host)
        edges: list[Item] = []
        if item.kind == EXCHANGE and host is not None and item.key[0] in host.exchanges:
            edges = [binding_item(row) for row in bindings_of_source(host, item.key[0])]
            edges += [binding_item(row) for row in bindings_of_destination(host, item.key[0])]
        return lambda: self._put_all([item, *edges])

    def _undo_of_queue(self, item: Item) -> Undo:
        """Return what makes a queue again, with its bindings and settings; its messages are gone.

        Those are counted now: some may have come since the plan was made.
        """
        broker, host = self._broker, self._broker.hosts.get(item.host)
        queue = None if host is None else host.queues.get(item.key[0])
        if host is None or queue is None:
            return _nothing
        edges = [binding_item(row) for row in bindings_of_queue(host, queue.name) if row.source]
        settings = broker.operator_settings.of_queue(host, queue.name)
        changed = [Item(QUEUE_SETTINGS, host.name, item.key, settings)] if settings else []
        subscription, destroyed = host.lifetime_of(queue).subscription, queue.message_count()

        def make_again() -> None:
            lost = host.queues.get(queue.name) is not queue
            if lost:
                self._declare(item)
                again = host.queues[queue.name]
                if subscription is not None:
                    self._declarations(host.name).mark_subscription(again, subscription)
                self._put_all([*changed, *edges])
            if lost and destroyed:
                raise PreconditionFailed(f"it is there again, without its {destroyed} messages")

        return make_again

    def _put_all(self, items: list[Item]) -> None:
        for item in items:
            self._put(item)

    def _declarations(self, host: str) -> DurableDeclarations:
        return DurableDeclarations(self._broker.hosts[host], self._broker.catalogue)

    def _put(self, item: Item) -> None:
        broker, host, key, value = self._broker, item.host, item.key, item.value
        kind = item.kind
        if kind in {EXCHANGE, QUEUE, BINDING}:
            self._declare(item)
        elif kind == VIRTUAL_HOST:
            broker.virtual_hosts.put(key[0], value.get("description", ""), tuple(value.get("tags", ())))
        elif kind == USER:
            broker.access_directory.set_user(
                key[0], value["tags"], password_hash=value["password_hash"], scram=value.get("scram", "")
            )
        elif kind == PERMISSION:
            broker.access_directory.set_permission(PermissionRecord(key[0], host, **value))
        elif kind in {USER_LIMIT, VIRTUAL_HOST_LIMIT}:
            broker.access_directory.set_limit(_limited(kind), key[0], key[1], value["value"])
        elif kind == GLOBAL_PARAMETER:
            broker.global_parameters.set(key[0], value["value"])
            broker.server_properties[CLUSTER_NAME] = broker.global_parameters.cluster_name
        elif kind == QUEUE_SETTINGS:
            there = broker.hosts[host]
            broker.operator_settings.change_queue(there, there.queues[key[0]], value, broker.clock())
        elif kind == POLICY:
            broker.operator_settings.set_policy(
                broker.hosts[host], key[0], value["pattern"], value["definition"], value["priority"]
            )
        elif kind == DIVERT:
            broker.operator_settings.set_divert(broker.hosts[host], read_divert(key[0], value))
        else:
            assert kind == ADDRESS_SETTINGS, "there are no other kinds"
            broker.operator_settings.set_address_settings(broker.hosts[host], key[0], value["settings"])

    def _declare(self, item: Item) -> None:
        declarations, key, value = self._declarations(item.host), item.key, item.value
        if item.kind == QUEUE:
            declarations.queue(
                key[0],
                now=self._broker.clock(),
                durable=value["durable"],
                auto_delete=value["auto_delete"],
                arguments=value["arguments"],
            )
        elif item.kind == EXCHANGE:
            declarations.exchange(
                key[0],
                value["type"],
                durable=value["durable"],
                auto_delete=value["auto_delete"],
                internal=value["internal"],
                arguments=value["arguments"],
            )
        else:
            source, kind, destination, routing_key = key[:4]
            if kind == TO_QUEUE:
                queue = declarations.host.queue_for(destination)
                declarations.bind_queue(queue, source, routing_key, value["arguments"])
            else:
                declarations.bind_exchange(destination, source, routing_key, value["arguments"])

    def _delete(self, item: Item) -> object:
        """Delete an item. Returns the task that goes on with it, of a virtual host."""
        broker, host, key = self._broker, item.host, item.key
        kind = item.kind
        if kind in {QUEUE, EXCHANGE, BINDING}:
            self._undeclare(item)
        elif kind == VIRTUAL_HOST:
            return broker.virtual_hosts.delete(key[0])
        elif kind == USER:
            broker.access_directory.delete_users([key[0]], force=True)
        elif kind == PERMISSION:
            broker.access_directory.delete_permission(key[0], host)
        elif kind in {USER_LIMIT, VIRTUAL_HOST_LIMIT}:
            broker.access_directory.delete_limit(_limited(kind), key[0], key[1])
        elif kind == GLOBAL_PARAMETER:
            broker.global_parameters.remove(key[0])
            broker.server_properties[CLUSTER_NAME] = broker.global_parameters.cluster_name
        elif kind == POLICY:
            broker.operator_settings.remove_policy(broker.hosts[host], key[0])
        elif kind == ADDRESS_SETTINGS:
            broker.operator_settings.remove_address_settings(broker.hosts[host], key[0])
        elif kind == DIVERT:
            broker.operator_settings.remove_divert(broker.hosts[host], key[0])
        return None

    def _undeclare(self, item: Item) -> None:
        """Delete a queue, an exchange or a binding; one that is gone is fine."""
        declarations, key = self._declarations(item.host), item.key
        host = declarations.host
        if item.kind == QUEUE:
            queue = host.queues.get(key[0])
            if queue is not None:
                with self._sources_stay(host, [edge.source.name for edge in host.bindings_of_queue(queue)]):
                    host.delete_queue(queue, self._broker.clock())
                self.deleted.append((host, queue))
        elif item.kind == EXCHANGE:
            exchange = host.exchanges.get(key[0])
            if exchange is not None:
                with self._sources_stay(host, [edge.source.name for edge in exchange.incoming]):
                    host.delete_exchange(key[0])
        else:
            source, kind, destination, routing_key = key[:4]
            if source not in host.exchanges:
                return
            with self._sources_stay(host, [source]):
                if kind == TO_QUEUE and destination in host.queues:
                    queue = host.queue_for(destination)
                    declarations.unbind_queue(queue, source, routing_key, item.value["arguments"])
                elif kind != TO_QUEUE and destination in host.exchanges:
                    declarations.unbind_exchange(destination, source, routing_key, item.value["arguments"])

    @contextmanager
    def _sources_stay(self, host: VirtualHost, sources: list[str]) -> Iterator[None]:
        """Make exchanges again that go with their last binding: a document that keeps one names it."""
        known = [host.exchanges[name] for name in sorted(set(sources)) if name in host.exchanges]
        going = [exchange_item(host, exchange) for exchange in known if exchange.auto_delete]
        yield
        for item in going:
            if item.key[0] not in host.exchanges:
                self._declare(item)


def _limited(kind: str) -> str:
    return OF_USER if kind == USER_LIMIT else OF_HOST


def _nothing() -> None:
    """Undo nothing."""
