"""The definitions that a broker has, as items, and as a document in RabbitMQ's format or in our own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from annulet import __version__
from annulet.broker.operation.bindings import BindingRow
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
from annulet.broker.operation.operator_settings import describe_divert, describe_pattern
from annulet.broker.security.password_hashes import ARGON2, describe_hash
from annulet.broker.turns.list_turns import Turns
from annulet.core.base.sealed_names import is_sealed_name
from annulet.core.routing.bindings import arguments_text
from annulet.store.database.catalogue import OPERATOR_QUEUE
from annulet.store.database.definitions import USER as OF_USER
from annulet.store.database.definitions import VIRTUAL_HOST as OF_HOST

if TYPE_CHECKING:
    from annulet.broker.broker import Broker
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.routing.exchanges import Exchange

RABBITMQ_VERSION: Final = "3.10.0"
"""The version whose format an export in RabbitMQ's format has."""

ADDRESS: Final = "address"
PREDECLARED: Final = "amq."
SECTIONS: Final = {
    VIRTUAL_HOST: "vhosts",
    USER: "users",
    PERMISSION: "permissions",
    VIRTUAL_HOST_LIMIT: "parameters",
    GLOBAL_PARAMETER: "global_parameters",
    POLICY: "policies",
    ADDRESS_SETTINGS: "address_settings",
    EXCHANGE: "exchanges",
    QUEUE: "queues",
    QUEUE_SETTINGS: "queue_settings",
    BINDING: "bindings",
    DIVERT: "diverts",
}
"""The section of a document that has the items of a kind; limits of users are with their users."""

RABBITMQ_POLICY_KEYS: Final = frozenset(
    {
        "alternate-exchange",
        "dead-letter-exchange",
        "dead-letter-routing-key",
        "dead-letter-strategy",
        "delivery-limit",
        "expires",
        "ha-mode",
        "ha-params",
        "ha-promote-on-failure",
        "ha-promote-on-shutdown",
        "ha-sync-batch-size",
        "ha-sync-mode",
        "max-length",
        "max-length-bytes",
        "message-ttl",
        "overflow",
        "queue-leader-locator",
        "queue-mode",
        "queue-version",
    }
)
"""Keys that RabbitMQ 3.10 accepts in a policy for queues; it refuses the whole import for another one."""

RABBITMQ_ARGUMENTS: Final = frozenset(
    {f"x-{name}" for name in RABBITMQ_POLICY_KEYS if not name.startswith(("ha-", "alternate"))}
    | {"x-max-priority", "x-queue-type", "x-single-active-consumer", "x-quorum-initial-group-size"}
)
"""Arguments of queues that RabbitMQ 3.10 follows; it ignores others, so such a queue would be another one there."""

RABBITMQ_OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")

OWN_SECTIONS: Final = frozenset({"address_settings", "queue_settings", "diverts"})
OF_BROKER: Final = frozenset({"vhosts", "users", "permissions", "global_parameters"})
"""Sections that a document of one virtual host has not."""


def current_items(broker: Broker, hosts: Iterable[VirtualHost], *, whole: bool) -> Iterator[Item]:
    """Yield the definitions of virtual hosts; with ``whole`` users and what else is of the broker too.

    Left out is what ends by itself with a client, exclusive queues and their bindings, and the broker's own queue.
    """
    chosen = sorted(hosts, key=lambda host: host.name)
    if whole:
        yield from _of_broker(broker)
    for host in chosen:
        if whole:
            record = broker.virtual_hosts.records.get(host.name)
            described = (
                {}
                if record is None or not (record.description or record.tags)
                else {
                    "description": record.description,
                    "tags": list(record.tags),
                }
            )
            yield Item(VIRTUAL_HOST, "", (host.name,), described)
        for limit, value in broker.access_directory.limits(OF_HOST).get(host.name, {}).items():
            yield Item(VIRTUAL_HOST_LIMIT, host.name, (host.name, limit), {"value": value})
        yield from _of_host(broker, host)


def _of_broker(broker: Broker) -> Iterator[Item]:
    directory = broker.access_directory
    for user in directory.users():
        value: dict[str, Any] = {"password_hash": user.password_hash, "tags": list(user.tags)}
        if user.scram:
            value["scram"] = user.scram
        yield Item(USER, "", (user.name,), value)
        for limit, most in directory.limits(OF_USER).get(user.name, {}).items():
            yield Item(USER_LIMIT, "", (user.name, limit), {"value": most})
    for permission in directory.permissions():
        value = {"configure": permission.configure, "write": permission.write, "read": permission.read}
        further = {"browse": permission.browse, "manage": permission.manage}
        value.update({kind: text for kind, text in further.items() if text})
        yield Item(PERMISSION, permission.virtual_host, (permission.user,), value)
    for name, parameter in broker.global_parameters.all().items():
        yield Item(GLOBAL_PARAMETER, "", (name,), {"value": parameter})


def _of_host(broker: Broker, host: VirtualHost) -> Iterator[Item]:
    for policy in host.policies.all():
        definition = {"pattern": policy.pattern.pattern, "definition": policy.definition, "priority": policy.priority}
        yield Item(POLICY, host.name, (policy.name,), definition)
    for pattern in list(host.address_settings.patterns()):
        yield Item(ADDRESS_SETTINGS, host.name, (pattern,), {"settings": describe_pattern(host, pattern) or {}})
    for name in sorted(host.exchanges):
        exchange = host.exchanges.get(name)
        if exchange is None or not name or name.startswith(PREDECLARED):
            continue
        yield exchange_item(host, exchange)
    for queue in host.listed_queues():
        if queue.owner is None and not queue.deleted and not is_sealed_name(queue.name):
            declared = host.resolved_for(queue).arguments
            value = {"durable": queue.durable, "auto_delete": queue.auto_delete, "arguments": dict(declared)}
            yield Item(QUEUE, host.name, (queue.name,), value)
    for name, settings in broker.catalogue.operator_settings(OPERATOR_QUEUE, host.name).items():
        if name in host.queues:
            yield Item(QUEUE_SETTINGS, host.name, (name,), dict(settings))
    yield from _bindings(host)
    for name, divert in sorted(host.diverts.by_name.items()):
        yield Item(DIVERT, host.name, (name,), dict(describe_divert(divert)))


def _bindings(host: VirtualHost) -> Iterator[Item]:
    for source in sorted(host.exchanges):
        exchange = host.exchanges.get(source)
        if exchange is None or not source:
            continue
        for binding in list(exchange.bindings.values()):
            if binding.leads_nowhere or (binding.queue is not None and binding.queue.owner is not None):
                continue
            kind, destination = binding.destination_kind, binding.destination_name
            yield binding_item(
                BindingRow(host, source, kind, destination, binding.routing_key, dict(binding.arguments))
            )


def exchange_item(host: VirtualHost, exchange: Exchange) -> Item:
    """Return an exchange as an item."""
    arguments = dict(exchange.arguments)
    if exchange.alternate is not None:
        arguments.setdefault("alternate-exchange", exchange.alternate)
    value = {
        "type": exchange.type_name,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": arguments,
    }
    return Item(EXCHANGE, host.name, (exchange.name,), value)


def binding_item(row: BindingRow) -> Item:
    """Return a binding as an item."""
    key = (row.source, row.kind, row.destination, row.routing_key, arguments_text(row.arguments))
    return Item(BINDING, row.host.name, key, {"arguments": row.arguments})


async def export(broker: Broker, hosts: Iterable[VirtualHost], *, own: bool, host: str = "") -> dict[str, Any]:
    """Return a document. ``own``: our complete format; else RabbitMQ's, with ``left_out`` for the others.

    ``host``: the name of the only virtual host, whose items do not name it then. RabbitMQ ignores ``left_out``.
    """
    document = _Document(own=own, host=host)
    turns = Turns(seconds=TURN_SECONDS)
    for item in current_items(broker, hosts, whole=not host):
        document.add(item)
        await turns.look()
    return document.members


class _Document:
    """A document that is being written. ``host``: of this virtual host alone, which its items do not name."""

    def __init__(self, *, own: bool, host: str) -> None:
        version = {"annulet_version": __version__} if own else {"rabbit_version": RABBITMQ_VERSION}
        sections = [each for each in dict.fromkeys(SECTIONS.values()) if own or each not in OWN_SECTIONS]
        self.members: dict[str, Any] = {
            **version,
            **{each: [] for each in sections if not host or each not in OF_BROKER},
        }
        if not own:
            self.members["left_out"] = []
        self._own = own
        self._host = host
        self._limits: dict[str, dict[str, Any]] = {}  # of virtual hosts, the value of their only parameter
        self._users: dict[str, dict[str, Any]] = {}
        self._left_out: set[tuple[str, str, str]] = set()  # kind, virtual host and name, for what needs them

    def add(self, item: Item) -> None:
        """Add an item; those that others need come before them."""
        if not self._own:
            reason = unsayable(item) or self._needs_what_is_left_out(item)
            if reason:
                self._left_out.add((item.kind, item.host, item.key[0]))
                left = {"kind": item.kind, "vhost": item.host, "name": item.name, "reason": reason}
                self.members["left_out"].append(left)
                return
        if item.kind == USER_LIMIT:
            self._users[item.key[0]]["limits"][item.key[1]] = item.value["value"]
        elif item.kind == VIRTUAL_HOST_LIMIT:
            self._limit(item)
        else:
            written = written_item(item, named=not self._host, own=self._own)
            if item.kind == USER:
                self._users[item.key[0]] = written
            self.members[SECTIONS[item.kind]].append(written)

    def _limit(self, item: Item) -> None:
        values = self._limits.get(item.host)
        if values is None:
            values = self._limits[item.host] = {}
            named = {} if self._host else {"vhost": item.host}
            self.members["parameters"].append({"component": "vhost-limits", "name": "limits", **named, "value": values})
        values[item.key[1]] = item.value["value"]

    def _needs_what_is_left_out(self, item: Item) -> str:
        needed: list[tuple[str, str, str]] = []
        if item.kind in {PERMISSION, USER_LIMIT}:
            needed = [(USER, "", item.key[0])]
        elif item.kind == BINDING:
            source, kind, destination = item.key[:3]
            needed = [(EXCHANGE, item.host, source), (kind, item.host, destination)]
        lost = [(kind, name) for kind, host, name in needed if (kind, host, name) in self._left_out]
        return f"{lost[0][0]} {lost[0][1]!r} is left out" if lost else ""


def unsayable(item: Item) -> str:
    """Return why RabbitMQ could not take an item; empty when it can."""
    reason = ""
    if item.kind in {ADDRESS_SETTINGS, QUEUE_SETTINGS, DIVERT}:
        reason = f"RabbitMQ has no {item.kind}"
    elif item.kind == EXCHANGE and item.value["type"] == ADDRESS:
        reason = "RabbitMQ has no addresses"
    elif item.kind == USER and item.value["password_hash"] and describe_hash(item.value["password_hash"])[1] == ARGON2:
        reason = "RabbitMQ cannot check an Argon2 hash; set the password there"
    elif item.kind == POLICY:
        unknown = [name for name in item.value["definition"] if name not in RABBITMQ_POLICY_KEYS]
        reason = f"RabbitMQ's policies have no '{unknown[0]}'" if unknown else _overflow(item.value["definition"])
    elif item.kind == QUEUE:
        unknown = [name for name in item.value["arguments"] if name not in RABBITMQ_ARGUMENTS]
        reason = f"RabbitMQ has no argument '{unknown[0]}'" if unknown else _overflow(item.value["arguments"])
    return reason


def _overflow(arguments: dict[str, Any]) -> str:
    value = arguments.get("overflow", arguments.get("x-overflow", RABBITMQ_OVERFLOWS[0]))
    return "" if value in RABBITMQ_OVERFLOWS else f"RabbitMQ has no overflow {value!r}"


def written_item(item: Item, *, named: bool = True, own: bool = True) -> dict[str, Any]:
    """Return an item as a document has it; ``named``: with its virtual host; ``own``: in our own format."""
    host = {"vhost": item.host} if item.host and named else {}
    value = dict(item.value)
    if item.kind == USER:
        value["password_hash"], value["hashing_algorithm"] = describe_hash(value["password_hash"])
        if not own:
            value.pop("scram", None)
        return {"name": item.key[0], **value, "limits": {}}
    if item.kind == PERMISSION:
        return {"user": item.key[0], "vhost": item.host, **value}
    if item.kind == BINDING:
        source, kind, destination, routing_key = item.key[:4]
        ends = {"source": source, **host, "destination": destination, "destination_type": kind}
        return {**ends, "routing_key": routing_key, **value}
    if item.kind == ADDRESS_SETTINGS:
        return {"match": item.key[0], **host, **value}
    if item.kind == QUEUE_SETTINGS:
        return {"name": item.key[0], **host, "settings": value}
    if item.kind == POLICY:
        return {**host, "name": item.key[0], "apply-to": "queues", **value}
    return {"name": item.key[0], **host, **value}
