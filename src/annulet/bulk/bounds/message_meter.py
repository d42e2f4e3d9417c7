"""Bounds the input of a client of bulk transfer while it arrives.

Flight's server accepts gRPC messages of any size and inflates any compressed record batch before a handler sees either,
so both are checked before they reach it: the length before each message, and the fields of the message.
"""

from __future__ import annotations

import struct
from typing import Final

from annulet.bulk.bounds.http2_frames import DATA, END_STREAM, HEADERS, PREFACE, RST_STREAM, FrameError, FrameReader

REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of a request's JSON, and of every other field but the rows. The longest is a commit that names its stages:
about 60 bytes each."""

ROWS_BYTES_MORE: Final = 64 * 1024 * 1024
"""Bytes of a message of rows beside one largest body: enough for tens of thousands of usual rows."""

UNFINISHED_MESSAGES: Final = 4
"""Largest messages that may be under way on one connection: a program that writes several stages at a time."""

STREAMS_MAX: Final = 256
"""Calls under way on one connection; each has a thread. Spark makes one or two at a time."""

STRANGER_STREAMS_MAX: Final = 4
"""Calls that one connection may make before its login. Each has a thread of the server, which lasts until the server
answers, also if the client cancels the call. A login is one call; programs with a token seldom make more at first."""

COPIES: Final = 2
"""Number of copies of the input in memory: the server joins the pieces of a message, and a stage is written from a copy
of its rows. Sixteen streams of 24 MiB took 2.2 times their data in transit."""

LIMIT_MESSAGE: Final = "bulk_message_bytes_max"
LIMIT_REQUEST: Final = "request_bytes_max"
LIMIT_UNFINISHED: Final = "bulk_unfinished_bytes_max"
LIMIT_STREAMS: Final = "bulk_streams_max"
LIMIT_STRANGER_STREAMS: Final = "bulk_stranger_streams_max"
LIMIT_COMPRESSION: Final = "bulk_compression"
LIMIT_FRAMES: Final = "bulk_frames"

PREFIX_BYTES: Final = 5
"""Before each gRPC message: one octet tells whether it is compressed, four its length."""

ROWS_FIELD: Final = 1000
"""Number of the field of Flight's message that has a record batch's buffers."""

HEADER_FIELD: Final = 2
"""Number of the field that describes them: a flatbuffer, Arrow's ``Message``. Of an action it is the request."""

VARINT_BYTES_MAX: Final = 10

NUMBER_MAX: Final = 0xFFFF_FFFF
"""Of a field's key and length. The library reads larger ones too and drops the bits above, so it would see another
field, or a shorter one, than is seen here."""

EXPERIMENTAL_COMPRESSION: Final = b"ARROW:experimental_compression"
"""Arrow 0.17's flag for compressed buffers; Arrow still reads it."""


class MessageRefusedError(Exception):
    """A client's input is refused. ``limit`` is the exceeded bound; the text has value and remedy."""

    def __init__(self, limit: str, text: str) -> None:
        super().__init__(text)
        self.limit = limit


class RequestMeter:
    """Checks all input of one client. Bounds are in bytes.

    ``held`` is about the server's memory for it: of each call the unfinished message, and the largest one before, as
    its handler may still work on that, times :data:`COPIES`.
    """

    def __init__(self, message_bytes_max: int) -> None:
        self._message_bytes_max = message_bytes_max
        self._frames = FrameReader(PREFACE)
        self._streams: dict[int, _StreamMeter] = {}
        self._last_stream = 0
        self._unfinished = 0
        self._strange: set[int] | None = set()  # calls before the login that the server has not answered
        self.held = 0

    @property
    def calls(self) -> int:
        """Calls under way: neither side has ended them."""
        return len(self._streams)

    def log_in(self) -> None:
        """The client has logged in: :data:`STRANGER_STREAMS_MAX` does not apply any more."""
        self._strange = None

    def answered(self, stream: int) -> None:
        """End a call that the server answered or aborted: its thread is free."""
        if self._strange is not None:
            self._strange.discard(stream)
        self.ended(stream)

    def read(self, data: bytes) -> int:
        """Check received octets. Raises :class:`MessageRefusedError`: then nothing of ``data`` may be passed on.

        Returns how many octets may be passed on before the login: all, unless a call begins behind them that is one too
        many for a stranger.
        """
        allowed = len(data)
        try:
            for piece in self._frames.read(data):
                if piece.content is not None:
                    self._content(piece.stream, piece.content)
                elif piece.kind == HEADERS:
                    if self._open(piece.stream):
                        allowed = min(allowed, self._frames.place)
                elif piece.kind == RST_STREAM:
                    self.ended(piece.stream)
        except FrameError as error:
            raise MessageRefusedError(LIMIT_FRAMES, str(error)) from error
        return allowed

    def ended(self, stream: int) -> None:
        """End a call that either side aborted or answered: the rest of it will not be read."""
        meter = self._streams.pop(stream, None)
        if meter is not None:
            self._unfinished -= meter.unfinished
            self.held -= COPIES * (meter.unfinished + meter.whole)

    def _open(self, stream: int) -> bool:
        """Begin a call. Returns whether it is one too many for a stranger."""
        if stream <= self._last_stream:  # trailers of a call
            return False
        self._last_stream = stream
        if len(self._streams) >= STREAMS_MAX:
            raise MessageRefusedError(
                LIMIT_STREAMS,
                f"more than {STREAMS_MAX} calls are under way on one connection ({LIMIT_STREAMS}); open another one",
            )
        self._streams[stream] = _StreamMeter(self._message_bytes_max)
        if self._strange is None:
            return False
        self._strange.add(stream)
        return len(self._strange) > STRANGER_STREAMS_MAX

    def _content(self, stream: int, content: memoryview) -> None:
        meter = self._streams.get(stream)
        if meter is None:  # of a call that has ended: Flight's server drops it
            return
        before, whole = meter.unfinished, meter.whole
        meter.read(content)
        self._unfinished += meter.unfinished - before
        self.held += COPIES * (meter.unfinished - before + meter.whole - whole)
        most = UNFINISHED_MESSAGES * self._message_bytes_max
        if self._unfinished > most:
            raise MessageRefusedError(
                LIMIT_UNFINISHED,
                f"the unfinished messages of one connection have more than {most} bytes ({LIMIT_UNFINISHED}); send "
                "smaller record batches, or fewer at a time",
            )


class ResponseMeter:
    """Checks the server's output for ended calls."""

    def __init__(self) -> None:
        self._frames = FrameReader()

    @property
    def between_frames(self) -> bool:
        """Whether a frame may be put in here."""
        return self._frames.between_frames

    @property
    def started(self) -> bool:
        """Whether the server has sent anything."""
        return self._frames.started

    def read(self, data: bytes) -> list[int]:
        """Return the streams that end with ``data`` of the server."""
        return [
            piece.stream
            for piece in self._frames.read(data)
            if piece.content is None
            and (piece.kind == RST_STREAM or (piece.kind in (DATA, HEADERS) and piece.flags & END_STREAM))
        ]


class _StreamMeter:
    """The messages of one call, client to server."""

    def __init__(self, message_bytes_max: int) -> None:
        self._message_bytes_max = message_bytes_max
        self._prefix = bytearray()
        self._left = 0
        self._fields = _Fields()
        self.unfinished = 0  # bytes of the message that has not ended
        self.whole = 0  # bytes of the largest one that has

    def read(self, content: memoryview) -> None:
        place = 0
        while place < len(content):
            if not self._left:
                taken = min(PREFIX_BYTES - len(self._prefix), len(content) - place)
                self._prefix += content[place : place + taken]
                place += taken
                if len(self._prefix) == PREFIX_BYTES:
                    self._begin()
                continue
            count = min(self._left, len(content) - place)
            self._fields.read(content[place : place + count])
            self._left -= count
            self.unfinished += count
            place += count
            if not self._left:
                self.whole, self.unfinished = max(self.whole, self.unfinished), 0

    def _begin(self) -> None:
        compressed, length = self._prefix[0], int.from_bytes(self._prefix[1:], "big")
        self._prefix.clear()
        if compressed:
            raise MessageRefusedError(
                LIMIT_COMPRESSION, "messages compressed by gRPC are not taken; send them without compression"
            )
        if length > self._message_bytes_max:
            raise MessageRefusedError(
                LIMIT_MESSAGE,
                f"a message has {length} bytes, {self._message_bytes_max} are allowed ({LIMIT_MESSAGE}); send smaller "
                "record batches, or raise limits.max_message_bytes",
            )
        self._left = length
        self._fields = _Fields()


class _Fields:
    """The fields of one message of Protocol Buffers, parsed as they pass."""

    def __init__(self) -> None:
        self._varint = bytearray()
        self._key = 0  # 0: the next varint is one
        self._skip = 0  # remaining octets of a field's value
        self._kept: bytearray | None = None  # the header's octets so far

    def read(self, content: memoryview) -> None:
        place = 0
        while place < len(content):
            if self._skip:
                count = min(self._skip, len(content) - place)
                if self._kept is not None:
                    self._kept += content[place : place + count]
                self._skip -= count
                place += count
                if not self._skip:
                    self._field_ended()
                continue
            octet = content[place]
            place += 1
            self._varint.append(octet)
            if octet & 0x80:
                if len(self._varint) >= VARINT_BYTES_MAX:
                    raise _malformed()
                continue
            self._number(_varint(self._varint))
            self._varint.clear()

    def _number(self, value: int) -> None:
        """Process a complete varint: a key, a field's value, or the length of one."""
        if not self._key:
            self._key = value
            kind = value & 7
            if not value >> 3 or value > NUMBER_MAX or kind not in (0, 1, 2, 5):
                raise _malformed()
            self._skip = {1: 8, 5: 4}.get(kind, 0)
            return
        field, kind = self._key >> 3, self._key & 7
        if kind == 0:
            self._key = 0
            return
        if value > NUMBER_MAX:
            raise _malformed()
        if field != ROWS_FIELD and value > REQUEST_BYTES_MAX:
            raise MessageRefusedError(
                LIMIT_REQUEST,
                f"a request has {value} bytes, {REQUEST_BYTES_MAX} are allowed ({LIMIT_REQUEST}); make it smaller",
            )
        self._skip = value
        self._kept = bytearray() if field == HEADER_FIELD else None
        if not value:
            self._field_ended()

    def _field_ended(self) -> None:
        kept, self._kept, self._key = self._kept, None, 0
        if kept is not None and is_compressed(bytes(kept)):
            raise MessageRefusedError(
                LIMIT_COMPRESSION,
                "compressed record batches are not taken, as their size is known only when they are in memory; send "
                "them without compression (IpcWriteOptions)",
            )


def _malformed() -> MessageRefusedError:
    return MessageRefusedError(LIMIT_FRAMES, "a message is none of Protocol Buffers, which Arrow Flight uses")


def _varint(octets: bytearray) -> int:
    value = 0
    for shift, octet in enumerate(octets):
        value |= (octet & 0x7F) << 7 * shift
    return value


# ---------------------------------------------------------------------- Arrow's description of a batch

DICTIONARY_BATCH: Final = 2
RECORD_BATCH: Final = 3
"""Kinds of Arrow's ``Message``."""


def is_compressed(header: bytes) -> bool:
    """Return whether a field is Arrow's ``Message`` of a batch whose buffers are compressed. Anything else is not."""
    if EXPERIMENTAL_COMPRESSION in header:
        return True
    try:
        message = _Table(header, struct.unpack_from("<I", header)[0])
        place = message.place(1)
        kind = header[place] if place else 0
        if kind not in (DICTIONARY_BATCH, RECORD_BATCH):
            return False
        batch = message.table(2)
        if kind == DICTIONARY_BATCH:
            batch = batch.table(1)
        return batch.place(3) != 0
    except (struct.error, IndexError):  # no flatbuffer: a request's JSON, or data that Flight's server refuses
        return False


class _Table:
    """A table of FlatBuffers at a place of a buffer."""

    def __init__(self, buffer: bytes, place: int) -> None:
        self._buffer = buffer
        self._place = place
        self._fields = place - struct.unpack_from("<i", buffer, place)[0]
        if self._fields < 0:
            raise IndexError(self._fields)

    def place(self, field: int) -> int:
        """Return the position of a field; 0 if the table lacks it."""
        size = struct.unpack_from("<H", self._buffer, self._fields)[0]
        entry = 4 + 2 * field
        offset = struct.unpack_from("<H", self._buffer, self._fields + entry)[0] if entry < size else 0
        return self._place + offset if offset else 0

    def table(self, field: int) -> _Table:
        """Return the table that a field refers to."""
        place = self.place(field)
        if not place:
            raise IndexError(field)
        return _Table(self._buffer, place + struct.unpack_from("<I", self._buffer, place)[0])
