"""A body frame that arrives in several reads, without being joined with other frames of these reads."""

from __future__ import annotations

from annulet.wire.amqp091.types.constants import FRAME_END
from annulet.wire.input_buffer import InputBuffer, Octets, part_of


class BodyFrame:
    """The body frame whose end has not come; a connection has one at most.

    Attributes:
        number: its channel.
        missing: octets of it that have not come, its end with them; 0: there is no such frame.
        end: the octet that it ended with.
        size: octets of its payload that have come.
    """

    __slots__ = ("_parts", "end", "missing", "number", "size")

    def __init__(self) -> None:
        self.number = 0
        self.missing = 0
        self.end = FRAME_END
        self.size = 0
        self._parts = InputBuffer()

    def begin(self, number: int, data: bytes, start: int, missing: int) -> None:
        """Keep the first part of a frame: its payload begins at ``start``, and no other frame follows."""
        self.number = number
        self.missing = missing
        self._keep(part_of(data, start, len(data)))

    def add(self, data: bytes, position: int) -> int:
        """Take the next part; return the position behind it. ``missing`` is 0 after the last one."""
        missing = self.missing
        have = len(data) - position
        if have < missing:
            if have:
                self.missing = missing - have
                self._keep(part_of(data, position, len(data)))
            return len(data)
        following = position + missing
        self.missing = 0
        self.end = data[following - 1]
        if missing > 1:
            self._keep(part_of(data, position, following - 1))
        return following

    def take(self) -> list[Octets]:
        """Return the payload, in parts."""
        self.size = 0
        return self._parts.take_parts()

    def drop(self) -> None:
        """Discard it: the connection is over."""
        self.size = 0
        self._parts.drop()

    def _keep(self, part: Octets) -> None:
        self.size += len(part)
        self._parts.add(part)
