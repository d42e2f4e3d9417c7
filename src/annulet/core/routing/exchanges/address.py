"""Address: a node with a routing type (design §2). Anycast: one of its queues; multicast: every queue that matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.steps import Steps
from annulet.core.message.message import PropertyValue
from annulet.core.routing.bindings import ROUTING_TYPE, Binding, BindingKey, text_argument
from annulet.core.routing.exchanges.exchange import Exchange

if TYPE_CHECKING:
    from annulet.core.queue.queue import Queue

ANYCAST: Final = "anycast"
MULTICAST: Final = "multicast"
ROUTING_TYPE_NAMES: Final = (ANYCAST, MULTICAST)

ADDRESS_TYPE: Final = "address"
"""The type name by which clients declare one."""

ROUTING_TYPES_ARGUMENT: Final = "x-routing-types"
"""Declare argument of an address: ``anycast``, ``multicast`` (default) or both, separated by a comma."""


def parse_routing_type(text: str, what: str) -> str:
    """Read one routing type in any case. Raises :class:`InvalidArgument` naming ``what`` it was given for."""
    name = text.strip().lower()
    if name not in ROUTING_TYPE_NAMES:
        raise InvalidArgument(f"{what} must be one of {', '.join(ROUTING_TYPE_NAMES)}, not {text!r}")
    return name


def parse_routing_types(value: PropertyValue) -> tuple[str, ...]:
    """Read the routing types of an address: a text with commas or a list; ``None`` is multicast.

    Returns them without repetition, anycast first. Raises :class:`InvalidArgument`.
    """
    if value is None:
        return (MULTICAST,)
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list) or not words:
        raise InvalidArgument(f"'{ROUTING_TYPES_ARGUMENT}' must be anycast, multicast or both, not {value!r}")
    given = {parse_routing_type(str(word), f"'{ROUTING_TYPES_ARGUMENT}'") for word in words}
    return tuple(name for name in ROUTING_TYPE_NAMES if name in given)


class Address(Exchange):
    """An address of a virtual host. Routing keys of its bindings play no part.

    ``rings`` has, by routing type, the messages a retroactive address keeps for later queues.
    """

    type_name = ADDRESS_TYPE

    def prepare(self) -> None:
        """Start without queues; the declare argument ``x-routing-types`` gives their allowed types."""
        self.routing_types = parse_routing_types(self.arguments.get(ROUTING_TYPES_ARGUMENT))
        self.default_routing_type = self.routing_types[-1]  # default of queues if both are allowed: multicast
        self.multicast: dict[BindingKey, Binding] = {}
        self.anycast: dict[Queue, dict[BindingKey, Binding]] = {}
        self.anycast_queues: list[Queue] = []  # the keys above; a message goes to one of them
        self.turn = 0  # index of the first anycast queue for the next message
        self.rings: dict[str, Queue] = {}
        self.auto_created = False
        self.had_queue = False  # an automatic address is deleted with its last queue, not before its first
        self.unused_since = 0  # removal of its last queue, milliseconds since 1970; 0 while it has one or never had one

    def routing_type_of(self, binding: Binding) -> str:
        """Return the routing type of a queue's binding. Raises :class:`InvalidArgument` for one the address lacks."""
        if binding.queue is None:
            return MULTICAST
        given = text_argument(binding.arguments, ROUTING_TYPE)
        if given is None:
            return self.default_routing_type
        wanted = parse_routing_type(given, f"binding argument '{ROUTING_TYPE}'")
        if wanted not in self.routing_types:
            raise InvalidArgument(
                f"binding argument '{ROUTING_TYPE}' is {wanted!r}, but address '{self.name}' is "
                f"{' and '.join(self.routing_types)} only; bind without it or declare the address with both"
            )
        return wanted

    def index(self, binding: Binding) -> None:
        """File a binding under its routing type."""
        if self.routing_type_of(binding) == MULTICAST:
            self.multicast[binding.key] = binding
            return
        assert binding.queue is not None
        bindings = self.anycast.get(binding.queue)
        if bindings is None:
            bindings = {}
            self.anycast[binding.queue] = bindings
            self.anycast_queues.append(binding.queue)
        bindings[binding.key] = binding

    def unindex(self, binding: Binding) -> None:
        """Take a binding out; an anycast queue leaves the round with its last one."""
        if binding.key in self.multicast:
            del self.multicast[binding.key]
            return
        assert binding.queue is not None
        bindings = self.anycast[binding.queue]
        del bindings[binding.key]
        if not bindings:
            place = self.anycast_queues.index(binding.queue)
            del self.anycast_queues[place]
            del self.anycast[binding.queue]
            if place < self.turn:
                self.turn -= 1

    def match(self, routing_key: str, headers: dict[str, PropertyValue], steps: Steps | None = None) -> list[Binding]:
        """Return the multicast bindings; which anycast queue has its turn is decided by the walk, per message."""
        del routing_key, headers, steps
        return list(self.multicast.values())

    def queues(self) -> list[Queue]:
        """Return the address's queues, each once, without the rings of a retroactive address."""
        found: dict[Queue, None] = dict.fromkeys([queue for queue in self.anycast_queues if not queue.deleted])
        for binding in self.multicast.values():
            if binding.queue is not None and not binding.queue.deleted:
                found[binding.queue] = None
        return list(found)
