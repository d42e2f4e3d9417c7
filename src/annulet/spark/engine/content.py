"""Messages of the engine: their properties as MessagePack in the header, and the view that reads them."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, Final

import msgspec

from annulet.core.message.message import (
    DEFAULT_PRIORITY,
    ContentView,
    Message,
    Origin,
    PropertyValue,
    StandardProperties,
)
from annulet.spark.engine.commands import Command, CommandRefused

HEADERS_CACHED: Final = 4096
"""Decoded headers a process keeps, because rules read several properties of the same message in a row."""

ORIGINS_CACHED: Final = 4096
"""Publishers whose messages share one record of their origin."""


class Header(msgspec.Struct, omit_defaults=True, frozen=True):
    """The parts of a message that the core does not keep."""

    message_id: str = ""
    group: str = ""
    priority_given: bool = False
    duplicate_id: str = ""
    properties: dict[str, Any] = {}


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Header)


@lru_cache(maxsize=HEADERS_CACHED)
def header_of(octets: bytes) -> Header:
    """Decode a header."""
    return _decoder.decode(octets)


class EngineView(ContentView):
    """Reads headers of the engine's messages."""

    def __init__(self) -> None:
        super().__init__("engine")

    def properties(self, message: Message) -> StandardProperties:
        """Return its properties, group and id."""
        header = header_of(message.header)
        return StandardProperties(
            message_id=header.message_id, group_id=header.group, application=dict(header.properties)
        )

    def application_property(self, message: Message, name: str) -> PropertyValue:
        """Return one property, ``None`` when there is none."""
        return header_of(message.header).properties.get(name)

    def given_priority(self, message: Message) -> int:
        """Return the priority, -1 when the command gave none."""
        return message.priority if header_of(message.header).priority_given else -1

    def deliver_at(self, message: Message) -> int:
        """Return when the command wants it delivered."""
        return message.deliver_at

    def schedule_id(self, message: Message) -> str:
        """Return none: commands name no scheduled messages."""
        del message
        return ""

    def duplicate_id(self, message: Message) -> str:
        """Return the id for duplicate detection."""
        return header_of(message.header).duplicate_id


VIEW: Final = EngineView()


def message_of(command: Command, body: bytes, now: int) -> Message:
    """Return the message of a ``publish`` or ``restore``.

    Raises :class:`CommandRefused` for a number that no header can say.
    """
    header = Header(
        command.message_id, command.group, command.priority >= 0, command.duplicate_id, command.properties or {}
    )
    try:
        encoded = _encode(header)
    except OverflowError as error:
        raise CommandRefused(f"field 'properties' has a number beyond 64 bits: {error}; give it as a text") from error
    return Message(
        encoded,
        body,
        _origin(command.queue or "", command.publisher, command.connection),
        priority=command.priority if command.priority >= 0 else DEFAULT_PRIORITY,
        accepted_at=command.accepted_at or now,
        expires_at=command.expires_at,
        deliver_at=command.deliver_at,
    )


@lru_cache(maxsize=ORIGINS_CACHED)
def _origin(queue: str, publisher: str, connection: str) -> Origin:
    return Origin("", queue, publisher, VIEW, connection_of(connection))


def connection_of(name: str) -> str | None:
    """Return the identity of a connection: the core compares identities by ``is``, so equal names are one text."""
    return sys.intern(name) if name else None
