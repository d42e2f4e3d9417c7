"""Puts the definitions of the configuration file into a broker at its start.

Settings and policies go in before anything is declared, because queues take their values from them; the rest after
recovery, and once more is fine: identical existing objects stay as they are. Objects removed from the file stay.
Objects in it are never deleted for lack of use (Artemis §3.3).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from annulet.broker.durability.durable_declarations import DurableDeclarations
from annulet.broker.settings.configuration import StartError
from annulet.broker.settings.static_definitions import DefinitionError, address_arguments, arguments_of, place
from annulet.core.base.errors import CoreError
from annulet.core.routing.exchanges.address import ADDRESS_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from annulet.broker.settings.static_definitions import (
        AddressDefinition,
        BindingDefinition,
        QueueDefinition,
        StaticDefinitions,
    )
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.store.database.catalogue import Catalogue


def configure_host(host: VirtualHost, definitions: StaticDefinitions) -> None:
    """Give a new virtual host its address settings and policies. Raises :class:`StartError`."""
    try:
        for pattern, settings in definitions.address_settings_of(host.name):
            host.address_settings.set(pattern, settings)
    except DefinitionError as error:
        raise StartError(f"{definitions.source}: {error}") from error
    for policy in definitions.policies:
        if policy.virtual_host == host.name:
            with _placed(definitions, "policies", policy.name):
                host.policies.set(policy.name, policy.pattern, arguments_of(policy.definition), policy.priority)


def declare_all(
    hosts: Mapping[str, VirtualHost], catalogue: Catalogue, definitions: StaticDefinitions, now: int
) -> None:
    """Declare everything, durable objects in the catalogue too. Raises :class:`StartError`, ``CatalogueError``."""
    declarations = {name: DurableDeclarations(host, catalogue) for name, host in hosts.items()}
    for exchange in definitions.exchanges:
        with _placed(definitions, "exchanges", exchange.name):
            declarations[exchange.virtual_host].exchange(
                exchange.name,
                exchange.type,
                durable=exchange.durable,
                auto_delete=exchange.auto_delete,
                internal=exchange.internal,
                arguments=arguments_of(exchange.arguments),
            )
    for address in definitions.addresses:
        with _placed(definitions, "addresses", address.name):
            _declare_address(declarations[address.virtual_host], address)
    for queue in definitions.queues:
        with _placed(definitions, "queues", queue.name):
            _declare_queue(declarations[queue.virtual_host], queue, now)
    for edge in definitions.bindings:
        with _placed(definitions, "bindings", edge.destination):
            _bind(declarations[edge.virtual_host], edge)
    for divert in definitions.diverts:
        with _placed(definitions, "diverts", divert.name):
            hosts[divert.virtual_host].add_divert(divert.divert())


@contextmanager
def _placed(definitions: StaticDefinitions, table: str, name: str) -> Iterator[None]:
    """Give errors of the core the place in the file."""
    try:
        yield
    except CoreError as error:
        raise StartError(f"{definitions.source}: {place(table, name)}: {error}") from error


def _declare_address(declarations: DurableDeclarations, definition: AddressDefinition) -> None:
    host = declarations.host
    routing_types = definition.routing_types
    existing = host.addresses.get(definition.name)
    if existing is not None:
        existing.auto_created = False  # also one made by a client stays from now on
    if not routing_types:
        if existing is not None:
            return  # it exists, with any content
        routing_types = [host.settings_of(definition.name).default_address_routing_type]
    declarations.exchange(
        definition.name,
        ADDRESS_TYPE,
        durable=definition.durable,
        auto_delete=False,
        internal=False,
        arguments=address_arguments(routing_types),
    )


def _declare_queue(declarations: DurableDeclarations, definition: QueueDefinition, now: int) -> None:
    queue = declarations.queue(
        definition.name,
        now=now,
        durable=definition.durable,
        auto_delete=definition.auto_delete,
        arguments=arguments_of(definition.arguments),
    )
    declarations.host.lifetime_of(queue).configured = True
    for binding in definition.bindings:
        declarations.bind_queue(queue, binding.exchange, binding.routing_key, arguments_of(binding.arguments))


def _bind(declarations: DurableDeclarations, edge: BindingDefinition) -> None:
    arguments = arguments_of(edge.arguments)
    if edge.destination_type == "exchange":
        declarations.bind_exchange(edge.destination, edge.source, edge.routing_key, arguments)
    else:
        queue = declarations.host.queue_for(edge.destination)
        declarations.bind_queue(queue, edge.source, edge.routing_key, arguments)
