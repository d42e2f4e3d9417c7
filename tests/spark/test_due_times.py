"""When a queue has something to do on the way to a time."""

from __future__ import annotations

from annulet.spark.due_times import due_times
from tests.core.helpers import make_message, queue_of


def test_each_time_comes_once_and_in_order() -> None:
    queue = queue_of()
    for expires_at in (30, 10, 20, 40, 20):
        queue.enqueue(make_message("m", accepted_at=1, expires_at=expires_at), 1)
    found = []
    for due in due_times(queue, 30):
        queue.tick(due)
        found.append((due, queue.order.count))
    assert found == [(10, 4), (20, 2), (30, 1)]


def test_what_its_tick_does_not_do_is_not_asked_for_again() -> None:
    queue = queue_of()
    queue.enqueue(make_message("m", accepted_at=1, expires_at=10), 1)
    assert list(due_times(queue, 30)) == [10]
    assert list(due_times(queue, 9)) == []
