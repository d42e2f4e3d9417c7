"""Queues and addresses that are created on use and deleted when unused (Artemis §3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from annulet.core.configuration.address_settings import ResolvedSettings
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.exchanges.address import Address

NEVER: Final = 0
"""No time: the event will not happen in the present state."""


class SubscriptionMark(NamedTuple):
    """Marks a queue made as a subscription, with its client. Only such a queue is ended as one.

    ``client`` is empty for a subscription of all clients. ``user`` is empty for a queue that is older than the mark: it
    may be a subscription, and becomes one when its client attaches to it again.
    """

    client: str
    name: str
    user: str


class Lifetime:
    """The creation of a queue, which decides whether the broker may delete it."""

    __slots__ = ("address", "auto_created", "configured", "created_at", "subscription")

    def __init__(self, address: str, *, auto_created: bool, configured: bool, created_at: int) -> None:
        self.address = address  # whose settings say when it goes
        self.auto_created = auto_created  # the broker created it because a client named it
        self.configured = configured  # the configuration or the broker itself needs it: never taken away
        self.created_at = created_at  # milliseconds since 1970
        self.subscription: SubscriptionMark | None = None  # set by the protocols that make subscriptions


def queue_due_at(queue: Queue, lifetime: Lifetime, settings: ResolvedSettings) -> int:
    """Return when an unused queue goes (milliseconds since 1970); :data:`NEVER` while a condition fails.

    It is deleted if it was made automatically (or ``auto-delete-created-queues``), has no consumer or lease, contains
    at most ``auto-delete-queues-message-count`` messages (-1: any number), was ever used (or
    ``auto-delete-queues-skip-usage-check``), and ``auto-delete-queues-delay`` has passed since its last use.
    """
    wanted = settings.auto_delete_queues if lifetime.auto_created else settings.auto_delete_created_queues
    if not wanted or lifetime.configured or queue.owner is not None or queue.users:
        return NEVER
    held = queue.message_count()
    if 0 <= settings.auto_delete_queues_message_count < held:
        return NEVER
    if not (queue.had_consumer or queue.counters.messages_added) and not settings.auto_delete_queues_skip_usage_check:
        return NEVER
    return max(queue.last_used_at, lifetime.created_at) + settings.auto_delete_queues_delay


def address_due_at(address: Address, settings: ResolvedSettings, now: int) -> int:
    """Return when an automatic address goes; :data:`NEVER` while it has queues. Notes when it lost its last."""
    if not settings.auto_delete_addresses:
        return NEVER
    if not address.had_queue and not settings.auto_delete_addresses_skip_usage_check:
        return NEVER
    if address.queues():
        address.unused_since = 0
        return NEVER
    if address.unused_since == 0:
        address.unused_since = now
    return address.unused_since + settings.auto_delete_addresses_delay


def sooner(first: int, second: int) -> int:
    """Return the earlier of two times of which :data:`NEVER` is none."""
    return min(first, second) if first and second else first or second
