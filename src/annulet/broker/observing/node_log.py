"""Log lines of what clients create and delete: queues, exchanges, bindings, consumers; and what operators do.

Clients can cause thousands a second, so that lines are limited; the first one after some were left out says how many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.observing.limited_log import LimitedLog

if TYPE_CHECKING:
    from annulet.core.model.audit_trail import AuditEntry
    from annulet.core.routing.exchanges import Exchange

logger = structlog.get_logger(__name__)

NODE_LINES_PER_SECOND: Final = 100
"""Enough for the declarations of an application that starts; a line takes 0.1 ms, so that they have 1 % of the loop."""

CHANGE_QUEUE: Final = "change-queue"
"""The operation of the audit trail that changes settings of a queue."""


class NodeLog:
    """Writes the lines. Belongs to the event loop."""

    def __init__(self) -> None:
        self.log = LimitedLog(logger, NODE_LINES_PER_SECOND)

    def queue_created(self, host: str, name: str, *, durable: bool, exclusive: bool) -> None:
        """A client, an operator or the broker made a queue."""
        self.log.info("queue created", vhost=host, queue=name, durable=durable, exclusive=exclusive)

    def queue_deleted(self, host: str, name: str) -> None:
        """It was deleted, with its messages and bindings."""
        self.log.info("queue deleted", vhost=host, queue=name)

    def exchange_created(self, host: str, exchange: Exchange) -> None:
        """An exchange or address was made."""
        self.log.info(
            "exchange created", vhost=host, exchange=exchange.name, type=exchange.type_name, durable=exchange.durable
        )

    def exchange_deleted(self, host: str, name: str) -> None:
        """It was deleted, with its bindings."""
        self.log.info("exchange deleted", vhost=host, exchange=name)

    def binding_created(self, host: str, source: str, destination: str, routing_key: str) -> None:
        """A queue or exchange was bound to an exchange."""
        self.log.info("binding created", vhost=host, exchange=source, destination=destination, routing_key=routing_key)

    def binding_deleted(self, host: str, source: str, destination: str, routing_key: str) -> None:
        """It was unbound. Bindings that go with an end of theirs have no line."""
        self.log.info("binding deleted", vhost=host, exchange=source, destination=destination, routing_key=routing_key)

    def consumer_created(self, host: str, queue: str, consumer: str, peer: str) -> None:
        """A client subscribed."""
        self.log.info("consumer created", vhost=host, queue=queue, consumer=consumer, peer=peer)

    def consumer_deleted(self, host: str, queue: str, consumer: str, peer: str) -> None:
        """It ended its subscription. One that ends with its connection or session has no line."""
        self.log.info("consumer deleted", vhost=host, queue=queue, consumer=consumer, peer=peer)

    def sender_created(self, host: str, destination: str, link: str, peer: str) -> None:
        """A client of AMQP 1.0 attached a link to send by. Without a destination each message names its own."""
        self.log.info("sender created", vhost=host, destination=destination, link=link, peer=peer)

    def sender_deleted(self, host: str, destination: str, link: str, peer: str) -> None:
        """It detached the link. One that ends with its connection or session has no line."""
        self.log.info("sender deleted", vhost=host, destination=destination, link=link, peer=peer)

    def operation(self, entry: AuditEntry, *, of_queue: bool) -> None:
        """An operator did something; the audit trail has its arguments."""
        event = "operation on a queue" if of_queue else "operation of an operator"
        self.log.info(
            "queue changed" if of_queue and entry.operation == CHANGE_QUEUE else event,
            vhost=entry.virtual_host,
            user=entry.user,
            operation=entry.operation,
            target=entry.target,
            messages=entry.count,
        )


NODE_LOG: Final = NodeLog()
"""Of this process."""
