"""The header block a message keeps: lines ``name:value`` with STOMP 1.2 escaping, each ended by LF, each name once.

It is in the form of 1.2, so it is sent unchanged to its clients; for 1.1 and 1.0 only lines with escapes are rewritten.
"""

from __future__ import annotations

import re
from typing import Final

from annulet.wire.stomp.constants import VERSION_1_0, VERSION_1_2
from annulet.wire.stomp.errors import RemoteProtocolError
from annulet.wire.stomp.frames import escape, unescape

NUL_TEXT: Final = "␀"
"""Replacement of a NUL in a header, which would end the frame. Texts of other protocols may contain NULs."""

_SEQUENCE: Final = re.compile(rb"\\(.)")


def header_octets(text: str) -> bytes:
    """Return a text as octets of a header: UTF-8, with invalid Unicode replaced by U+FFFD, NUL by U+2400."""
    if "\0" in text:
        text = text.replace("\0", NUL_TEXT)
    try:
        return text.encode()
    except UnicodeEncodeError:  # lone surrogates, from octets that were no UTF-8 in another protocol
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()


def encode_line(name: str, value: str) -> bytes:
    """Return one header as a line of a block."""
    return header_octets(f"{escape(name)}:{escape(value)}\n")


def encode_block(headers: dict[str, str]) -> bytes:
    """Return headers as a block."""
    return b"".join([encode_line(name, value) for name, value in headers.items()])


def decode_block(block: bytes) -> dict[str, str]:
    """Return the headers of a block, without invalid lines; of repeated names the first counts."""
    headers: dict[str, str] = {}
    for line in block.decode("utf-8", "replace").split("\n"):
        name, colon, value = line.partition(":")
        if colon and name:
            headers.setdefault(_unescaped(name), _unescaped(value))
    return headers


def find_header(block: bytes, name: str) -> str | None:
    """Return one header without decoding the others, ``None`` when it is not there."""
    start = header_octets(escape(name)) + b":"
    if block.startswith(start):
        position = len(start)
    else:
        position = block.find(b"\n" + start)
        if position < 0:
            return None
        position += len(start) + 1
    end = block.find(b"\n", position)
    return _unescaped(block[position : len(block) if end < 0 else end].decode("utf-8", "replace"))


def changed_block(block: bytes, headers: dict[str, str], without: frozenset[str]) -> bytes:
    """Return a block with ``headers`` put over its own and those named in ``without`` left out; the rest keeps its
    octets."""
    leaving = {header_octets(escape(name)) for name in (*headers, *without)}
    kept = [line for line in block.splitlines(keepends=True) if line.partition(b":")[0] not in leaving]
    return b"".join(kept) + encode_block(headers)


def block_for(block: bytes, version: str) -> bytes:
    """Return a block as lines of a version; see :func:`annulet.wire.stomp.frames.escape` for the escapes that 1.0 and
    1.1 lack."""
    if version == VERSION_1_2 or b"\\" not in block:
        return block
    if version != VERSION_1_0:
        return _SEQUENCE.sub(_sequence_1_1, block)
    lines: list[bytes] = []
    for line in block.splitlines(keepends=True):
        name, colon, value = line.partition(b":")
        lines.append(name + colon + _SEQUENCE.sub(_sequence_1_0, value))
    return b"".join(lines)


def _sequence_1_1(match: re.Match[bytes]) -> bytes:
    return b"\r" if match.group(1) == b"r" else match.group()


def _sequence_1_0(match: re.Match[bytes]) -> bytes:
    following = match.group(1)
    if following == b"c":
        return b":"
    if following == b"r":
        return b"\r"
    return following if following == b"\\" else match.group()


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    try:
        return unescape(text)
    except RemoteProtocolError:  # nothing that encode_block wrote; shown as it is
        return text
