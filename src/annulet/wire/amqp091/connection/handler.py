"""The interface by which an engine calls its owner."""
# ruff: noqa: PLR0913, PLR0917 - bits are positional in the order of the standard; a method has as many as it has

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from annulet.core.message.message import PropertyValue

PENDING: Final = "\0pending"
"""Returned for the name of a user that is not known yet; names have no NUL."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionHandler:
    """Base class of connection handlers. The engine calls its methods in the order of the peer's frames.

    All calls are synchronous. A method may raise :class:`~annulet.wire.amqp091.types.errors.ChannelError` to close the
    channel or :class:`~annulet.wire.amqp091.types.errors.ConnectionFault` to close the connection, each with a reply
    code of §1.1. Any other exception is a defect: the engine closes with 541 and lets the exception pass.

    The engine itself answers connection.*, channel.*, access.request and basic.recover; the handler answers all
    other methods with the engine's ``send_..._ok``, and not at all when ``no_wait`` is set.
    """

    def authenticate(self, mechanism: str, response: bytes, client_properties: dict[str, PropertyValue]) -> str | None:
        """Return the user's name, ``None`` to refuse (403, or a plain close for clients that do not know it).

        Or :data:`PENDING`, and later call the engine's ``authentication_finished`` or ``secure``.
        """
        raise NotImplementedError

    def respond(self, response: bytes) -> str | None:
        """Take the answer to the challenge of ``secure``; returns as :meth:`authenticate` does."""
        raise NotImplementedError

    def open_virtual_host(self, name: str) -> None:
        """Enter a virtual host; raise ConnectionFault 530 when it does not exist or is forbidden."""
        raise NotImplementedError

    def connection_opened(self) -> None:
        """Note that the connection is open: open-ok is queued, and the engine has the negotiated values."""
        raise NotImplementedError

    def connection_closed(self, code: int, text: str, by_peer: bool) -> None:
        """Note the end; called exactly once, after all channels were closed. ``code`` is 0 when the line broke."""
        raise NotImplementedError

    def update_secret(self, new_secret: bytes, reason: str) -> None:
        """Check new credentials; the engine answers update-secret-ok."""
        raise NotImplementedError

    def answer_due(self, channel: int) -> None:
        """Note that a method other than basic.publish is served: other output than its answer may wait for
        :meth:`answered`.

        The acknowledgements that the engine reads in place have no answer, and are not announced.
        """
        raise NotImplementedError

    def answered(self, channel: int) -> None:
        """Note that it was served, successfully or not; its answer may follow later."""
        raise NotImplementedError

    def open_channel(self, channel: int) -> None:
        """Open a channel; the engine answers open-ok."""
        raise NotImplementedError

    def close_channel(self, channel: int) -> None:
        """Release a channel; called exactly once for each opened channel, for any kind of close."""
        raise NotImplementedError

    def channel_flow(self, channel: int, active: bool) -> None:
        """Stop or resume deliveries on a channel; the engine answers flow-ok."""
        raise NotImplementedError

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
        """Take a message. ``header`` is the content header payload from the property flags on, not yet validated."""
        raise NotImplementedError

    def acknowledge(self, channel: int, delivery_tag: int, multiple: bool) -> None:
        """Settle deliveries; tag 0 with ``multiple`` means all."""
        raise NotImplementedError

    def reject(self, channel: int, delivery_tag: int, requeue: bool) -> None:
        """Reject one delivery."""
        raise NotImplementedError

    def negative_acknowledge(self, channel: int, delivery_tag: int, multiple: bool, requeue: bool) -> None:
        """Reject deliveries; tag 0 with ``multiple`` means all."""
        raise NotImplementedError

    def qos(self, channel: int, prefetch_size: int, prefetch_count: int, global_: bool) -> None:
        """Limit unacknowledged deliveries; answer qos-ok."""
        raise NotImplementedError

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
        """Start a consumer; answer consume-ok. An empty queue means the last declared, an empty tag a new one."""
        raise NotImplementedError

    def cancel(self, channel: int, consumer_tag: str, no_wait: bool) -> None:
        """End a consumer; answer cancel-ok, also for an unknown tag."""
        raise NotImplementedError

    def get(self, channel: int, queue: str, no_ack: bool) -> None:
        """Answer get-ok with the next message, or get-empty."""
        raise NotImplementedError

    def recover(self, channel: int, requeue: bool) -> None:
        """Return unacknowledged messages to their queues; the engine answers recover-ok, for basic.recover only.

        With ``requeue`` it has answered before. Without, raise :class:`ConnectionFault`: there is no answer to that.
        """
        raise NotImplementedError

    def exchange_declare(
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
        """Declare an exchange; answer declare-ok."""
        raise NotImplementedError

    def exchange_delete(self, channel: int, exchange: str, if_unused: bool, no_wait: bool) -> None:
        """Delete an exchange; answer delete-ok."""
        raise NotImplementedError

    def exchange_bind(
        self,
        channel: int,
        destination: str,
        source: str,
        routing_key: str,
        no_wait: bool,
        arguments: dict[str, PropertyValue],
    ) -> None:
        """Bind an exchange to an exchange; answer bind-ok."""
        raise NotImplementedError

    def exchange_unbind(
        self,
        channel: int,
        destination: str,
        source: str,
        routing_key: str,
        no_wait: bool,
        arguments: dict[str, PropertyValue],
    ) -> None:
        """Remove a binding between exchanges; answer unbind-ok."""
        raise NotImplementedError

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
        """Declare a queue; answer declare-ok. With an empty name the server generates one."""
        raise NotImplementedError

    def queue_bind(
        self,
        channel: int,
        queue: str,
        exchange: str,
        routing_key: str,
        no_wait: bool,
        arguments: dict[str, PropertyValue],
    ) -> None:
        """Bind a queue; answer bind-ok."""
        raise NotImplementedError

    def queue_unbind(
        self, channel: int, queue: str, exchange: str, routing_key: str, arguments: dict[str, PropertyValue]
    ) -> None:
        """Remove a binding; answer unbind-ok."""
        raise NotImplementedError

    def queue_purge(self, channel: int, queue: str, no_wait: bool) -> None:
        """Remove the pending messages; answer purge-ok."""
        raise NotImplementedError

    def queue_delete(self, channel: int, queue: str, if_unused: bool, if_empty: bool, no_wait: bool) -> None:
        """Delete a queue; answer delete-ok."""
        raise NotImplementedError

    def confirm_select(self, channel: int, no_wait: bool) -> None:
        """Turn publisher confirms on; answer select-ok."""
        raise NotImplementedError

    def tx_select(self, channel: int) -> None:
        """Make the channel transactional; answer select-ok."""
        raise NotImplementedError

    def tx_commit(self, channel: int) -> None:
        """Commit; answer commit-ok when it is done."""
        raise NotImplementedError

    def input_waits(self, channel: int) -> None:
        """Note that a method is not served before the answer to an earlier one: ``unanswered`` has its channel.

        The handler calls the engine's ``rest``, and has it go on when that answer is sent.
        """
        raise NotImplementedError

    def tx_rollback(self, channel: int) -> None:
        """Roll back; answer rollback-ok."""
        raise NotImplementedError
