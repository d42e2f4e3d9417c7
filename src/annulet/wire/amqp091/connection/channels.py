"""Channels of a connection: methods, the assembly of content (§4.2.6), and errors that close only a channel."""

from __future__ import annotations

from typing import Final

from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.connection.dispatch import DISPATCHERS
from annulet.wire.amqp091.connection.handler import ConnectionHandler
from annulet.wire.amqp091.connection.methods import decode_method, encode_method
from annulet.wire.amqp091.connection.output import Channel, FrameWriter, Route
from annulet.wire.amqp091.connection.states import CHANNEL_TRANSITIONS, ChannelState, ContentState
from annulet.wire.amqp091.types.constants import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    FRAME_END_OCTET,
    FRAME_ERROR,
    MAX_ASSEMBLING_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_ROUTE_CACHE_ENTRIES,
    NOT_ALLOWED,
    PRECONDITION_FAILED,
    RESOURCE_ERROR,
    SYNTAX_ERROR,
    UNEXPECTED_FRAME,
    reply_text,
)
from annulet.wire.amqp091.types.errors import ChannelError, ConnectionFault, RemoteProtocolError
from annulet.wire.input_buffer import Octets

_PUBLISH: Final = 60 << 16 | 40
_RECOVER: Final = 60 << 16 | 110
_CHANNEL_OPEN: Final = 20 << 16 | 10
_CHANNEL_FLOW: Final = 20 << 16 | 20
_CHANNEL_CLOSE_OK: Final = 20 << 16 | 41
_ACCESS_REQUEST: Final = 30 << 16 | 10
_CLOSE_OK: Final = encode_method("channel.close-ok")
_RECOVER_OK: Final = encode_method("basic.recover-ok")
_REQUEST_OK: Final = encode_method("access.request-ok", {"ticket": 1})


class ChannelTable:
    """The channels of a connection and the messages that arrive on them.

    ``identifier``: the method being served, to be blamed for its error; ``routes``: decoded arguments of basic.publish
    by their octets, at most ``MAX_ROUTE_CACHE_ENTRIES``.
    """

    def __init__(
        self,
        handler: ConnectionHandler,
        output: FrameWriter,
        channel_max: int,
        max_message_size: int = MAX_MESSAGE_BYTES,
        max_assembling_bytes: int = MAX_ASSEMBLING_BYTES,
    ) -> None:
        self.handler = handler
        self.output = output
        self.channel_max = channel_max  # ours; the negotiated one after tune-ok
        self.max_message_size = max_message_size
        self.max_assembling_bytes = max_assembling_bytes
        self.assembling_bytes = 0  # bodies arrived in part, all channels
        self.routes: dict[bytes, Route] = {}
        self.identifier = 0

    def receive_method(self, number: int, payload: bytes, identifier: int) -> None:
        """Serve a method frame of a channel. Raises the errors of the protocol, and those of the handler."""
        channel = self.output.channels.get(number)
        if channel is not None and channel.content is not ContentState.METHOD:
            raise ConnectionFault(
                UNEXPECTED_FRAME, f"method frame on channel {number} while {channel.content.value} is awaited"
            )
        state = ChannelState.CLOSED if channel is None else channel.state
        target = CHANNEL_TRANSITIONS.get((state, identifier))
        if state is ChannelState.CLOSING and target is None:
            return  # §1.5.2.5: until close-ok comes, everything else is discarded
        if identifier == _PUBLISH and channel is not None:
            self._receive_publish(channel, payload)
            return
        method = decode_method(payload, "C", self.output.version.methods)
        if target is not None:
            self._move_channel(number, channel, identifier)
        elif channel is None or identifier == _CHANNEL_OPEN:
            wanted = "expected 'channel.open'" if channel is None else "second 'channel.open' seen"
            raise ConnectionFault(CHANNEL_ERROR, f"{wanted} on channel {number}, got {method.specification.name}")
        elif identifier == _CHANNEL_FLOW:
            active = method.flag("active")
            self.handler.channel_flow(number, active)
            self.output.send_method(number, encode_method("channel.flow-ok", {"active": active}))
        elif identifier == _ACCESS_REQUEST:
            self.output.send_method(number, _REQUEST_OK)  # 0-8 clients request one; it has no meaning since 0-9
        else:
            dispatcher = DISPATCHERS.get(identifier)
            if dispatcher is None:
                raise ConnectionFault(
                    COMMAND_INVALID, f"{method.specification.name} is not expected on channel {number}"
                )
            if identifier == _RECOVER and method.flag("requeue"):
                self.output.send_method(number, _RECOVER_OK)  # before the redeliveries, as RabbitMQ
            self.handler.answer_due(number)
            try:
                dispatcher(self.handler, number, method)
            finally:
                self.handler.answered(number)

    def _move_channel(self, number: int, channel: Channel | None, identifier: int) -> None:
        if channel is None:
            if (
                len(self.output.channels) >= self.channel_max
            ):  # not their numbers: clients take any, and RabbitMQ counts
                self.output.count_hit("channel_max")
                raise ConnectionFault(
                    NOT_ALLOWED,
                    f"number of channels opened ({len(self.output.channels)}) has reached the negotiated channel_max "
                    f"({self.channel_max})",
                )
            opened = Channel(number)
            self.output.channels[number] = opened
            try:
                self.handler.open_channel(number)
            except RemoteProtocolError as error:
                if isinstance(error, ChannelError):
                    self._send_channel_close(number, error.code, error.text, identifier)
                opened.shut()  # never opened for the handler: close_channel must not be called
                if not isinstance(error, ChannelError):
                    raise
                return
            self.output.send_method(number, self.output.version.channel_open_ok)
        elif identifier == _CHANNEL_CLOSE_OK:
            del self.output.channels[number]
        else:
            if channel.open:
                self._release(channel)
                self.output.channels.pop(number, None)
            if self.output.running:
                self.output.append(
                    b"".join((channel.method_prefix, len(_CLOSE_OK).to_bytes(4, "big"), _CLOSE_OK, FRAME_END_OCTET))
                )

    # ---- content

    def _receive_publish(self, channel: Channel, payload: bytes) -> None:
        key = payload[4:]
        route = self.routes.get(key)
        if route is None:
            method = decode_method(payload, "C", self.output.version.methods)
            route = Route(
                method.text("exchange"), method.text("routing_key"), method.flag("mandatory"), method.flag("immediate")
            )
            if len(self.routes) >= MAX_ROUTE_CACHE_ENTRIES:
                self.routes.clear()
            self.routes[key] = route
        channel.route = route
        channel.content = ContentState.HEADER
        channel.ready = False

    def _content_channel(self, number: int) -> Channel | None:
        self.identifier = _PUBLISH
        channel = self.output.channels.get(number)
        if channel is None:
            raise ConnectionFault(UNEXPECTED_FRAME, f"content frame on channel {number}, which is not open")
        return channel if channel.open else None

    def receive_header(self, number: int, payload: bytes) -> None:
        """Take a content header (§4.2.6.1)."""
        channel = self._content_channel(number)
        if channel is None:
            return
        if channel.content is not ContentState.HEADER:
            raise ConnectionFault(
                UNEXPECTED_FRAME, f"content header on channel {channel.number} while {channel.content.value} is awaited"
            )
        if len(payload) < 14:
            raise ConnectionFault(
                SYNTAX_ERROR, f"content header on channel {channel.number} has {len(payload)} octets, it needs 14"
            )
        if payload[:4] != b"\x00\x3c\x00\x00":
            raise ConnectionFault(
                UNEXPECTED_FRAME, f"expected content header for class 60 with weight 0, got {payload[:4].hex()}"
            )
        size = int.from_bytes(payload[4:12], "big")
        if size > self.max_message_size:
            self.output.count_hit("max_message_size")
            raise ChannelError(
                PRECONDITION_FAILED,
                f"message size {size} is larger than configured max size {self.max_message_size}",
            )
        channel.header = payload[12:]
        channel.body_size = size
        if size == 0:
            self._publish(channel)
        else:
            channel.content = ContentState.BODY

    def receive_body(self, number: int, parts: list[Octets], size: int) -> None:
        """Take a body frame (§4.2.6.2) of ``size`` octets; the last one publishes the message."""
        channel = self._content_channel(number)
        if channel is None:
            return
        if channel.content is not ContentState.BODY:
            raise ConnectionFault(
                UNEXPECTED_FRAME, f"content body on channel {channel.number} while {channel.content.value} is awaited"
            )
        arrived = channel.arrived + size
        if arrived > channel.body_size:
            raise ConnectionFault(
                FRAME_ERROR,
                f"body on channel {channel.number} has {arrived} octets, its header says {channel.body_size}",
            )
        if not size:
            return  # an empty body frame adds nothing, not even an object
        for part in parts:
            channel.add_fragment(part)
        self.assembling_bytes += size
        if self.assembling_bytes > self.max_assembling_bytes:
            self.output.count_hit("max_assembling_bytes")
            raise ConnectionFault(
                RESOURCE_ERROR,
                f"more than {self.max_assembling_bytes} octets of unfinished bodies; finish messages before new ones",
            )
        if arrived == channel.body_size:
            self._publish(channel)

    def _publish(self, channel: Channel) -> None:
        self.identifier = _PUBLISH
        route = channel.route
        self.assembling_bytes -= channel.arrived
        header = channel.header
        body = channel.take_body()
        if route is not None:
            self.handler.publish(
                channel.number, route.exchange, route.routing_key, route.mandatory, route.immediate, header, body
            )

    # ---- errors

    def close_channel_with_error(self, channel: int, code: int, text: str, class_id: int, method_id: int) -> None:
        """Close an open channel for an error: queue close, release the channel, discard input until close-ok.

        Does nothing when the channel is not open.
        """
        failed = self.output.channels.get(channel)
        if failed is None or failed.state is not ChannelState.OPEN:
            return
        self._send_channel_close(channel, code, text, class_id << 16 | method_id)
        self._release(failed)

    def _send_channel_close(self, number: int, code: int, text: str, identifier: int) -> None:
        if self.output.error_sent is not None:
            self.output.error_sent(f"channel {number}", str(code), text)
        arguments: dict[str, PropertyValue] = {
            "reply_code": code,
            "reply_text": reply_text(code, text),
            "class_id": identifier >> 16,
            "method_id": identifier & 0xFFFF,
        }
        self.output.send_method(number, encode_method("channel.close", arguments))

    def _forget_body(self, channel: Channel) -> None:
        self.assembling_bytes -= channel.arrived
        channel.shut()

    def end_all(self) -> None:
        """Release all channels: the connection is over."""
        channels = [channel for channel in self.output.channels.values() if channel.open]
        self.output.channels.clear()
        for channel in channels:
            self._release(channel)

    def _release(self, channel: Channel) -> None:
        self._forget_body(channel)
        self.handler.close_channel(channel.number)
