"""Dead letters whose bodies are on disk only, and the disk does not give them."""

from __future__ import annotations

from tests.core.helpers import NOW, pending
from tests.core.host.test_dead_letters import DEAD_LETTERED, Bench, letter
from tests.residency.doubles import Disk, bodies_of


def on_disk_only(queue, disk, messages):
    """Put messages into a queue whose bodies are on disk only; return what knows of these."""
    queue.queue_id = 7
    for message in messages:
        queue.enqueue(message, NOW)
        disk.store(queue, message, queue.next_sequence - 1)
    bodies = bodies_of(queue, disk)
    bodies.let_all_go(1 << 60)
    return bodies


def test_letters_whose_bodies_the_disk_does_not_give_wait_and_damaged_ones_stay_in_the_log():
    bench, disk = Bench(), Disk()
    target = bench.target("dead")
    queue = bench.source(dead_letter_address="dead")
    messages = [letter(body) for body in ("one", "two", "three")]
    bodies = on_disk_only(queue, disk, messages)
    bench.effects.removed = lambda *_: None  # it reads each body to record it
    disk.failing = True
    for entry in queue.order.entries():
        queue.remove_pending(entry, DEAD_LETTERED, NOW, 0)
    queue.finish(NOW)
    assert (pending(target), bench.letters.waiting, bench.effects.settled) == ([], True, [])
    disk.failing = False
    disk.damaged = {messages[1].record}
    bodies.retry()
    queue.wake(NOW)
    assert pending(target) == ["one", "three"]
    assert (bench.letters.failures, bench.letters.waiting) == (1, False)
    assert bench.effects.settled == [("q", messages[0].record), ("q", messages[2].record)]


def test_letters_of_a_deleted_queue_that_the_disk_refuses_hold_up_no_others():
    bench, disk = Bench(), Disk()
    target = bench.target("dead")
    queue, other = bench.source("q", dead_letter_address="dead"), bench.source("other", dead_letter_address="dead")
    on_disk_only(queue, disk, [letter("lost")])
    bench.effects.removed = lambda *_: None  # it reads each body to record it
    bench.effects.settle = lambda *_: None
    disk.failing = True
    queue.remove_pending(queue.order.first(), DEAD_LETTERED, NOW, 0)
    queue.finish(NOW)
    assert bench.letters.waiting
    queue.delete(NOW)
    assert (bench.letters.waiting, bench.letters.failures) == (False, 1)
    assert "disk" in bench.losses()[-1].rule
    other.enqueue(letter("kept"), NOW)
    other.remove_pending(other.order.first(), DEAD_LETTERED, NOW, 0)
    other.finish(NOW)
    assert pending(target) == ["kept"]


def test_letters_the_disk_refuses_hold_up_those_of_no_other_queue():
    bench, disk = Bench(), Disk()
    target = bench.target("dead")
    queue, other = bench.source("q", dead_letter_address="dead"), bench.source("other", dead_letter_address="dead")
    messages = [letter("one"), letter("two")]
    bodies = on_disk_only(queue, disk, messages)
    bench.effects.removed = lambda *_: None  # it reads each body to record it
    disk.failing = True
    queue.remove_pending(queue.order.first(), DEAD_LETTERED, NOW, 0)
    other.enqueue(letter("other"), NOW)
    other.remove_pending(other.order.first(), DEAD_LETTERED, NOW, 0)
    queue.remove_pending(queue.order.first(), DEAD_LETTERED, NOW, 0)
    queue.finish(NOW)
    assert (pending(target), bench.letters.waiting) == (["other"], True)
    assert bench.letters.records_of(queue) == [message.record for message in messages]
    other.enqueue(letter("gone", record=9), NOW)
    other.remove_pending(other.order.first(), DEAD_LETTERED, NOW, 0)
    other.delete(NOW)
    assert pending(target) == ["other", "gone"], "the log has forgotten it"
    disk.failing = False
    bodies.retry()
    queue.wake(NOW)
    assert pending(target) == ["other", "gone", "one", "two"]
    assert (bench.letters.waiting, bench.letters.records_of(queue)) == (False, [])
