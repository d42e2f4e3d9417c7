"""A session: one client's deliveries, credit and consumers (AMQP 0-9-1 channel, AMQP 1.0 session, a lease's owner)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.deliveries.delivery_table import DeliveryTable
from annulet.core.model.compact_messages import by_queue, entry_in, queue_of, queues_of
from annulet.core.model.consumer import Consumer, DeliveryOwner
from annulet.core.queue.queue import as_queue
from annulet.core.queue.returning import each_alone, in_slices, return_table
from annulet.core.sessions.sliced_settlement import Command, Settling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from annulet.core.deliveries.taken_deliveries import Run, TakenDeliveries
    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_state import QueueState
    from annulet.core.queue.queue import Queue


REJECTED_AT_ONCE_MAX: Final = 200
"""Deliveries up to which rejections are done in the call: some 5 ms of the loop, ten times as long as of as many
acknowledgements."""


class UnknownDeliveryTag(Exception):
    """The client settled a delivery it does not hold (AMQP 0-9-1 §1.8.3.13: precondition failed)."""

    def __init__(self, tag: int) -> None:
        super().__init__(f"unknown delivery tag {tag}")
        self.tag = tag


@mypyc_attr(allow_interpreted_subclasses=True)
class Session(DeliveryOwner):
    """Keeps the unsettled deliveries, by delivery tag in ascending order.

    Subclasses implement :meth:`deliver`. Deliveries that belong to an open transaction leave ``unacknowledged`` when
    the transaction takes them, and come back on rollback.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.consumers: dict[str, Consumer] = {}
        self.unacknowledged = DeliveryTable()
        self.last_tag = 0
        self._lowest_tag = 1  # no delivery below it is held
        self.closed = False
        self.ending = False  # with all others of its connection, see end_together
        self.gives_back_many = False  # together with them
        self.settling: list[Settling] = []  # deliveries that some commands have still to settle, in no table any more
        self._former: list[Consumer] = []  # consumers that ended while deliveries to them were held
        self._pulled = False  # there may be deliveries that no consumer got
        self._turn = 0  # which consumer's queue wake() serves first

    @property
    def outranks(self) -> bool:
        """Return whether one of its consumers comes before others of its queue by priority."""
        return any(consumer.queue.outranks(consumer) for consumer in self.consumers.values())

    @property
    def pulls(self) -> bool:
        """Return whether it may hold deliveries that no consumer got."""
        return self._pulled

    def delivery_holders(self) -> list[Consumer]:
        """Return its consumers, and those of before that may still hold deliveries."""
        return [*self.consumers.values(), *self._former]

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        """Send a message to the client. Must not call back into the core."""
        raise NotImplementedError

    def transacted(self, change: int) -> None:
        """Open transactions of the session hold so many bytes more, or less. Used by the bindings' creators."""

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """The queue below a consumer is gone: forget it. Subclasses tell the client."""
        if self.consumers.pop(consumer.tag, None) is not None:
            self._note_former(consumer)

    def _note_former(self, consumer: Consumer) -> None:
        if consumer.held:
            self._former = [other for other in self._former if other.held]
            self._former.append(consumer)

    # ------------------------------------------------------------------ called by queues

    def deliver_unsettled(self, consumer: Consumer, entry: QueueEntry) -> None:
        """Assign the next tag, remember the delivery and send it."""
        tag = self.last_tag + 1
        self.last_tag = tag
        self.unacknowledged[tag] = entry
        self.deliver(consumer, entry, tag)

    def deliver_settled(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Send a message that needs no acknowledgement.

        False when the client cannot take this message at all: the session holds it then, and returns it to the queue
        once the core has done its work.
        """
        self.last_tag += 1
        self.deliver(consumer, entry, self.last_tag)
        return True

    # ------------------------------------------------------------------ consumers

    def attach(self, consumer: Consumer, now: int) -> None:
        """Register a consumer and start it. The caller has checked exclusivity and the tag."""
        self.consumers[consumer.tag] = consumer
        consumer.queue.add_consumer(consumer, now)

    def detach(self, tag: str, now: int, *, serve: bool = True) -> Consumer | None:
        """End a consumer; its deliveries stay with the session. Returns it, ``None`` when the tag is unknown.

        ``serve=False``: see :meth:`Queue.remove_consumer`.
        """
        consumer = self.consumers.pop(tag, None)
        if consumer is None:
            return None
        self._note_former(consumer)
        if not consumer.cancelled:
            consumer.queue.remove_consumer(consumer, now, serve=serve)
        return consumer

    def close_consumer(self, tag: str, now: int) -> Consumer | None:
        """End a consumer and return its deliveries (JMS consumer close, AMQP 1.0 detach)."""
        consumer = self.detach(tag, now, serve=False)
        if consumer is not None:
            returned = self.unacknowledged.take_of([consumer])
            self._return(returned, now)
            self.wake_after(returned, now)
            consumer.queue.wake(now)
        return consumer

    def set_window(self, messages_max: int, bytes_max: int, now: int) -> None:
        """Change the shared credit and serve consumers that it frees."""
        self.window.messages_max = messages_max
        self.window.bytes_max = bytes_max
        self.wake(now)

    def wake(self, now: int) -> None:
        """Serve this session's consumers after credit or output room came back.

        Each time another consumer's queue comes first: a deep backlog would else use up the room for all of them.
        """
        consumers = list(self.consumers.values())
        if len(consumers) > 1:
            self._turn = (self._turn + 1) % len(consumers)
            consumers = consumers[self._turn :] + consumers[: self._turn]
        for consumer in consumers:
            consumer.queue.wake(now)

    # ------------------------------------------------------------------ pull

    def get(self, queue: Queue, now: int, *, auto_acknowledge: bool) -> tuple[QueueEntry, int] | None:
        """Take one message (AMQP 0-9-1 ``basic.get``). Returns entry and tag, ``None`` when the queue is empty."""
        entries = queue.acquire(1, -1, now)
        if not entries:
            return None
        tag = self.last_tag + 1
        self.last_tag = tag
        if auto_acknowledge:
            queue.acknowledge(entries[0])
            queue.wake(now)  # limits and caps have room again, perhaps for a consumer of this very session
        else:
            self._pulled = True
            self.unacknowledged[tag] = entries[0]
        return entries[0], tag

    # ------------------------------------------------------------------ settlement

    def take(self, tag: int, *, multiple: bool) -> list[QueueEntry]:
        """Remove the deliveries a settlement names from the table. Tag 0 with ``multiple`` names all.

        Raises :class:`UnknownDeliveryTag` when the tag names nothing the session ever had outstanding.
        """
        return [entry_in(slot) for slot in self.take_slots(tag, multiple=multiple)]

    def take_slots(self, tag: int, *, multiple: bool) -> list[Slot]:
        """As :meth:`take`, of many with those folded that are."""
        table = self.unacknowledged
        if not multiple:
            return [self._take_one(tag)]
        if tag == 0:
            return table.take_all()
        return [slot for run in self.take_runs(tag) for slot in run.slots if slot is not None]

    def take_runs(self, tag: int) -> list[Run]:
        """As :meth:`take_slots` with ``multiple``, in the blocks in which they are: none of them is examined."""
        table = self.unacknowledged
        taken: list[Run] = []
        if tag == 0:
            taken = table.take_runs(self._lowest_tag, self.last_tag)
        elif tag <= self.last_tag:  # each tag is looked at once: below the lowest nothing is held any more
            taken = table.take_runs(self._lowest_tag, tag)
            self._lowest_tag = max(self._lowest_tag, tag + 1)
        if tag and not taken:
            raise UnknownDeliveryTag(tag)
        return taken

    def _take_one(self, tag: int) -> QueueEntry:
        entry = self.unacknowledged.pop(tag)
        if entry is None:
            raise UnknownDeliveryTag(tag)
        return entry

    def hold_again(self, taken: TakenDeliveries) -> None:
        """Take deliveries back into the table that a transaction had taken out of it."""
        if taken.runs:
            self.unacknowledged.put_back(taken)
            self._lowest_tag = min(self._lowest_tag, *[run.first for run in taken.runs])

    def acknowledge(self, tag: int, now: int, *, multiple: bool = False) -> None:
        """Acknowledge one delivery, or all up to ``tag``: very many of them in slices."""
        if multiple:
            self.settle_taken(self.take_slots(tag, multiple=True), now, rejected=False)
            return
        entry = self._take_one(tag)
        entry.queue.acknowledge(entry)
        self._wake_after_one(entry.queue, now)

    def acknowledge_entries(self, entries: list[QueueEntry], now: int) -> None:
        """Acknowledge deliveries already taken from the table, then serve the consumers with new credit."""
        for entry in entries:
            entry.queue.acknowledge(entry)
        self.wake_after(entries, now)

    def reject(self, tag: int, now: int, *, requeue: bool, multiple: bool = False) -> None:
        """Refuse one delivery, or all up to ``tag``: back to their place, or dropped with reason REJECTED.

        Very many of them in slices.
        """
        taken = self.take_slots(tag, multiple=multiple)
        if requeue:
            self.requeue(taken, now)
        else:
            self.settle_taken(taken, now, rejected=True)

    def settle_taken(
        self,
        taken: Sequence[Slot],
        now: int,
        *,
        rejected: bool,
        before: Callable[[QueueEntry], None] | None = None,
        done: Callable[[], None] | None = None,
    ) -> bool:
        """Acknowledge, or reject without requeue, what was taken from the table by ascending tag: many in slices.

        ``before`` is called with each delivery when its turn has come, ``done`` after the last of those that are done
        in slices. Returns whether they are: else all is done.
        """
        if self._settled_later(taken, now, rejected=rejected, before=before, done=done):
            return True
        entries = [entry_in(slot) for slot in taken]
        if before is not None:
            for entry in entries:
                before(entry)
        if rejected:
            self.reject_entries(entries, now, requeue=False)
        else:
            self.acknowledge_entries(entries, now)
        return False

    def _settled_later(
        self,
        taken: Sequence[Slot],
        now: int,
        *,
        rejected: bool,
        before: Callable[[QueueEntry], None] | None,
        done: Callable[[], None] | None,
    ) -> bool:
        """Have these settled in slices where they are very many. Returns whether that is done.

        Few that are refused go behind very many that are: dead letters come in the order of their refusal.
        """
        under_way = self._rejecting() if rejected else None
        most = REJECTED_AT_ONCE_MAX if rejected else AT_ONCE_MAX
        if not taken or (len(taken) <= most and under_way is None):
            return False
        queues = queues_of(taken) if self._pulled else [consumer.queue for consumer in self.delivery_holders()]
        command = Command(taken, before, done)
        if under_way is not None:
            under_way.add(command, queues)
        else:
            queue_of(taken[0]).effects.later(Settling(self, command, queues, now, rejected=rejected), now)
        return True

    def _rejecting(self) -> Settling | None:
        """Return what refuses deliveries in slices."""
        for work in self.settling:
            if work.rejected:
                return work
        return None

    def settlement_failed(self, entries: list[QueueEntry], now: int) -> None:
        """A defect has met a slice of a settlement: unsettled deliveries of it are returned.

        Subclasses end the client's connection, as for a defect in its data.
        """
        self._return(entries, now)

    def give_back(self, slots: Sequence[Slot], now: int) -> None:
        """Return deliveries that are in no table: the session ended while they were being settled."""
        self._return(slots, now)

    def reject_entries(self, entries: list[QueueEntry], now: int, *, requeue: bool) -> None:
        """Refuse deliveries already taken from the table."""
        if requeue:
            self.requeue(entries, now)
            return
        for entry in entries:
            entry.queue.reject(entry, now)
        self.wake_after(entries, now)

    def recover(self, now: int) -> None:
        """Return everything unsettled to its place (AMQP 0-9-1 ``basic.recover`` with requeue)."""
        self.requeue(self.unacknowledged.take_all(), now)

    def close(self, now: int) -> None:
        """End all consumers, then return everything unsettled. The same for a clean close and a lost connection.

        A large number is returned in slices (:mod:`annulet.core.queue.returning`), and is not even examined before.
        """
        if self.closed:
            return
        self.closed = True
        self.writable = False  # a consumer that ends may free what the next one, which ends as well, would be handed
        queues = {consumer.queue: None for consumer in self.consumers.values()}
        for tag in list(self.consumers):
            self.detach(tag, now, serve=False)
        if not self._return_later(now):
            self._return(self.unacknowledged.take_all(), now)
        self._former = []  # consumers, which hold the session
        for queue in queues:
            queue.wake(now)

    def _return_later(self, now: int) -> bool:
        """Hand all that is held over to be put back in slices, unseen. Returns whether that may be."""
        table = self.unacknowledged
        if not table or self._pulled:
            return False
        counts: dict[Queue, int] = {}
        for consumer in self._former:
            if consumer.held and not consumer.queue.deleted:
                queue = as_queue(consumer.queue)
                counts[queue] = counts.get(queue, 0) + consumer.held
        many = self.gives_back_many or any(in_slices(queue, count, counted=True) for queue, count in counts.items())
        if not many or not all(each_alone(queue) for queue in counts):
            return False
        self.unacknowledged = DeliveryTable()
        self.returning = not self.settling  # else deliveries still to be settled would be returned, too
        return_table(list(counts), table, now, gathers=self.returning)
        return True

    def requeue(self, slots: Sequence[Slot], now: int) -> None:
        """Return these to their places, then serve the consumers with new credit."""
        self._return(slots, now)
        self.wake_after(slots, now)

    def _return(self, slots: Sequence[Slot], now: int) -> None:
        for queue, returned in by_queue(slots).items():
            queue.return_entries(returned, now)

    def wake_after(self, slots: Sequence[Slot], now: int) -> None:
        """Serve the queues that may go on: these, and all of the session's when its shared window is in use."""
        if len(slots) == 1:
            self._wake_after_one(queue_of(slots[0]), now)
            return
        if self._shares_window():
            self.wake(now)
        for queue in queues_of(slots):
            queue.wake(now)

    def _wake_after_one(self, queue: QueueState, now: int) -> None:
        if self._shares_window():
            self.wake(now)
        queue.wake(now)

    def _shares_window(self) -> bool:
        """Return whether the consumers have a credit in common: what one gives back may be for another."""
        return self.window.messages_max >= 0 or self.window.bytes_max >= 0


def end_together(sessions: Iterable[Session]) -> None:
    """Before the sessions of a connection close in one turn: messages returned by one are not for the others.

    And where they return many together, all do it in slices, however few each of them holds.
    """
    ending = list(sessions)
    many = sum([len(session.unacknowledged) for session in ending]) > AT_ONCE_MAX
    for session in ending:
        session.ending = True
        session.writable = False
        session.gives_back_many = many
