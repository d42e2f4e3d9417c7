"""The handler of the AMQP 0-9-1 engine: each call goes to the channel or the connection it concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.broker.amqp091.channel import Channel
from annulet.broker.amqp091.reply_codes import translate, translated
from annulet.broker.amqp091.topology import Topology
from annulet.core.base import errors as core_errors
from annulet.core.sessions.session import end_together
from annulet.store.files.errors import StoreError
from annulet.wire.amqp091.connection.handler import PENDING, ConnectionHandler
from annulet.wire.amqp091.types import constants
from annulet.wire.amqp091.types.errors import ChannelError, ConnectionFault

if TYPE_CHECKING:
    from annulet.broker.amqp091.connection import AmqpConnection
    from annulet.core.message.message import PropertyValue


class AmqpHandler(ConnectionHandler):
    """Serves one connection, and owns what ends with it: its channels and its exclusive queues."""

    def __init__(self, connection: AmqpConnection) -> None:
        self.connection = connection
        self.channels = connection.channels
        self._topology: Topology | None = None  # from connection.open on

    def end(self, now: int) -> None:
        """The connection is over, or the socket is gone: channels return what they held, exclusive queues go."""
        for channel in list(self.channels.values()):
            channel.close(now)
        self.channels.clear()
        if self._topology is not None:
            self._topology.connection_ended()
            self._topology = None

    # ------------------------------------------------------------------ connection

    def authenticate(self, mechanism: str, response: bytes, client_properties: dict[str, PropertyValue]) -> str | None:
        """Check SASL credentials, off the loop. ``guest`` works from loopback only."""
        self.connection.login.begin(mechanism, response, client_properties)
        return PENDING

    def respond(self, response: bytes) -> str | None:
        """Check the answer to a challenge."""
        self.connection.login.respond(response)
        return PENDING

    def open_virtual_host(self, name: str) -> None:
        """Enter the virtual host; 530 when it does not exist or the user may not enter."""
        self._topology = Topology(self.connection, self.connection.enter(name))

    def connection_opened(self) -> None:
        """Negotiation is over."""
        self.connection.note_opened()

    def connection_closed(self, code: int, text: str, by_peer: bool) -> None:
        """Both sides agreed to end, or the engine gave the peer up."""
        self.connection.note_closed(code, text, by_peer=by_peer)

    def update_secret(self, new_secret: bytes, reason: str) -> None:  # noqa: ARG002 - the engine's call
        """Go on with another access token. Passwords do not expire: a new one changes nothing (as in RabbitMQ)."""
        self.connection.login.renew(new_secret)

    # ------------------------------------------------------------------ channels

    def answer_due(self, channel: int) -> None:  # noqa: ARG002 - a client that waits reads all channels
        """A method is served that a client may wait for the answer of."""
        self.connection.notices.hold()

    def answered(self, channel: int) -> None:  # noqa: ARG002 - as above
        """Its answer is queued, or comes when the disk has it."""
        self.connection.notices.release()

    def open_channel(self, channel: int) -> None:
        """Create the session of a channel."""
        reason = self.connection.broker.admission.may_have_channel(self.connection.user_name)
        if reason:
            raise ConnectionFault(constants.NOT_ALLOWED, reason)
        self.channels[channel] = Channel(channel, self.connection)

    def close_channel(self, channel: int) -> None:
        """Return what the channel held."""
        session = self.channels.pop(channel, None)
        if session is not None:
            if not self.connection.running and not session.ending:  # the whole connection ends
                end_together([session, *self.channels.values()])
            session.close(self.connection.now)

    def channel_flow(self, channel: int, active: bool) -> None:  # noqa: ARG002 - the same for every channel
        """channel.flow: only resuming is honoured, as in RabbitMQ; use basic.qos to hold deliveries."""
        if not active:
            raise ConnectionFault(constants.NOT_IMPLEMENTED, "channel.flow active=false; use basic.qos instead")

    # ------------------------------------------------------------------ exchanges, queues and consumers

    def _topology_and(self, channel: int) -> tuple[Topology, Channel]:
        """Return what declares and reads on behalf of the connection, and the channel it does so for."""
        topology = self._topology
        assert topology is not None
        return topology, self.channels[channel]

    def consume(
        self,
        channel: int,
        queue: str,
        consumer_tag: str,
        no_local: bool,
        no_ack: bool,
        exclusive: bool,
        no_wait: bool,
        arguments: dict[str, PropertyValue],
    ) -> None:
        """basic.consume."""
        with translated():
            topology, session = self._topology_and(channel)
            topology.consume(session, queue, consumer_tag, no_local, no_ack, exclusive, no_wait, arguments)

    def exchange_declare(  # noqa: PLR0913, PLR0917 - a method has as many arguments as it has
        self,
        channel: int,
        exchange: str,
        type_: str,
        passive: bool,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        no_wait: bool,
        arguments: dict[str, PropertyValue],
    ) -> None:
        """exchange.declare."""
        with translated():
            topology, session = self._topology_and(channel)
            topology.exchange_declare(
                session, exchange, type_, passive, durable, auto_delete, internal, no_wait, arguments
            )

    def exchange_delete(self, channel: int, exchange: str, if_unused: bool, no_wait: bool) -> None:
        """exchange.delete."""
        with translated():
            topology, session = self._topology_and(channel)
            topology.exchange_delete(session, exchange, if_unused, no_wait)

    def exchange_bind(
        self,
        channel: int,
        destination: str,
        source: str,
        routing_key: str,
        no_wait: bool,
        arguments: dict[str, PropertyValue],
    ) -> None:
        """exchange.bind."""
        with translated():
            topology, session = self._topology_and(channel)
            topology.exchange_bind(session, destination, source, routing_key, no_wait, arguments)

    def exchange_unbind(
        self,
        channel: int,
        destination: str,
        source: str,
        routing_key: str,
        no_wait: bool,
        arguments: dict[str, PropertyValue],
    ) -> None:
        """exchange.unbind."""
        with translated():
            topology, session = self._topology_and(channel)
            topology.exchange_unbind(session, destination, source, routing_key, no_wait, arguments)

    def queue_declare(
        self,
        channel: int,
        queue: str,
        passive: bool,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        no_wait: bool,
        arguments: dict[str, PropertyValue],
    ) -> None:
        """queue.declare."""
        with translated():
            topology, session = self._topology_and(channel)
            topology.queue_declare(session, queue, passive, durable, exclusive, auto_delete, no_wait, arguments)

    def queue_bind(
        self,
        channel: int,
        queue: str,
        exchange: str,
        routing_key: str,
        no_wait: bool,
        arguments: dict[str, PropertyValue],
    ) -> None:
        """queue.bind."""
        with translated():
            topology, session = self._topology_and(channel)
            topology.queue_bind(session, queue, exchange, routing_key, no_wait, arguments)

    def queue_unbind(
        self, channel: int, queue: str, exchange: str, routing_key: str, arguments: dict[str, PropertyValue]
    ) -> None:
        """queue.unbind."""
        with translated():
            topology, session = self._topology_and(channel)
            topology.queue_unbind(session, queue, exchange, routing_key, arguments)

    def queue_purge(self, channel: int, queue: str, no_wait: bool) -> None:
        """queue.purge."""
        with translated():
            topology, session = self._topology_and(channel)
            topology.queue_purge(session, queue, no_wait)

    def queue_delete(self, channel: int, queue: str, if_unused: bool, if_empty: bool, no_wait: bool) -> None:
        """queue.delete."""
        with translated():
            topology, session = self._topology_and(channel)
            topology.queue_delete(session, queue, if_unused, if_empty, no_wait)

    def cancel(self, channel: int, consumer_tag: str, no_wait: bool) -> None:
        """basic.cancel."""
        with translated():
            topology, session = self._topology_and(channel)
            topology.cancel(session, consumer_tag, no_wait)

    def get(self, channel: int, queue: str, no_ack: bool) -> None:
        """basic.get. Errors are translated in place: ``translated`` takes a tenth of what a get takes."""
        topology, session = self._topology_and(channel)
        try:
            topology.get(session, queue, no_ack)
        except core_errors.CoreError as error:
            raise translate(error) from error
        except StoreError as error:
            raise ChannelError(constants.RESOURCE_ERROR, str(error)) from error

    # ------------------------------------------------------------------ messages

    def publish(
        self,
        channel: int,
        exchange: str,
        routing_key: str,
        mandatory: bool,
        immediate: bool,
        header: bytes,
        body: bytes,
    ) -> None:
        """basic.publish."""
        self.connection.publishes = True
        try:
            self.channels[channel].publish(exchange, routing_key, mandatory, immediate, header, body)
        except core_errors.LimitExceeded as error:
            self.channels[channel].refuse_for_limit(str(error), exchange, routing_key, mandatory, header, body)
        except core_errors.CoreError as error:
            raise translate(error) from error
        except StoreError:  # the disk filled up, or failed, since it was asked
            self.channels[channel].refuse_publish(len(body))

    def acknowledge(self, channel: int, delivery_tag: int, multiple: bool) -> None:
        """basic.ack."""
        self.channels[channel].settle(delivery_tag, multiple)

    def reject(self, channel: int, delivery_tag: int, requeue: bool) -> None:
        """basic.reject."""
        self.channels[channel].refuse_delivery(delivery_tag, False, requeue)

    def negative_acknowledge(self, channel: int, delivery_tag: int, multiple: bool, requeue: bool) -> None:
        """basic.nack."""
        self.channels[channel].refuse_delivery(delivery_tag, multiple, requeue)

    def qos(self, channel: int, prefetch_size: int, prefetch_count: int, global_: bool) -> None:
        """basic.qos. The answer goes before deliveries that the window has room for, as RabbitMQ's."""
        shared = self.connection.broker.dialect.shares_prefetch(prefetch_size, shared=global_)
        self.connection.engine.replies.send_qos_ok(channel)
        self.channels[channel].set_prefetch(prefetch_size, prefetch_count, shared)

    def recover(self, channel: int, requeue: bool) -> None:
        """basic.recover."""
        if not requeue:
            raise ConnectionFault(constants.NOT_IMPLEMENTED, "basic.recover with requeue=false; use requeue=true")
        self.channels[channel].recover(self.connection.now)

    def confirm_select(self, channel: int, no_wait: bool) -> None:
        """confirm.select."""
        self.channels[channel].confirm_select()
        if not no_wait:
            self.connection.engine.replies.send_confirm_select_ok(channel)

    def tx_select(self, channel: int) -> None:
        """tx.select."""
        self.channels[channel].tx_select()
        self.connection.engine.replies.send_tx_select_ok(channel)

    def tx_commit(self, channel: int) -> None:
        """tx.commit; the answer waits for the disk."""
        self.channels[channel].tx_commit()

    def input_waits(self, channel: int) -> None:
        """Serve nothing more of the client until commit-ok is sent: its answers stay in the order of its methods."""
        self.channels[channel].await_commit()

    def tx_rollback(self, channel: int) -> None:
        """tx.rollback."""
        self.channels[channel].tx_rollback()
