"""Settings that operators change while the broker runs, in effect at once and kept in the catalogue over restarts.

Four kinds: changed settings of one durable queue, address settings, policies, diverts. The configuration file's entry
for a pattern, a policy or a divert applies at every start, as with users: an operator's change of it lasts until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import structlog

from annulet.broker.settings.static_definitions import DEFAULT_HOST, MATCH, VIRTUAL_HOST
from annulet.core.base.errors import CoreError
from annulet.core.configuration.address_limits import NO_POLICY
from annulet.core.configuration.address_settings import describe_address_settings
from annulet.core.configuration.arguments.reading import read_arguments
from annulet.core.routing.diverts import STRIP, Divert
from annulet.store.database.catalogue import OPERATOR_ADDRESS_SETTINGS, OPERATOR_DIVERT, OPERATOR_POLICY, OPERATOR_QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.settings.static_definitions import StaticDefinitions
    from annulet.core.configuration.address_settings import Policy
    from annulet.core.configuration.arguments import Arguments
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue
    from annulet.store.database.catalogue import Catalogue

logger = structlog.get_logger(__name__)

PAGE_LIMITS: Final = frozenset({"page_limit_bytes", "page_limit_messages", "page_full_policy"})
"""Settings of an address that have no effect without each other."""


class OperatorSettings:
    """Changes the settings of one broker's virtual hosts. Each method returns whether the change outlives the broker.

    All raise what the core refuses, and ``CatalogueError`` when the file refuses; nothing has changed then, unless it
    was the commit itself that the disk refused: such a change lasts until the broker ends.
    """

    def __init__(self, catalogue: Catalogue, definitions: StaticDefinitions) -> None:
        self._catalogue = catalogue
        self.adopt(definitions)

    def adopt(self, definitions: StaticDefinitions) -> None:
        """Take the definitions of a file that was read again for the file's."""
        self._policies = {(policy.virtual_host, policy.name) for policy in definitions.policies}
        self._diverts = {(divert.virtual_host, divert.name) for divert in definitions.diverts}
        self._patterns = {
            (item.get(VIRTUAL_HOST, DEFAULT_HOST), item.get(MATCH)) for item in definitions.address_settings
        }

    def change_queue(self, host: VirtualHost, queue: Queue, changes: Arguments, now: int) -> bool:
        """Change some settings of a live queue; see ``VirtualHost.change_queue``. False for one that is not durable."""
        if not queue.queue_id:
            host.change_queue(queue, changes, now)
            return False
        with self._catalogue.transaction():
            known = self._catalogue.operator_settings(OPERATOR_QUEUE, host.name).get(queue.name, {})
            merged = _merged(known, changes, queue.name)
            self._catalogue.set_operator_setting(OPERATOR_QUEUE, host.name, queue.name, merged)
            host.change_queue(queue, changes, now)
        return True

    def of_queue(self, host: VirtualHost, name: str) -> Arguments:
        """Return what operators changed of a durable queue."""
        return self._catalogue.operator_settings(OPERATOR_QUEUE, host.name).get(name, {})

    def restoring(self, host: VirtualHost, queue: Queue, clock: Callable[[], int]) -> Callable[[], None]:
        """Return what gives a queue its present settings back, as if no operator had changed them since."""
        resolved, known = host.resolved_for(queue), self.of_queue(host, queue.name)

        def restore() -> None:
            if queue.deleted:
                return
            with self._catalogue.transaction():
                if known:
                    self._catalogue.set_operator_setting(OPERATOR_QUEUE, host.name, queue.name, known)
                else:
                    self._catalogue.delete_operator_setting(OPERATOR_QUEUE, host.name, queue.name)
                host.restore_settings(queue, resolved, clock())

        return restore

    def set_address_settings(self, host: VirtualHost, pattern: str, settings: Arguments) -> bool:
        """Let address settings hold for a pattern, in place of what held before. False for one of the file."""
        durable = (host.name, pattern) not in self._patterns
        with self._catalogue.transaction():
            if durable:
                self._catalogue.set_operator_setting(OPERATOR_ADDRESS_SETTINGS, host.name, pattern, settings)
            host.address_settings.set(pattern, settings)
        _warn_of_idle(host, pattern)
        return durable

    def remove_address_settings(self, host: VirtualHost, pattern: str) -> bool:
        """Forget what holds for a pattern. Raises ``NotFound``. False for one of the file: it comes back."""
        with self._catalogue.transaction():
            self._catalogue.delete_operator_setting(OPERATOR_ADDRESS_SETTINGS, host.name, pattern)
            host.address_settings.remove(pattern)
        return (host.name, pattern) not in self._patterns

    def set_policy(self, host: VirtualHost, name: str, pattern: str, definition: Arguments, priority: int) -> bool:
        """Let a policy hold, in place of the one of this name. False for one of the file."""
        durable = (host.name, name) not in self._policies
        with self._catalogue.transaction():
            if durable:
                value: Arguments = {"pattern": pattern, "priority": priority, "definition": definition}
                self._catalogue.set_operator_setting(OPERATOR_POLICY, host.name, name, value)
            host.policies.set(name, pattern, definition, priority)
        return durable

    def remove_policy(self, host: VirtualHost, name: str) -> bool:
        """Forget a policy. Raises ``NotFound``. False for one of the file: it comes back."""
        with self._catalogue.transaction():
            self._catalogue.delete_operator_setting(OPERATOR_POLICY, host.name, name)
            host.policies.remove(name)
        return (host.name, name) not in self._policies

    def set_divert(self, host: VirtualHost, divert: Divert) -> bool:
        """Let a divert take part in routing, in place of the one of this name. False for one of the file."""
        durable = (host.name, divert.name) not in self._diverts
        with self._catalogue.transaction():
            if durable:
                value = describe_divert(divert)
                self._catalogue.set_operator_setting(OPERATOR_DIVERT, host.name, divert.name, value)
            if divert.name in host.diverts.by_name:
                host.remove_divert(divert.name)
            host.add_divert(divert)
        return durable

    def remove_divert(self, host: VirtualHost, name: str) -> bool:
        """Forget a divert. Raises ``NotFound``. False for one of the file: it comes back."""
        with self._catalogue.transaction():
            self._catalogue.delete_operator_setting(OPERATOR_DIVERT, host.name, name)
            host.remove_divert(name)
        return (host.name, name) not in self._diverts

    # ------------------------------------------------------------------ at a start

    def restore_host(self, host: VirtualHost) -> None:
        """Put back address settings and policies, but for those the file has. Before anything is declared.

        Then all address settings are there, and those without effect are named in the log.
        """
        for pattern, settings in self._catalogue.operator_settings(OPERATOR_ADDRESS_SETTINGS, host.name).items():
            if (host.name, pattern) not in self._patterns:
                try:
                    host.address_settings.set(pattern, settings)
                except CoreError as error:
                    _not_restored("address settings", pattern, error)
        for name, value in self._catalogue.operator_settings(OPERATOR_POLICY, host.name).items():
            if (host.name, name) not in self._policies:
                definition = cast("Arguments", value["definition"])
                try:
                    host.policies.set(
                        name, cast("str", value["pattern"]), definition, cast("int", value["priority"]), stored=True
                    )
                except CoreError as error:
                    _not_restored("policy", name, error)
        for name, reason in host.policies.unusable().items():
            logger.error(
                "policy matches nothing",
                policy=name,
                vhost=host.name,
                reason=reason,
                remedy="set it anew with another pattern",
            )
        for pattern in host.address_settings.patterns():
            _warn_of_idle(host, pattern)
        for name, value in self._catalogue.operator_settings(OPERATOR_DIVERT, host.name).items():
            if (host.name, name) not in self._diverts:
                try:
                    host.add_divert(read_divert(name, value))
                except CoreError as error:
                    _not_restored("divert", name, error)

    def restore_queues(self, host: VirtualHost, now: int) -> None:
        """Put back what operators changed of durable queues. After these were declared, before their messages come."""
        for name, changes in self._catalogue.operator_settings(OPERATOR_QUEUE, host.name).items():
            queue = host.queues.get(name)
            if queue is not None:
                try:
                    host.change_queue(queue, changes, now)
                except CoreError as error:
                    _not_restored("changed settings of a queue", name, error)


def describe_divert(divert: Divert) -> Arguments:
    """Return a divert as it is given, without its name."""
    return {
        "address": divert.address,
        "forwarding_addresses": list(divert.forwarding_addresses),
        "filter": divert.selector_text,
        "exclusive": divert.exclusive,
        "routing_type": divert.routing_type,
    }


def read_divert(name: str, given: Arguments) -> Divert:
    """Return a divert of these settings; those that are missing have their defaults. Raises ``InvalidArgument``."""
    return Divert(
        name,
        cast("str", given["address"]),
        tuple(cast("list[str]", given["forwarding_addresses"])),
        selector=cast("str", given.get("filter", "")),
        exclusive=bool(given.get("exclusive", False)),
        routing_type=cast("str", given.get("routing_type", STRIP)),
    )


def describe_policy(policy: Policy) -> dict[str, object]:
    """Return a policy as it was given."""
    return {
        "name": policy.name,
        "pattern": policy.pattern.pattern,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def describe_pattern(host: VirtualHost, pattern: str) -> Arguments | None:
    """Return the address settings of exactly this pattern by their canonical names, ``None`` when there are none."""
    settings = host.address_settings.get(pattern)
    return None if settings is None else describe_address_settings(settings)


def _merged(known: Arguments, changes: Arguments, queue_name: str) -> Arguments:
    """Return former changes and new ones together; of several names for one setting only the latest is kept."""
    changed = read_arguments(changes, queue_name).values.keys()
    kept = {
        name: value
        for name, value in known.items()
        if not read_arguments({name: value}, queue_name).values.keys() & changed
    }
    return {**kept, **changes}


def _warn_of_idle(host: VirtualHost, pattern: str) -> None:
    """Name page limits that have no effect, as Artemis does. They are no error: another pattern may complete them.

    A pattern that says 'none' and no more exempts its addresses from what a wider one says.
    """
    settings = host.address_settings.get(pattern)
    said = {} if settings is None else {name: settings.values[name] for name in PAGE_LIMITS & settings.values.keys()}
    if not said or said == {"page_full_policy": NO_POLICY}:
        return
    idle = host.address_settings.resolve_pattern(pattern).idle_page_limits
    if idle:
        logger.warning("address settings without effect", match=pattern, reason=idle)


def _not_restored(what: str, name: str, error: CoreError) -> None:
    """A later version, or another file, may forbid a setting allowed before; that is no reason to stop."""
    logger.warning(
        "the operator's value is not restored", what=what, name=name, reason=str(error), remedy="set it again over HTTP"
    )
