"""The budget counts what is in memory of large queues, and names those over their share, the largest first."""

from __future__ import annotations

from annulet.core.paged_order import paged_order_of
from annulet.core.paging import ENTRY_BYTES
from annulet.residency.budget import FLOOR_BYTES, FLOOR_MESSAGES, MIB, BodyBudget, cost_of, worth_noting
from tests.core.helpers import NOW, make_message, queue_of
from tests.residency.doubles import Disk, durable_queue, pages_of, stored_entries


def loaded_queue(count: int, size: int):
    queue, disk = durable_queue(), Disk()
    for entry in stored_entries(queue, disk, count, size=size):
        queue.insert(entry, arrival=True)
    return queue, disk


def test_a_message_costs_its_body_and_a_constant():
    queue, disk = loaded_queue(2000, 1024)
    assert cost_of(queue) == 2000 * (1024 + ENTRY_BYTES)
    order = paged_order_of(queue, pages_of(queue, disk))
    order.page_out(1 << 60, 10_000)
    assert order.paged_count() == 2000 - 1024
    assert cost_of(queue) == 1024 * (1024 + ENTRY_BYTES)


def test_queues_below_the_floor_do_not_count():
    budget = BodyBudget(MIB)
    small, _ = loaded_queue(100, 1024)
    large, _ = loaded_queue(3000, 1024)
    budget.measure([small, large])
    assert (len(budget), budget.used) == (1, cost_of(large))
    assert budget.cost_of(small) == 0
    assert budget.exceeded()
    assert budget.to_page() == [large]


def test_small_messages_count_by_their_number():
    budget = BodyBudget()
    queue, _ = loaded_queue(FLOOR_MESSAGES + 1, 1)
    budget.measure([queue])
    assert budget.used == cost_of(queue) < FLOOR_BYTES


def test_queues_that_cannot_page_do_not_count():
    budget = BodyBudget(MIB)
    queue, _ = loaded_queue(3000, 1024)
    budget.measure([queue])
    queue.queue_id = 0
    budget.measure_all()
    assert (len(budget), budget.used) == (0, 0)


def test_only_queues_over_their_share_page_the_largest_first():
    budget = BodyBudget(12 * MIB)
    queues = [loaded_queue(count, 1 << 16)[0] for count in (40, 100, 90)]
    budget.measure(queues)
    assert budget.exceeded()
    assert budget.share == 4 * MIB
    assert budget.to_page() == [queues[1], queues[2]]
    assert budget.to_page(without={queues[1]}) == [queues[2]]


def test_nobody_pages_within_the_budget():
    budget = BodyBudget(12 * MIB)
    queues = [loaded_queue(count, 1 << 16)[0] for count in (80, 80)]
    budget.measure(queues)
    assert not budget.exceeded()
    assert budget.to_page() == []


def test_the_share_never_falls_below_the_floor():
    budget = BodyBudget(MIB)
    budget.measure([loaded_queue(30, 1 << 16)[0] for _ in range(4)])
    assert budget.share == FLOOR_BYTES


def test_only_queues_that_may_be_over_the_floor_are_worth_a_look():
    queue = queue_of()
    for _ in range(FLOOR_MESSAGES):
        queue.enqueue(make_message(b"x"), NOW)
    assert not worth_noting(queue)
    queue.enqueue(make_message(b"x"), NOW)
    assert worth_noting(queue)
    queue = queue_of()
    queue.enqueue(make_message(b"x" * FLOOR_BYTES), NOW)
    assert worth_noting(queue)
