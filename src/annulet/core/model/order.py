"""Which pending message is next: the interface of an order, in parts by caller.

========================= =======================================================================================
part                      is called by
========================= =======================================================================================
:class:`OrderRows`        paging and expiry, for the messages that are on disk only
:class:`OrderView`        browsers, scans, management and figures, which take nothing
:class:`Order`            the queue, for its moves
:class:`SequenceList`     the lookup of entries by sequence
:class:`UnseenMessages`   browsers and non-destructive queues, for the list of one reader
========================= =======================================================================================

The shapes are in :mod:`annulet.core.ordering`; with rows behind entries in :mod:`annulet.core.paging`; as several
orders for restricted consumers in :mod:`annulet.core.policies.lanes`. The list of a reader is of entries
(:mod:`annulet.core.reading.unseen_entries`) or of rows (:mod:`annulet.core.reading.browse_order`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from annulet.core.base.expiry_times import NEVER

if TYPE_CHECKING:
    from annulet.core.model.compact_messages import CompactDelivery
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_area import Ended, QueueArea


class OrderRows:
    """The pending messages of an order that are on disk only, if there are any; see :class:`QueueArea`."""

    def __init__(self) -> None:
        self.count = 0  # pending entries

    def pages_behind(self) -> QueueArea | None:
        """Return the area with its rows; ``None`` if there are none."""
        return None

    def page_parts(self) -> list[QueueArea]:
        """Return all that keep rows, perhaps none now."""
        return []

    def take_pages(self) -> QueueArea | None:
        """Take the rows out of the order, without reading them; ``None`` when there are none."""
        return None

    def paged_count(self) -> int:
        """Return how many of the pending entries are on disk only."""
        return 0

    def paged_bytes(self) -> int:
        """Return the body bytes of these."""
        return 0

    def whole_area(self) -> QueueArea | None:
        """Return what keeps all of its rows, ``None`` if each of its parts has its own, or none has any."""
        return None

    def restores_rows(self) -> bool:
        """Return whether rows may be put back here at start, while nothing but the order knows of them."""
        return False

    @property
    def split(self) -> bool:
        """There is something behind the front of a plain queue with rows."""
        return False

    def bound_front(self, messages: int, size: int) -> None:
        """Limit what stays in memory before the rows, and each read: messages, or body bytes except one message."""

    def enough_written(self, count: int, durable_record: int) -> bool:
        """Return whether so many of the entries behind all rows are below a record; false where none are."""
        del count, durable_record
        return False

    def bring_all(self) -> bool:
        """Make all entries objects. Returns whether the disk gave those that are on disk only; else some stay there."""
        return True

    def bring_unread(self) -> None:
        """Make the next entries on disk only entries without content, for removing them all."""

    def reading_refusal(self) -> str:
        """Return why not all of it can be in memory at once; empty when it can, or is."""
        return ""

    def first_expiry(self, now: int) -> tuple[int, int]:
        """Return a time and sequence before which no row expires; see :meth:`QueueArea.first_expiry`."""
        del now
        return NEVER

    def rows_are_timed(self) -> bool:
        """Return whether it is known of all rows when they were accepted."""
        return True

    def retime(self) -> None:
        """The queue's times changed."""

    def take_expired(self, before: tuple[int, int], limit: int, *, read: bool) -> list[QueueEntry]:
        """Take out rows that expire before this time and sequence; see :meth:`QueueArea.take_expired`."""
        del before, limit, read
        return []

    def take_ended(self, now: int, least: int) -> Ended | None:
        """Take out rows that have all expired; see :meth:`QueueArea.take_ended`."""
        del now, least
        return None


class OrderView(OrderRows):
    """The pending messages of an order for callers that take none."""

    def first(self) -> QueueEntry | None:
        """Return the next entry without taking it, ``None`` when nothing is pending."""
        raise NotImplementedError

    def first_sequence(self) -> int:
        """Return the sequence of the next entry without making it an object, 0 when nothing is pending."""
        first = self.first()
        return 0 if first is None else first.sequence

    def oldest_accepted_at(self) -> int:
        """Return when the next entry was accepted (milliseconds since 1970); 0 when nothing is pending.

        Of strict priorities the earliest of all levels' next ones. 0 also while the disk does not tell.
        """
        first = self.first()
        return 0 if first is None else first.message.accepted_at

    def entries(self) -> list[QueueEntry]:
        """Return the pending entries in order of dispatch. O(n log n) at worst."""
        raise NotImplementedError

    def snapshot(self) -> list[QueueEntry]:
        """Return the entries in no particular order, removed ones perhaps among them.

        Only a copy of references, so that a million of them block no client: sort and filter in slices. The caller pins
        them, see :mod:`annulet.core.model.entry_holds`.
        """
        raise NotImplementedError

    def take_arrivals(self) -> deque[QueueEntry]:
        """Take out a collection of arrivals, removed ones among them, where there is one: :meth:`clear` follows."""
        return deque()

    def in_memory(self) -> list[QueueEntry]:
        """Return the entries that are objects now, in no order, removed ones perhaps among them. Keep none of them."""
        return self.snapshot()

    def leading(self, count: int) -> list[QueueEntry]:
        """Return at least the next ``count`` entries, all when there are fewer, and none that has a row before it.

        In no order, removed ones perhaps among them; more are returned where that costs nothing.
        """
        del count
        return self.snapshot()

    def upcoming(self, count: int) -> list[QueueEntry]:
        """Return about the next ``count`` pending entries that are objects, nearest first if that is cheap.

        For reading their bodies together.
        """
        raise NotImplementedError

    def arrived_after(self, sequence: int) -> list[QueueEntry]:
        """Return those of :meth:`in_memory` with a higher sequence, for readers that have seen the others."""
        return [entry for entry in self.in_memory() if entry.sequence > sequence]

    def held(self) -> set[QueueEntry]:
        """Return all entries, those included that were removed and not swept out yet."""
        raise NotImplementedError

    def lists(self) -> list[SequenceList]:
        """Return the lists of its entries by sequence, the most important first; its other entries are
        :meth:`aside`."""
        return []

    def aside(self) -> list[QueueEntry]:
        """Return the entries that are objects and that :meth:`SequenceList.standing` of none of its lists returns."""
        return self.in_memory()

    def parts_count(self) -> int:
        """Return what its parts count: ``count``, as :meth:`annulet.core.queue.invariants.check_parts` verifies."""
        return self.count

    def recount(self) -> None:
        """Recount after one of its lists changed, which may lose damaged records in any scan."""

    def came_back(self) -> int:
        """Return how many returned entries are aside, which may become rows when they are many."""
        return 0


class Order(OrderView):
    """Pending entries by rank and place.

    Removal from the middle (replace by key, expiry) is lazy: the entry is marked REMOVED by its queue, skipped when it
    is met, and swept out when such entries outnumber the pending ones, so every operation is amortised O(log n).
    """

    def append(self, entry: QueueEntry) -> None:
        """Add an arrival; its place is above all others."""
        raise NotImplementedError

    def reinsert(self, entry: QueueEntry) -> None:
        """Add an entry at any place: one that was returned or fell due."""
        raise NotImplementedError

    def reinsert_all(self, entries: list[QueueEntry]) -> None:
        """Add entries returned together, by ascending place."""
        for entry in entries:
            self.reinsert(entry)

    def keeps_compact(self) -> bool:
        """Return whether :meth:`reinsert_folded` may be called."""
        return False

    def reinsert_folded(self, messages: list[CompactDelivery]) -> None:
        """Add compact messages returned together, by ascending sequence: they may stay compact."""
        raise NotImplementedError

    def take_first(self) -> QueueEntry | None:
        """Remove and return the next entry, ``None`` when nothing is pending."""
        raise NotImplementedError

    def discard(self, entry: QueueEntry) -> None:
        """Take a pending entry out of the middle. The caller has set its state to REMOVED."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget all entries."""
        raise NotImplementedError

    def coming(self) -> bool:
        """Return whether the next entry is being read by a thread; see :meth:`QueueArea.coming`."""
        return False

    def exhausted(self) -> bool:
        """Return whether it is empty, which is more than having no first now."""
        return self.first() is None


class SequenceList(Order):
    """An order by sequence, apart from returned entries: an entry or row can be found by its sequence."""

    @property
    def front_length(self) -> int:
        """How many entries stand at the front, removed ones among them; in a deep queue the rest is behind them."""
        raise NotImplementedError

    def has_row(self, sequence: int) -> bool:
        """Return whether the message of a sequence is a row."""
        del sequence
        return False

    def standing(self, sequence: int) -> QueueEntry | None:
        """Return the pending entry of a sequence if it is neither returned nor among rows. O(log n)."""
        raise NotImplementedError

    def take_out(self, entries: list[QueueEntry]) -> None:
        """Take out rows that were read: their entries are the queue's from now on."""
        raise NotImplementedError


class UnseenMessages(OrderView):
    """The messages that one reader has not seen, in its order. The defaults are those of a list of entries."""

    def __init__(self, *, of_rows: bool) -> None:
        super().__init__()
        self.of_rows = of_rows  # what it has may become rows: it finds them again in the log

    # ------------------------------------------------------------------ the reader takes

    def take_first(self) -> QueueEntry | None:
        """Remove and return what :meth:`first` has returned just now, ``None`` when there is none."""
        raise NotImplementedError

    def exhausted(self) -> bool:
        """Return whether everything was seen, which is more than having no first now."""
        return self.first() is None

    def note_handed_out(self) -> None:
        """Note that the reader got what it took."""

    def has_read(self, entry: QueueEntry) -> bool:
        """Return whether the next entry was made of a row for this reader only."""
        del entry
        return False

    # ------------------------------------------------------------------ the queue changes

    def arrived(self, entry: QueueEntry) -> None:
        """Add a new pending entry."""
        raise NotImplementedError

    def reinsert(self, entry: QueueEntry) -> None:
        """Add an entry that the reader reached while it waited for redelivery."""
        raise NotImplementedError

    def revised(self, former: QueueEntry, entry: QueueEntry) -> None:
        """Replace ``former`` by ``entry`` if that was not seen."""
        raise NotImplementedError

    def stored_anew(self, entry: QueueEntry) -> None:
        """Note an entry whose message has another record now."""

    def paged(self) -> None:
        """Note that entries of the queue have become rows."""

    def emptied(self) -> None:
        """Note that all pending messages of the queue were removed."""

    def end(self) -> None:
        """Release everything: there is no reader any more."""

    # ------------------------------------------------------------------ turns of a list with rows

    def due(self, *, ready: bool) -> bool:
        """Return whether it has work for a turn; ``ready``: the reader would take a message."""
        del ready
        return False

    def read_on(self) -> bool:
        """Do some of that work. Returns whether the disk could be read."""
        return True

    def ask_turn(self) -> None:
        """Have :meth:`read_on` called soon."""

    def waits_for_turn(self) -> bool:
        """Return whether there is something to see, and nothing of it before :meth:`read_on`."""
        return False

    def is_looking(self, upto: int) -> bool:
        """Return whether its next turns may find messages below the sequence ``upto`` that precede all it has ready."""
        del upto
        return False

    def is_behind(self) -> bool:
        """Return whether there is something that :meth:`snapshot` leaves out."""
        return False
