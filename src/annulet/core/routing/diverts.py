"""Diverts: copies of messages sent to an address, or the message itself, for other addresses (Artemis).

An exclusive divert whose filter admits a message takes it: nothing else at the address gets it. A copy keeps its
expiry, gets ``_AMQ_ORIG_ADDRESS``, and is routed as a new message: limits and duplicate detection of its new address
apply. One divert copies a message at most once on its way, so cycles of diverts end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed
from annulet.core.message.filters import compile_filter
from annulet.core.message.message import Message, Origin, PropertyValue
from annulet.core.routing.address_names import AddressPatterns, is_wildcard
from annulet.core.routing.exchanges.address import ROUTING_TYPE_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.base.steps import Steps

STRIP: Final = "strip"
"""The copy has no routing type: it goes to queues of both."""

PASS: Final = "pass"  # noqa: S105 - Artemis's name of a routing type
"""The copy keeps the routing type its original was sent with."""

DIVERT_ROUTING_TYPES: Final = (STRIP, PASS, *ROUTING_TYPE_NAMES)

ORIGINAL_ADDRESS: Final = "_AMQ_ORIG_ADDRESS"


class Divert:
    """One divert. ``address`` may be a wildcard; ``selector`` empty diverts everything.

    Raises :class:`InvalidArgument` for a bad filter, an unknown routing type and an empty list of targets.
    """

    __slots__ = ("address", "exclusive", "forwarding_addresses", "name", "routing_type", "selector", "selector_text")

    def __init__(
        self,
        name: str,
        address: str,
        forwarding_addresses: tuple[str, ...],
        *,
        selector: str = "",
        exclusive: bool = False,
        routing_type: str = STRIP,
    ) -> None:
        self.name = name
        self.address = address
        self.forwarding_addresses = forwarding_addresses
        self.exclusive = exclusive
        self.routing_type = routing_type.lower()
        self.selector_text = selector
        self.selector = compile_filter(selector, f"filter of divert '{name}'")
        if not address or not forwarding_addresses or not all(forwarding_addresses):
            raise InvalidArgument(f"divert '{name}' needs an address and at least one forwarding address")
        if self.routing_type not in DIVERT_ROUTING_TYPES:
            raise InvalidArgument(
                f"routing type of divert '{name}' must be one of {', '.join(DIVERT_ROUTING_TYPES)}, "
                f"not {routing_type!r}"
            )

    def routing_type_for(self, sent_with: str) -> str:
        """Return the routing type of a copy whose original was sent with ``sent_with``; empty for none."""
        if self.routing_type == STRIP:
            return ""
        return sent_with if self.routing_type == PASS else self.routing_type

    def same_as(self, other: Divert) -> bool:
        """Return whether two diverts do the same."""
        mine = (self.address, self.forwarding_addresses, self.selector_text, self.exclusive, self.routing_type)
        return mine == (
            other.address,
            other.forwarding_addresses,
            other.selector_text,
            other.exclusive,
            other.routing_type,
        )


class DivertTable:
    """The diverts of a virtual host, by the address they watch."""

    __slots__ = ("_by_address", "_patterns", "by_name")

    def __init__(self) -> None:
        self.by_name: dict[str, Divert] = {}
        self._by_address: dict[str, list[Divert]] = {}
        self._patterns = AddressPatterns()

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[Divert]:
        return iter(self.by_name.values())

    def add(self, divert: Divert) -> bool:
        """Admit a divert. Returns whether it is new; raises :class:`PreconditionFailed` when its name has another."""
        existing = self.by_name.get(divert.name)
        if existing is not None:
            if existing.same_as(divert):
                return False
            raise PreconditionFailed(
                f"divert '{divert.name}' exists with other settings, on address '{existing.address}'; "
                "delete it first or choose another name"
            )
        self.by_name[divert.name] = divert
        self._by_address.setdefault(divert.address, []).append(divert)
        if is_wildcard(divert.address):
            self._patterns.add(divert.address)
        return True

    def remove(self, name: str) -> Divert:
        """Take a divert out. Raises :class:`NotFound`."""
        divert = self.by_name.pop(name, None)
        if divert is None:
            raise NotFound(f"no divert '{name}'; there are {', '.join(sorted(self.by_name)) or 'none'}")
        watched = self._by_address[divert.address]
        watched.remove(divert)
        if not watched:
            del self._by_address[divert.address]
            self._patterns.remove(divert.address)
        return divert

    def watching(self, address: str, steps: Steps | None = None) -> list[Divert]:
        """Return the diverts of an address, exclusive ones first, otherwise in the order they were made.

        Looking for them takes of a message's ``steps``.
        """
        found = list(self._by_address.get(address, []))
        for pattern in self._patterns.fitting(address, steps):
            found.extend(self._by_address[pattern])
        return sorted(found, key=lambda divert: not divert.exclusive) if len(found) > 1 else found


class Diversion:
    """A result of the walk: this divert takes a copy of the message sent to ``address``."""

    __slots__ = ("address", "divert")

    def __init__(self, divert: Divert, address: str) -> None:
        self.divert = divert
        self.address = address

    def copy(self, message: Message, exchange: str, routing_key: str) -> Message:
        """Return the copy for one forwarding address, which is reached by this exchange and routing key."""
        return copy_for(message, {ORIGINAL_ADDRESS: self.address}, exchange, routing_key)


def copy_for(message: Message, headers: dict[str, PropertyValue], exchange: str, routing_key: str) -> Message:
    """Return a copy of a message under another address, with ``headers`` as further application properties.

    The body is shared; times, priority and durability stay.
    """
    origin = message.origin
    return Message(
        origin.view.annotated(message, headers),
        message.body,
        Origin(exchange, routing_key, origin.publisher, origin.view, origin.connection),
        durable=message.durable,
        priority=message.priority,
        accepted_at=message.accepted_at,
        expires_at=message.expires_at,
        deliver_at=message.deliver_at,
    )
