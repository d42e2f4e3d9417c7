"""A binding: one edge of the routing graph, from an exchange to a queue or to another exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from annulet.core.exchanges.exchange import Exchange
    from annulet.core.message import PropertyValue
    from annulet.core.queue import Queue

BindingKey: TypeAlias = "tuple[str, str, str, str]"
"""Kind and name of the destination, routing key, arguments: what makes two bindings of one source the same."""

TO_QUEUE: Final = "queue"
TO_EXCHANGE: Final = "exchange"


def arguments_text(arguments: dict[str, PropertyValue]) -> str:
    """Spell arguments so that equal tables give equal text whatever the order of their fields."""
    return repr(sorted(arguments.items(), key=lambda item: item[0])) if arguments else ""


class Binding:
    """An edge from ``source`` to exactly one of ``queue`` and ``exchange``."""

    __slots__ = ("arguments", "exchange", "key", "queue", "routing_key", "source")

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
        self.key: BindingKey = (self.destination_kind, self.destination_name, routing_key, arguments_text(arguments))

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
