"""Cut the octets of a connection into commands with names, for faults: AMQP 0-9-1, AMQP 1.0 and STOMP.

A command of AMQP 0-9-1 is a method with its content, of AMQP 1.0 a frame, of STOMP a frame. Octets are never changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from annulet.wire.amqp091.connection.methods import METHODS
from annulet.wire.amqp091.types.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, FRAME_OVERHEAD

if TYPE_CHECKING:
    from collections.abc import Iterator

IN: Final = "in"
OUT: Final = "out"
"""Directions: from the client, to the client."""

PREFIX: Final = b"AMQP"
HEADER_BYTES: Final = 8

PERFORMATIVES: Final = {
    0x10: "open", 0x11: "begin", 0x12: "attach", 0x13: "flow", 0x14: "transfer", 0x15: "disposition", 0x16: "detach",
    0x17: "end", 0x18: "close", 0x40: "sasl-mechanisms", 0x41: "sasl-init", 0x42: "sasl-challenge",
    0x43: "sasl-response", 0x44: "sasl-outcome",
}  # fmt: skip
"""Descriptors of AMQP 1.0 (§2.7, §5.3.3)."""

STOMP_COMMANDS: Final = (
    "CONNECT", "STOMP", "CONNECTED", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "BEGIN", "COMMIT", "ABORT", "ACK", "NACK",
    "DISCONNECT", "MESSAGE", "RECEIPT", "ERROR",
)  # fmt: skip

COMMON: Final[dict[str, frozenset[tuple[str, str]]]] = {
    "publish": frozenset({(IN, "basic.publish"), (IN, "transfer"), (IN, "SEND")}),
    "delivery": frozenset({(OUT, "basic.deliver"), (OUT, "basic.get-ok"), (OUT, "transfer"), (OUT, "MESSAGE")}),
    "ack": frozenset({(IN, "basic.ack"), (IN, "disposition"), (IN, "ACK")}),
    "confirm": frozenset({(OUT, "basic.ack"), (OUT, "basic.nack"), (OUT, "disposition"), (OUT, "RECEIPT")}),
}
"""Names for the same command of all protocols."""

KNOWN: Final = frozenset(
    [*COMMON, *(method.name for method in METHODS.values()), *PERFORMATIVES.values(), *STOMP_COMMANDS, "heartbeat"]
)
"""All names."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its direction, its name in its protocol, and its octets. The rest of a stream has no name."""

    direction: str
    name: str
    octets: bytes

    def named(self, name: str) -> bool:
        """Return whether it has this name, of its protocol or of all."""
        return self.name == name or (self.direction, self.name) in COMMON.get(name, ())


class Splitter:
    """Cuts one direction of one connection. It begins between two commands."""

    def __init__(self, direction: str, protocol: str) -> None:
        self._direction = direction
        self._stomp = protocol.startswith("STOMP")
        self._amqp_1_0 = protocol == "AMQP 1.0"
        self._octets = bytearray()
        self._contents: dict[int, _Content] = {}  # by channel: methods of AMQP 0-9-1 whose content has not all come

    def feed(self, octets: bytes) -> list[Command]:
        """Return the commands that are complete with these octets."""
        self._octets += octets
        return list(self._stomp_frames() if self._stomp else self._amqp_frames())

    def _take(self, name: str, size: int) -> Command:
        command = Command(self._direction, name, bytes(self._octets[:size]))
        del self._octets[:size]
        return command

    def _amqp_frames(self) -> Iterator[Command]:
        while len(self._octets) >= HEADER_BYTES:
            if self._octets.startswith(PREFIX):
                yield self._take("protocol-header", HEADER_BYTES)
                continue
            size = self._frame_size()
            if len(self._octets) < size:
                return
            if self._amqp_1_0:
                yield self._take(_performative(self._octets[:size]), size)
            else:
                yield from self._frame_0_x(size)

    def _frame_size(self) -> int:
        if self._amqp_1_0:
            return max(HEADER_BYTES, int.from_bytes(self._octets[:4], "big"))
        return FRAME_OVERHEAD + int.from_bytes(self._octets[3:7], "big")

    def _frame_0_x(self, size: int) -> Iterator[Command]:
        """Yield a method without content, or a content with its last frame (§4.2.6)."""
        kind, channel = self._octets[0], int.from_bytes(self._octets[1:3], "big")
        method = METHODS.get(int.from_bytes(self._octets[7:11], "big")) if kind == FRAME_METHOD else None
        begun = self._contents.get(channel)
        frame = self._take("heartbeat" if method is None else method.name, size)
        if method is not None and method.has_content:
            self._contents[channel] = _Content(method.name, frame.octets)
        elif kind in {FRAME_HEADER, FRAME_BODY} and begun is not None:
            if begun.add(kind, frame.octets):
                del self._contents[channel]
                yield Command(self._direction, begun.name, bytes(begun.octets))
        else:
            yield frame

    def _stomp_frames(self) -> Iterator[Command]:
        while self._octets:
            if self._octets[0] in b"\r\n":
                yield self._take("heartbeat", 1)
                continue
            size = self._stomp_size()
            if not size:
                return
            yield self._take(self._octets.split(b"\n", 1)[0].strip().decode(errors="replace"), size)

    def _stomp_size(self) -> int:
        """Return the size of the first frame with its NUL; 0 while it is not complete."""
        ends = [(self._octets.find(mark), len(mark)) for mark in (b"\n\n", b"\r\n\r\n")]
        found = min(((at, size) for at, size in ends if at >= 0), default=None)
        if found is None:
            return 0
        body = sum(found)
        length = 0
        for line in self._octets[: found[0]].split(b"\n"):
            name, _, value = line.strip().partition(b":")
            if name == b"content-length" and value.isdigit():
                length = int(value)
                break
        end = self._octets.find(b"\0", body + length)
        return end + 1


class _Content:
    """A method of AMQP 0-9-1 with the frames of its content so far."""

    def __init__(self, name: str, octets: bytes) -> None:
        self.name = name
        self.octets = bytearray(octets)
        self._left = 0  # octets of the body that have not come

    def add(self, kind: int, frame: bytes) -> bool:
        """Add a frame. Returns whether the content is complete."""
        self.octets += frame
        if kind == FRAME_HEADER:
            self._left = int.from_bytes(frame[11:19], "big")
        else:
            self._left -= len(frame) - FRAME_OVERHEAD
        return self._left <= 0


def _performative(frame: bytes | bytearray) -> str:
    """Return the name of a frame of AMQP 1.0 by its descriptor (§1.2, §2.3)."""
    start = frame[4] * 4
    if len(frame) <= start:
        return "heartbeat"
    if frame[start + 1] == 0x53:  # smallulong
        return PERFORMATIVES.get(frame[start + 2], "unknown")
    if frame[start + 1] == 0x80:  # ulong
        return PERFORMATIVES.get(int.from_bytes(frame[start + 2 : start + 10], "big"), "unknown")
    return "unknown"
