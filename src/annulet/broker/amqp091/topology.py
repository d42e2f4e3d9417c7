"""Declarations and subscriptions of one AMQP 0-9-1 connection: exchanges, queues, bindings, consume, get.

The cold half of the channel. Rules: AMQP 0-9-1 §1.6 and §1.7, RabbitMQ's extensions and reply codes.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from annulet.broker.amqp091 import getting
from annulet.broker.amqp091.channel import amqp_consumer
from annulet.broker.connections.access import generated_name
from annulet.broker.connections.dialect import QueueDeclaration
from annulet.core.base.errors import InvalidArgument, NotFound
from annulet.core.base.reply_names import REPLY_QUEUE, is_reply_name
from annulet.core.base.settings import ConsumerSettings
from annulet.core.configuration.arguments import parse_consumer_arguments
from annulet.core.routing.exchanges import EXCHANGE_TYPES
from annulet.wire.amqp091.types import constants
from annulet.wire.amqp091.types.errors import ChannelError, ConnectionFault

if TYPE_CHECKING:
    from annulet.broker.amqp091.channel import Channel
    from annulet.broker.amqp091.connection import AmqpConnection
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import PropertyValue
    from annulet.core.queue.queue import Queue

Arguments = dict[str, "PropertyValue"]

DELAYED_EXCHANGE: Final = "x-delayed-message"
"""RabbitMQ's exchange type of the delay plugin. Here every queue delays, so such an exchange is one of its own type."""

DELAYED_TYPE: Final = "x-delayed-type"


def exchange_type(type_name: str, arguments: Arguments) -> tuple[str, Arguments]:
    """Return the type and arguments an exchange is declared with.

    Raises :class:`ConnectionFault` 503 for an unknown type, :class:`InvalidArgument` for a wrong ``x-delayed-type``.
    """
    if type_name == DELAYED_EXCHANGE:
        routed_as = arguments.get(DELAYED_TYPE)
        if not isinstance(routed_as, str) or routed_as not in EXCHANGE_TYPES:
            raise InvalidArgument(
                f"argument '{DELAYED_TYPE}' must be one of {', '.join(EXCHANGE_TYPES)}, not {routed_as!r}; it says how "
                f"the exchange of type '{DELAYED_EXCHANGE}' routes"
            )
        return routed_as, {name: value for name, value in arguments.items() if name != DELAYED_TYPE}
    if type_name not in EXCHANGE_TYPES:  # §1.6.2.1.3 asks for a connection exception, RabbitMQ sends one
        raise ConnectionFault(
            constants.COMMAND_INVALID,
            f"unknown exchange type '{type_name}'; known are {', '.join(EXCHANGE_TYPES)}, {DELAYED_EXCHANGE}",
        )
    return type_name, arguments


class Topology:
    """Carries out declarations for a connection, which also owns its exclusive queues."""

    def __init__(self, connection: AmqpConnection, host: VirtualHost) -> None:
        self.connection = connection
        self.replies = connection.engine.replies
        self.host = host
        self.access = connection.require_access()
        self._dialect = connection.broker.dialect

    def connection_ended(self) -> None:
        """Delete the exclusive queues of the connection (AMQP 0-9-1 §1.7.2.1.4)."""
        self.host.connection_closed(self.connection, self.connection.now)

    # ------------------------------------------------------------------ exchanges

    def exchange_declare(  # noqa: PLR0913, PLR0917 - a method has as many arguments as it has
        self,
        channel: Channel,
        exchange: str,
        type_: str,
        passive: bool,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        no_wait: bool,
        arguments: Arguments,
    ) -> None:
        """Create an exchange or check that it is the same; passive only looks."""
        if passive:
            self.access.look_at_exchange(exchange, type_)
        else:
            self._dialect.exchange(exchange, type_)
            type_, arguments = exchange_type(type_, arguments)
            self.access.declare_exchange(
                exchange, type_, durable=durable, auto_delete=auto_delete, internal=internal, arguments=arguments
            )
        if not no_wait:
            self.replies.send_exchange_declare_ok(channel.number)

    def exchange_delete(self, channel: Channel, exchange: str, if_unused: bool, no_wait: bool) -> None:
        """Delete an exchange and its bindings; deleting a missing one is no error (RabbitMQ)."""
        self.access.delete_exchange(exchange, if_unused=if_unused)
        if not no_wait:
            self.replies.send_exchange_delete_ok(channel.number)

    def exchange_bind(
        self, channel: Channel, destination: str, source: str, routing_key: str, no_wait: bool, arguments: Arguments
    ) -> None:
        """Bind an exchange to an exchange."""
        self.access.bind_exchange(destination, source, routing_key, arguments)
        if not no_wait:
            self.replies.send_exchange_bind_ok(channel.number)

    def exchange_unbind(
        self, channel: Channel, destination: str, source: str, routing_key: str, no_wait: bool, arguments: Arguments
    ) -> None:
        """Undo :meth:`exchange_bind`; a binding that is not there is fine, so are missing ends (RabbitMQ)."""
        self.access.unbind_exchange(destination, source, routing_key, arguments)
        if not no_wait:
            self.replies.send_exchange_unbind_ok(channel.number)

    # ------------------------------------------------------------------ queues

    def queue_declare(
        self,
        channel: Channel,
        queue: str,
        passive: bool,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        no_wait: bool,
        arguments: Arguments,
    ) -> None:
        """Create a queue or check that it is the same; an empty name asks for a fresh one (§1.7.2.1)."""
        now = self.connection.now
        if queue == REPLY_QUEUE or is_reply_name(queue):
            self._look_for_reply_queue(channel, queue, no_wait)
            return
        if passive:
            found = self.access.look_at_queue(self._name(channel, queue))
        else:
            self._dialect.queue(QueueDeclaration(queue, self.host.name, durable, exclusive, auto_delete, arguments))
            found = self.access.declare_queue(
                queue or generated_name(),
                now=now,
                durable=durable,
                auto_delete=auto_delete,
                arguments=arguments,
                exclusive=exclusive,
                server_named=not queue,
            )
        found.note_use(now)
        channel.last_queue = found.name
        if not no_wait:
            self.replies.send_queue_declare_ok(channel.number, found.name, found.shown_count(), found.consumers.count)

    def _look_for_reply_queue(self, channel: Channel, name: str, no_wait: bool) -> None:
        """Say whether the channel that waits for answers is still there; to know its name is permission enough.

        Declaring creates nothing, passive or not (RabbitMQ). The name that consumers give is always there.
        """
        if name != REPLY_QUEUE and name not in self.host.queues:
            raise NotFound(
                f"no queue '{name}' in vhost '{self.host.name}': the channel that waited for answers there has ended"
            )
        channel.last_queue = name
        if not no_wait:
            self.replies.send_queue_declare_ok(channel.number, name, 0, 1)

    def queue_bind(
        self, channel: Channel, queue: str, exchange: str, routing_key: str, no_wait: bool, arguments: Arguments
    ) -> None:
        """Bind a queue to an exchange; twice is once."""
        name, key = self._binding_names(channel, queue, routing_key)
        self.access.bind_queue(name, exchange, key, arguments)
        if not no_wait:
            self.replies.send_queue_bind_ok(channel.number)

    def queue_unbind(self, channel: Channel, queue: str, exchange: str, routing_key: str, arguments: Arguments) -> None:
        """Undo :meth:`queue_bind`; a binding that is not there is fine, so are missing ends (RabbitMQ)."""
        name, key = self._binding_names(channel, queue, routing_key)
        self.access.unbind_queue(name, exchange, key, arguments)
        self.replies.send_queue_unbind_ok(channel.number)

    def queue_purge(self, channel: Channel, queue: str, no_wait: bool) -> None:
        """Drop the pending messages.

        Of a durable queue the answer is sent when nothing of it can come back any more.
        """
        found, count = self.access.purge_queue(self._name(channel, queue), self.connection.now)
        if no_wait:
            return
        if found.emptying or (found.queue_id and count):
            self.connection.notices.hold()
            waiter = PurgeWaiter(channel, count, durable=found.queue_id != 0)
            if found.emptying:
                found.emptying[-1].when_told(waiter.told)
            else:
                waiter.told(True)
        else:
            self.replies.send_queue_purge_ok(channel.number, count)

    def queue_delete(self, channel: Channel, queue: str, if_unused: bool, if_empty: bool, no_wait: bool) -> None:
        """Delete a queue; deleting a missing one is no error (RabbitMQ).

        The answer is sent when all of its dead letters are on their way; later methods of the channel wait for it.
        """
        name = self._name(channel, queue)
        self._dialect.deletion(self.host, name, if_unused=if_unused, if_empty=if_empty)
        found = self.host.queues.get(name)
        count = self.access.delete_queue(name, self.connection.now, if_unused=if_unused, if_empty=if_empty)
        if no_wait:
            return
        if found is None or not self.host.departures.when_gone(found, DeleteWaiter(channel, count).told):
            self.replies.send_queue_delete_ok(channel.number, count)
        else:
            channel.begin_commit()

    # ------------------------------------------------------------------ consumers

    def consume(
        self,
        channel: Channel,
        queue: str,
        consumer_tag: str,
        no_local: bool,
        no_ack: bool,
        exclusive: bool,
        no_wait: bool,
        arguments: Arguments,
    ) -> None:
        """Start a consumer: its arguments are a priority, a selector, or that it only browses."""
        name = self._name(channel, queue)
        answers = name == REPLY_QUEUE
        found = None if answers else self.access.queue_to_read(name)
        tag = consumer_tag or f"amq.ctag-{secrets.token_urlsafe(16)}"
        if tag in channel.consumers:
            raise ConnectionFault(constants.NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
        settings = parse_consumer_arguments(arguments)
        if found is None:
            found = self._reply_queue(channel, no_ack)
            exclusive = True
            settings = ConsumerSettings()  # every answer is for this channel, from any sender
        else:
            self._dialect.consumer(self.host, found, arguments)
            if no_local:
                settings = replace(settings, no_local=True)
        self.access.require_consumer(found, settings, exclusive=exclusive, granted=answers)
        consumer = amqp_consumer(channel, found, tag, auto_acknowledge=no_ack, exclusive=exclusive, settings=settings)
        if not no_wait:
            self.replies.send_consume_ok(channel.number, tag)
        channel.attach(consumer, self.connection.now)

    def _reply_queue(self, channel: Channel, no_ack: bool) -> Queue:
        """Make the queue that answers to this channel's requests come to. It goes with its only consumer."""
        if not no_ack:
            raise ChannelError(
                constants.PRECONDITION_FAILED, f"reply consumer cannot acknowledge; consume '{REPLY_QUEUE}' with no-ack"
            )
        if channel.reply_address in self.host.queues:
            raise ChannelError(
                constants.PRECONDITION_FAILED, "reply consumer already set; cancel it first or open another channel"
            )
        queue = self.access.reply_queue(self.connection.now)
        channel.reply_address = queue.name
        return queue

    def cancel(self, channel: Channel, consumer_tag: str, no_wait: bool) -> None:
        """Stop a consumer; its deliveries stay with the channel. An unknown tag is fine (RabbitMQ)."""
        consumer = channel.detach(consumer_tag, self.connection.now)
        if not no_wait:
            self.replies.send_cancel_ok(channel.number, consumer_tag)
        if consumer is not None:
            self.host.consumer_removed(consumer.queue, self.connection.now)

    def get(self, channel: Channel, queue: str, no_ack: bool) -> None:
        """Take one message."""
        found = self.access.queue_to_read(self._name(channel, queue))
        self._dialect.get(self.host, found)
        getting.get(channel, found, no_ack=no_ack)

    def _name(self, channel: Channel, name: str) -> str:
        """Return the name of a queue; empty means the last one declared on the channel (§1.7.2.1)."""
        if not name and not channel.last_queue:
            raise ChannelError(constants.NOT_FOUND, "no previously declared queue on this channel; name one")
        return name or channel.last_queue

    def _binding_names(self, channel: Channel, queue: str, routing_key: str) -> tuple[str, str]:
        """Return the queue's name, and the key: when both are empty it is that name (§1.7.2.3.3)."""
        name = self._name(channel, queue)
        return name, routing_key if routing_key or queue else name


class PurgeWaiter:
    """Sends purge-ok when all is examined that was purged and, of a durable queue, the purge is durable."""

    def __init__(self, channel: Channel, count: int, *, durable: bool) -> None:
        self._channel = channel
        self._count = count
        self._durable = durable

    def told(self, well: bool) -> None:
        """Wait for the disk where the queue is durable."""
        if not well:
            self.window_failed(0)
        elif self._durable:
            self._channel.client.broker.commit.wait_until_noted(self)
        else:
            self.window_committed(0)

    def window_committed(self, window: int) -> None:  # noqa: ARG002 - of the interface; it waits for one only
        """Answer the client."""
        channel = self._channel
        if not channel.closed:
            channel.engine.replies.send_queue_purge_ok(channel.number, self._count)
            channel.connection.mark_dirty()
        channel.client.notices.release()

    def window_failed(self, window: int) -> None:  # noqa: ARG002 - as above
        """Purged messages may come back: the channel ends with an error."""
        channel = self._channel
        if not channel.closed:
            channel.client.fail_channel(
                channel.number,
                constants.RESOURCE_ERROR,
                "the purge could not be written to disk: purged messages may return with a restart; free some space",
                50,
                30,
            )
        channel.client.notices.release()


class DeleteWaiter:
    """Sends delete-ok when the last dead letter of a deleted queue is sent, and the queue forgotten."""

    def __init__(self, channel: Channel, count: int) -> None:
        self._channel = channel
        self._count = count

    def told(self, well: bool) -> None:
        """Answer the client; with an error of the channel after a defect."""
        channel = self._channel
        if not channel.closed:
            if well:
                channel.engine.replies.send_queue_delete_ok(channel.number, self._count)
                channel.connection.mark_dirty()
            else:
                text = "the queue could not be deleted for good and may return with a restart; see the broker's log"
                channel.client.fail_channel(channel.number, constants.RESOURCE_ERROR, text, 50, 40)
        channel.end_commit()
