"""The facts of a page's rows with which they can expire without being read: times, sizes, priorities.

Stored at each change from one row to the next, with the first sequence for which they apply. Times of acceptance take
16 bytes there. Sizes, times to live of senders and priorities take 8, 8 and 1 more, if they are not the same for all
rows of a page: mostly senders use one time to live.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import repeat
from operator import le
from typing import TYPE_CHECKING, Final

from annulet.core.base.expiry_times import NEVER, time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from annulet.core.base.settings import QueueSettings
    from annulet.residency.rows.page import Page

NO_LIFE: Final = -1 << 62
"""Represents the time to live of a message without one; real ones may be negative."""

_BEHIND: Final = 1 << 62
"""A sequence above all others."""

CHANGES_A_ROW: Final = 2
CHANGES_MINIMUM: Final = 64
"""More changes than two for each row and some belong to rows that left: those are forgotten."""


class Column:
    """Numbers of one kind by place, kept once as long as all are equal."""

    __slots__ = ("_length", "_values")

    def __init__(self, typecode: str) -> None:
        self._values: array[int] = array(typecode)
        self._length = 0

    @property
    def kept(self) -> int:
        """How many numbers take memory."""
        return len(self._values)

    def append(self, number: int) -> None:
        """Add the next one."""
        values = self._values
        if not self._length or len(values) > 1:
            values.append(number)
        elif values[0] != number:
            values *= self._length
            values.append(number)
        self._length += 1

    def insert(self, place: int, number: int) -> None:
        """Add one before the one at ``place``; there are some."""
        values = self._values
        if len(values) == 1:
            if values[0] == number:
                self._length += 1
                return
            values *= self._length
        values.insert(place, number)
        self._length += 1

    def chosen(self, places: list[int]) -> Column:
        """Return one with those at some places, ascending."""
        made = Column(self._values.typecode)
        for place in places:
            made.append(self.of(place))
        return made

    def of(self, place: int) -> int:
        """Return the one at a place; -1 is the last."""
        return self._values[place if len(self._values) > 1 else 0]

    def each(self) -> Iterable[int]:
        """Return all of them, by place."""
        return self._values if len(self._values) == self._length else repeat(self._values[0], self._length)

    def copy(self) -> Column:
        """Return one like it."""
        made = Column(self._values.typecode)
        made._values, made._length = self._values[:], self._length
        return made


class Bounds:
    """Of some rows when the first and the last were accepted, the first and the last end that senders gave (0: none),
    and whether one has none."""

    __slots__ = ("accepted_at", "endless", "expires_at", "last_accepted_at", "last_expires_at")

    def __init__(self) -> None:
        self.accepted_at = self.expires_at = 0
        self.last_accepted_at = self.last_expires_at = 0
        self.endless = False

    @property
    def empty(self) -> bool:
        """Return whether there are none."""
        return not self.endless and not self.expires_at

    def note(self, accepted_at: int, expires_at: int) -> None:
        """Take in a row."""
        self.accepted_at = accepted_at if self.empty else min(self.accepted_at, accepted_at)
        self.last_accepted_at = max(self.last_accepted_at, accepted_at)
        if expires_at:
            self.expires_at = min(self.expires_at or expires_at, expires_at)
            self.last_expires_at = max(self.last_expires_at, expires_at)
        else:
            self.endless = True

    def bound(self, settings: QueueSettings) -> int:
        """Return a time (milliseconds since 1970) before which none of them expires; 0 when none ever does.

        The expiry time by the settings is monotonic in this time.
        """
        return min([end for end in self._ends(settings, self.accepted_at, self.expires_at) if end], default=0)

    def upper_bound(self, settings: QueueSettings) -> int:
        """Return a time by which all of them have expired; 0 when one of them may never."""
        ends = self._ends(settings, self.last_accepted_at, self.last_expires_at)
        return max(ends) if ends and all(ends) else 0

    def _ends(self, settings: QueueSettings, accepted_at: int, expires_at: int) -> list[int]:
        """Return the expiry times for rows of these times: of one with its own time to live, and of one without, if
        there are such."""
        ends = [time_of(settings, accepted_at, expires_at)] if expires_at else []
        if self.endless:
            ends.append(time_of(settings, accepted_at, 0))
        return ends

    def copy(self) -> Bounds:
        """Return one like it."""
        made = Bounds()
        made.accepted_at, made.expires_at, made.endless = self.accepted_at, self.expires_at, self.endless
        made.last_accepted_at, made.last_expires_at = self.last_accepted_at, self.last_expires_at
        return made


class RowFacts:
    """When rows were accepted and end by their senders' will (milliseconds since 1970), body bytes and priorities.

    Also their order of expiry: by time, then by sequence. It is computed when the first of them is due, and takes 2
    bytes for each change if it differs from their order.
    """

    __slots__ = (
        "_accepted",
        "_all",
        "_lives",
        "_new",
        "_next",
        "_priorities",
        "_sequences",
        "_settings",
        "_sizes",
        "_turns",
    )

    def __init__(self) -> None:
        self._sequences: array[int] = array("Q")
        self._accepted: array[int] = array("Q")
        self._lives = Column("q")
        self._sizes = Column("Q")
        self._priorities = Column("B")
        self._all = Bounds()
        self._new = Bounds()
        self._turns: Sequence[int] = ()  # places in the order of expiry
        self._next = 0  # index into them: no place before it has rows that are left
        self._settings: QueueSettings | None = None  # those the order is for; None: not known

    @property
    def kept(self) -> int:
        """How many sequences take memory: one for rows that are alike."""
        return len(self._sequences)

    def note(self, sequence: int, accepted_at: int, size: int, priority: int, expires_at: int) -> None:
        """Add the next row. Later facts belong to rows that have left."""
        self._settings = None
        if self._sequences and self._sequences[-1] >= sequence:
            self._choose(list(range(bisect_left(self._sequences, sequence))))
        life = expires_at - accepted_at if expires_at else NO_LIFE
        if (
            self._sequences
            and self._accepted[-1] == accepted_at
            and self._lives.of(-1) == life
            and self._sizes.of(-1) == size
            and self._priorities.of(-1) == priority
        ):
            if self._new.empty:
                self._new.note(accepted_at, expires_at)
            return
        self._sequences.append(sequence)
        self._accepted.append(accepted_at)
        self._lives.append(life)
        self._sizes.append(size)
        self._priorities.append(priority)
        self._all.note(accepted_at, expires_at)
        self._new.note(accepted_at, expires_at)

    def insert(self, page: Page, sequence: int, accepted_at: int, size: int, priority: int, expires_at: int) -> None:
        """Add a row anywhere among those of ``page``, which already has it and is not empty."""
        self._settings = None
        self._all.note(accepted_at, expires_at)
        self._new.note(accepted_at, expires_at)
        life = expires_at - accepted_at if expires_at else NO_LIFE
        facts = (accepted_at, life, size, priority)
        place = bisect_right(self._sequences, sequence) - 1
        if place >= 0 and self._facts(place) == facts:
            return
        following = page.runs.next_row(sequence + 1)
        holds_behind = place >= 0 and 0 < following < self._behind(place)
        if not holds_behind and place + 1 < len(self._sequences) and self._facts(place + 1) == facts:
            self._sequences[place + 1] = sequence
            return
        self._insert(place + 1, sequence, facts)
        if holds_behind:
            self._insert(place + 2, following, self._facts(place))
        if len(self._sequences) > CHANGES_A_ROW * page.items + CHANGES_MINIMUM:
            self.keep(page)

    def _facts(self, place: int) -> tuple[int, int, int, int]:
        return self._accepted[place], self._lives.of(place), self._sizes.of(place), self._priorities.of(place)

    def _insert(self, place: int, sequence: int, facts: tuple[int, int, int, int]) -> None:
        accepted_at, life, size, priority = facts
        self._sequences.insert(place, sequence)
        self._accepted.insert(place, accepted_at)
        self._lives.insert(place, life)
        self._sizes.insert(place, size)
        self._priorities.insert(place, priority)

    def keep(self, page: Page) -> None:
        """Drop the facts of rows that have left ``page``."""
        self._settings = None
        there = [page.runs.next_row(sequence) for sequence in self._sequences]
        places = [place for place, row in enumerate(there) if 0 < row < self._behind(place)]
        self._choose(places)
        self._sequences = array("Q", [there[place] for place in places])

    def _choose(self, places: list[int]) -> None:
        self._lives, self._sizes = self._lives.chosen(places), self._sizes.chosen(places)
        self._priorities = self._priorities.chosen(places)
        self._accepted = array("Q", [self._accepted[place] for place in places])
        self._sequences = array("Q", [self._sequences[place] for place in places])

    def of(self, sequence: int) -> tuple[int, int, int, int]:
        """Return time of acceptance, size, priority, and expiry time of the sender of a row, 0 for never."""
        place = max(0, bisect_right(self._sequences, sequence) - 1)
        return self._accepted[place], self._sizes.of(place), self._priorities.of(place), self._ends_at(place)

    def bound(self, settings: QueueSettings) -> int:
        """Return a time before which no row expires; 0 when none ever does."""
        return self._all.bound(settings)

    def upper_bound(self, settings: QueueSettings) -> int:
        """Return a time by which all rows have expired; 0 when one of them may never."""
        return self._all.upper_bound(settings)

    def bound_of_new(self, settings: QueueSettings) -> int:
        """Return a time before which no row expires that was added since the last call; 0 for never."""
        at = self._new.bound(settings)
        self._new = Bounds()
        return at

    def note_all(self) -> None:
        """Let all rows count as added since the last call of :meth:`bound_of_new`."""
        self._new = self._all.copy()

    def first(self, page: Page, settings: QueueSettings) -> tuple[int, int]:
        """Return when the first of the rows that ``page`` has left expires, and its sequence; or ``NEVER``."""
        self.find_turns(settings)
        turns = self._turns
        while self._next < len(turns):
            place = turns[self._next]
            sequence = page.runs.next_row(self._sequences[place])
            if 0 < sequence < self._behind(place):
                return self._time(place, settings), sequence
            self._next += 1
        return NEVER

    def due(
        self, page: Page, settings: QueueSettings, before: tuple[int, int], most: int, size_most: int = -1
    ) -> list[int]:
        """Return the sequences of rows ``page`` has left whose time and sequence are lower, in the order of expiry.

        Up to ``most`` of them and about ``size_most`` bytes (-1: any), at least one. Call :meth:`first` before.
        """
        found: list[int] = []
        turns, following = self._turns, self._next
        while following < len(turns) and len(found) < most:
            place = turns[following]
            at, size, behind = self._time(place, settings), self._sizes.of(place), self._behind(place)
            if (at, self._sequences[place]) >= before:
                break
            limit = most - len(found)
            if size_most >= 0 and size:
                limit = min(limit, max(size_most // size, 0 if found else 1))
            some = page.runs.rows_between(
                self._sequences[place], min(behind, before[1]) if at == before[0] else behind, limit
            )
            found += some
            size_most = size_most if size_most < 0 else max(0, size_most - size * len(some))
            if len(some) == limit:
                break
            following += 1
        return found

    def find_turns(self, settings: QueueSettings) -> int:
        """Put the places in the order of expiry, unless rows and settings are still those this was done for.

        Returns how many it put in order now.
        """
        if self._settings is settings:
            return 0
        self._settings = settings
        self._next = 0
        pairs = zip(self._accepted, self._lives.each(), strict=True)
        times = [0 if life == NO_LIFE else accepted_at + life for accepted_at, life in pairs]
        if settings.message_ttl >= 0 or settings.max_ttl >= 0 or settings.min_ttl >= 0:
            times = [
                time_of(settings, accepted_at, own) for accepted_at, own in zip(self._accepted, times, strict=True)
            ]
        if all(map(le, times, times[1:])):
            self._turns = range(times.count(0), len(times))  # those that never do have a time of 0
        else:
            turns = [place for place, at in enumerate(times) if at]
            turns.sort(key=times.__getitem__)
            self._turns = array("H", turns)
        return len(times)

    def _time(self, place: int, settings: QueueSettings) -> int:
        return time_of(settings, self._accepted[place], self._ends_at(place))

    def _ends_at(self, place: int) -> int:
        life = self._lives.of(place)
        return 0 if life == NO_LIFE else self._accepted[place] + life

    def _behind(self, place: int) -> int:
        """Return the sequence from which the facts of a place no longer apply."""
        return self._sequences[place + 1] if place + 1 < len(self._sequences) else _BEHIND

    def copy(self) -> RowFacts:
        """Return one like it."""
        made = RowFacts()
        made._sequences, made._accepted = self._sequences[:], self._accepted[:]
        made._lives, made._sizes, made._priorities = self._lives.copy(), self._sizes.copy(), self._priorities.copy()
        made._all, made._new = self._all.copy(), self._new.copy()
        return made
