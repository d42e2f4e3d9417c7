"""Reading the configuration again while the broker runs: certificates, users, settings, definitions.

No connection is dropped, but for users that are revoked. Each part has a line in the log that says what changed, or why
it stays. A file that cannot be read or has a wrong value leaves everything as it was.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from annulet.broker.operation.definitions.reading import Reading
from annulet.broker.settings import descriptors
from annulet.broker.settings.configuration import BrokerConfiguration, ConfigurationError
from annulet.broker.settings.static_definitions import (
    DEFAULT_HOST,
    MATCH,
    VIRTUAL_HOST,
    address_arguments,
    arguments_of,
)
from annulet.core.base.errors import CoreError, NotFound, PreconditionFailed
from annulet.core.routing.exchanges.address import ADDRESS_TYPE
from annulet.store.files.errors import CatalogueError

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.broker import Broker
    from annulet.broker.settings.static_definitions import DivertDefinition, StaticDefinitions
    from annulet.cli.service_manager import ServiceManager

logger = structlog.get_logger(__name__)

LIVE_SETTINGS: Final = frozenset(
    {
        "heartbeat",
        "frame_max",
        "channel_max",
        "local_host_names",
        "web_socket_origins",
        "log_level",
        "consumer_timeout",
        "unknown_arguments",
    }
)
"""Settings that take effect without a restart; the first three for connections that open from then on."""

LIVE_LIMITS: Final = frozenset(
    {
        "max_connections",
        "max_connections_per_user",
        "max_connections_per_address",
        "max_handshakes",
        "max_handshakes_per_address",
        "max_sessions_per_connection",
        "max_links_per_session",
        "max_message_bytes",
        "max_header_bytes",
        "max_unauthenticated_bytes",
        "idle_timeout",
    }
)
"""The same among the limits; bulk transfer, and connections that are open, keep the former ones until they end."""

PARTS: Final = frozenset({"users", "definitions", "limits"})
"""Settings that are compared in themselves."""

CONFLICTS_SHOWN: Final = 5


class Reloader:
    """Reads the configuration of one broker again on request, one time after the other."""

    def __init__(self, broker: Broker, read: Callable[[], BrokerConfiguration], manager: ServiceManager) -> None:
        self._manager = manager
        self._broker = broker
        self._read = read
        self._task: asyncio.Task[None] | None = None
        self._again = False

    def request(self) -> None:
        """Reload soon; during a reload, once more after it."""
        if not self._broker.ready:
            logger.warning("SIGHUP ignored: the broker is starting or stopping")
        elif self._task is not None and not self._task.done():
            self._again = True
        else:
            self._task = self._broker.loop.create_task(self._reload())

    async def _reload(self) -> None:
        while True:
            self._again = False
            self._manager.reloading()
            await reload(self._broker, self._read)
            self._manager.reloaded()
            if not self._again:
                return


async def reload(broker: Broker, read: Callable[[], BrokerConfiguration]) -> None:
    """Reload everything that can be. ``read`` returns the configuration of now."""
    _renew_certificates(broker)
    try:
        new = read()
    except ConfigurationError as error:
        logger.error("SIGHUP: the file has an error, everything stays as it was", error=str(error))  # noqa: TRY400 - the text says it all
        return
    _reload_users(broker, new)
    _reload_settings(broker, new)
    await _reload_definitions(broker, new.definitions)
    logger.info("SIGHUP: the configuration was read again")


def _renew_certificates(broker: Broker) -> None:
    listeners = broker.tls.listeners
    if not listeners:
        return
    before = {name: listener.renewals for name, listener in listeners.items()}
    broker.tls.renew_now()
    renewed = [name for name, listener in listeners.items() if listener.renewals > before[name]]
    logger.info("SIGHUP: certificates", renewed=renewed, kept=[name for name in listeners if name not in renewed])


def _reload_users(broker: Broker, new: BrokerConfiguration) -> None:
    old = broker.configuration.users
    try:
        broker.access_directory.reload_file(new.users)
        broker.virtual_hosts.adopt()
    except CatalogueError as error:
        logger.error("SIGHUP: users stay as they were", error=str(error))  # noqa: TRY400 - the text says it all
        return
    broker.configuration = msgspec.structs.replace(broker.configuration, users=new.users)
    logger.info(
        "SIGHUP: users",
        added=[name for name in new.users if name not in old],
        changed=[name for name, user in new.users.items() if name in old and old[name] != user],
        revoked=[name for name in old if name not in new.users],
    )


def _reload_settings(broker: Broker, new: BrokerConfiguration) -> None:
    """Let settings that may change take effect, and name those that wait for a restart."""
    old = broker.configuration
    differing = [
        name
        for name in BrokerConfiguration.__struct_fields__
        if name not in PARTS and getattr(old, name) != getattr(new, name)
    ]
    limits = [
        name for name in type(old.limits).__struct_fields__ if getattr(old.limits, name) != getattr(new.limits, name)
    ]
    values: dict[str, Any] = {name: getattr(new, name) for name in differing if name in LIVE_SETTINGS}
    live = {name: getattr(new.limits, name) for name in limits if name in LIVE_LIMITS}
    if live:
        values["limits"] = msgspec.structs.replace(old.limits, **live)
    if values:
        broker.configuration = msgspec.structs.replace(old, **values)
        _take_effect(broker, values)
    named = {f"limits.{name}": name in live for name in limits} | {name: name in LIVE_SETTINGS for name in differing}
    logger.info(
        "SIGHUP: settings",
        changed=sorted(name for name, now in named.items() if now),
        after_a_restart=sorted(name for name, now in named.items() if not now),
    )


def _take_effect(broker: Broker, values: dict[str, Any]) -> None:
    """Tell the parts of the broker that have a copy of a setting."""
    if "limits" in values:
        broker.admission.limits = descriptors.fit(values["limits"])
    if "log_level" in values:
        broker.log_levels.configure(values["log_level"])
    if "consumer_timeout" in values:
        broker.consumer_timeouts.change_default(values["consumer_timeout"])
    if "unknown_arguments" in values:
        for host in broker.hosts.values():
            host.unknown_arguments = values["unknown_arguments"]


# ---------------------------------------------------------------------- definitions


async def _reload_definitions(broker: Broker, new: StaticDefinitions) -> None:
    """Make what the file defines, all or nothing; what it no longer has stays, but for settings, policies, diverts."""
    old = broker.configuration.definitions
    if new == old:
        logger.info("SIGHUP: definitions", made=0, removed=0)
        return
    broker.operator_settings.adopt(new)
    try:
        reading = _as_reading(broker, new)
        if reading.not_taken:
            refused = [f"{each.kind} {each.name!r}: {each.reason}" for each in reading.not_taken[:CONFLICTS_SHOWN]]
            raise PreconditionFailed("; ".join(refused))
        plan = await broker.definition_imports.apply(reading, None)
    except (CoreError, CatalogueError) as error:
        broker.operator_settings.adopt(old)
        logger.error("SIGHUP: definitions stay as they were", file=new.source, error=str(error))  # noqa: TRY400 - the text says it all
        return
    for queue in new.queues:
        host = broker.hosts[queue.virtual_host]
        host.lifetime_of(host.queues[queue.name]).configured = True
    removed = _remove(broker, old, new) + _change_diverts(broker, old, new)
    broker.configuration = msgspec.structs.replace(broker.configuration, definitions=new)
    logger.info("SIGHUP: definitions", made=len(plan.steps), removed=removed)


def _as_reading(broker: Broker, new: StaticDefinitions) -> Reading:
    """Return the file's definitions as those of a document; diverts are of files only."""
    reading = Reading()
    for host in new.virtual_hosts():
        reading.read("vhosts", {"name": host})
    for policy in new.policies:
        given = {"pattern": policy.pattern, "priority": policy.priority, "definition": arguments_of(policy.definition)}
        reading.read("policies", {"name": policy.name, "vhost": policy.virtual_host, **given})
    for item in new.address_settings:
        settings = {name: value for name, value in item.items() if name not in {MATCH, VIRTUAL_HOST}}
        host = item.get(VIRTUAL_HOST, DEFAULT_HOST)
        reading.read("address_settings", {"match": item[MATCH], "vhost": host, "settings": settings})
    for exchange in new.exchanges:
        reading.read("exchanges", {**_plain(exchange), "type": exchange.type, "internal": exchange.internal})
    for address in new.addresses:
        there = broker.hosts.get(address.virtual_host)
        if not address.routing_types and there is not None and address.name in there.addresses:
            continue  # it exists, with any routing types
        types = address.routing_types or ["multicast"]
        given = {"name": address.name, "vhost": address.virtual_host, "durable": address.durable}
        reading.read("exchanges", {**given, "type": ADDRESS_TYPE, "arguments": address_arguments(types)})
    for queue in new.queues:
        reading.read("queues", _plain(queue))
        for binding in queue.bindings:
            ends = {"source": binding.exchange, "destination": queue.name, "destination_type": "queue"}
            given = {"routing_key": binding.routing_key, "arguments": arguments_of(binding.arguments)}
            reading.read("bindings", {**ends, **given, "vhost": queue.virtual_host})
    for edge in new.bindings:
        ends = {"source": edge.source, "destination": edge.destination, "destination_type": edge.destination_type}
        given = {"routing_key": edge.routing_key, "arguments": arguments_of(edge.arguments)}
        reading.read("bindings", {**ends, **given, "vhost": edge.virtual_host})
    return reading


def _plain(definition: Any) -> dict[str, Any]:
    return {
        "name": definition.name,
        "vhost": definition.virtual_host,
        "durable": definition.durable,
        "auto_delete": definition.auto_delete,
        "arguments": arguments_of(definition.arguments),
    }


def _remove(broker: Broker, old: StaticDefinitions, new: StaticDefinitions) -> int:
    """Take back address settings and policies that the file no longer has. Returns how many."""
    settings, hosts = broker.operator_settings, broker.hosts
    kept = {(item.get(VIRTUAL_HOST, DEFAULT_HOST), item[MATCH]) for item in new.address_settings}
    patterns = [(item.get(VIRTUAL_HOST, DEFAULT_HOST), item[MATCH]) for item in old.address_settings]
    policies = {(policy.virtual_host, policy.name) for policy in new.policies}
    names = [(policy.virtual_host, policy.name) for policy in old.policies]
    takes: list[Callable[[], object]] = [
        partial(settings.remove_address_settings, hosts[host], match)
        for host, match in patterns
        if (host, match) not in kept
    ]
    takes += [
        partial(settings.remove_policy, hosts[host], name) for host, name in names if (host, name) not in policies
    ]
    return sum(_taken_back(take) for take in takes)


def _taken_back(remove: Callable[[], object]) -> bool:
    try:
        remove()
    except NotFound:  # an operator was faster
        return False
    return True


def _change_diverts(broker: Broker, old: StaticDefinitions, new: StaticDefinitions) -> int:
    """Remove the diverts that the file no longer has as they were, and add the new ones. Returns how many went."""
    former, present = _diverts(old), _diverts(new)
    gone = [place for place, divert in former.items() if present.get(place) != divert]
    for host, name in gone:
        broker.hosts[host].remove_divert(name)
    for (host, name), divert in present.items():
        if former.get((host, name)) != divert:
            broker.hosts[host].add_divert(divert.divert())
    return len(gone)


def _diverts(definitions: StaticDefinitions) -> dict[tuple[str, str], DivertDefinition]:
    return {(divert.virtual_host, divert.name): divert for divert in definitions.diverts}
