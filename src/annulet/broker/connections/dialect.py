"""What clients of AMQP 0-9-1 may ask of this broker: all that it can do, or the rules of another broker.

The test kit has the rules of RabbitMQ (``annulet.testing.rabbitmq_rules``), so that a test does not pass with what the
broker in production refuses. They apply where a client asks, before anything is looked at or changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from annulet.core.configuration.arguments import Arguments
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue


class QueueDeclaration(NamedTuple):
    """A queue.declare that is not passive. The name is empty where the broker shall choose one."""

    name: str
    vhost: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: Arguments


class Dialect:
    """The rules of this broker, which refuse nothing beforehand.

    Other rules raise :class:`~annulet.wire.amqp091.types.errors.ChannelError` or
    :class:`~annulet.wire.amqp091.types.errors.ConnectionFault`.
    """

    def exchange(self, name: str, type_name: str) -> None:
        """Judge the type of an exchange that a client declares."""

    def queue(self, declared: QueueDeclaration) -> None:
        """Judge the declaration of a queue."""

    def deletion(self, host: VirtualHost, name: str, *, if_unused: bool, if_empty: bool) -> None:
        """Judge the deletion of a queue, which may not be there."""

    def get(self, host: VirtualHost, queue: Queue) -> None:
        """Judge a basic.get."""

    def consumer(self, host: VirtualHost, queue: Queue, arguments: Arguments) -> None:
        """Judge the arguments of a consumer."""

    def shares_prefetch(self, size: int, *, shared: bool) -> bool:
        """Judge a basic.qos with this window in bytes; return whether all consumers of the channel share it."""
        del size
        return shared


ALL = Dialect()
"""The rules of a broker that no test gave others."""
