"""Reads the sections of a document: RabbitMQ's export, or our own format, which has the same and more.

Definitions that this broker cannot have are no error: they are listed by name and reason, and the rest is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

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
    NotTaken,
)
from annulet.broker.operation.operator_settings import describe_divert
from annulet.broker.security.access_directory import check_name
from annulet.broker.security.given_limits import check_limit
from annulet.broker.security.password_hashes import read_hash
from annulet.core.base.errors import CoreError, InvalidArgument
from annulet.core.base.nearest import nearest_name
from annulet.core.base.sealed_names import is_sealed_name
from annulet.core.configuration.address_settings import (
    PolicyRepository,
    describe_address_settings,
    parse_address_settings,
)
from annulet.core.configuration.arguments import Arguments, parse_alternate_exchange, parse_queue_arguments
from annulet.core.configuration.arguments.unknown import WARN
from annulet.core.configuration.arguments.values import refuse_line_breaks, shown
from annulet.core.routing.bindings import TO_EXCHANGE, TO_QUEUE, arguments_text
from annulet.core.routing.diverts import STRIP, Divert
from annulet.core.routing.exchanges import EXCHANGE_TYPES
from annulet.store.database.definitions import USER as OF_USER
from annulet.store.database.definitions import VIRTUAL_HOST as OF_HOST

DEFAULT_HOST: Final = "/"
PREDECLARED: Final = "amq."
"""How names of exchanges begin that every virtual host has."""

OPERATOR_POLICY: Final = "operator_policy"
VHOST_LIMITS: Final = "vhost-limits"
CLUSTER_ID: Final = "internal_cluster_id"
"""A global parameter of a RabbitMQ cluster that names that very cluster."""

OF_BROKER: Final = frozenset({"vhosts", "users", "global_parameters"})
"""Sections whose items are of no virtual host."""

APPLY_TO: Final = ("queues", "all", "classic_queues", "quorum_queues", "streams")
DIVERT_MEMBERS: Final = (
    "vhost", "name", "address", "forwarding_addresses", "filter", "exclusive", "routing_type",
)  # fmt: skip
HEADERS: Final = (
    "rabbit_version",
    "rabbitmq_version",
    "product_name",
    "product_version",
    "annulet_version",
    "left_out",
    "rabbitmq_definition_format",
    "original_vhost_name",
    "original_cluster_name",
    "explanation",
    "metadata",
    "description",
    "default_queue_type",
    "limits",
)
"""Members of a document that define nothing."""


class Reading:
    """The definitions read from a document. ``host``: the virtual host of a document of one, which does not name it."""

    def __init__(self, host: str = "") -> None:
        self.items: dict[tuple[str, str, tuple[str, ...]], Item] = {}
        self.not_taken: list[NotTaken] = []
        self.hosts: set[str] = set()  # virtual hosts that something in the document is of
        self._host = host
        self._sections: dict[str, Callable[[dict[str, Any]], None]] = {
            "vhosts": self._virtual_host,
            "users": self._user,
            "permissions": self._permission,
            "topic_permissions": self._topic_permission,
            "parameters": self._parameter,
            "global_parameters": self._global_parameter,
            "policies": self._policy,
            "address_settings": self._address_settings,
            "exchanges": self._exchange,
            "queues": self._queue,
            "queue_settings": self._queue_settings,
            "bindings": self._binding,
            "diverts": self._divert,
        }

    def read(self, section: str, value: Any) -> None:
        """Read one item of a section. Raises :class:`InvalidArgument` for an unknown section and for no object."""
        if section in HEADERS:
            return
        if section not in self._sections:
            raise InvalidArgument(f"section {shown(section)} is unknown; known are {', '.join(self._sections)}")
        if not isinstance(value, dict):
            raise InvalidArgument(f"section '{section}': {shown(value)} is no object")
        try:
            self._sections[section](value)
        except CoreError as error:
            name = value.get("name", value.get("user", value.get("match", "")))
            host = "" if section in OF_BROKER else self._host or str(value.get("vhost", DEFAULT_HOST))
            self.refuse(section, host, str(name), str(error))

    def settle(self) -> None:
        """All has been read: leave out what needs something that was not taken."""
        lost = {(each.kind, each.host, each.name) for each in self.not_taken}
        for item in list(self.items.values()):
            missing = ""
            if item.kind in {PERMISSION, USER_LIMIT} and ("users", "", item.key[0]) in lost:
                missing = f"user {item.key[0]!r} was not taken"
            elif item.kind == BINDING:
                source, kind, destination = item.key[:3]
                section = "queues" if kind == TO_QUEUE else "exchanges"
                if ("exchanges", item.host, source) in lost:
                    missing = f"exchange {source!r} was not taken"
                elif (section, item.host, destination) in lost:
                    missing = f"{kind} {destination!r} was not taken"
            if missing:
                del self.items[item.identity]
                self.refuse(f"{item.kind}s", item.host, item.name, missing)

    # ------------------------------------------------------------------ sections

    def _virtual_host(self, given: dict[str, Any]) -> None:
        name = _text(given, "name")
        check_name("virtual host", name)
        metadata = given.get("metadata")
        described = metadata if isinstance(metadata, dict) else given
        description, tags = described.get("description", ""), described.get("tags", [])
        value = {} if not description and not tags else {"description": str(description), "tags": _tags(tags)}
        self.hosts.add(name)
        self._add(VIRTUAL_HOST, "", (name,), value)

    def _user(self, given: dict[str, Any]) -> None:
        name = _text(given, "name")
        check_name("user", name)
        algorithm = given.get("hashing_algorithm")
        stored = read_hash(_text(given, "password_hash", ""), None if algorithm is None else str(algorithm))
        value = {"password_hash": stored, "tags": _tags(given.get("tags", []))}
        if "scram" in given:
            value["scram"] = _text(given, "scram")
        limits = _object(given, "limits")
        for limit, most in limits.items():
            check_limit(OF_USER, limit, most)
        self._add(USER, "", (name,), value)
        for limit, most in limits.items():
            self._add(USER_LIMIT, "", (name, limit), {"value": most})

    def _permission(self, given: dict[str, Any]) -> None:
        value = {kind: _text(given, kind) for kind in ("configure", "write", "read")}
        value.update({kind: _text(given, kind) for kind in ("browse", "manage") if given.get(kind)})
        self._add(PERMISSION, self._host_of(given), (_text(given, "user"),), value)

    def _topic_permission(self, given: dict[str, Any]) -> None:
        reason = "this broker has no permissions by routing key; the permissions of the exchange hold"
        self.refuse("topic_permissions", self._host_of(given), _text(given, "user"), reason)

    def _parameter(self, given: dict[str, Any]) -> None:
        component, name, host = _text(given, "component"), _text(given, "name"), self._host_of(given)
        if component == VHOST_LIMITS:
            for limit, most in _object(given, "value").items():
                check_limit(OF_HOST, limit, most)
                self._add(VIRTUAL_HOST_LIMIT, host, (host, limit), {"value": most})
            return
        reason = f"this broker has no component {component!r}"
        if component == OPERATOR_POLICY:
            reason = "this broker has no operator policies; use a policy, or address settings, which bound clients"
        self.refuse("parameters", host, f"{component}/{name}", reason)

    def _global_parameter(self, given: dict[str, Any]) -> None:
        name = _text(given, "name")
        if name == CLUSTER_ID:
            self.refuse("global_parameters", "", name, "it names the cluster that the export is from")
            return
        if "value" not in given:
            raise InvalidArgument("'value' is missing")
        refuse_line_breaks("global parameter", name)
        self._add(GLOBAL_PARAMETER, "", (name,), {"value": given["value"]})

    def _policy(self, given: dict[str, Any]) -> None:
        name, host = _text(given, "name"), self._host_of(given)
        apply_to = given.get("apply-to", "all")
        if apply_to not in APPLY_TO:
            raise InvalidArgument(f"it applies to {shown(apply_to)}; policies apply to queues here")
        priority = given.get("priority", 0)
        definition = _arguments(given, "definition")
        PolicyRepository().set(name, _text(given, "pattern"), definition, priority)
        value = {"pattern": given["pattern"], "definition": definition, "priority": priority}
        self._add(POLICY, host, (name,), value)

    def _address_settings(self, given: dict[str, Any]) -> None:
        pattern = _text(given, "match")
        settings = describe_address_settings(parse_address_settings(_arguments(given, "settings")))
        self._add(ADDRESS_SETTINGS, self._host_of(given), (pattern,), {"settings": settings})

    def _exchange(self, given: dict[str, Any]) -> None:
        name, type_name = _text(given, "name"), _text(given, "type")
        if not name or name.startswith(PREDECLARED):
            return  # every virtual host has it
        refuse_line_breaks("exchange", name)
        if type_name not in EXCHANGE_TYPES:
            raise InvalidArgument(f"type {shown(type_name)} is unknown; known are {', '.join(EXCHANGE_TYPES)}")
        arguments = _arguments(given, "arguments")
        parse_alternate_exchange(arguments)
        value = {
            "type": type_name,
            "durable": _switch(given, "durable", default=True),
            "auto_delete": _switch(given, "auto_delete", default=False),
            "internal": _switch(given, "internal", default=False),
            "arguments": arguments,
        }
        self._add(EXCHANGE, self._host_of(given), (name,), value)

    def _queue(self, given: dict[str, Any]) -> None:
        name = _text(given, "name")
        check_name("queue", name)
        arguments = _arguments(given, "arguments")
        parse_queue_arguments(arguments, name, unknown=WARN)
        value = {
            "durable": _switch(given, "durable", default=True),
            "auto_delete": _switch(given, "auto_delete", default=False),
            "arguments": arguments,
        }
        host = self._host_of(given)
        if not is_sealed_name(name):  # earlier versions exported it; each broker makes its own
            self._add(QUEUE, host, (name,), value)

    def _queue_settings(self, given: dict[str, Any]) -> None:
        self._add(QUEUE_SETTINGS, self._host_of(given), (_text(given, "name"),), _arguments(given, "settings"))

    def _binding(self, given: dict[str, Any]) -> None:
        source, kind = _text(given, "source"), _text(given, "destination_type")
        if not source:
            return  # each queue is bound to the default exchange
        if kind not in {TO_QUEUE, TO_EXCHANGE}:
            raise InvalidArgument(f"'destination_type' is {shown(kind)}; give 'queue' or 'exchange'")
        arguments = _arguments(given, "arguments")
        key = (source, kind, _text(given, "destination"), _text(given, "routing_key", ""), arguments_text(arguments))
        self._add(BINDING, self._host_of(given), key, {"arguments": arguments})

    def _divert(self, given: dict[str, Any]) -> None:
        name, targets = _text(given, "name"), given.get("forwarding_addresses")
        refuse_line_breaks("divert", name)
        if not name or not isinstance(targets, list) or not all(isinstance(each, str) for each in targets):
            raise InvalidArgument("it needs a 'name', an 'address', and 'forwarding_addresses', a list of texts")
        unknown = [each for each in given if each not in DIVERT_MEMBERS]
        if unknown:
            near = nearest_name(unknown[0], DIVERT_MEMBERS)
            raise InvalidArgument(
                f"unknown member {unknown[0]!r}; " + (f"did you mean {near!r}?" if near else "leave it out")
            )
        divert = Divert(
            name,
            _text(given, "address"),
            tuple(targets),
            selector=_text(given, "filter", ""),
            exclusive=_switch(given, "exclusive", default=False),
            routing_type=_text(given, "routing_type", STRIP),
        )
        self._add(DIVERT, self._host_of(given), (name,), dict(describe_divert(divert)))

    # ------------------------------------------------------------------ common parts

    def _host_of(self, given: dict[str, Any]) -> str:
        host = self._host or _text(given, "vhost", DEFAULT_HOST)
        self.hosts.add(host)
        return host

    def _add(self, kind: str, host: str, key: tuple[str, ...], value: dict[str, Any]) -> None:
        item = Item(kind, host, key, value)
        known = self.items.get(item.identity)
        if known is not None and known != item:
            raise InvalidArgument("it is in the document twice, with different values; leave one of them out")
        self.items[item.identity] = item

    def refuse(self, kind: str, host: str, name: str, reason: str) -> None:
        """List a part that is not taken."""
        self.not_taken.append(NotTaken(kind, host, name, reason))


def _text(given: dict[str, Any], name: str, default: str | None = None) -> str:
    value = given.get(name, default)
    if not isinstance(value, str):
        raise InvalidArgument(f"'{name}' is missing" if value is None else f"'{name}' is {shown(value)}, not a text")
    return value


def _switch(given: dict[str, Any], name: str, *, default: bool) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise InvalidArgument(f"'{name}' is {shown(value)}; give true or false")
    return value


def _object(given: dict[str, Any], name: str) -> dict[str, Any]:
    value = given.get(name)
    if value is None or value == []:
        return {}
    if not isinstance(value, dict):
        raise InvalidArgument(f"'{name}' is {shown(value)}; give an object")
    return value


def _arguments(given: dict[str, Any], name: str) -> Arguments:
    arguments = _object(given, name)
    _refuse_null(name, arguments)
    return arguments


def _refuse_null(name: str, value: Any) -> None:
    """No argument can be null, at any depth; the depth of a document is bounded."""
    if value is None:
        raise InvalidArgument(f"'{name}' contains null; leave it out")
    for member in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_null(name, member)


def _tags(value: Any) -> list[str]:
    """Return tags: RabbitMQ's older exports have them in one text with commas."""
    tags = value.split(",") if isinstance(value, str) else value
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidArgument(f"'tags' is {shown(value)}; give a list of texts")
    return [tag.strip() for tag in tags if tag.strip()]
