"""Applies a plan, all or nothing: when a step is refused, those before it are undone, the latest first.

Deletions come last, when everything else has succeeded. A broker that ends in the middle has a part of the plan; the
next plan for the same document has the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import structlog

from annulet.broker.durability.durable_declarations import DurableDeclarations
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
    TURN_SECONDS,
    USER,
    USER_LIMIT,
    VIRTUAL_HOST,
    VIRTUAL_HOST_LIMIT,
    Item,
)
from annulet.broker.operation.definitions.planning import CREATE, DELETE, Plan, Step, make_plan
from annulet.broker.operation.definitions.reading import Reading
from annulet.broker.operation.definitions.splitting import split_document
from annulet.broker.operation.durable_changes import durably
from annulet.broker.operation.global_parameters import CLUSTER_NAME
from annulet.broker.operation.operator_settings import read_divert
from annulet.broker.turns.list_turns import Turns
from annulet.core.base.errors import AccessRefused, CoreError, PreconditionFailed
from annulet.core.configuration.arguments.values import shown
from annulet.core.routing.bindings import TO_QUEUE
from annulet.store.database.definitions import USER as OF_USER
from annulet.store.database.definitions import VIRTUAL_HOST as OF_HOST
from annulet.store.database.definitions import PermissionRecord
from annulet.store.files.errors import CatalogueError

if TYPE_CHECKING:
    from annulet.broker.broker import Broker
    from annulet.broker.security.authentication import User

logger = structlog.get_logger(__name__)

Undo = Callable[[], object]

CONFLICTS_SHOWN: Final = 5


async def read_document(octets: bytes, host: str = "") -> Reading:
    """Read a document of definitions. ``host``: that it is of this virtual host alone, and does not name it.

    Raises :class:`~annulet.core.base.errors.InvalidArgument` for another document.
    """
    reading = Reading(host)
    turns = Turns(seconds=TURN_SECONDS)
    for found in split_document(octets):
        if found is not None:
            reading.read(*found)
        await turns.look()
    reading.settle()
    return reading


class DefinitionImports:
    """Applies documents to one broker, one after the other. Belongs to the event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._turn = asyncio.Lock()

    async def apply(self, reading: Reading, user: User | None, *, prune: bool = False, keep: bool = False) -> Plan:
        """Make the broker's definitions those of the document, and return the steps taken.

        ``user``: the administrator of the request; ``None`` at the start of the broker. ``prune``: delete what it does
        not name. ``keep``: existing definitions with other properties stay as they are (RabbitMQ),
        instead of refusing the document. Raises :class:`PreconditionFailed` for conflicts, and what a step raises; in
        both cases nothing has changed.
        """
        async with self._turn:
            plan = await make_plan(self._broker, reading, prune=prune)
            if plan.conflicts and not keep:
                listed = "; ".join(
                    f"{each.kind} {shown(each.name)}: {each.reason}" for each in plan.conflicts[:CONFLICTS_SHOWN]
                )
                raise PreconditionFailed(f"{len(plan.conflicts)} conflicts, nothing was changed: {listed}")
            await self._carry_out(plan, user)
        return plan

    async def _carry_out(self, plan: Plan, user: User | None) -> None:
        undone: list[Undo] = []
        turns = Turns(seconds=TURN_SECONDS)
        effects = Effects(self._broker, user)
        try:
            for step in plan.steps:
                undone.append(await durably(self._broker.definitions, lambda step=step: effects.do(step)))  # type: ignore[misc]
                await turns.look()
        except (CoreError, CatalogueError):
            await self._undo(undone)
            raise

    async def _undo(self, undone: list[Undo]) -> None:
        turns = Turns(seconds=TURN_SECONDS)
        for undo in reversed(undone):
            try:
                await durably(self._broker.definitions, undo)
            except (CoreError, CatalogueError) as error:  # the next plan shows the rest
                logger.error("a step of refused definitions could not be undone", error=str(error))  # noqa: TRY400 - the text says it all
            await turns.look()


class Effects:
    """Does single steps. An administrator is asked for before each: its rights may be taken away meanwhile."""

    def __init__(self, broker: Broker, user: User | None) -> None:
        self._broker = broker
        self._user = user

    def do(self, step: Step) -> Undo:
        """Do one step and return what undoes it. Raises what the broker raises; nothing has changed then."""
        if self._user is not None and not self._broker.authenticator.is_administrator(self._user):
            raise AccessRefused(f"user '{self._user.name}' is no administrator any more")
        if step.action == DELETE:
            self._delete(step.item)
            return _nothing
        self._put(step.item)
        if step.action == CREATE:
            return lambda: self._delete(step.item)
        former = step.former
        return _nothing if former is None else lambda: self._put(former)

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

    def _delete(self, item: Item) -> None:
        broker, host, key = self._broker, item.host, item.key
        kind = item.kind
        if kind in {QUEUE, EXCHANGE, BINDING}:
            self._undeclare(item)
        elif kind == VIRTUAL_HOST:
            broker.virtual_hosts.delete(key[0])
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

    def _undeclare(self, item: Item) -> None:
        """Delete a queue, an exchange or a binding; one that is gone is fine."""
        declarations, key = self._declarations(item.host), item.key
        host = declarations.host
        if item.kind == QUEUE:
            if key[0] in host.queues:
                host.delete_queue(host.queue_for(key[0]), self._broker.clock())
        elif item.kind == EXCHANGE:
            host.delete_exchange(key[0])
        else:
            source, kind, destination, routing_key = key[:4]
            if source not in host.exchanges:
                return
            if kind == TO_QUEUE and destination in host.queues:
                queue = host.queue_for(destination)
                declarations.unbind_queue(queue, source, routing_key, item.value["arguments"])
            elif kind != TO_QUEUE and destination in host.exchanges:
                declarations.unbind_exchange(destination, source, routing_key, item.value["arguments"])


def _limited(kind: str) -> str:
    return OF_USER if kind == USER_LIMIT else OF_HOST


def _nothing() -> Any:
    """Undo nothing: of a deletion, which comes when all else has succeeded."""
