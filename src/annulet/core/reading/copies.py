"""Reading without taking: browsers, and every consumer of a non-destructive queue.

Each such consumer has its own list of unseen entries: the messages in the queue when it attaches, and, unless it
requested a snapshot, later arrivals. It gets each of them once, as a copy whose settlement only restores credit; it
does not see messages that left the queue before their turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sequence_ranges import SequenceRanges
from annulet.core.base.settings import BROWSE_SNAPSHOT
from annulet.core.deliveries.bodies import DAMAGED, REFUSED, let_go
from annulet.core.model.entry import DELIVERING, PENDING, REMOVED, SCHEDULED, DeliveryCopy
from annulet.core.model.queue_listeners import ReaderLists
from annulet.core.paging.paged_fifo import PagedFifo
from annulet.core.policies.evaluation_turns import used_up
from annulet.core.reading.browse_order import BrowseOrder, fell_due
from annulet.core.reading.reader_position import UnseenRows
from annulet.core.reading.unseen_entries import UnseenEntries

if TYPE_CHECKING:
    from annulet.core.model.consumer import Consumer, DeliveryOwner
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.order import UnseenMessages
    from annulet.core.policies.queue_policies import QueuePolicies


class Copies(ReaderLists):
    """The copies of one queue that are out, and the lists of those that read."""

    __slots__ = ("_passed", "_queue", "_turn", "_waiting", "bytes", "leaving", "out", "pinned")

    def __init__(self, queue: QueuePolicies) -> None:
        self._queue = queue
        self.out: dict[DeliveryCopy, None] = {}
        self.bytes = 0  # body bytes of the copies that are out
        self._turn = 0  # counts the reads of browsers
        self._waiting = False  # all browsers had to wait for a turn when they were last served
        self._passed: dict[QueueEntry, list[Consumer]] = {}  # waiting for redelivery when these readers reached it
        self.pinned: dict[QueueEntry, int] = {}  # pending or about to be, and no rows: by how many readers' lists
        # records of removed messages still to be forwarded, or not forwardable: in the log the queue still has them. No
        # more than the forwarder and ``unsent`` keep.
        self.leaving: set[int] = {record for record in [*queue.forwarder.records_of(queue), *queue.unsent] if record}

    def attach(self, consumer: Consumer) -> None:
        """Give a consumer its list. O(n): a point-in-time view has to remember its messages, at least as rows."""
        queue = self._queue
        self._waiting = False
        paged = self._order_with_rows()
        if paged is not None and self._reads_on(consumer):
            first = queue.next_sequence if consumer.settings.replay_period == 0 else 1
            self._have_rows(consumer, paged, first, paged.aside(), SequenceRanges())
            return
        order = queue.order
        pages = order.pages_behind()
        if pages is not None and consumer.settings.browse:
            unseen_rows = BrowseOrder(queue, pages, follow=consumer.settings.browse != BROWSE_SNAPSHOT)
            consumer.unseen = unseen_rows
            if unseen_rows.to_note:  # also without credit, to release its references
                pages.ask_turn()
            return
        if self._reads_on(consumer):  # as far as they are in memory; see :meth:`use_rows`
            there = [entry for entry in order.in_memory() if entry.state == PENDING]
        else:
            there = order.entries()
        if consumer.settings.browse == BROWSE_SNAPSHOT:
            there = queue.shown(there)
        consumer.unseen = UnseenEntries(queue, sorted([*there, *queue.delivering]))

    def use_rows(self) -> None:
        """Note that the queue may have rows from now on: following readers keep no entries any more."""
        order = self._order_with_rows()
        if order is None:
            return
        for consumer in self._queue.consumers.readers():
            unseen = consumer.unseen
            if unseen is not None and self._reads_on(consumer):
                there = [entry for entry in unseen.snapshot() if entry.state == PENDING]
                sequences = {entry.sequence for entry in there if not fell_due(entry)}
                first = min(sequences, default=self._queue.next_sequence)
                behind = [entry for entry in order.in_memory() if entry.sequence > first and not fell_due(entry)]
                seen = SequenceRanges()
                for sequence in sorted({entry.sequence for entry in behind} - sequences):
                    seen.add(sequence)
                self._have_rows(consumer, order, first, there, seen)

    def _order_with_rows(self) -> PagedFifo | None:
        """Return the order if it is first in, first out and may have rows."""
        order = self._queue.order
        return order if isinstance(order, PagedFifo) else None

    def _reads_on(self, consumer: Consumer) -> bool:
        """Return whether a reader sees everything from some sequence on, because nothing returns and it follows
        arrivals."""
        return self._queue.settings.non_destructive and consumer.settings.browse != BROWSE_SNAPSHOT

    def _have_rows(
        self, consumer: Consumer, order: PagedFifo, first: int, others: list[QueueEntry], seen: SequenceRanges
    ) -> None:
        """Let a reader see the messages from ``first`` on except those ``seen``, and those of ``others`` that fell
        due."""
        due = [entry for entry in others if entry.state == PENDING and fell_due(entry)]
        eager = not consumer.settings.browse
        consumer.unseen = UnseenRows(self._queue, order.pages, first, due, seen, eager=eager)

    def arrived(self, entry: QueueEntry) -> None:
        """Show a new pending entry to the readers that follow the queue."""
        for consumer in self._queue.consumers.readers():
            if consumer.unseen is not None and consumer.settings.browse != BROWSE_SNAPSHOT:
                consumer.unseen.arrived(entry)

    def put_back(self, entry: QueueEntry) -> None:
        """Show an entry that is back at its place to the readers that follow the queue, those behind it as well."""
        for consumer in self._queue.consumers.readers():
            if consumer.unseen is not None and consumer.settings.browse != BROWSE_SNAPSHOT:
                consumer.unseen.reinsert(entry)

    def revised(self, former: QueueEntry, entry: QueueEntry) -> None:
        """Replace ``former`` by ``entry`` for readers that have not seen it yet. O(n) for each reader."""
        for consumer in self._queue.consumers.readers():
            if consumer.unseen is not None:
                consumer.unseen.revised(former, entry)

    def stored_anew(self, entry: QueueEntry) -> None:
        """Note that an entry's message has another record now."""
        for consumer in self._queue.consumers.readers():
            if consumer.unseen is not None:
                consumer.unseen.stored_anew(entry)

    def may_page(self) -> bool:
        """Return whether no reader has to keep references to possible rows."""
        for consumer in self._queue.consumers.readers():
            unseen = consumer.unseen
            if (unseen is None or not unseen.of_rows) and not self._reads_on(consumer):
                return False
        return True

    def paged(self) -> None:
        """Note that entries have become rows: other entries replace them when they are read."""
        for consumer in self._queue.consumers.readers():
            if consumer.unseen is not None:
                consumer.unseen.paged()

    def emptied(self) -> None:
        """Note that all pending messages were removed."""
        self._waiting = False
        for consumer in self._queue.consumers.readers():
            if consumer.unseen is not None:
                consumer.unseen.emptied()

    def read_on(self, now: int) -> None:
        """Let one reader of a deep queue, each when it is its turn, read its next rows, and hand them out."""
        due: list[UnseenMessages] = []
        for consumer in self._queue.consumers.readers():
            unseen = consumer.unseen
            if unseen is not None and unseen.due(ready=consumer.ready):
                due.append(unseen)
        if due:
            self._turn += 1
            if due[self._turn % len(due)].read_on() and len(due) > 1:
                due[0].ask_turn()
        self._waiting = False
        self.serve(now, consumers_too=self._queue.settings.non_destructive and not self._queue.halted)

    def pin(self, entry: QueueEntry) -> None:
        """Have an entry stay an object, for the list of a reader that would show it whatever became of its row."""
        self.pinned[entry] = self.pinned.get(entry, 0) + 1

    def unpin(self, entry: QueueEntry) -> None:
        """A list does not refer to it any more."""
        count = self.pinned.pop(entry) - 1
        if count:
            self.pinned[entry] = count

    def is_pinned(self, entry: QueueEntry) -> bool:
        """Return whether an entry has to stay an object."""
        return entry in self.pinned

    def pinned_count(self) -> int:
        """Return how many entries have to."""
        return len(self.pinned)

    def is_leaving(self, record: int) -> bool:
        """Return whether a message that left the queue still has its record, because it is to be sent on."""
        return record in self.leaving

    def came_back(self, entry: QueueEntry) -> None:
        """Show an entry whose redelivery delay is over to the readers that reached it during the delay."""
        for consumer in self._passed.pop(entry, []):
            if consumer.unseen is not None:
                consumer.unseen.reinsert(entry)

    def serve(self, now: int, *, consumers_too: bool) -> None:
        """Hand out copies while there is credit. Without ``consumers_too`` (the gate is shut) only to browsers."""
        queue = self._queue
        if self._waiting and queue.turn_asked and not consumers_too:
            return  # consumers cause two calls with each acknowledgement; the turn serves each browser
        finished: list[Consumer] = []
        self._waiting = True
        for consumer in queue.consumers.readers() if consumers_too else queue.consumers.browsers():
            if queue.turn_asked and consumer.unseen is not None and consumer.unseen.waits_for_turn():
                continue
            self._waiting = False
            if consumer.settings.browse or queue.consumers.is_live(consumer):
                self._serve_one(consumer, now)
                if consumer.settings.auto_close and consumer.unseen is not None and consumer.unseen.exhausted():
                    finished.append(consumer)
        for consumer in finished:  # not before: the end of one serves all that are left
            queue.end_consumer(consumer, now)

    def release(self, copy: DeliveryCopy) -> None:
        """A copy was settled, refused or returned: all the same, the entry is where it was."""
        if copy.state != DELIVERING:
            return
        copy.state = REMOVED
        let_go(copy)
        size = copy.message.size
        del self.out[copy]
        self.bytes -= size
        if copy.consumer is not None:
            copy.consumer.give_back(size)
            copy.consumer = None

    def release_all(self) -> dict[DeliveryOwner, None]:
        """Take all copies back: the queue is deleted. Returns the sessions that had some."""
        holders = {copy.consumer.session: None for copy in self.out if copy.consumer is not None}
        for copy in list(self.out):
            self.release(copy)
        return holders

    def pull(self, entry: QueueEntry, consumer: Consumer | None) -> DeliveryCopy:
        """Make a copy for a pull from a non-destructive queue."""
        return self._issue(entry, consumer)

    def _serve_one(self, consumer: Consumer, now: int) -> None:
        queue = self._queue
        unseen = consumer.unseen
        assert unseen is not None
        while consumer.ready and not used_up(queue.matchers):
            entry = unseen.first()
            if entry is None or entry.sequence >= queue.hidden_from:
                return
            expired = entry.state == PENDING and self._expires(entry, unseen, now)
            if expired and entry.state == REMOVED:  # a browser's list drops it; in others it is met once more
                continue
            if expired or entry.state not in (PENDING, DELIVERING) or not self._admits(consumer, unseen, entry):
                unseen.take_first()
                if entry.state == SCHEDULED:
                    self._pass_over(consumer, entry)
                continue
            if not consumer.allows(entry.message.size):
                return
            if entry.message.absent:
                found = queue.show(entry, unseen)
                if found == REFUSED:
                    return
                if found == DAMAGED:
                    if entry.state != REMOVED:  # in delivery; pending ones were skipped, and are reached once more
                        unseen.take_first()
                    continue
            unseen.take_first()
            unseen.note_handed_out()
            if queue.events is not None and not consumer.settings.browse:
                queue.events.delivered(entry, consumer, now)
            self._hand_over(consumer, entry)

    def _admits(self, consumer: Consumer, unseen: UnseenMessages, entry: QueueEntry) -> bool:
        matchers = self._queue.matchers
        if unseen.of_rows:
            return matchers.ask_in_passing(consumer, entry)
        matchers.browsed |= consumer.required
        return matchers.ask(consumer, entry)

    def _expires(self, entry: QueueEntry, unseen: UnseenMessages, now: int) -> bool:
        """Return whether the time of a pending entry has passed, and have it removed then.

        An entry read by a browser is private to it: the queue's own expires in its place.
        """
        queue = self._queue
        if entry is queue.arriving or not 0 < queue.expires_at(entry) <= now:
            return False
        if not unseen.has_read(entry):
            queue.remove_pending(entry, RemovalReason.EXPIRED, now, 0)
        return True

    def _pass_over(self, consumer: Consumer, entry: QueueEntry) -> None:
        passed = self._passed.setdefault(entry, [])
        if consumer not in passed:  # a reader of arrivals will reach it again
            passed.append(consumer)
        if len(self._passed) > self._queue.schedule.count:  # some of them left the queue from the schedule
            self._passed = {held: readers for held, readers in self._passed.items() if held.state == SCHEDULED}

    def _hand_over(self, consumer: Consumer, entry: QueueEntry) -> None:
        counters = self._queue.counters
        if consumer.settings.browse:
            counters.messages_browsed += 1
        else:
            counters.messages_delivered += 1
        if consumer.auto_acknowledge:
            copy = DeliveryCopy(entry)
            copy.state = REMOVED
            consumer.session.deliver_settled(consumer, copy)
            let_go(copy)
            return
        consumer.session.deliver_unsettled(consumer, self._issue(entry, consumer))

    def _issue(self, entry: QueueEntry, consumer: Consumer | None) -> DeliveryCopy:
        copy = DeliveryCopy(entry)
        copy.consumer = consumer
        self.out[copy] = None
        size = entry.message.size
        self.bytes += size
        if consumer is not None:
            consumer.take(size)
        return copy
