"""Frames of an HTTP/2 connection (RFC 9113 §4.1), parsed as their octets pass, without keeping them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The octets of a client before its first frame (§3.4)."""

HEAD_BYTES: Final = 9

DATA: Final = 0x0
HEADERS: Final = 0x1
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
GOAWAY: Final = 0x7

END_STREAM: Final = 0x1
PADDED: Final = 0x8

ENHANCE_YOUR_CALM: Final = 0xB
"""The error code for a peer that exceeds a limit (§7)."""


class FrameError(Exception):
    """The octets are no frames of HTTP/2."""


class Piece(NamedTuple):
    """A frame's head, or some octets of a DATA frame's content. ``content`` is ``None`` for a head."""

    kind: int
    flags: int
    stream: int
    content: memoryview | None


class FrameReader:
    """Reads one direction of a connection. ``preface`` is the part before the first frame."""

    def __init__(self, preface: bytes = b"") -> None:
        self._preface = preface
        self._head = bytearray()
        self._kind = self._flags = self._stream = 0
        self._left = 0  # remaining octets of the frame's payload, including padding
        self._content = 0  # of these, content of a DATA frame
        self._pad_length_next = False
        self.place = 0  # octets of the data being read, up to the end of the yielded head
        self.started = False  # an octet was received

    @property
    def between_frames(self) -> bool:
        """Whether the octets read so far end with a whole frame."""
        return not self._preface and not self._head and not self._left

    def read(self, data: bytes) -> Iterator[Piece]:
        """Yield the heads of the frames, and the content of DATA frames, in ``data``. Raises :class:`FrameError`."""
        view = memoryview(data)
        self.started = self.started or bool(data)
        place = self._skip_preface(view)
        while place < len(view):
            if self._left:
                place, piece = self._payload(view, place)
                if piece is not None:
                    yield piece
                continue
            taken = min(HEAD_BYTES - len(self._head), len(view) - place)
            self._head += view[place : place + taken]
            place += taken
            if len(self._head) == HEAD_BYTES:
                self._begin()
                self.place = place
                yield Piece(self._kind, self._flags, self._stream, None)

    def _skip_preface(self, view: memoryview) -> int:
        if not self._preface:
            return 0
        count = min(len(self._preface), len(view))
        if view[:count] != self._preface[:count]:
            raise FrameError("the first octets are not those of HTTP/2, which Arrow Flight uses")
        self._preface = self._preface[count:]
        return count

    def _begin(self) -> None:
        head = self._head
        self._left = self._content = head[0] << 16 | head[1] << 8 | head[2]
        self._kind, self._flags = head[3], head[4]
        self._stream = int.from_bytes(head[5:], "big") & 0x7FFF_FFFF
        head.clear()
        self._pad_length_next = self._kind == DATA and bool(self._flags & PADDED)
        if self._kind != DATA:
            self._content = 0
        elif self._pad_length_next and not self._left:
            raise FrameError("a padded DATA frame has no pad length (RFC 9113 §6.1)")

    def _payload(self, view: memoryview, place: int) -> tuple[int, Piece | None]:
        """Read a part of a payload: the pad length, content, or skipped octets."""
        if self._pad_length_next:
            self._pad_length_next = False
            self._left -= 1
            self._content = self._left - view[place]
            if self._content < 0:
                raise FrameError("the padding of a DATA frame is longer than the frame (RFC 9113 §6.1)")
            return place + 1, None
        count = min(self._content or self._left, len(view) - place)
        self._left -= count
        if not self._content:
            return place + count, None
        self._content -= count
        return place + count, Piece(self._kind, self._flags, self._stream, view[place : place + count])


def go_away(reason: str) -> bytes:
    """Return a GOAWAY frame with the reason of the connection's end (§6.8)."""
    payload = bytes(4) + ENHANCE_YOUR_CALM.to_bytes(4, "big") + reason.encode()
    return _head(len(payload), GOAWAY) + payload


EMPTY_SETTINGS: Final = bytes(3) + bytes((SETTINGS,)) + bytes(5)
"""The allowed first frame of a server (§3.4)."""


def _head(length: int, kind: int) -> bytes:
    return length.to_bytes(3, "big") + bytes((kind,)) + bytes(5)
