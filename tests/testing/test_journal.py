from __future__ import annotations

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import QueueSettings
from annulet.core.message.message import Message, Origin
from annulet.core.model.effects import Effects
from annulet.core.queue.queue import Queue
from annulet.testing.journal import HostJournal, Journal, JournalEvent
from annulet.wire.amqp091.messages.properties import VIEW


def event(number: int) -> JournalEvent:
    return JournalEvent(0, "/", "q", "published", number, None)


def test_it_keeps_the_latest_events_and_counts_the_others() -> None:
    journal = Journal(lambda: 7, events_max=3)
    for number in range(3):
        journal.note(event(number))
    assert journal.dropped == 0, "the limit is not reached"
    journal.note(event(3))
    assert [one.sequence for one in journal.events()] == [1, 2, 3]
    assert journal.dropped == 1


def test_a_queue_writes_its_events_in_order() -> None:
    journal = Journal(lambda: 7)
    queue = Queue("q", QueueSettings(), Effects())
    queue.events = HostJournal(journal, "/").events_of(queue)
    for body in (b"1", b"2", b"3"):
        queue.enqueue(Message(b"\0\0", body, Origin("", "q", "", VIEW)), 5)
    (entry,) = queue.acquire(1, 1 << 20, 6)
    queue.return_entries([entry], 7)
    (entry,) = queue.acquire(1, 1 << 20, 8)
    queue.acknowledge(entry)
    queue.purge(9)
    kinds = [(one.kind, one.sequence, one.at) for one in journal.events("q")]
    assert kinds == [
        ("published", 1, 5), ("published", 2, 5), ("published", 3, 5), ("fetched", 1, 6), ("returned", 1, 7),
        ("fetched", 1, 8), (RemovalReason.ACKNOWLEDGED.value, 1, 7), (RemovalReason.PURGED.value, 2, 9),
        (RemovalReason.PURGED.value, 3, 9),
    ]  # fmt: skip
    queue.events.emptied(0, RemovalReason.PURGED, 9)
    queue.events.emptied(4, RemovalReason.UNREADABLE, 0)
    (last,) = [one for one in journal.events("q") if one.message is None]
    assert (last.kind, last.at, last.detail) == ("unreadable", 7, "4 messages")
    assert len(journal.published("q")) == 3
    assert journal.published("q", "other") == []
