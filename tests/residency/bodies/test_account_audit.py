"""The audit of accounts: each queue in its turn, large ones in slices, and a defect is said once."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.deliveries.compaction import Compaction
from annulet.core.deliveries.delivery_table import BLOCK_TAGS
from annulet.core.queue.queue import Queue
from annulet.residency.bodies import account_audit
from annulet.residency.bodies.account_audit import AccountAudit
from annulet.residency.bodies.bodies import StoredBodies
from annulet.residency.bodies.budget import Recount
from tests.core.helpers import NOW, RecordingSession
from tests.residency.doubles import Disk, bodies_of, durable_queue, filled

WAITING = 10
HELD = 5 * BLOCK_TAGS
SLICE = 2 * BLOCK_TAGS


def audited(count: int) -> dict[Queue, StoredBodies]:
    queue, disk = durable_queue(), Disk()
    bodies = bodies_of(queue, disk)
    queue.bodies = bodies
    filled(queue, disk, count)
    return {queue: bodies}


class Holder(RecordingSession):
    """Remembers no entry: who is known to somebody else is not folded."""

    def deliver(self, consumer, entry, tag):
        self.received.append(entry.sequence)


def deep(monkeypatch: pytest.MonkeyPatch) -> tuple[Queue, dict[Queue, StoredBodies], Holder]:
    """A queue of which a consumer holds more than one slice, without their bodies."""
    monkeypatch.setattr(account_audit, "RECOUNTED_DELIVERIES", SLICE)
    queues = audited(WAITING + HELD)
    (queue,) = queues
    session = Holder()
    session.consume(queue, messages=HELD)
    queues[queue].let_all_go(1 << 60)
    return queue, queues, session


def test_a_wrong_account_is_said_once_and_summed_up(caplog: pytest.LogCaptureFixture) -> None:
    audit, queues = AccountAudit(), audited(3)
    (queue,) = queues
    audit.tick(queues)
    assert (audit.drift, caplog.text) == (0, "")
    queues[queue].bytes += 5
    for _ in range(3):
        audit.tick(queues)
    assert audit.drift == 10, "in what is away, and in what is not"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "is wrong by 10 bytes" in caplog.text
    assert (audit.recounts, audit.messages_most) == (4, 3)
    audit.forget(queue)
    assert audit.drift == 0


def test_queues_have_their_turns_and_those_that_are_gone_none(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = audited(1) | audited(1)
    first, second = queues
    counted: list[Queue] = []

    class Noted(Recount):
        def __init__(self, queue: Queue) -> None:
            super().__init__(queue)
            counted.append(queue)

    monkeypatch.setattr(account_audit, "Recount", Noted)
    audit = AccountAudit()
    audit.tick({})
    for _ in range(3):
        audit.tick(queues)
    assert counted == [second, first, second]
    audit.tick({second: queues[second]})
    assert counted == [second, first, second], "the other one was next"
    assert audit.recounts == 3


@pytest.mark.parametrize(("most", "drift"), [(3, 10), (2, 0)])
def test_queues_with_very_many_waiting_in_memory_are_not_counted(
    most: int, drift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_audit, "RECOUNTED_WAITING_MAX", most)
    audit, queues = AccountAudit(), audited(3)
    for bodies in queues.values():
        bodies.bytes += 5
    audit.tick(queues)
    assert audit.drift == drift


@pytest.mark.parametrize(("most", "recounts"), [(AT_ONCE_MAX, 1), (AT_ONCE_MAX - 1, 0)])
def test_nor_are_those_to_which_very_many_came_back(most: int, recounts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_audit, "RECOUNTED_RETURNED_MAX", most)
    audit, queues = AccountAudit(), audited(AT_ONCE_MAX)
    (queue,) = queues
    queue.return_entries(queue.acquire(AT_ONCE_MAX, -1, NOW), NOW)
    assert queue.order.came_back() == AT_ONCE_MAX
    audit.tick(queues)
    assert audit.recounts == recounts


@pytest.mark.parametrize("folded", [False, True])
def test_what_is_in_delivery_is_counted_in_slices_and_stays_folded(
    folded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, queues, session = deep(monkeypatch)
    if folded:
        Compaction(session.unacknowledged, newest=True).step(1 << 60)
    assert queue.delivering.folded == (HELD if folded else 0)
    audit = AccountAudit()
    ticks = 0
    while not audit.recounts:
        audit.tick(queues)
        ticks += 1
    assert ticks >= HELD // SLICE
    assert (audit.messages_most, audit.drift) == (WAITING + HELD, 0)
    assert queue.delivering.folded == (HELD if folded else 0)
    queues[queue].in_delivery_bytes += 7
    while audit.recounts < 2:
        audit.tick(queues)
    assert audit.drift == 7


def acknowledged(queue: Queue, session: Holder) -> None:
    queue.acknowledge(queue.unsettled()[0])


def came_back(queue: Queue, session: Holder) -> None:
    queue.return_entries([queue.unsettled()[0]], NOW)


def exchanged(queue: Queue, session: Holder) -> None:
    """One comes back and another goes out, of the same size: all sums are as they were."""
    queue.return_entries([queue.unsettled()[-1]], NOW)
    queue.wake(NOW)


def left(queue: Queue, session: Holder) -> None:
    queue.purge(NOW)


def deleted(queue: Queue, session: Holder) -> None:
    queue.delete(NOW)


@pytest.mark.parametrize("change", [acknowledged, came_back, exchanged, left, deleted])
def test_what_changes_between_two_slices_has_it_begun_anew(
    change: Callable[[Queue, Holder], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, queues, session = deep(monkeypatch)
    audit = AccountAudit()
    audit.tick(queues)
    audit.tick(queues)
    change(queue, session)
    audit.tick(queues)
    assert (audit.recounts, audit.drift) == (1 if change is deleted else 0, 0)
    while not audit.recounts:
        audit.tick(queues)
    assert audit.drift == 0
    assert audit.messages_most == queue.order.count + len(queue.delivering)


def test_one_that_never_rests_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, queues, _ = deep(monkeypatch)
    other = audited(3)
    audit = AccountAudit()
    for recounts in (1, 2):
        while audit.recounts < recounts:
            audit.tick(queues | other)
            queue.acknowledge(queue.unsettled()[0])
    assert audit.messages_most == 3
    assert audit.drift == 0


def test_a_queue_that_is_gone_between_two_slices_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    _, queues, _ = deep(monkeypatch)
    audit = AccountAudit()
    audit.tick(queues)
    audit.tick({})
    assert (audit.recounts, audit.drift) == (0, 0)
