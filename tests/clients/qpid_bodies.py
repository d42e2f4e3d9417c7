"""Maps and lists in bodies of AMQP 0-9-1 as Qpid's clients write and read them: in the encoding of AMQP 0-10.

Written for the tests alone, after AMQP 0-10 §3.3, so that the broker's own codec is checked by another.
"""

from __future__ import annotations

import struct
from typing import Any

FIXED = {
    0x01: ">b", 0x02: ">B", 0x08: ">?", 0x11: ">h", 0x12: ">H", 0x21: ">i", 0x22: ">I", 0x23: ">f", 0x31: ">q",
    0x32: ">Q", 0x33: ">d", 0x38: ">Q",
}  # fmt: skip
MAP, LIST = 0xA8, 0xA9


def packed(value: Any) -> bytes:
    """Return type octet and value."""
    if value is None:
        return b"\xf0"
    if isinstance(value, bool):
        return struct.pack(">B?", 0x08, value)
    if isinstance(value, int):
        return struct.pack(">Bq", 0x31, value)
    if isinstance(value, float):
        return struct.pack(">Bd", 0x33, value)
    if isinstance(value, str):
        return struct.pack(">BH", 0x95, len(value.encode())) + value.encode()
    if isinstance(value, dict):
        return bytes([MAP]) + body_of(value)
    if isinstance(value, list):
        return bytes([LIST]) + body_of(value)
    return struct.pack(">BI", 0xA0, len(value)) + bytes(value)


def body_of(value: dict[str, Any] | list[Any]) -> bytes:
    """Return the body of a message whose content type is ``amqp/map`` or ``amqp/list``."""
    if isinstance(value, dict):
        content = b"".join(
            struct.pack(">B", len(name.encode())) + name.encode() + packed(value[name]) for name in value
        )
    else:
        content = b"".join(map(packed, value))
    return struct.pack(">II", len(content) + 4, len(value)) + content


class Reader:
    """Reads octets from the front."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.position = 0

    def take(self, layout: str) -> Any:
        (value,) = struct.unpack_from(layout, self.octets, self.position)
        self.position += struct.calcsize(layout)
        return value

    def value(self) -> Any:
        kind = self.take(">B")
        if kind == 0xF0:
            return None
        if kind == 0x95:
            return self.take(f">{self.take('>H')}s").decode()
        if kind == 0xA0:
            return self.take(f">{self.take('>I')}s")
        if kind == 0x48:
            return self.take(">16s")
        return self.container(kind) if kind in {MAP, LIST} else self.take(FIXED[kind])

    def container(self, kind: int) -> Any:
        end = self.take(">I") + self.position
        count = self.take(">I")
        found: Any
        if kind == MAP:
            found = {self.take(f">{self.take('>B')}s").decode(): self.value() for _ in range(count)}
        else:
            found = [self.value() for _ in range(count)]
        assert self.position == end
        return found


def read_map(body: bytes) -> dict[str, Any]:
    """Return what a body of ``amqp/map`` says."""
    table: dict[str, Any] = Reader(body).container(MAP)
    return table


def read_list(body: bytes) -> list[Any]:
    """Return what a body of ``amqp/list`` says."""
    values: list[Any] = Reader(body).container(LIST)
    return values
