"""The list of letters that wait."""

from __future__ import annotations

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import QueueSettings
from annulet.core.host.letter_outbox import Outbox
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.queue import Queue
from tests.core.helpers import make_message, queue_of

SETTINGS = QueueSettings(dead_letter_address="dead", dropped_address="dropped")
EXPIRED = RemovalReason.EXPIRED
OVERFLOW = RemovalReason.OVERFLOW


def add(box: Outbox, queue: Queue, record: int, reason: RemovalReason = OVERFLOW) -> None:
    message = make_message()
    message.record = record
    box.add(queue, QueueEntry(queue, message, record), reason, None, SETTINGS)


def test_letters_are_in_the_order_in_which_they_left() -> None:
    box, one, two = Outbox(), queue_of(), queue_of()
    for record, queue in enumerate((one, two, one, one), 1):
        add(box, queue, record)
    add(box, one, 5, EXPIRED)
    assert [len(batch.entries) for batch in box.batches] == [1, 1, 2, 1]
    assert box.records_of(one) == [1, 3, 4, 5]
    taken = []
    while not box.empty:
        letter = box.next()
        taken.append(letter.entry.message.record)
        assert box.passed == len(taken) - 1, "the current one is here"
        assert letter.entry.message.record in box.records_of(letter.queue)
        box.current = None
    assert (taken, box.passed, box.added) == ([1, 2, 3, 4, 5], 5, 5)


def test_a_letter_keeps_the_targets_of_the_settings_under_which_it_left() -> None:
    box, queue = Outbox(), queue_of(dead_letter_address="other")
    add(box, queue, 1)
    add(box, queue, 2, EXPIRED)
    letter = box.next()
    assert [target.address for target in letter.targets] == ["dead", "dropped"]
    assert not letter.done
    letter.targets.clear()
    assert letter.done
    assert box.next().done, "there is no target for this reason"


def test_all_of_a_queue_are_taken_out_and_put_first_again() -> None:
    box, one, two = Outbox(), queue_of(), queue_of()
    for record, queue in enumerate((one, two, one), 1):
        add(box, queue, record)
    aside = box.take_out(one)
    assert (box.records_of(one), box.records_of(two), aside.records_of(one)) == ([], [2], [1, 3])
    assert (box.passed, aside.passed) == (2, 0)
    box.put_first(aside)
    assert (box.records_of(one), box.passed, box.next().entry.message.record) == ([1, 3], 0, 1)
