"""Conditions that narrow an operator's selection: key, routing key, time of acceptance, ids from and to, and a text."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import InvalidArgument

if TYPE_CHECKING:
    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry

TEXT_BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of a body that is searched for a text: some 4 ms with its reading, 45 ms at worst. A longer body is counted,
not searched."""

TEXT_BYTES_MAX: Final = 1024
"""Bytes of the searched text, in UTF-8: a longer one is refused."""

BYTES_OF_A_STEP: Final = 64
"""Bytes that are searched in the time of one step of a selector, or more. A text that differs in its middle from a body
of one letter takes ten times as long as others: 45 ms for 4 MiB, which ends a slice."""

STEPS_OF_A_READ: Final = 4000
"""Steps of a selector in the time of reading one body from disk: some 1 ms."""

NO_ID: Final = 0
NO_TIME: Final = -1


class BodyTooLong(Exception):
    """The body is longer than :data:`TEXT_BODY_BYTES_MAX`, and the text is not in the header."""


class MovedIds:
    """Ids that messages have now, each with the id that it had before; 24 bytes a range in which both are consecutive.

    Ranges come ascending, as a queue gave the ids; others cost O(n).
    """

    def __init__(self) -> None:
        self._firsts = array("q")
        self._ends = array("q")
        self._formers = array("q")
        self.count = 0

    def add(self, first: int, count: int, former: int = 0) -> None:
        """Add ``count`` consecutive ids, and the first of the former ones; 0 where these are not known."""
        self.count += count
        if self._ends and self._ends[-1] == first:
            before = self.former_of(first - 1)
            if former == (before + 1 if before else 0):
                self._ends[-1] += count
                return
        place = bisect_right(self._firsts, first)
        self._firsts.insert(place, first)
        self._ends.insert(place, first + count)
        self._formers.insert(place, former)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._firsts, number)
        return place > 0 and number < self._ends[place - 1]

    def former_of(self, number: int) -> int:
        """Return the former id of one of the ids; 0 where it is not known."""
        place = bisect_right(self._firsts, number) - 1
        former = self._formers[place]
        return former + number - self._firsts[place] if former else 0


class Conditions:
    """Conditions of an entry besides its selection. Create one with :func:`conditions`.

    ``first_id`` and ``last_id`` are included, so is ``since``; ``until`` is not. Times are of acceptance.
    """

    __slots__ = ("among", "first_id", "key", "last_id", "routing_key", "since", "text", "until")

    def __init__(self) -> None:
        self.key: str | None = None
        self.routing_key: str | None = None
        self.since = NO_TIME
        self.until = NO_TIME
        self.first_id = NO_ID
        self.last_id = NO_ID
        self.text = b""
        self.among: MovedIds | None = None

    @property
    def given(self) -> bool:
        """Return whether there is any condition."""
        return bool(str(self))

    def match(self, entry: QueueEntry) -> bool:
        """Return whether an entry fulfils all but the text: no content is looked at."""
        message = entry.message
        if self.among is not None and entry.sequence not in self.among:
            return False
        if self.key is not None and (entry.key is None or entry.key.text != self.key):
            return False
        if self.routing_key is not None and message.origin.routing_key != self.routing_key:
            return False
        if message.accepted_at < self.since or (self.until >= 0 and message.accepted_at >= self.until):
            return False
        return entry.sequence >= self.first_id and not (self.last_id and entry.sequence > self.last_id)

    def contain(self, message: Message) -> bool:
        """Return whether the text is in the header as its sender encoded it, in the routing key or in the body.

        Raises :class:`BodyTooLong`.
        """
        text = self.text
        if not text or text in message.header or text in message.origin.routing_key.encode("utf-8", "surrogatepass"):
            return True
        if message.size > TEXT_BODY_BYTES_MAX:
            raise BodyTooLong
        return text in message.body

    def steps(self, message: Message) -> int:
        """Return how long :meth:`contain` takes, in steps of selectors."""
        if not self.text:
            return 0
        steps = 1 + (len(message.header) + min(message.size, TEXT_BODY_BYTES_MAX)) // BYTES_OF_A_STEP
        return steps + STEPS_OF_A_READ if message.absent else steps

    def __str__(self) -> str:
        """Return the conditions as the audit trail quotes them."""
        parts: list[str] = []
        if self.among is not None:
            parts.append(f"{self.among.count} ids")
        if self.key is not None:
            parts.append(f"key {self.key!r}")
        if self.routing_key is not None:
            parts.append(f"routing key {self.routing_key!r}")
        if self.since != NO_TIME:
            parts.append(f"accepted since {self.since}")
        if self.until != NO_TIME:
            parts.append(f"accepted before {self.until}")
        if self.first_id:
            parts.append(f"ids from {self.first_id}")
        if self.last_id:
            parts.append(f"ids to {self.last_id}")
        if self.text:
            parts.append(f"text {self.text.decode(errors='replace')!r}")
        return ", ".join(parts)


def conditions(
    *,
    key: str | None = None,
    routing_key: str | None = None,
    since: int = NO_TIME,
    until: int = NO_TIME,
    first_id: int = NO_ID,
    last_id: int = NO_ID,
    text: str = "",
    among: MovedIds | None = None,
) -> Conditions:
    """Return checked conditions. ``key``: of a last-value queue; times are milliseconds since 1970, of acceptance.

    Raises :class:`InvalidArgument` for a time or an id below 0, and for a text beyond :data:`TEXT_BYTES_MAX`.
    """
    made = Conditions()
    made.key, made.routing_key, made.among = key, routing_key, among
    for name, number, least in (
        ("since", since, NO_TIME),
        ("until", until, NO_TIME),
        ("first_id", first_id, NO_ID),
        ("last_id", last_id, NO_ID),
    ):
        if type(number) is not int or number < least:
            what = "a time in milliseconds since 1970" if least == NO_TIME else "an id of the queue, from 1"
            raise InvalidArgument(f"{name}={number!r}: give {what}")
    made.since, made.until, made.first_id, made.last_id = since, until, first_id, last_id
    made.text = text.encode("utf-8", "surrogatepass")
    if len(made.text) > TEXT_BYTES_MAX:
        raise InvalidArgument(f"text has {len(made.text)} bytes; {TEXT_BYTES_MAX} are allowed: search for a part of it")
    return made
