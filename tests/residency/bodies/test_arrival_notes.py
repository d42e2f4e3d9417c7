"""Which queues are looked at with the next window, and that their bodies hear of what came."""

from __future__ import annotations

from annulet.residency.bodies.arrival_notes import FLOOR_BYTES, FLOOR_MESSAGES, ArrivalNotes
from tests.core.helpers import NOW, make_message, queue_of
from tests.residency.doubles import Disk, bodies_of, durable_queue, filled


def test_only_queues_that_may_be_over_the_floor_are_worth_a_look():
    queue, notes = queue_of(), ArrivalNotes()
    for _ in range(FLOOR_MESSAGES):
        queue.enqueue(make_message(b"x"), NOW)
    assert not notes.worth_noting(queue)
    queue.enqueue(make_message(b"x"), NOW)
    assert notes.worth_noting(queue)
    queue = queue_of()
    queue.enqueue(make_message(b"x" * FLOOR_BYTES), NOW)
    assert notes.worth_noting(queue)


def test_a_queue_over_the_floor_is_noted_and_its_bodies_told():
    queue, disk = durable_queue(), Disk()
    notes = ArrivalNotes()
    (first,) = filled(queue, disk, 1)
    notes.stored(first)
    assert notes.queues == set()
    last = filled(queue, disk, FLOOR_MESSAGES)[-1]
    notes.stored(last)
    assert notes.queues == {queue}
    bodies = bodies_of(queue, disk)
    bodies.rows = False
    notes.stored(last)
    assert last in bodies.waiting


def test_a_queue_is_looked_at_again_when_its_newest_record_is_written():
    queue, disk = durable_queue(), Disk()
    notes = ArrivalNotes()
    entries = filled(queue, disk, FLOOR_MESSAGES + 2)
    for entry in entries[-2:]:
        notes.stored(entry)
    newest = entries[-1].message.record
    assert notes.take_written(newest) == []
    assert notes.take_written(newest + 1) == [queue]
    assert notes.take_written(newest + 1) == []
