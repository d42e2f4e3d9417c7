"""Names of addresses: fully qualified queue names, wildcards, and the spellings clients of other brokers use."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from annulet.core.base.steps import Steps
from annulet.core.routing.bindings import Binding
from annulet.core.routing.exchanges.address import ANYCAST, MULTICAST
from annulet.core.routing.exchanges.topic import ANY_WORD, ANY_WORDS, TopicExchange, words_of

QUALIFIER: Final = "::"
"""Between address and queue in a fully qualified queue name (Artemis)."""

TO_NODE: Final = "node"
TO_QUEUE: Final = "queue"
TO_EXCHANGE: Final = "exchange"


MANAGEMENT_NODES: Final = ("$cbs", "$management", "/management")
"""Nodes that clients of other brokers use by these names for authentication or management; there are none yet.

Clients must get an error for a missing one. An automatically created queue would accept their requests, and they would
wait for an answer.
"""

MANAGEMENT_OF_NODE: Final = "/$management"
"""Ends the name of the management node of one queue or address (Azure)."""


def names_management(name: str) -> bool:
    """Return whether a name is that of a management node, which is never a queue."""
    return name in MANAGEMENT_NODES or name.endswith(MANAGEMENT_OF_NODE)


class AddressName:
    """A name as a client wrote it, taken apart.

    ``kind``: ``node`` for a bare name, ``queue``, or ``exchange``; ``routing_type``: required by the spelling, empty if
    none; ``address``: before ``::``, empty when the name is not fully qualified; ``routing_key``: of
    ``/exchanges/name/key``.
    """

    __slots__ = ("address", "kind", "name", "routing_key", "routing_type")

    def __init__(
        self, kind: str, name: str, *, address: str = "", routing_key: str = "", routing_type: str = ""
    ) -> None:
        self.kind = kind
        self.name = name
        self.address = address
        self.routing_key = routing_key
        self.routing_type = routing_type

    def __repr__(self) -> str:
        return f"<AddressName {self.kind} {self.name!r}>"


PREFIXES: Final[tuple[tuple[str, str, str], ...]] = (
    ("/queues/", TO_QUEUE, ""),  # RabbitMQ 4, AMQP 1.0
    ("/queue/", TO_QUEUE, ANYCAST),  # STOMP
    ("/amq/queue/", TO_QUEUE, ""),
    ("queue://", TO_NODE, ANYCAST),  # OpenWire and JMS
    ("topic://", TO_NODE, MULTICAST),
    ("/topic/", TO_NODE, MULTICAST),
    ("/exchanges/", TO_EXCHANGE, ""),
    ("/exchange/", TO_EXCHANGE, ""),
)
"""Spelling, kind of node, required routing type. The longer of two matches is first."""

PERCENT_ENCODED: Final = frozenset({"/queues/", "/exchanges/"})
"""Spellings whose names are written with percent signs where they contain a slash or the like (RabbitMQ 4)."""


def split_qualified(name: str) -> tuple[str, str] | None:
    """Return address and queue of ``address::queue``; ``None`` for other names. A part may be empty."""
    address, separator, queue = name.partition(QUALIFIER)
    return (address, queue) if separator else None


def parse_address_name(text: str) -> AddressName:
    """Take a client's spelling apart. A name without a known prefix is a bare name of a node or queue."""
    qualified = split_qualified(text)
    if qualified is not None:
        return AddressName(TO_QUEUE, qualified[1], address=qualified[0])
    for prefix, kind, routing_type in PREFIXES:
        if text.startswith(prefix) and len(text) > len(prefix):
            rest = text[len(prefix) :]
            key = ""
            if kind == TO_EXCHANGE:
                rest, _, key = rest.partition("/")
            if prefix in PERCENT_ENCODED:
                rest, key = unquote(rest), unquote(key)
            return AddressName(kind, rest, routing_key=key, routing_type=routing_type)
    return AddressName(TO_NODE, text)


def is_wildcard(name: str) -> bool:
    """Return whether a name has a wildcard: ``*`` for one word, ``#`` for any number."""
    return any(word in {ANY_WORD, ANY_WORDS} for word in words_of(name))


class AddressPatterns:
    """Names with wildcards, found by the names that fit them: ``*`` is one word, ``#`` any number, none included."""

    __slots__ = ("_bindings", "_patterns")

    def __init__(self) -> None:
        self._patterns = TopicExchange("")
        self._bindings: dict[str, Binding] = {}

    def __len__(self) -> int:
        return len(self._bindings)

    def __contains__(self, pattern: str) -> bool:
        return pattern in self._bindings

    def add(self, pattern: str) -> None:
        """Admit a pattern; twice is once."""
        if pattern not in self._bindings:
            binding = Binding(self._patterns, None, self._patterns, pattern, {})
            self._patterns.add(binding)
            self._bindings[pattern] = binding

    def remove(self, pattern: str) -> None:
        """Forget a pattern; an unknown one is ignored."""
        binding = self._bindings.pop(pattern, None)
        if binding is not None:
            self._patterns.remove(binding)

    def fitting(self, name: str, steps: Steps | None = None) -> list[str]:
        """Return the patterns that ``name`` fits, except one spelt exactly so. Takes of a message's ``steps``."""
        if not self._bindings:
            return []
        found = self._patterns.match(name, {}, steps)
        return [binding.routing_key for binding in found if binding.routing_key != name]
