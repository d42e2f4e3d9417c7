"""Frames on the wire (STOMP 1.2 "STOMP Frames" and "Augmented BNF"): reading from any pieces, writing, printing.

Lines end with LF or CR LF in every version: 1.2 requires it, and older clients do it. Line ends between frames are
heart-beats. Of repeated headers the first counts ("Repeated Header Entries").
"""

from __future__ import annotations

import re
from typing import Final

from annulet.wire.input_buffer import InputBuffer, part_of
from annulet.wire.stomp.constants import (
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    VERSION_1_0,
    VERSION_1_1,
    VERSION_1_2,
)
from annulet.wire.stomp.errors import LocalProtocolError, RemoteProtocolError

UNESCAPED_COMMANDS: Final = frozenset({"CONNECT", "STOMP", "CONNECTED"})
"""Frames whose headers are written as they are in every version ("Value Encoding")."""

SECRET_HEADERS: Final = frozenset({"passcode"})
"""Headers that no trace shows."""

SHOWN_OCTETS: Final = 32
"""Octets of a body in a trace line."""

SHOWN_CHARACTERS: Final = 200
"""Characters of one header in a trace line."""

_LF: Final = 10
_CR: Final = 13
_LENGTH_DIGITS: Final = 18
_ESCAPED: Final = {"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"}
_PLAIN: Final = {"\\\\": "\\", "\\r": "\r", "\\n": "\n", "\\c": ":"}
_TO_ESCAPE_1_2: Final = re.compile(r"[\\\r\n:]")
_TO_ESCAPE_1_1: Final = re.compile(r"[\\\n:]")
_ESCAPE_SEQUENCE: Final = re.compile(r"\\.?", re.DOTALL)


class Frame:
    """One frame. ``headers`` are decoded, each name once, in their original order."""

    __slots__ = ("body", "command", "headers")

    def __init__(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        self.command = command
        self.headers = headers
        self.body = body

    def __repr__(self) -> str:
        """Return one line for a protocol trace; secrets are not shown."""
        parts = [self.command]
        for name, value in self.headers.items():
            shown = "***" if name in SECRET_HEADERS else _shortened(value)
            parts.append(f"{name}={shown!r}")
        if self.body:
            more = "..." if len(self.body) > SHOWN_OCTETS else ""
            parts.append(f"body={len(self.body)} octets {self.body[:SHOWN_OCTETS]!r}{more}")
        return " ".join(parts)


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


# ---------------------------------------------------------------------- header texts


def escape(text: str, version: str = VERSION_1_2) -> str:
    """Return a header name or value as it is written in a version ("Value Encoding").

    1.1 has no sequence for CR, which stays as it is. 1.0 has none at all: there a line end becomes the two characters
    of 1.1's sequence, because it cannot be written.
    """
    if version == VERSION_1_2:
        return _TO_ESCAPE_1_2.sub(_escaped, text) if _TO_ESCAPE_1_2.search(text) is not None else text
    if version == VERSION_1_1:
        return _TO_ESCAPE_1_1.sub(_escaped, text) if _TO_ESCAPE_1_1.search(text) is not None else text
    return text.replace("\n", "\\n")


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPED[match.group()]


def unescape(text: str, version: str = VERSION_1_2) -> str:
    """Return the unescaped header name or value of a version.

    Raises:
        RemoteProtocolError: a sequence the version does not know, which is fatal ("Value Encoding").
    """
    if version == VERSION_1_0 or "\\" not in text:
        return text
    for match in _ESCAPE_SEQUENCE.finditer(text):
        if match.group() not in _PLAIN or (match.group() == "\\r" and version == VERSION_1_1):
            known = "\\\\, \\c and \\n" if version == VERSION_1_1 else "\\\\, \\c, \\n and \\r"
            raise RemoteProtocolError(
                f"header {_shortened(text)!r} has the escape sequence {match.group()!r}; STOMP {version} knows {known}"
            )
    return _ESCAPE_SEQUENCE.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    return _PLAIN[match.group()]


# ---------------------------------------------------------------------- writing


def encode_frame(frame: Frame, version: str = VERSION_1_2) -> bytes:
    """Return a frame as octets; a non-empty body gets its ``content-length``.

    Raises:
        LocalProtocolError: a header has a NUL, or a frame without escaping a line end, or a colon in a name.
    """
    lines = [frame.command]
    plain = frame.command in UNESCAPED_COMMANDS
    for name, value in frame.headers.items():
        if name == "content-length":
            continue
        if "\0" in name or "\0" in value or (plain and ("\n" in name or "\n" in value or ":" in name)):
            raise LocalProtocolError(f"{frame.command} cannot carry header {name!r}: {value!r}; take out NULs and LFs")
        lines.append(f"{name}:{value}" if plain else f"{escape(name, version)}:{escape(value, version)}")
    if frame.body:
        lines.append(f"content-length:{len(frame.body)}")
    head = "\n".join(lines).encode("utf-8", "surrogatepass")
    return b"".join((head, b"\n\n", frame.body, b"\0"))


# ---------------------------------------------------------------------- reading


class FrameReader:
    """Finds frames in a stream that arrives in pieces of any size.

    :meth:`feed` takes a piece, :meth:`next_frame` returns complete frames; further ones wait. ``version`` is set by the
    owner once it is negotiated and applies from the next frame on. Memory stays within the limits and one piece, and no
    octet of a body is examined twice.

    Args:
        max_header_bytes: command and headers of one frame, in bytes.
        max_headers: headers of one frame.
        max_body_bytes: body of one frame, in bytes.
    """

    def __init__(
        self,
        *,
        max_header_bytes: int = MAX_HEADER_BYTES,
        max_headers: int = MAX_HEADERS,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self.max_header_bytes = max_header_bytes
        self.max_headers = max_headers
        self.max_body_bytes = max_body_bytes
        self.version = VERSION_1_0  # until it is negotiated nothing is escaped
        self._data = b""  # a piece that is being read; octets before _position were consumed
        self._position = 0
        self._begun: Frame | None = None  # its headers were read, its body was not
        self._length = -1  # of that body; -1: it ends at the first NUL
        self._body = InputBuffer()  # what has arrived of it

    @property
    def pending(self) -> int:
        """Octets that were fed and belong to no frame that was returned."""
        return len(self._data) - self._position + self._body.size

    def feed(self, data: bytes) -> None:
        """Take a piece of the stream."""
        if self._position >= len(self._data):
            self._data = data
        else:
            self._data = self._data[self._position :] + data
        self._position = 0

    def drop(self) -> None:
        """Discard the input: it is not needed any more."""
        self._data = b""
        self._position = 0
        self._begun = None
        self._body.drop()

    def next_frame(self) -> Frame | None:
        """Return the next frame, ``None`` when more octets are needed.

        Raises:
            RemoteProtocolError: the stream is malformed or beyond a limit; nothing more can be read from it.
        """
        if self._begun is None and not self._read_head():
            return None
        return self._read_body()

    # ---- command and headers

    def _read_head(self) -> bool:
        data = self._data
        end = len(data)
        position = self._position
        while position < end and (data[position] == _LF or data[position] == _CR):
            if data[position] == _CR:
                if position + 1 == end:
                    break  # whether it is a line end shows the next piece
                if data[position + 1] != _LF:
                    raise RemoteProtocolError("a CR without LF between frames; end lines with LF or CR LF")
            position += 1
        self._position = position
        limit = position + self.max_header_bytes
        stop = _blank_line(data, position, min(end, limit + 3))
        if stop < 0 or stop > limit:
            if end - position > self.max_header_bytes:
                raise RemoteProtocolError(
                    f"command and headers exceed {self.max_header_bytes} bytes; end them with an empty line, send less",
                    limit="max_header_bytes",
                )
            nul = data.find(b"\0", position)
            if nul >= 0:
                raise RemoteProtocolError(_early_end(data[position:nul]))
            return False
        head = data[position:stop]
        if b"\0" in head:
            raise RemoteProtocolError(_early_end(head[: head.index(b"\0")]))
        self._begun = self._parse_head(head)
        self._position = stop + (2 if data[stop + 1] == _LF else 3)
        return True

    def _parse_head(self, head: bytes) -> Frame:
        try:
            lines = head.decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(
                f"command or headers are not UTF-8 at octet {error.start}; encode them as UTF-8"
            ) from error
        if len(lines) - 1 > self.max_headers:
            raise RemoteProtocolError(
                f"frame has {len(lines) - 1} headers, at most {self.max_headers} are allowed", limit="max_headers"
            )
        command = _without_return(lines[0])
        version = VERSION_1_0 if command in UNESCAPED_COMMANDS else self.version
        headers: dict[str, str] = {}
        for number in range(1, len(lines)):
            line = _without_return(lines[number])
            name, colon, value = line.partition(":")
            if not colon or not name:
                shown = "not shown" if command in UNESCAPED_COMMANDS else repr(_shortened(line))  # may be a passcode
                raise RemoteProtocolError(
                    f"line {number + 1} of {_shortened(command)!r} is {shown}; write NAME:VALUE, and an empty line "
                    "after the last header"
                )
            if "\\" in line:
                name = unescape(name, version)
                value = unescape(value, version)
            if name not in headers:
                headers[name] = value
        if self.version == VERSION_1_0 and "accept-version" not in headers:
            headers = {name: value.strip() for name, value in headers.items()}  # 1.0's own example has "login: NAME"
        self._length = self._body_length(command, headers)
        return Frame(command, headers)

    def _body_length(self, command: str, headers: dict[str, str]) -> int:
        text = headers.get("content-length")
        if text is None:
            return -1
        text = text.strip()
        if not (text.isascii() and text.isdigit() and len(text) <= _LENGTH_DIGITS):
            raise RemoteProtocolError(
                f"header 'content-length' of {command} is {_shortened(text)!r}; give the octets of the body as a number"
            )
        length = int(text)
        if length > self.max_body_bytes:
            raise self._too_large(length)
        return length

    def _too_large(self, length: int) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"body of {length} bytes or more, at most {self.max_body_bytes} are allowed", limit="max_body_bytes"
        )

    # ---- body

    def _read_body(self) -> Frame | None:
        frame = self._begun
        assert frame is not None
        data = self._data
        position = self._position
        length = self._length
        held = self._body.size
        if length >= 0:
            stop = position + length - held
            if stop >= len(data):  # the NUL behind it is needed too
                self._keep_rest()
                return None
            if data[stop] != 0:
                raise RemoteProtocolError(
                    f"octet {data[stop]} behind the body of {frame.command}, not NUL; 'content-length' says {length}, "
                    "count octets and not characters"
                )
        else:
            stop = data.find(b"\0", position)
            size = held + (len(data) if stop < 0 else stop) - position
            if size > self.max_body_bytes:
                raise self._too_large(size)
            if stop < 0:
                self._keep_rest()
                return None
        if held:
            self._body.add(part_of(data, position, stop))
            frame.body = self._body.take()
        else:
            frame.body = data[position:stop]
        self._position = stop + 1
        self._begun = None
        return frame

    def _keep_rest(self) -> None:
        """Put the arrived part of a body aside, so that the next piece is not joined to all of it."""
        data = self._data
        if self._position < len(data):
            self._body.add(part_of(data, self._position, len(data)))
        self._data = b""
        self._position = 0


def _blank_line(data: bytes, start: int, end: int) -> int:
    """Return where the line end before the empty line is, -1 when there is none before ``end``."""
    plain = data.find(b"\n\n", start, end)
    returned = data.find(b"\n\r\n", start, end if plain < 0 else plain + 1)
    return plain if returned < 0 else returned


def _without_return(line: str) -> str:
    return line.removesuffix("\r")


def _early_end(head: bytes) -> str:
    """Return the error of a frame that ends too early. Only its command is quoted: a passcode may follow."""
    shown = head.partition(b"\n")[0][:SHOWN_OCTETS].decode("utf-8", "replace")
    return f"frame that starts with {shown!r} ends within its headers; put an empty line before body and NUL"
