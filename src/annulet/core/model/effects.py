"""The interface through which queues act on their surroundings. The broker's implementation writes; tests record.

========================= =======================================================================================
part                      is for
========================= =======================================================================================
:class:`TurnEffects`      work in slices and at later times
:class:`RecordEffects`    records of messages: stored, settled, changed, in transactions
:class:`Effects`          what a queue tells of itself
========================= =======================================================================================

:class:`annulet.core.routing.node_effects.NodeEffects` has the effects of a virtual host's nodes beside these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.base.sliced_work import SlicedWork
    from annulet.core.message.message import Message
    from annulet.core.model.compact_messages import CompactDelivery
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.events import QueueEvents
    from annulet.core.model.queue_area import QueueArea
    from annulet.core.model.queue_state import QueueState

ALL_WRITTEN: Final = 1 << 61
"""A record above all there will be."""


class GoneRecords:
    """The records of the removed contents of a queue, and the rows of ``pages``.

    ``lowest`` and ``highest`` of the written records, 0 if there is none; those ``unwritten``. ``noted`` are entries
    that may have been passed to :meth:`RecordEffects.entry_changed`. ``held`` are the records that the queue kept when
    it was emptied, which may stand among these.
    """

    def __init__(self, pages: QueueArea | None) -> None:
        self.lowest = 0
        self.highest = 0
        self.unwritten: list[int] = []
        self.noted: list[QueueEntry] = []
        self.held: list[int] = []
        self.pages = pages


@mypyc_attr(allow_interpreted_subclasses=True)
class TurnEffects:
    """Work that is not done at once."""

    def later(self, work: SlicedWork, now: int) -> None:
        """Do a piece of work in slices, other work in between. Here it is done at once, all of it at ``now``."""
        while work.step(now):
            pass

    def turns_for(self, queue: QueueState) -> bool:
        """Give a queue turns, soon: call ``Queue.scan`` until it returns False, others being served in between.

        Returns whether it will be done; else it is :meth:`later` work.
        """
        del queue
        return False

    def wake_at(self, at: int) -> None:
        """Call ``VirtualHost.tick`` at this time (milliseconds since 1970) or soon after: something falls due."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RecordEffects(TurnEffects):
    """Records of messages in the log."""

    def store(self, message: Message, entries: list[QueueEntry]) -> None:
        """Write a durable message of these durable queues, and set ``message.record``."""

    def unstored(self, entry: QueueEntry) -> None:
        """A message entered a queue without a record for this queue."""

    def settle(self, queue: QueueState, entry: QueueEntry) -> None:
        """A stored message left ``queue`` for good. Called only when ``entry.message.record`` is set."""

    def settle_records(self, queue: QueueState, ranges: list[tuple[int, int]]) -> None:
        """Rows of messages without returned deliveries were removed from ``queue``: from a first record to a last."""

    def written_below(self) -> int:
        """Return the record below which all are on disk and belong to no open transaction."""
        return ALL_WRITTEN

    def emptied(self, queue: QueueState, gone: GoneRecords) -> bool:
        """Settle all that a queue was emptied of: it was examined, and is in no collection of the queue any more.

        Returns whether that was done; else the caller settles each, with :meth:`removed` and :meth:`settle`. What the
        log cannot be told by ranges follows with :meth:`emptied_apart`.
        """
        del queue, gone
        return False

    def emptied_apart(self, queue: QueueState, unwritten: list[int], noted: list[QueueEntry]) -> None:
        """Settle records that were not written yet, and forget what was noted of entries, of what a queue was
        emptied of."""

    def entry_changed(self, queue: QueueState, entry: QueueEntry) -> None:
        """A stored entry's delivery count changed, or when it falls due. Called only when its record is set."""

    def entries_changed(self, queue: QueueState, entries: list[QueueEntry]) -> None:
        """The delivery counts of pending entries changed, some of which may not be stored."""
        for entry in entries:
            if entry.message.record:
                self.entry_changed(queue, entry)

    def folded_changed(self, queue: QueueState, messages: list[CompactDelivery]) -> None:
        """The delivery counts of pending folded messages changed, which are all stored."""

    def begin_transaction(self) -> None:
        """All ``store`` and ``settle`` calls until :meth:`end_transaction` become durable together or not at all."""

    def promise(self, sends: list[tuple[Message, Sequence[QueueState]]], settlements: int) -> None:
        """Set room aside for the open transaction: for these messages in these queues, for settlements, for its end.

        Raises what :meth:`store` and :meth:`end_transaction` would raise without room, before anything is done. What
        was promised is not refused any more.
        """

    def end_transaction(self) -> None:
        """Close the bracket of :meth:`begin_transaction`."""

    def abort_transaction(self) -> None:
        """Close the bracket and let nothing in it become durable: something inside it failed."""

    def bracketed(self) -> bool:
        """Return whether :meth:`begin_transaction` is open: its parts must not wait for a later turn."""
        return False

    def suspend_transaction(self) -> int:
        """Suspend the open transaction. Returns the argument for :meth:`resume_transaction`."""
        return 0

    def resume_transaction(self, transaction: int) -> None:
        """Go on with a suspended bracket."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Effects(RecordEffects):
    """Does nothing: the base for recorders and for queues without durability."""

    def removed(self, queue: QueueState, entry: QueueEntry, reason: RemovalReason) -> None:
        """An entry left its queue for a reason other than acknowledgement."""

    def forwarded(self, queue: QueueState) -> None:
        """A stored message reported by :meth:`removed` is settled, because its copies are stored."""

    def events_of(self, queue: QueueState) -> QueueEvents | None:
        """A queue was created or restored: return the listener of its messages' events, ``None`` for none."""
        del queue
        return None

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """The broker ended a consumer because its queue was deleted."""

    def queue_paused(self, queue: QueueState) -> None:
        """A queue was paused or resumed, see ``queue.paused``."""

    def publishers_blocked(self, queue: QueueState) -> None:
        """A queue with ``overflow=block`` filled up or drained, see ``queue.blocked``."""
