"""The interface through which the core acts on its surroundings. The broker's implementation writes; tests record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.base.sliced_work import SlicedWork
    from annulet.core.deliveries.compact_messages import HeldMessage
    from annulet.core.message.message import Message
    from annulet.core.model.audit_trail import AuditEntry
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.events import QueueEvents
    from annulet.core.queue.emptying import Gone
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.bindings import Binding
    from annulet.core.routing.exchanges.address import Address

DUPLICATES_MAX: Final = 20_000
"""Duplicate ids an address remembers when nothing else is set (Artemis ``id-cache-size``)."""

ALL_WRITTEN: Final = 1 << 61
"""A record above all there will be."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Effects:
    """Does nothing: the base for recorders and for a core without durability."""

    def arguments_without_effect(self, queue: Queue, names: tuple[str, ...]) -> None:
        """A queue was declared with arguments that change nothing here."""

    def store(self, message: Message, entries: list[QueueEntry]) -> None:
        """Write a durable message of these durable queues, and set ``message.record``."""

    def unstored(self, entry: QueueEntry) -> None:
        """A message entered a queue without a record for this queue."""

    def settle(self, queue: Queue, entry: QueueEntry) -> None:
        """A stored message left ``queue`` for good. Called only when ``entry.message.record`` is set."""

    def settle_records(self, queue: Queue, ranges: list[tuple[int, int]]) -> None:
        """Rows of messages without returned deliveries were removed from ``queue``: from a first record to a last."""

    def written_below(self) -> int:
        """Return the record below which all are on disk and belong to no open transaction."""
        return ALL_WRITTEN

    def emptied(self, queue: Queue, gone: Gone) -> bool:
        """Settle all that a queue was emptied of: it was examined, and is in no collection of the queue any more.

        Returns whether that was done; else the caller settles each, with :meth:`removed` and :meth:`settle`. What the
        log cannot be told by ranges follows with :meth:`emptied_apart`.
        """
        del queue, gone
        return False

    def emptied_apart(self, queue: Queue, unwritten: list[int], noted: list[QueueEntry]) -> None:
        """Settle records that were not written yet, and forget what was noted of entries, of what a queue was
        emptied of."""

    def records_to_keep(self, queue: Queue) -> list[int]:
        """Return the records of a queue that stay while all else of it is emptied; 0 for messages without one."""
        del queue
        return []

    def later(self, work: SlicedWork, now: int) -> None:
        """Do a piece of work in slices, other work in between. Here it is done at once, all of it at ``now``."""
        while work.step(now):
            pass

    def turns_for(self, queue: Queue) -> bool:
        """Give a queue turns, soon: call ``Queue.scan`` until it returns False, others being served in between.

        Returns whether it will be done; else it is :meth:`later` work.
        """
        del queue
        return False

    def entry_changed(self, queue: Queue, entry: QueueEntry) -> None:
        """A stored entry's delivery count changed, or when it falls due. Called only when its record is set."""

    def entries_changed(self, queue: Queue, entries: list[QueueEntry]) -> None:
        """The delivery counts of pending entries changed, some of which may not be stored."""
        for entry in entries:
            if entry.message.record:
                self.entry_changed(queue, entry)

    def folded_changed(self, queue: Queue, messages: list[HeldMessage]) -> None:
        """The delivery counts of pending folded messages changed, which are all stored."""

    def removed(self, queue: Queue, entry: QueueEntry, reason: RemovalReason) -> None:
        """An entry left its queue for a reason other than acknowledgement."""

    def forwarded(self, queue: Queue) -> None:
        """A stored message reported by :meth:`removed` is settled, because its copies are stored."""

    def events_of(self, queue: Queue) -> QueueEvents | None:
        """A queue was created or restored: return the listener of its messages' events, ``None`` for none."""
        del queue
        return None

    def begin_transaction(self) -> None:
        """All ``store`` and ``settle`` calls until :meth:`end_transaction` become durable together or not at all."""

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

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """The broker ended a consumer because its queue was deleted."""

    def queue_deleted(self, queue: Queue) -> None:
        """A queue was deleted, by command, auto-delete or expiry."""

    def queue_created(self, queue: Queue) -> None:
        """The core created a durable queue itself (auto-create, retroactive address): store it, set its id."""

    def binding_created(self, binding: Binding) -> None:
        """The core bound its own durable queue to a durable address: store it."""

    def address_created(self, address: Address) -> None:
        """The core created a durable address itself: store it."""

    def address_blocked(self, name: str, *, blocked: bool) -> None:
        """An address with the full policy BLOCK filled up, or has room again: block or unblock its publishers."""

    def address_drops(self, name: str, rule: str) -> None:
        """An address dropped a message because it is full, the first one under its limits; ``rule`` is the setting."""

    def exchange_deleted(self, name: str) -> None:
        """An exchange was deleted, by command or auto-delete."""

    def queue_paused(self, queue: Queue) -> None:
        """A queue was paused or resumed, see ``queue.paused``."""

    def publishers_blocked(self, queue: Queue) -> None:
        """A queue with ``overflow=block`` filled up or drained, see ``queue.blocked``."""

    def wake_at(self, at: int) -> None:
        """Call ``VirtualHost.tick`` at this time (milliseconds since 1970) or soon after: something falls due."""

    def duplicate_noted(self, address: str, duplicate_id: str, cache_size: int = DUPLICATES_MAX) -> None:
        """An address accepted a message with this duplicate id and remembers its last ``cache_size`` ids.

        Called in the same turn as the ``store`` of the message, inside its transaction if there is one.
        """

    def duplicates_forgotten(self, address: str) -> None:
        """An address remembers no duplicate ids any more."""

    def audited(self, entry: AuditEntry) -> None:
        """An operator changed something: a management operation was carried out."""
