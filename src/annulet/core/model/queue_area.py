"""The interface of a queue area: the part of a queue that is on disk only, in parts by who calls them.

========================= =======================================================================================
part                      is called by
========================= =======================================================================================
:class:`AreaView`         browsers, scans, figures, and the log, which take nothing
:class:`AreaExpiry`       expiry
:class:`AreaReading`      dispatch and searches, which take rows out as entries
:class:`QueueArea`        paging, which makes rows of entries
:class:`RowView`,         readers of the rows of one moment
:class:`RowWalk`
========================= =======================================================================================

The core decides which entries may become rows and when rows become entries again; :mod:`annulet.residency` keeps and
reads them, and its pages implement the interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mypy_extensions import mypyc_attr

from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.model.entry import LEVEL_SPAN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from annulet.core.message.hot_properties import Term
    from annulet.core.message.message import Origin
    from annulet.core.model.entry import QueueEntry


class Ended(NamedTuple):
    """Rows that went together: ranges of records, first and last, of which each is a row's, ``size`` in body bytes."""

    ranges: list[tuple[int, int]]
    rows: int
    size: int


@mypyc_attr(allow_interpreted_subclasses=True)
class RowWalk:
    """Rows of one moment by ascending sequence, for reading only. ``sequence``: of the next one, 0 behind the last."""

    def __init__(self) -> None:
        self.sequence = 0
        # with it a sequence is a position, see annulet.core.model.entry.position_of; 0 for walks by sequence
        self.base = 0
        self.passed = 0  # rows before that one, those included whose messages have left the queue
        self.damaged: list[int] = []  # sequences of those the last read found to be damaged
        self.settled: list[int] = []  # sequences of those it passed over, as the queue is done with their records

    def following(self) -> list[QueueEntry] | None:
        """Read the next few whose messages have not left the queue; perhaps none, although more follow.

        The entries belong to no consumer. ``None`` when the disk does not give them now, or has not got them yet.
        """
        raise NotImplementedError

    def holds(self, entry: QueueEntry) -> bool:
        """Return whether the queue is not done with the record of an entry that was read."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class RowView:
    """Rows of one moment, which can be walked any number of times."""

    def note(self, entries: list[QueueEntry]) -> None:
        """Show these as well, which are by sequence: their records are in the log, wherever the messages are now."""
        raise NotImplementedError

    def walk(self, first: int, last: int = -1, chosen: list[int] | None = None) -> RowWalk:
        """Return a walk over those with a sequence from ``first`` to ``last`` (-1: all behind).

        ``chosen``: only those with these sequences, ascending; ``None`` for all.
        """
        raise NotImplementedError

    def walk_in_order(self, first: int, chosen: list[int] | None = None) -> RowWalk:
        """Return a walk in order of dispatch over those with a sequence from ``first``; ``chosen`` as in :meth:`walk`.

        The entries have their ranks.
        """
        return self.walk(first, -1, chosen)


@mypyc_attr(allow_interpreted_subclasses=True)
class AreaView:
    """Pending messages of one queue by ascending sequence: rows, and among them entries that stay objects.

    ``items`` counts both, ``rows`` and ``bytes`` (of bodies) only the messages on disk. The class itself holds nothing.
    """

    def __init__(self) -> None:
        self.level = 0  # of strict priorities: on which level all of it stands
        self.items = 0
        self.rows = 0
        self.bytes = 0
        self.at_once = AT_ONCE_MAX  # entries that are looked at in the call that asks for it; of more some each turn
        self.stalled = False  # the disk refused, and no retry has been requested yet
        self.most_messages = 1 << 62  # of one load, beside the bounds each kind has
        self.most_bytes = 1 << 62
        self.lost = 0  # rows that the last load or look found to be damaged
        self.looked_upto = 0  # the lowest sequence the last look did not come to
        self.passed_over: dict[
            str, list[int]
        ] = {}  # by group the sequences of rows that the last look for groups passed
        self.lost_bytes = 0  # body bytes the last load found to belong to damaged rows, of this load or earlier ones

    @property
    def base(self) -> int:
        """The rank of a position, beside its sequence; see :func:`annulet.core.model.entry.position_of`."""
        return -self.level * LEVEL_SPAN

    def first_sequence(self) -> int:
        """Return the sequence of the first item; there is one."""
        raise NotImplementedError

    def last_sequence(self) -> int:
        """Return the highest sequence an item ever had; there is one."""
        raise NotImplementedError

    def has_row(self, sequence: int) -> bool:
        """Return whether a row has this sequence."""
        raise NotImplementedError

    def first_accepted_at(self) -> int:
        """Return when the message of the first item was accepted (milliseconds since 1970), which stays where it is.

        Values that only the log has are read, once for each such row. 0 when the disk does not tell.
        """
        raise NotImplementedError

    def accepted_at(self, sequence: int) -> int:
        """Return when the message of a row was accepted; 0 when it is no row, or the area does not know it."""
        raise NotImplementedError

    def snapshot(self, entries: list[QueueEntry]) -> RowView:
        """Return a view of the rows there are, and of the messages of ``entries``.

        Their records are in the log, wherever the messages are now. The view holds no message.
        """
        raise NotImplementedError

    def tally(self, name_of: Callable[[Origin], str], below: int) -> dict[str, tuple[int, int]]:
        """Return how many rows with a sequence below this one there are, and their body bytes, by name of their origin.

        Nothing is read. Where rows of one page have several names their bytes are shared out by number, and those whose
        origin only the log knows are taken to be as the others of the page.
        """
        raise NotImplementedError

    def record_bounds(self) -> tuple[int, int]:
        """Return numbers that no row's record is below or above; there is a row."""
        raise NotImplementedError

    def counted_ranges(self) -> list[tuple[int, int]]:
        """Return the first and last sequences of stretches of rows of which deliveries came back."""
        raise NotImplementedError

    def redelivered_ranges(self) -> Iterable[tuple[int, int]]:
        """Return the first and last sequences of stretches of rows whose messages came back once, page by page."""
        raise NotImplementedError

    def entries_kept(self) -> list[QueueEntry]:
        """Return the items that are objects."""
        raise NotImplementedError

    def room(self) -> int:
        """Return how many bytes may be read into memory at once now, bodies and what surrounds them."""
        raise NotImplementedError

    def renewed(self) -> QueueArea:
        """Return pages of the same queue with nothing in them."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class AreaExpiry(AreaView):
    """Rows whose time to live may end, known without reading what they hold."""

    def timed(self) -> bool:
        """Return whether it is known of all rows when they were accepted; only then may the queue give them a time."""
        raise NotImplementedError

    def retime(self) -> None:
        """The queue's times changed: rows expire at others from now on."""
        raise NotImplementedError

    def first_expiry(self, now: int) -> tuple[int, int]:
        """Return a time (milliseconds since 1970) and sequence before which no row expires.

        When the time is not behind ``now`` a row does expire at just that. ``NEVER`` where none does, or while the disk
        refuses.
        """
        raise NotImplementedError

    def take_expired(self, before: tuple[int, int], limit: int, *, read: bool) -> list[QueueEntry]:
        """Take out up to ``limit`` rows that expire before this time and sequence, in the order in which they do.

        Perhaps not all: ask again while :meth:`first_expiry` says so. Sets ``lost`` and ``lost_bytes``. Without
        ``read`` their entries know of their messages all but header and body; with it they are whole, and there is
        none while the disk refuses.
        """
        raise NotImplementedError

    def take_ended(self, now: int, least: int) -> Ended | None:
        """Take out some thousand rows together that all have expired by ``now``, without a look at each.

        ``None`` when there are no such rows now, or fewer than ``least`` behind them.
        """
        del now, least
        return None


@mypyc_attr(allow_interpreted_subclasses=True)
class AreaReading(AreaExpiry):
    """Rows that become entries again."""

    def look(
        self,
        sequence: int,
        needles: list[list[bytes]],
        messages: int,
        hot: Sequence[list[Term]] = (),
        full: Callable[[str], bool] | None = None,
    ) -> list[QueueEntry] | None:
        """Return the first few items from ``sequence`` on, as entries, without taking them. Sets ``looked_upto``.

        At most so many ``messages``. Left out may be rows whose header lacks something of each of the ``needles``,
        where its texts are verbatim; and rows that lack something of each of the conjunctions ``hot`` of terms. With
        ``full``, a predicate of group names, also the rows of such groups: ``passed_over`` has its sequences, of which
        those from ``looked_upto`` on are not meant. It may be many times ``messages``.

        Rows with a damaged record are taken out, which sets ``lost`` and ``lost_bytes``. The entries of rows belong to
        no consumer: forget them, or take the rows out. ``None`` when the disk does not give them now.
        """
        raise NotImplementedError

    def take_out(self, entries: list[QueueEntry]) -> None:
        """Take out some of the items that :meth:`look` returned last; their entries are the queue's from now on."""
        raise NotImplementedError

    def load(self, *, insist: bool) -> list[QueueEntry] | None:
        """Take out the first few items, as entries. Sets ``lost`` and ``lost_bytes``.

        ``None`` when the disk does not give them now: they stay, and are there when it does. ``insist``: rows that
        cannot be read now are lost.
        """
        raise NotImplementedError

    def take(self, sequences: list[int], *, insist: bool) -> list[QueueEntry] | None:
        """Take out those of these sequences that are rows; see :meth:`load`.

        Of more bytes than a load has only the first ones, at least one; the others are rows still.
        """
        raise NotImplementedError

    def take_unread(self) -> list[QueueEntry]:
        """Take out the first items, those of rows with a record and no content. Sets ``lost_bytes`` to theirs."""
        raise NotImplementedError

    def skip(self, rows: int) -> int:
        """Forget the first rows, whole pages of them, ``rows`` at most. Returns how many; all that there are if asked.

        Kept rows among them are forgotten as well.
        """
        raise NotImplementedError

    def coming(self) -> bool:
        """Return whether a thread is reading what the first load comes to: then the queue is woken when it has.

        No caller has to wait for that. A load reads all the same.
        """
        return False

    def awaits_read(self) -> bool:
        """Return whether announced rows are still being read, without requesting any."""
        return False

    def look_ahead(self) -> None:
        """Have the disk read the rows of the first loads in the background. No more than a hint."""

    def ask_turn(self) -> None:
        """Have :meth:`annulet.core.queue.queue.Queue.scan` called soon, when others had their turn."""


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueArea(AreaReading):
    """Entries that become rows."""

    def add(self, entries: list[QueueEntry], kept: bytearray) -> None:
        """Take in the next entries; those with a 1 in ``kept`` as objects, of the others only a row.

        The caller forgets the others: a load makes new entries of them.
        """
        raise NotImplementedError

    def add_before(self, entries: list[QueueEntry], kept: bytearray) -> None:
        """As :meth:`add`, for entries that stand before all items."""
        raise NotImplementedError

    def add_among(self, entries: list[QueueEntry], kept: bytearray) -> list[QueueEntry]:
        """As :meth:`add`, for entries by ascending sequence that stand anywhere among the items, which come back.

        Returns those that it did not take, whose place among its rows has no room: they are the caller's still.
        """
        raise NotImplementedError

    def add_rows(
        self,
        sequences: Sequence[int],
        records: Sequence[int],
        sizes: Sequence[int],
        origins: Sequence[Origin],
        *,
        redelivered: bool,
        times: Sequence[tuple[int, int, int]] = (),
        counts: Sequence[int] = (),
    ) -> None:
        """Take in rows that were found at start, behind all items: columns of equal length, both ids ascending.

        ``sizes`` are the bytes of their bodies. ``times``: when each was accepted, its priority, and when its sender
        has it end, 0 for never (milliseconds since 1970). To be given where a row may expire, if only by the queue's
        time to live. ``counts``: how often deliveries of each came back, at most ``ROW_COUNT_MOST``; nothing where none
        did.
        """
        raise NotImplementedError

    def insert(self, entries: list[QueueEntry]) -> None:
        """Make rows of entries by ascending sequence, wherever these stand among the items; see :meth:`add`.

        Only of an area for a sorted queue, as is :meth:`take`.
        """
        raise NotImplementedError

    def sweep(self) -> None:
        """Let go of the objects that were removed; a load does not bring them any more."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget everything."""
        raise NotImplementedError
