"""Declarations and subscriptions of one AMQP 0-9-1 connection: exchanges, queues, bindings, consume, get.

The cold half of the channel. Rules: AMQP 0-9-1 §1.6 and §1.7, RabbitMQ's extensions and reply codes.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from annulet.broker.amqp091.channel import amqp_consumer, delivered_header
from annulet.broker.amqp091.publishing import destination_of
from annulet.core.arguments import parse_consumer_arguments
from annulet.core.errors import InvalidArgument
from annulet.core.exchanges import EXCHANGE_TYPES
from annulet.selector.errors import SelectorError
from annulet.store.errors import CatalogueError
from annulet.wire.amqp091 import constants
from annulet.wire.amqp091.errors import ChannelError, ConnectionFault

if TYPE_CHECKING:
    from annulet.broker.amqp091.channel import Channel
    from annulet.broker.amqp091.connection import AmqpConnection
    from annulet.broker.authentication import PermissionKind
    from annulet.core.message import PropertyValue
    from annulet.core.queue import Queue
    from annulet.core.virtual_host import VirtualHost

Arguments = dict[str, "PropertyValue"]


class Topology:
    """Carries out declarations for a connection, which also owns its exclusive queues."""

    def __init__(self, connection: AmqpConnection, host: VirtualHost) -> None:
        self.connection = connection
        self.engine = connection.engine
        self.host = host
        self.catalogue = connection.broker.catalogue

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
        if not passive:
            if type_ not in EXCHANGE_TYPES:  # §1.6.2.1.3 asks for a connection exception, RabbitMQ sends one
                raise ConnectionFault(
                    constants.COMMAND_INVALID,
                    f"unknown exchange type '{type_}'; known are {', '.join(EXCHANGE_TYPES)}",
                )
            self.connection.require("configure", exchange)
            alternate = arguments.get("alternate-exchange")
            if isinstance(alternate, str) and alternate:
                self.connection.require("read", exchange)
                self.connection.require("write", alternate)
        known = exchange in self.host.exchanges
        declared = self.host.declare_exchange(
            exchange,
            type_,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
            passive=passive,
        )
        if declared.durable and not known:
            try:
                self.catalogue.add_exchange(self.host.name, exchange, type_, auto_delete, internal, arguments)
            except CatalogueError:
                self.host.delete_exchange(exchange)  # or it would pass for durable from now on
                raise
        if not no_wait:
            self.engine.send_exchange_declare_ok(channel.number)

    def exchange_delete(self, channel: Channel, exchange: str, if_unused: bool, no_wait: bool) -> None:
        """Delete an exchange and its bindings; deleting what is not there is fine (RabbitMQ)."""
        self.connection.require("configure", exchange)
        self.host.delete_exchange(exchange, if_unused=if_unused)
        if not no_wait:
            self.engine.send_exchange_delete_ok(channel.number)

    def exchange_bind(
        self, channel: Channel, destination: str, source: str, routing_key: str, no_wait: bool, arguments: Arguments
    ) -> None:
        """Bind an exchange to an exchange."""
        self.connection.require("write", destination)
        self.connection.require("read", source)
        count = len(self.host.exchange_for(source).bindings)
        binding = self.host.bind_exchange(destination, source, routing_key, arguments)
        if binding.source.durable and self.host.exchanges[destination].durable:
            try:
                self.catalogue.add_binding(self.host.name, source, "exchange", destination, routing_key, arguments)
            except CatalogueError:
                if len(binding.source.bindings) > count:  # new; it would pass for durable from now on
                    self.host.unbind_exchange(destination, source, routing_key, arguments)
                raise
        if not no_wait:
            self.engine.send_exchange_bind_ok(channel.number)

    def exchange_unbind(
        self, channel: Channel, destination: str, source: str, routing_key: str, no_wait: bool, arguments: Arguments
    ) -> None:
        """Undo :meth:`exchange_bind`; a binding that is not there is fine (RabbitMQ)."""
        self.connection.require("write", destination)
        self.connection.require("read", source)
        self.host.unbind_exchange(destination, source, routing_key, arguments)
        self.catalogue.remove_binding(self.host.name, source, "exchange", destination, routing_key, arguments)
        if not no_wait:
            self.engine.send_exchange_unbind_ok(channel.number)

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
        if passive:
            found = self.host.queue_for(self._name(channel, queue), self.connection)
        else:
            name = queue or f"amq.gen-{secrets.token_urlsafe(16)}"
            self.connection.require("configure", name)
            found = self._declare(name, durable, exclusive, auto_delete, arguments, server_named=not queue)
        found.last_used_at = now
        channel.last_queue = found.name
        if not no_wait:
            self.engine.send_queue_declare_ok(channel.number, found.name, found.order.count, found.consumers.count)

    def _declare(
        self, name: str, durable: bool, exclusive: bool, auto_delete: bool, arguments: Arguments, *, server_named: bool
    ) -> Queue:
        known = name in self.host.queues
        queue = self.host.declare_queue(
            name,
            durable=durable,
            auto_delete=auto_delete,
            owner=self.connection if exclusive else None,
            arguments=arguments,
            now=self.connection.now,
            server_named=server_named,
        )
        if durable and not exclusive and not known:
            # An exclusive queue dies with its connection, so it is never written down.
            try:
                queue.queue_id = self.catalogue.add_queue(self.host.name, name, auto_delete, arguments)
            except CatalogueError:
                self.host.delete_queue(queue, self.connection.now)  # or it would pass for durable from now on
                raise
        return queue

    def queue_bind(
        self, channel: Channel, queue: str, exchange: str, routing_key: str, no_wait: bool, arguments: Arguments
    ) -> None:
        """Bind a queue to an exchange; twice is once."""
        found, key = self._binding_ends(channel, queue, exchange, routing_key)
        count = len(self.host.exchange_for(exchange).bindings)
        binding = self.host.bind_queue(found, exchange, key, arguments)
        if found.queue_id and binding.source.durable:
            try:
                self.catalogue.add_binding(self.host.name, exchange, "queue", found.name, key, arguments)
            except CatalogueError:
                if len(binding.source.bindings) > count:  # as above
                    self.host.unbind_queue(found, exchange, key, arguments)
                raise
        if not no_wait:
            self.engine.send_queue_bind_ok(channel.number)

    def queue_unbind(self, channel: Channel, queue: str, exchange: str, routing_key: str, arguments: Arguments) -> None:
        """Undo :meth:`queue_bind`; a binding that is not there is fine (RabbitMQ)."""
        found, key = self._binding_ends(channel, queue, exchange, routing_key)
        self.host.unbind_queue(found, exchange, key, arguments)
        if found.queue_id:
            self.catalogue.remove_binding(self.host.name, exchange, "queue", found.name, key, arguments)
        self.engine.send_queue_unbind_ok(channel.number)

    def queue_purge(self, channel: Channel, queue: str, no_wait: bool) -> None:
        """Drop what is pending."""
        found = self._queue(channel, queue, "read")
        count = found.purge(self.connection.now)
        if not no_wait:
            self.engine.send_queue_purge_ok(channel.number, count)

    def queue_delete(self, channel: Channel, queue: str, if_unused: bool, if_empty: bool, no_wait: bool) -> None:
        """Delete a queue; deleting what is not there is fine (RabbitMQ)."""
        name = self._name(channel, queue)
        self.connection.require("configure", name)
        count = 0
        if name in self.host.queues:
            found = self.host.queue_for(name, self.connection)
            count = self.host.delete_queue(found, self.connection.now, if_unused=if_unused, if_empty=if_empty)
        if not no_wait:
            self.engine.send_queue_delete_ok(channel.number, count)

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
        found = self._queue(channel, queue, "read")
        tag = consumer_tag or f"amq.ctag-{secrets.token_urlsafe(16)}"
        if tag in channel.consumers:
            raise ConnectionFault(constants.NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
        settings = parse_consumer_arguments(arguments)
        if no_local:
            settings = replace(settings, no_local=True)
        if exclusive or not settings.browse:  # a browser takes nothing from anybody
            self.host.check_consumer(found, exclusive=exclusive)
        try:
            consumer = amqp_consumer(
                channel, found, tag, auto_acknowledge=no_ack, exclusive=exclusive, settings=settings
            )
        except SelectorError as error:
            raise InvalidArgument(f"consumer argument {error.summary}") from error
        if not no_wait:
            self.engine.send_consume_ok(channel.number, tag)
        channel.attach(consumer, self.connection.now)

    def cancel(self, channel: Channel, consumer_tag: str, no_wait: bool) -> None:
        """Stop a consumer; what it holds stays with the channel. An unknown tag is fine (RabbitMQ)."""
        consumer = channel.detach(consumer_tag, self.connection.now)
        if not no_wait:
            self.engine.send_cancel_ok(channel.number, consumer_tag)
        if consumer is not None:
            self.host.consumer_removed(consumer.queue, self.connection.now)

    def get(self, channel: Channel, queue: str, no_ack: bool) -> None:
        """Take one message."""
        found = self._queue(channel, queue, "read")
        taken = channel.get(found, self.connection.now, auto_acknowledge=no_ack)
        if taken is None:
            self.engine.send_get_empty(channel.number)
            return
        entry, tag = taken
        message = entry.message
        self.engine.send_get_ok(
            channel.number,
            tag,
            entry.redelivered,
            message.origin.encoded or destination_of(message.origin),
            found.order.count,
            delivered_header(entry),
            message.body,
        )

    def _name(self, channel: Channel, name: str) -> str:
        """Return the name of a queue; empty means the last one declared on the channel (§1.7.2.1)."""
        if not name and not channel.last_queue:
            raise ChannelError(constants.NOT_FOUND, "no previously declared queue on this channel; name one")
        return name or channel.last_queue

    def _queue(self, channel: Channel, name: str, permission: PermissionKind) -> Queue:
        """Find a queue by name. Permission first: who has none does not learn which queues there are (RabbitMQ)."""
        name = self._name(channel, name)
        self.connection.require(permission, name)
        return self.host.queue_for(name, self.connection)

    def _binding_ends(self, channel: Channel, queue: str, exchange: str, routing_key: str) -> tuple[Queue, str]:
        """Return the queue, and the key: when both names are empty it is the queue's (§1.7.2.3.3)."""
        name = self._name(channel, queue)
        self.connection.require("write", name)
        self.connection.require("read", exchange)
        return self.host.queue_for(name, self.connection), routing_key if routing_key or queue else name
