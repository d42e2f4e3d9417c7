"""A handler that records its calls, and helpers that feed an engine in every way a socket can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pamqp import commands, frame, header

from annulet.wire.amqp091.connection.engine import ConnectionEngine
from annulet.wire.amqp091.connection.handler import ConnectionHandler

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
CAPABLE = {
    "capabilities": {"authentication_failure_close": True, "consumer_cancel_notify": True, "connection.blocked": True}
}


class Recorder(ConnectionHandler):
    """Records ``(method, *arguments)``; ``failures`` maps a method to what it raises."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.failures: dict[str, Exception] = {}
        self.actions: dict[str, Callable[[], None]] = {}
        self.user: str | None = "guest"
        self.answers_due: list[bool] = []  # begun, ended: beside the calls, which are those of the protocol

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name not in vars(ConnectionHandler):
            return object.__getattribute__(self, name)

        if name in {"answer_due", "answered"}:
            return lambda channel: self.answers_due.append(name == "answer_due")

        def record(*arguments: Any) -> str | None:
            self.calls.append((name, *arguments))
            if name in self.failures:
                raise self.failures[name]
            if name in self.actions:
                self.actions[name]()
            return self.user if name == "authenticate" else None

        return record

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]


def engine_with(handler: Recorder, **options: Any) -> ConnectionEngine:
    return ConnectionEngine(handler, server_properties={"product": "Annulet"}, **options)


def handshake(*, channels: int = 1, frame_max: int = 131072, channel_max: int = 2047) -> bytes:
    parts = [
        PROTOCOL_HEADER,
        frame.marshal(commands.Connection.StartOk(CAPABLE, "PLAIN", "\0guest\0guest", "en_US"), 0),
        frame.marshal(commands.Connection.TuneOk(channel_max, frame_max, 60), 0),
        frame.marshal(commands.Connection.Open("/"), 0),
    ]
    parts += [frame.marshal(commands.Channel.Open(), number) for number in range(1, channels + 1)]
    return b"".join(parts)


def opened(**options: Any) -> tuple[ConnectionEngine, Recorder]:
    handler = Recorder()
    channels = options.pop("channels", 1)
    engine = engine_with(handler, **options)
    engine.receive(
        handshake(channels=channels, frame_max=engine.output.frame_max, channel_max=engine.channel_table.channel_max)
    )
    engine.take_output()
    handler.calls.clear()
    return engine, handler


def frame_of(kind: int, channel: int, payload: bytes) -> bytes:
    return bytes((kind,)) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


def publish(
    body: bytes, *, channel: int = 1, exchange: str = "e", key: str = "k", room: int = 131064, **properties: Any
) -> bytes:
    parts = [
        frame.marshal(commands.Basic.Publish(exchange=exchange, routing_key=key), channel),
        frame.marshal(header.ContentHeader(0, len(body), commands.Basic.Properties(**properties)), channel),
    ]
    parts += [frame_of(3, channel, body[start : start + room]) for start in range(0, len(body), room)]
    return b"".join(parts)


def frames(engine: ConnectionEngine) -> list[tuple[int, Any]]:
    """Take the output apart with pamqp, which has no part in making it."""
    return frames_of(b"".join(engine.take_output()))


def frames_of(data: bytes) -> list[tuple[int, Any]]:
    found = []
    while data:
        size, channel, value = frame.unmarshal(data)
        found.append((channel, value))
        data = data[size:]
    return found


def feed_variants(data: bytes) -> dict[str, list[bytes]]:
    """The same octets whole, octet by octet, in uneven pieces."""
    return {
        "whole": [data],
        "octets": [data[position : position + 1] for position in range(len(data))],
        "pieces": [data[position : position + 7] for position in range(0, len(data), 7)],
    }
