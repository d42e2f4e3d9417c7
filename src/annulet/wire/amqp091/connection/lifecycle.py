"""Class connection, seen from the server: negotiation (§2.2.4, §1.4.2), errors and the end."""

from __future__ import annotations

from typing import Final

from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.connection.handler import PENDING, ConnectionHandler
from annulet.wire.amqp091.connection.methods import Method, decode_method, encode_method
from annulet.wire.amqp091.connection.output import Channel
from annulet.wire.amqp091.connection.replies import ReplyWriter
from annulet.wire.amqp091.connection.states import CONNECTION_TRANSITIONS, ConnectionState
from annulet.wire.amqp091.types.constants import (
    ACCESS_REFUSED,
    CHANNEL_ERROR,
    COMMAND_INVALID,
    FRAME_END_OCTET,
    FRAME_MIN_SIZE,
    INITIAL_FRAME_MAX,
    INTERNAL_ERROR,
    NOT_ALLOWED,
    SUCCESS,
    reply_text,
)
from annulet.wire.amqp091.types.errors import ConnectionFault, RemoteProtocolError

CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
"""RabbitMQ's extensions that are served, as clients look for them."""

_START_OK: Final = 10 << 16 | 11
_SECURE_OK: Final = 10 << 16 | 21
_TUNE_OK: Final = 10 << 16 | 31
_OPEN: Final = 10 << 16 | 40
_CLOSE: Final = 10 << 16 | 50
_CLOSE_OK: Final = 10 << 16 | 51
_UPDATE_SECRET: Final = 10 << 16 | 70
_CHANNEL_ZERO: Final = b"\x01\x00\x00"


class ConnectionLifecycle(ReplyWriter):
    """The part of a connection that does not depend on channels: user, virtual host, limits and end."""

    def __init__(
        self,
        handler: ConnectionHandler,
        server_properties: dict[str, PropertyValue],
        mechanisms: str,
        locales: str,
        limits: tuple[int, int, int],
    ) -> None:
        super().__init__()
        self.handler = handler
        self.state = ConnectionState.AWAITING_HEADER
        self.closed = False  # no more output follows; close the socket once the output is written
        self.channel_max, self.frame_max, self.heartbeat_interval = limits  # ours; the negotiated ones after tune-ok
        self.client_properties: dict[str, PropertyValue] = {}
        self.capabilities: dict[str, PropertyValue] = {}  # of the client
        self.user = ""
        self.virtual_host = ""
        self.mechanism = ""
        self.frame_limit = min(INITIAL_FRAME_MAX, self.frame_max)  # bytes; frame_max after tune-ok
        self.authenticated = False
        self._server_properties = server_properties
        self.mechanisms = mechanisms  # offered; the owner may set others until the protocol header arrives
        self._serves = True  # input is served: the connection is not closed, and no response is being checked
        self._locales = locales
        self._ended = False  # the handler was notified of the end

    # ---- calls by the owner

    def send_blocked(self, reason: str) -> None:
        """Notify a capable client that publishing is blocked (RabbitMQ's connection.blocked)."""
        if self.running and self.capabilities.get("connection.blocked") is True:
            self._send_on_zero("connection.blocked", {"reason": reason_text(reason)})

    def send_unblocked(self) -> None:
        """Tell a client that understands it that publishing is free again."""
        if self.running and self.capabilities.get("connection.blocked") is True:
            self._send_on_zero("connection.unblocked", {})

    def send_cancel(self, channel: int, consumer_tag: str) -> None:
        """Notify a capable client that a consumer's queue was deleted (RabbitMQ's consumer_cancel_notify).

        Raises:
            LocalProtocolError: the channel was never opened.
        """
        if self.capabilities.get("consumer_cancel_notify") is True:
            self.send_method(channel, encode_method("basic.cancel", {"consumer_tag": consumer_tag, "no_wait": True}))

    def authentication_finished(self, user: str | None) -> None:
        """Give the answer that the handler owes: the user's name, or ``None`` to refuse. Input that waited is served.

        Does nothing when no answer is owed any more.

        Raises:
            Exception: other exceptions of the handler than protocol errors, after closing with 541.
        """
        self._checked(user)
        self._go_on()

    def secure(self, challenge: bytes) -> None:
        """Give the answer that the handler owes: one more challenge (§1.4.2.3). Its response goes to ``respond``.

        Does nothing when no answer is owed any more.
        """
        if self.state is ConnectionState.CHECKING:
            self._send_on_zero("connection.secure", {"challenge": challenge})
            self._enter(ConnectionState.SECURING)
            self._go_on()

    def close_connection(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        """Close the connection: queue close, release everything, wait for close-ok only if the peer is authenticated.

        ``class_id`` and ``method_id`` name the method to blame, 0 for none. Does nothing once closing.
        """
        if self.state in {ConnectionState.CLOSING, ConnectionState.CLOSED}:
            return
        if self.state is not ConnectionState.AWAITING_HEADER:
            self._send_on_zero(
                "connection.close",
                {
                    "reply_code": code,
                    "reply_text": reply_text(code, text),
                    "class_id": class_id,
                    "method_id": method_id,
                },
            )
        # a socket closed before the answer is read resets the connection, and the client may never see the reason
        self._enter(ConnectionState.CLOSING if self.authenticated else ConnectionState.CLOSED)
        self._end(code, text, by_peer=False)

    def connection_lost(self, text: str = "the connection was lost") -> None:
        """Tell the engine that the socket is closed; no effect if everything was closed before.

        Afterwards the engine references neither input nor its handler, so that both are freed without a garbage
        collection.
        """
        try:
            self._enter(ConnectionState.CLOSED)
            self._end(0, text, by_peer=True)
        finally:
            self._drop_input()
            self.handler = ConnectionHandler()
            self.trace = None

    # ---- transitions

    def _go_on(self) -> None:
        """Serve the input that waited for an answer."""
        raise NotImplementedError

    def _drop_input(self) -> None:
        """Discard input that is not to be served."""
        raise NotImplementedError

    def _forget_body(self, channel: Channel) -> None:
        """Shut a channel and discard an incomplete message."""
        raise NotImplementedError

    def _enter(self, state: ConnectionState) -> None:
        self.state = state
        self.running = state is ConnectionState.OPEN
        self._serves = state is not ConnectionState.CHECKING and state is not ConnectionState.CLOSED
        if state is ConnectionState.CLOSED:
            self.closed = True

    def _end(self, code: int, text: str, *, by_peer: bool) -> None:
        """Release the channels and report the end, once."""
        if self._ended:
            return
        self._ended = True
        channels = [channel for channel in self.channels.values() if channel.open]
        self.channels.clear()
        for channel in channels:
            self._forget_body(channel)
            self.handler.close_channel(channel.number)
        self.handler.connection_closed(code, text, by_peer)

    def _end_after_defect(self, error: Exception) -> None:
        """Close with 541; the caller raises ``error`` again."""
        self.close_connection(INTERNAL_ERROR, f"the broker failed with {type(error).__name__}; see its log")

    def _send_on_zero(self, name: str, arguments: dict[str, PropertyValue]) -> None:
        method = encode_method(name, arguments, self.version.methods)
        self._append(b"".join((_CHANNEL_ZERO, len(method).to_bytes(4, "big"), method, FRAME_END_OCTET)))

    # ---- negotiation

    def _start(self) -> None:
        properties = dict(self._server_properties)
        offered = properties.pop("capabilities", None)
        if self.version.extended:  # older versions have neither these capabilities nor the type of their values
            capabilities: dict[str, PropertyValue] = dict(offered) if isinstance(offered, dict) else {}
            for name in CAPABILITIES:
                capabilities[name] = True
            properties["capabilities"] = capabilities
        self._enter(ConnectionState.STARTING)
        self._send_on_zero(
            "connection.start",
            {
                "version_major": self.version.major,
                "version_minor": self.version.minor,
                "server_properties": properties,
                "mechanisms": self.mechanisms,
                "locales": self._locales,
            },
        )

    def _receive_connection_method(self, payload: bytes, identifier: int) -> None:
        closing = self.state is ConnectionState.CLOSING
        identifier = self.version.renumbered.get(identifier, identifier)
        target = CONNECTION_TRANSITIONS.get((self.state, identifier))
        if closing and target is None:
            return  # §2.2.4: while closing, everything else is discarded
        method = decode_method(payload, "C", self.version.methods)
        if target is None:
            raise ConnectionFault(
                CHANNEL_ERROR,
                f"{method.specification.name} on channel 0 while {self.state.name.lower()}: {self.state.value}",
            )
        if identifier == _CLOSE:
            self._receive_close(method, closing)
        elif identifier == _CLOSE_OK:
            self._enter(target)
        elif identifier == _START_OK:
            self._receive_start_ok(method)
        elif identifier == _SECURE_OK:
            self._enter(target)
            self._checked(self.handler.respond(method.octets("response")))
        elif identifier == _TUNE_OK:
            self._receive_tune_ok(method)
        elif identifier == _OPEN:
            self._receive_open(method)
        elif identifier == _UPDATE_SECRET:
            self.handler.update_secret(method.octets("new_secret"), method.text("reason"))
            if self.running:
                self._send_on_zero("connection.update-secret-ok", {})

    def _receive_close(self, method: Method, closing: bool) -> None:
        self._send_on_zero("connection.close-ok", {})
        self._enter(ConnectionState.CLOSED)
        if not closing:
            self._end(method.integer("reply_code") or SUCCESS, method.text("reply_text"), by_peer=True)

    def _receive_start_ok(self, method: Method) -> None:
        self.client_properties = method.table("client_properties")
        capabilities = self.client_properties.get("capabilities")
        if isinstance(capabilities, dict) and self.version.extended_form is not None:
            self.version = self.version.extended_form
        self.capabilities = capabilities if self.version.extended and isinstance(capabilities, dict) else {}
        self.mechanism = method.text("mechanism")
        if self.mechanism not in self.mechanisms.split():
            raise ConnectionFault(
                COMMAND_INVALID, f"unknown authentication mechanism '{self.mechanism}'; use one of {self.mechanisms}"
            )
        self._enter(ConnectionState.CHECKING)
        self._checked(self.handler.authenticate(self.mechanism, method.octets("response"), self.client_properties))

    def _checked(self, user: str | None) -> None:
        """Go on after a check, unless the handler still checks, has answered already or has closed the connection."""
        if user == PENDING or self.state is not ConnectionState.CHECKING:
            return
        if user is None:
            self._refuse_user()
            return
        self.user = user
        self.authenticated = True
        self._enter(ConnectionState.TUNING)
        self._send_on_zero(
            "connection.tune",
            {"channel_max": self.channel_max, "frame_max": self.frame_max, "heartbeat": self.heartbeat_interval},
        )

    def _refuse_user(self) -> None:
        text = f"Login was refused using authentication mechanism {self.mechanism}. See the log of the broker."
        if self.capabilities.get("authentication_failure_close") is True:
            self.close_connection(ACCESS_REFUSED, text)
            return
        # §2.2.4: without the capability a client learns of a refusal by the socket being closed
        self._enter(ConnectionState.CLOSED)
        self._end(ACCESS_REFUSED, text, by_peer=False)

    def _receive_tune_ok(self, method: Method) -> None:
        self.channel_max = negotiated("channel_max", method.integer("channel_max"), 1, self.channel_max)
        self.frame_max = negotiated("frame_max", method.integer("frame_max"), FRAME_MIN_SIZE, self.frame_max)
        self.heartbeat_interval = method.integer("heartbeat")  # §1.4.2.6: the client decides, 0 = none
        self.frame_limit = self.frame_max
        self._enter(ConnectionState.OPENING)

    def _receive_open(self, method: Method) -> None:
        name = method.text("virtual_host")
        self.handler.open_virtual_host(name)
        if self.state is not ConnectionState.OPENING:
            return  # the handler closed the connection
        self.virtual_host = name
        self._enter(ConnectionState.OPEN)
        self._send_on_zero("connection.open-ok", {})
        self.handler.connection_opened()

    def _fail(self, error: RemoteProtocolError, identifier: int) -> None:
        """Close the connection for a hard error, naming the method that was being served."""
        self.close_connection(error.code, error.text, identifier >> 16, identifier & 0xFFFF)


def reason_text(text: str) -> str:
    """Return ``text`` cut to the length of a short string."""
    return reply_text(SUCCESS, text)


def negotiated(name: str, proposed: int, least: int, most: int) -> int:
    """Return the value of tune-ok after checking it as RabbitMQ does; 0 means "no limit" (§1.4.2.6).

    Raises:
        ConnectionFault: 530 when the client proposes less than ``least`` or more than was offered.
    """
    if proposed != 0 and proposed < least:
        raise ConnectionFault(
            NOT_ALLOWED, f"negotiated {name} = {proposed} is lower than the minimum allowed value ({least})"
        )
    if proposed == 0 or proposed > most:
        shown = "0 (no limit)" if proposed == 0 else str(proposed)
        raise ConnectionFault(
            NOT_ALLOWED, f"negotiated {name} = {shown} is higher than the maximum allowed value ({most})"
        )
    return proposed
