"""Queues, exchanges, bindings, addresses, diverts, address settings and policies in the configuration file.

The file's shape and its checks; :mod:`annulet.broker.recovery.declaring` puts them into a broker. Each table belongs to
a virtual host, ``/`` unless it says otherwise. Arguments have the names of :mod:`annulet.core.configuration.arguments`,
with or without ``x-``.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.address_settings import (
    AddressPattern,
    AddressSettings,
    PolicyRepository,
    parse_address_settings,
)
from annulet.core.configuration.arguments import parse_alternate_exchange, parse_queue_arguments
from annulet.core.configuration.arguments.values import NAME_BYTES_MAX, refuse_line_breaks
from annulet.core.routing.diverts import STRIP, Divert
from annulet.core.routing.exchanges import EXCHANGE_TYPES
from annulet.core.routing.exchanges.address import ROUTING_TYPES_ARGUMENT, parse_routing_types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.configuration.arguments import Arguments
    from annulet.core.message.message import PropertyValue

DEFAULT_HOST: Final = "/"

MATCH: Final = "match"
VIRTUAL_HOST: Final = "virtual_host"


class DefinitionError(Exception):
    """A table of the file cannot be applied as written. ``place`` names the table and its object."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place


class QueueBinding(msgspec.Struct, frozen=True):
    """A member of ``bindings`` in ``[[queues]]``; ``exchange`` may be an address."""

    exchange: str
    routing_key: str = ""
    arguments: dict[str, Any] = {}


class QueueDefinition(msgspec.Struct, frozen=True):
    """``[[queues]]``."""

    name: str
    virtual_host: str = DEFAULT_HOST
    durable: bool = True
    auto_delete: bool = False
    arguments: dict[str, Any] = {}
    bindings: list[QueueBinding] = []

    def check(self) -> None:
        """Raise :class:`InvalidArgument` unless a queue could be made of it."""
        _check_name("name", self.name)
        parse_queue_arguments(arguments_of(self.arguments), self.name)
        for binding in self.bindings:
            arguments_of(binding.arguments)


class ExchangeDefinition(msgspec.Struct, frozen=True):
    """``[[exchanges]]``."""

    name: str
    type: str
    virtual_host: str = DEFAULT_HOST
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, Any] = {}

    def check(self) -> None:
        """Raise :class:`InvalidArgument` unless an exchange could be made of it."""
        _check_name("name", self.name)
        if self.type not in EXCHANGE_TYPES:
            raise InvalidArgument(f"unknown type {self.type!r}; known are {', '.join(EXCHANGE_TYPES)}")
        parse_alternate_exchange(arguments_of(self.arguments))


class BindingDefinition(msgspec.Struct, frozen=True):
    """``[[bindings]]``."""

    source: str
    destination: str
    destination_type: Literal["queue", "exchange"] = "queue"
    virtual_host: str = DEFAULT_HOST
    routing_key: str = ""
    arguments: dict[str, Any] = {}


class AddressDefinition(msgspec.Struct, frozen=True):
    """``[[addresses]]``; without ``routing_types`` the address setting ``default-address-routing-type`` decides."""

    name: str
    virtual_host: str = DEFAULT_HOST
    durable: bool = True
    routing_types: list[str] = []

    def check(self) -> None:
        """Raise :class:`InvalidArgument` unless an address could be made of it."""
        _check_name("name", self.name)
        if self.routing_types:
            address_arguments(self.routing_types)


class DivertDefinition(msgspec.Struct, frozen=True):
    """``[[diverts]]``."""

    name: str
    address: str
    forwarding_addresses: list[str]
    virtual_host: str = DEFAULT_HOST
    filter: str = ""
    exclusive: bool = False
    routing_type: str = STRIP

    def divert(self) -> Divert:
        """Return the divert. Raises :class:`InvalidArgument`."""
        _check_name("name", self.name)
        for address in self.forwarding_addresses:
            _check_name("forwarding_addresses", address)
        return Divert(
            self.name,
            self.address,
            tuple(self.forwarding_addresses),
            selector=self.filter,
            exclusive=self.exclusive,
            routing_type=self.routing_type,
        )


class PolicyDefinition(msgspec.Struct, frozen=True):
    """``[[policies]]``."""

    name: str
    pattern: str
    definition: dict[str, Any]
    virtual_host: str = DEFAULT_HOST
    priority: int = 0


class StaticDefinitions(msgspec.Struct, frozen=True, kw_only=True):
    """All definitions of one file. ``source`` is the file's name, for errors."""

    source: str = "configuration"
    queues: list[QueueDefinition] = []
    exchanges: list[ExchangeDefinition] = []
    bindings: list[BindingDefinition] = []
    addresses: list[AddressDefinition] = []
    diverts: list[DivertDefinition] = []
    policies: list[PolicyDefinition] = []
    address_settings: list[dict[str, Any]] = []
    """``match``, ``virtual_host``, and settings by Artemis's names or ours."""

    def virtual_hosts(self) -> list[str]:
        """Return the virtual hosts that any table names, each once."""
        tables = (self.queues, self.exchanges, self.bindings, self.addresses, self.diverts, self.policies)
        names = {item.virtual_host: None for table in tables for item in table}
        names.update({str(item.get(VIRTUAL_HOST, DEFAULT_HOST)): None for item in self.address_settings})
        return list(names)

    def address_settings_of(self, virtual_host: str) -> Iterator[tuple[str, AddressSettings]]:
        """Return the address settings of a virtual host by pattern. Raises :class:`DefinitionError`."""
        for item in self.address_settings:
            pattern, host, settings = _address_setting(item)
            if host == virtual_host:
                yield pattern, settings

    def check(self) -> None:
        """Check all that can be checked without a broker. Raises :class:`DefinitionError`."""
        self._check_settings()
        for host in self.virtual_hosts():
            with checked(f"{VIRTUAL_HOST} {host!r}"):
                refuse_line_breaks("virtual host", host)
        for queue in self.queues:
            with checked(place("queues", queue.name)):
                queue.check()
        for exchange in self.exchanges:
            with checked(place("exchanges", exchange.name)):
                exchange.check()
        for address in self.addresses:
            with checked(place("addresses", address.name)):
                address.check()
        for divert in self.diverts:
            with checked(place("diverts", divert.name)):
                divert.divert()
        for edge in self.bindings:
            with checked(place("bindings", edge.destination)):
                arguments_of(edge.arguments)

    def _check_settings(self) -> None:
        """Check what holds for objects by pattern. A second one of a name would take the place of the first unsaid."""
        seen: set[tuple[str, str, str]] = set()
        for item in self.address_settings:
            pattern, host, _ = _address_setting(item)
            _refuse_second(seen, "address_settings", host, pattern)
        policies = PolicyRepository()
        for policy in self.policies:
            with checked(place("policies", policy.name)):
                policies.set(policy.name, policy.pattern, arguments_of(policy.definition), policy.priority)
            _refuse_second(seen, "policies", policy.virtual_host, policy.name)


def _refuse_second(seen: set[tuple[str, str, str]], table: str, host: str, name: str) -> None:
    if (table, host, name) in seen:
        raise DefinitionError(
            place(table, name), f"is there twice in virtual host '{host}'; make one of both, or give them two names"
        )
    seen.add((table, host, name))


@contextmanager
def checked(place_in_file: str) -> Iterator[None]:
    """Give errors of the core their place: raises :class:`DefinitionError` for :class:`InvalidArgument`."""
    try:
        yield
    except InvalidArgument as error:
        raise DefinitionError(place_in_file, str(error)) from error


def place(table: str, name: str) -> str:
    """Name an object of a table the way the file has it."""
    return f"[[{table}]] '{name}'"


def address_arguments(routing_types: list[str]) -> Arguments:
    """Return the arguments an address is declared with. Raises :class:`InvalidArgument`."""
    return {ROUTING_TYPES_ARGUMENT: ",".join(parse_routing_types([*routing_types]))}


def arguments_of(table: dict[str, Any]) -> Arguments:
    """Return a TOML table as arguments. Raises :class:`InvalidArgument` for dates and times, which no argument has."""
    return {name: _value(name, value) for name, value in table.items()}


def _value(name: str, value: Any) -> PropertyValue:
    if isinstance(value, list):
        return [_value(name, item) for item in value]
    if isinstance(value, dict):
        return arguments_of(value)
    if isinstance(value, str | int | float):
        return value
    raise InvalidArgument(f"argument '{name}' cannot be a date or time ({value}); write a number or a text")


def _address_setting(item: dict[str, Any]) -> tuple[str, str, AddressSettings]:
    """Return pattern, virtual host and settings of one table. Raises :class:`DefinitionError`."""
    pattern = item.get(MATCH)
    if not isinstance(pattern, str):
        raise DefinitionError(
            "[[address_settings]]", f"'{MATCH}' must be a pattern such as 'orders.#', not {pattern!r}"
        )
    host = item.get(VIRTUAL_HOST, DEFAULT_HOST)
    with checked(place("address_settings", pattern)):
        if not isinstance(host, str):
            raise InvalidArgument(f"'{VIRTUAL_HOST}' must be a name, not {host!r}")
        refuse_line_breaks("virtual host", host)
        AddressPattern(pattern)
        given = {name: value for name, value in item.items() if name not in {MATCH, VIRTUAL_HOST}}
        return pattern, host, parse_address_settings(arguments_of(given))


def _check_name(field: str, value: str) -> None:
    """Refuse a name that no AMQP 0-9-1 client could write and no delivery could carry."""
    if not value:
        raise InvalidArgument(f"'{field}' is empty; give one")
    refuse_line_breaks(f"'{field}':", value)
    length = len(value.encode())
    if length > NAME_BYTES_MAX:
        raise InvalidArgument(f"'{field}' has {length} bytes, a name has at most {NAME_BYTES_MAX}; give a shorter one")
