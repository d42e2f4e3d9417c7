"""What left a deep queue and waits to be sent on is seen by no reader, though the log still has it for its queue."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import BROWSE_FOLLOW, BROWSE_OFF, BROWSE_SNAPSHOT
from annulet.core.model.entry import QueueEntry
from annulet.core.model.forwarder import Forwarder
from annulet.core.model.loss_ledger import LossRecord
from annulet.core.queue.queue import Queue
from tests.core.deep_doubles import ALL, Deep, numbers
from tests.core.helpers import NOW, RecordingSession
from tests.core.reading.test_browse_order import deep_queue


class Waiting(Forwarder):
    """Sends everything on, but only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[QueueEntry] = []

    def takes(self, queue: Queue, reason: RemovalReason) -> bool:
        return True

    def add(self, queue: Queue, entry: QueueEntry, reason: RemovalReason, now: int, loss: LossRecord | None) -> None:
        self.held.append(entry)

    def send(self) -> None:
        held, self.held = self.held, []
        for entry in held:
            entry.queue.settle_record(entry)

    def records_of(self, queue: Queue) -> list[int]:
        return [entry.message.record for entry in self.held]


def waiting_queue(count: int, **options: Any) -> tuple[Deep, Waiting]:
    deep, forwarder = deep_queue(**options), Waiting()
    deep.queue.forwarder = forwarder
    deep.publish(count)
    deep.page_out(ALL)
    return deep, forwarder


def test_who_waits_for_room_gets_the_next_when_a_ring_drops_what_was_too_large() -> None:
    deep, forwarder = waiting_queue(1, non_destructive=True, ring_size=3, keep=0)
    session = RecordingSession()
    deep.size = 30
    deep.publish()
    deep.size = 10
    deep.publish()
    deep.page_out(ALL)
    session.consume(deep.queue, messages=5)
    assert numbers(session) == [1, 2, 3]
    other = RecordingSession("other")
    consumer = other.consume(deep.queue, messages=1)
    consumer.window.bytes_max, consumer.window.messages_max = 30, 5
    deep.queue.wake(NOW)
    assert numbers(other) == [1], "the next one is larger than what is left of its window"
    deep.publish(2)
    deep.take_turns()
    assert len(forwarder.held) == 2
    assert numbers(other) == [1, 3, 4]
    assert deep.queue.copies is not None
    assert len(deep.queue.copies.leaving) == 2
    forwarder.send()
    assert not deep.queue.copies.leaving, "the log knows now"
    assert numbers(session) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", [BROWSE_FOLLOW, BROWSE_SNAPSHOT])
@pytest.mark.parametrize("read", [True, False], ids=["read", "not read yet"])
def test_a_browser_is_not_shown_what_was_refused_for_good_and_not_sent_yet(kind: str, read: bool) -> None:
    deep, forwarder = waiting_queue(600)
    session = RecordingSession()
    consumer = session.consume(deep.queue, browse=kind, messages=10)
    if read:
        deep.take_turns()
        assert numbers(session) == list(range(1, 11))
    for entry in deep.queue.acquire(500, -1, NOW):
        deep.queue.reject(entry, NOW)
    assert len(forwarder.held) == 500
    consumer.window.messages_max = 1000
    deep.queue.wake(NOW)
    deep.take_turns()
    assert numbers(session) == [*range(1, 11 if read else 1), *range(501, 601)]


@pytest.mark.parametrize("kind", [BROWSE_OFF, BROWSE_FOLLOW])
def test_nor_is_who_attaches_while_it_waits(kind: str) -> None:
    deep, forwarder = waiting_queue(600, non_destructive=True, ring_size=600)
    deep.publish(500)
    assert len(forwarder.held) == 500
    session = RecordingSession()
    session.consume(deep.queue, browse=kind)
    deep.take_turns()
    assert numbers(session) == list(range(501, 1101))
    copies = deep.queue.copies
    assert copies is not None
    assert len(copies.leaving) == 500
