"""Methods that a server sends without a request, to clients that understand them (RabbitMQ's extensions)."""

from __future__ import annotations

from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.connection.methods import encode_method
from annulet.wire.amqp091.connection.output import FrameWriter
from annulet.wire.amqp091.types.constants import SUCCESS, reply_text


class Notices:
    """Sends notices, each only to a client that announced its capability.

    ``capabilities``: of the client, from connection.start-ok on.
    """

    def __init__(self, output: FrameWriter) -> None:
        self._output = output
        self.capabilities: dict[str, PropertyValue] = {}

    def send_blocked(self, reason: str) -> None:
        """Notify a capable client that publishing is blocked (RabbitMQ's connection.blocked)."""
        if self._output.running and self.capabilities.get("connection.blocked") is True:
            self._output.send_on_zero("connection.blocked", {"reason": reason_text(reason)})

    def send_unblocked(self) -> None:
        """Tell a client that understands it that publishing is free again."""
        if self._output.running and self.capabilities.get("connection.blocked") is True:
            self._output.send_on_zero("connection.unblocked", {})

    def send_cancel(self, channel: int, consumer_tag: str) -> None:
        """Notify a capable client that a consumer's queue was deleted (RabbitMQ's consumer_cancel_notify).

        Raises:
            LocalProtocolError: the channel was never opened.
        """
        if self.capabilities.get("consumer_cancel_notify") is True:
            self._output.send_method(
                channel, encode_method("basic.cancel", {"consumer_tag": consumer_tag, "no_wait": True})
            )


def reason_text(text: str) -> str:
    """Return ``text`` cut to the length of a short string."""
    return reply_text(SUCCESS, text)
