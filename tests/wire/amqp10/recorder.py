"""A handler that records its calls, and helpers that play the peer of an engine frame by frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from annulet.wire.amqp10.connection.engine import Amqp10Engine
from annulet.wire.amqp10.connection.handler import Amqp10Handler
from annulet.wire.amqp10.connection.link import IncomingDelivery, Link
from annulet.wire.amqp10.connection.session import EngineSession
from annulet.wire.amqp10.frames.frames import AMQP_HEADER, FRAME_AMQP, FRAME_SASL, SASL_HEADER, encode_frame, next_frame
from annulet.wire.amqp10.frames.performatives import (
    Attach,
    Begin,
    Flow,
    Open,
    Source,
    Target,
    Transfer,
    decode_performative,
    encode_performative,
)
from annulet.wire.amqp10.frames.sasl import SaslInit


class Recorder(Amqp10Handler):
    """Records ``(method, arguments, named arguments)``.

    ``failures`` maps a method to what it raises, ``actions`` to what it does instead of nothing. Attaches are accepted
    as they come unless there is an action for them; links are kept by name.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.failures: dict[str, Exception] = {}
        self.actions: dict[str, Callable[..., None]] = {}
        self.links: dict[str, Link] = {}
        self.sessions: list[EngineSession] = []
        self.mechanisms: tuple[str, ...] = ("ANONYMOUS", "PLAIN")
        self.anonymous = False
        self.engine: Amqp10Engine | None = None

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name not in vars(Amqp10Handler):
            return object.__getattribute__(self, name)

        def record(*arguments: Any, **options: Any) -> Any:
            self.calls.append((name, arguments, options))
            self.note(name, arguments)
            if name in self.failures:
                raise self.failures[name]
            if name in self.actions:
                self.actions[name](*arguments, **options)
            elif name == "attach":
                assert self.engine is not None
                link = arguments[0]
                self.engine.endpoints.accept_attach(link, source=link.source, target=link.target)
            return {"sasl_mechanisms": self.mechanisms, "anonymous_allowed": self.anonymous}.get(name)

        return record

    def note(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Keep what tests ask for by name."""
        if name == "attach":
            self.links[arguments[0].name] = arguments[0]
        elif name == "session_began":
            self.sessions.append(arguments[0])

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """Return the arguments of all calls of one method."""
        return [arguments for called, arguments, _ in self.calls if called == name]

    def options(self, name: str) -> list[dict[str, Any]]:
        """Return the named arguments of all calls of one method."""
        return [options for called, _, options in self.calls if called == name]

    def order(self) -> list[str]:
        """Return the names of the methods called."""
        return [name for name, _, _ in self.calls]

    def deliveries(self) -> list[IncomingDelivery]:
        """Return the messages that came."""
        return [arguments[1] for arguments in self.named("delivery")]


def engine_with(handler: Recorder, **options: Any) -> Amqp10Engine:
    options.setdefault("container_id", "annulet")
    engine = Amqp10Engine(handler, **options)
    handler.engine = engine
    return engine


def frame(performative: object, channel: int = 0, payload: bytes = b"") -> bytes:
    return encode_frame(FRAME_AMQP, channel, encode_performative(performative) + payload)


def sasl_frame(performative: object) -> bytes:
    return encode_frame(FRAME_SASL, 0, encode_performative(performative))


def begin(channel: int = 0, **fields: Any) -> bytes:
    return frame(
        Begin(None, **{"next_outgoing_id": 0, "incoming_window": 100, "outgoing_window": 100, **fields}), channel
    )


def attach_sender(name: str = "in", handle: int = 0, channel: int = 0, **fields: Any) -> bytes:
    """Return the attach of a peer that will send to us."""
    values = {"source": Source("there"), "target": Target("q"), "initial_delivery_count": 0, **fields}
    return frame(Attach(name, handle, False, **values), channel)


def attach_receiver(name: str = "out", handle: int = 1, channel: int = 0, **fields: Any) -> bytes:
    """Return the attach of a peer that will receive from us."""
    return frame(Attach(name, handle, True, **{"source": Source("q"), "target": Target("there"), **fields}), channel)


def credit(credit_: int, handle: int = 1, channel: int = 0, **fields: Any) -> bytes:
    values = {"next_incoming_id": 0, "incoming_window": 100, "next_outgoing_id": 0, "outgoing_window": 100, **fields}
    return frame(Flow(handle=handle, link_credit=credit_, **{"delivery_count": 0, **values}), channel)


def transfer(
    number: int | None = 0, payload: bytes = b"m", *, handle: int = 0, channel: int = 0, **fields: Any
) -> bytes:
    tag = None if number is None else b"t%d" % number
    values = {"delivery_tag": tag, "message_format": None if number is None else 0, **fields}
    return frame(Transfer(handle, number, **values), channel, payload)


def login() -> bytes:
    return SASL_HEADER + sasl_frame(SaslInit("ANONYMOUS")) + AMQP_HEADER


def open_frame(**fields: Any) -> bytes:
    return frame(Open("peer", **fields))


def opened(**options: Any) -> tuple[Amqp10Engine, Recorder]:
    """Return an engine after both opens; ``open_fields`` are those of the peer's."""
    fields = options.pop("open_fields", {})
    handler = Recorder()
    engine = engine_with(handler, **{"require_sasl": False, **options})
    engine.receive(AMQP_HEADER + open_frame(**fields))
    engine.take_output()
    handler.calls.clear()
    return engine, handler


def linked(**options: Any) -> tuple[Amqp10Engine, Recorder]:
    """Return an engine with a session on channel 0, an incoming link on handle 0 and an outgoing one on handle 1.

    The incoming link has a credit of 10.
    """
    begin_fields = options.pop("begin_fields", {})
    sender_fields = options.pop("sender_fields", {})
    receiver_fields = options.pop("receiver_fields", {})
    engine, handler = opened(**options)
    engine.receive(begin(**begin_fields) + attach_sender(**sender_fields) + attach_receiver(**receiver_fields))
    engine.credit.grant_credit(handler.links["in"], 10)
    engine.take_output()
    handler.calls.clear()
    return engine, handler


def frames(engine: Amqp10Engine) -> list[tuple[int, Any]]:
    """Take the output apart: ``(channel, performative)``, ``(channel, None)`` for an empty frame."""
    return [(channel, performative) for channel, performative, _ in frames_with_payload(engine)]


def frames_with_payload(engine: Amqp10Engine) -> list[tuple[int, Any, bytes]]:
    return frames_in(b"".join(engine.take_output()))


def frames_in(data: bytes) -> list[tuple[int, Any, bytes]]:
    """Return channel, performative and payload of each frame."""
    found: list[tuple[int, Any, bytes]] = []
    position = 0
    while position < len(data):
        if data[position : position + 4] == b"AMQP":
            found.append((-1, data[position : position + 8], b""))
            position += 8
            continue
        part = next_frame(data, position, len(data), 1 << 31)
        assert part is not None, "the output ends within a frame"
        performative = None
        start = part.start
        if part.start < part.end:
            performative, start = decode_performative(data, part.start, part.end)
        found.append((part.channel, performative, data[start : part.end]))
        position = part.end
    return found


def sent(engine: Amqp10Engine, kind: type[Any]) -> list[Any]:
    """Take the output and return the performatives of one class."""
    return [performative for _, performative in frames(engine) if isinstance(performative, kind)]


def condition_of(engine: Amqp10Engine, kind: type[Any]) -> str:
    """Take the output and return the condition of the one performative of a class that has an error."""
    errors = [performative.error for performative in sent(engine, kind) if performative.error is not None]
    assert len(errors) == 1
    return str(errors[0].condition)


def feed_variants(data: bytes) -> dict[str, list[bytes]]:
    """The same octets whole, octet by octet, in uneven pieces."""
    return {
        "whole": [data],
        "octets": [data[position : position + 1] for position in range(len(data))],
        "pieces": [data[position : position + 7] for position in range(0, len(data), 7)],
    }


def waiting_link(engine: Any, handler: Recorder, data: bytes) -> Link:
    handler.actions["attach"] = lambda *_: None
    engine.receive(data)
    del handler.actions["attach"]
    return handler.named("attach")[-1][0]  # type: ignore[no-any-return]
