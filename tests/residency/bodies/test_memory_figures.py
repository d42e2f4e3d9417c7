"""Where the bodies in memory are, in the words of the design."""

from __future__ import annotations

from annulet.core.paging.paged_fifo import KEEP_MESSAGES
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.residency.bodies.budget import body_bytes, drift_of
from annulet.residency.bodies.memory_figures import Residence, residence_of
from tests.core.helpers import NOW, RecordingSession, make_message
from tests.residency.doubles import Disk, bodies_of, durable_queue, pages_of, stored_entries

SIZE, COUNT = 100, 3000
FRONT = KEEP_MESSAGES * SIZE
ALL = 1 << 60


def filled():
    queue, disk = durable_queue(), Disk()
    for entry in stored_entries(queue, disk, COUNT, size=SIZE):
        queue.insert(entry, arrival=True)
    return queue, disk


def test_without_a_consumer_the_front_is_the_head_and_with_one_it_is_direct():
    queue, disk = filled()
    assert residence_of(queue) == Residence(head=FRONT, late=COUNT * SIZE - FRONT)
    session = RecordingSession()
    session.consume(queue, messages=10)
    assert residence_of(queue) == Residence(in_delivery=10 * SIZE, direct=FRONT, late=(COUNT - 10) * SIZE - FRONT)
    order = paged_order_of(queue, pages_of(queue, disk))
    order.page_out(ALL, COUNT)
    queue.enqueue(make_message("x" * SIZE), NOW)
    assert residence_of(queue) == Residence(in_delivery=10 * SIZE, direct=FRONT, late=SIZE)


def test_bodies_that_left_are_nowhere_also_those_of_messages_in_delivery():
    queue, disk = filled()
    session = RecordingSession()
    session.consume(queue, messages=10)
    bodies = bodies_of(queue, disk)
    bodies.let_all_go(ALL)
    assert residence_of(queue) == Residence()
    assert bodies.in_delivery_bytes == 10 * SIZE
    session.acknowledge(1, NOW)  # the next one is delivered, and read with others for that
    assert residence_of(queue).in_delivery == SIZE
    session.close(NOW)
    assert residence_of(queue).in_delivery == bodies.in_delivery_bytes == drift_of(queue) == 0
    assert residence_of(queue).total == body_bytes(queue)


def test_a_deleted_queue_has_nothing():
    queue, _ = filled()
    queue.delete(NOW)
    assert residence_of(queue) == Residence()


def test_figures_of_queues_add_up():
    one, two = Residence(1, 2, 3, 4), Residence(10, 20, 30, 40)
    assert (one + two).as_dict() == {"in_delivery": 11, "direct": 22, "late": 33, "head": 44}
    assert (one + two).total == one.total + two.total
