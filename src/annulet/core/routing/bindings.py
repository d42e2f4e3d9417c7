"""A binding: one edge of the routing graph, from an exchange or address to a queue or to another exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from annulet.core.base.errors import InvalidArgument
from annulet.core.message.filters import compile_filter

if TYPE_CHECKING:
    from annulet.core.message.message import Message, PropertyValue
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.exchanges.exchange import Exchange

BindingKey: TypeAlias = "tuple[str, str, str, str]"
"""Kind and name of the destination, routing key, arguments: the identity of a binding of one source."""

TO_QUEUE: Final = "queue"
TO_EXCHANGE: Final = "exchange"

FILTER: Final = "x-filter-jms-selector"
"""Argument of every kind of binding: only messages that this selector admits follow it (Broker-J)."""

REPLACEMENT_KEY: Final = "x-replacement-routing-key"
"""Argument of a binding to an exchange: the message continues with this routing key (Broker-J)."""

ROUTING_TYPE: Final = "x-routing-type"
"""Argument of a queue's binding to an address that has both routing types: which of them the queue has."""

NO_LOCAL: Final = "x-qpid-no-local"
"""Argument of a queue's binding: messages do not follow it that a connection with a consumer there published."""

BINDING_ARGUMENTS: Final = frozenset({"x-match", FILTER, REPLACEMENT_KEY, ROUTING_TYPE, NO_LOCAL})
"""Arguments that tell the binding something; a headers exchange never compares them with the message's headers."""


def arguments_text(arguments: dict[str, PropertyValue]) -> str:
    """Spell arguments so that equal tables give equal text whatever the order of their fields."""
    return repr(sorted(arguments.items(), key=lambda item: item[0])) if arguments else ""


def text_argument(arguments: dict[str, PropertyValue], name: str) -> str | None:
    """Return a binding argument that must be text, ``None`` when absent. Raises :class:`InvalidArgument`."""
    value = arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidArgument(f"binding argument '{name}' must be text, not {value!r}")
    return value


class Binding:
    """An edge from ``source`` to exactly one of ``queue`` and ``exchange``.

    ``selector``: the compiled filter, ``None`` if every message may follow; ``replacement_key``: the routing key from
    here on, ``None`` to keep it; ``no_local``: not for consumers on the publisher's connection. Raises
    :class:`InvalidArgument` for an invalid selector.
    """

    __slots__ = (
        "arguments",
        "exchange",
        "key",
        "no_local",
        "queue",
        "replacement_key",
        "routing_key",
        "selector",
        "source",
    )

    def __init__(
        self,
        source: Exchange,
        queue: Queue | None,
        exchange: Exchange | None,
        routing_key: str,
        arguments: dict[str, PropertyValue],
    ) -> None:
        self.source = source
        self.queue = queue
        self.exchange = exchange
        self.routing_key = routing_key
        self.arguments = arguments
        self.selector = compile_filter(text_argument(arguments, FILTER) or "", f"binding argument '{FILTER}'")
        self.no_local = arguments.get(NO_LOCAL) is True
        self.replacement_key = text_argument(arguments, REPLACEMENT_KEY)
        self.key: BindingKey = (self.destination_kind, self.destination_name, routing_key, arguments_text(arguments))

    def local(self, message: Message) -> bool:
        """Return whether ``no_local`` keeps a message off: its publisher's connection consumes from the queue."""
        connection = message.origin.connection
        if not self.no_local or connection is None or self.queue is None:
            return False
        return any(consumer.session.connection_identity is connection for consumer in self.queue.consumers)

    @property
    def leads_nowhere(self) -> bool:
        """Its destination was deleted, and it will be removed in a slice of work."""
        if self.queue is not None:
            return self.queue.deleted
        return self.exchange is not None and self.exchange.dropped

    @property
    def destination_kind(self) -> str:
        """``queue`` or ``exchange``."""
        return TO_EXCHANGE if self.queue is None else TO_QUEUE

    @property
    def destination_name(self) -> str:
        """Name of the queue or exchange that messages go to."""
        if self.queue is not None:
            return self.queue.name
        assert self.exchange is not None
        return self.exchange.name

    @property
    def durable(self) -> bool:
        """A binding survives a restart when both of its ends do (AMQP 0-9-1 §3.1.4)."""
        if self.queue is not None:
            return self.source.durable and self.queue.durable and self.queue.owner is None
        assert self.exchange is not None
        return self.source.durable and self.exchange.durable

    def __repr__(self) -> str:
        return (
            f"<Binding {self.source.name!r} -> {self.destination_kind} {self.destination_name!r} {self.routing_key!r}>"
        )
