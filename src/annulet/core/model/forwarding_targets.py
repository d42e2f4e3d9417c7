"""Selects the address or exchange for copies of removed messages, by the reason.

=============== ====================================================== ==============================================
leaves because  is sent to                                             source of the rule
=============== ====================================================== ==============================================
dead-lettered   ``dead-letter-address`` or ``dead-letter-exchange``    Artemis §9, RabbitMQ
expired         ``expiry-address``, else ``dead-letter-exchange``      Artemis §8, RabbitMQ; not dead-letter-address
overflow        ``dead-letter-*`` and ``dropped-address``              RabbitMQ's drop-head; design §2
replaced        ``dropped-address``                                    design §2: a ring's normal case is no failure
=============== ====================================================== ==============================================

Purged, moved and deleted messages leave by a command and are sent nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.removal_reasons import RemovalReason

if TYPE_CHECKING:
    from annulet.core.base.settings import QueueSettings

_REPLACED: Final = (RemovalReason.REPLACED_RING, RemovalReason.REPLACED_KEY)


class Target:
    """Where a copy goes: an exchange with a key, or an address."""

    __slots__ = ("address", "exchange", "routing_key", "setting")

    def __init__(self, setting: str, *, address: str = "", exchange: str = "", routing_key: str | None = None) -> None:
        self.setting = setting  # the setting that names it, for people
        self.address = address  # empty: an exchange
        self.exchange = exchange  # "" is the default exchange
        self.routing_key = routing_key  # None: the message's own keys

    def __str__(self) -> str:
        return f"{self.setting} '{self.address or self.exchange}'"


def targets_for(settings: QueueSettings, reason: RemovalReason) -> list[Target]:
    """Return the targets of messages that leave a queue for this reason, each once; empty for none."""
    if reason is RemovalReason.DEAD_LETTERED:
        return _dead_letter_targets(settings)
    if reason is RemovalReason.EXPIRED:
        if settings.expiry_address:
            return [Target("expiry-address", address=settings.expiry_address)]
        return _exchange_targets(settings)
    if reason is RemovalReason.OVERFLOW:
        return _dead_letter_targets(settings) + _dropped_targets(settings)
    if reason in _REPLACED:
        return _dropped_targets(settings)
    return []


def _dead_letter_targets(settings: QueueSettings) -> list[Target]:
    if settings.dead_letter_address:
        return [Target("dead-letter-address", address=settings.dead_letter_address)]
    return _exchange_targets(settings)


def _exchange_targets(settings: QueueSettings) -> list[Target]:
    if settings.dead_letter_exchange is None:
        return []
    return [
        Target(
            "dead-letter-exchange",
            exchange=settings.dead_letter_exchange,
            routing_key=settings.dead_letter_routing_key,
        )
    ]


def _dropped_targets(settings: QueueSettings) -> list[Target]:
    if not settings.dropped_address:
        return []
    return [Target("dropped-address", address=settings.dropped_address)]
