"""The budget counts what is in memory of large queues, and names those over their share, the largest first."""

from __future__ import annotations

from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.paging.row_conditions import ENTRY_BYTES
from annulet.core.policies.fair_keys import Fairness
from annulet.residency.bodies.arrival_notes import FLOOR_BYTES, FLOOR_MESSAGES
from annulet.residency.bodies.budget import (
    BODY_BYTES,
    MIB,
    PAGED_AT_ONCE,
    PEAKS_AT_ONCE,
    BodyBudget,
    cost_of,
    drift_of,
    waiting_in,
)
from tests.core.helpers import NOW, RecordingSession
from tests.residency.doubles import Disk, bodies_of, durable_queue, pages_of, stored_entries


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
    assert (budget.cost_of(small), budget.below) == (cost_of(small), cost_of(small))
    assert budget.exceeded()
    assert budget.to_page() == [large]


def test_what_small_queues_had_for_a_moment_makes_nobody_page():
    budget = BodyBudget(5 * MIB)
    large, _ = loaded_queue(1500, 1024)
    small = [loaded_queue(500, 1024)[0] for _ in range(PEAKS_AT_ONCE // 256)]
    few = [loaded_queue(1, 1024)[0] for _ in range(PEAKS_AT_ONCE)]
    budget.measure([large])
    budget.measure_arrivals([*small, *few])
    assert budget.over > 0
    assert (budget.used, budget.below) == (cost_of(large), sum(map(cost_of, [*small, *few])))
    for queue in small:
        queue.deleted = True
    assert not budget.surely_exceeded()
    assert (budget.below, budget.over > 0) == (len(few) * cost_of(few[0]), False)


def test_who_is_to_page_waits_for_the_small_queues_there_are_and_not_for_others():
    budget = BodyBudget(3 * MIB)
    budget.measure([loaded_queue(1800, 1024)[0]])
    small = [loaded_queue(1, 1024)[0] for _ in range(PEAKS_AT_ONCE + 1)]
    budget.measure_arrivals(small)
    assert budget.exceeded()
    assert not budget.surely_exceeded(), "not all in one go"
    budget.measure_arrivals(small)
    for _ in range(5):
        assert budget.surely_exceeded()
        budget.measure_arrivals(small)
    for queue in small:
        queue.deleted = True
        budget.account(queue)
    assert not budget.surely_exceeded(), "what is gone is no peak either"
    again = [loaded_queue(1, 1024)[0] for _ in range(PEAKS_AT_ONCE + 1)]
    budget.measure_arrivals(again)
    assert not budget.surely_exceeded(), "it was kept meanwhile"
    assert budget.surely_exceeded()


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
    budget.measure_some(1)
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


def test_what_stays_an_entry_costs_its_body_only_and_nothing_when_that_is_away():
    queue, disk = loaded_queue(2000, 1024)
    queue.use_lanes(None, Fairness(queue.settings))
    assert cost_of(queue) == 2000 * (1024 + BODY_BYTES)
    session = RecordingSession()
    session.consume(queue, messages=500)
    assert cost_of(queue) == 2000 * (1024 + BODY_BYTES), "in delivery as well"
    bodies_of(queue, disk).let_all_go(1 << 60)
    assert (cost_of(queue), drift_of(queue)) == (0, 0)
    session.close(NOW)
    assert (cost_of(queue), drift_of(queue)) == (0, 0), "what comes back stays away"


def test_a_queue_frees_what_is_over_its_share_or_the_budget_and_an_eighth():
    budget = BodyBudget(16 * MIB)
    first, second = (loaded_queue(count, 1 << 16)[0] for count in (300, 100))
    budget.measure([first, second])
    assert budget.excess(first) == budget.used - 14 * MIB
    budget.limit = 4 * MIB
    assert budget.share == 2 * MIB
    assert budget.excess(second) == cost_of(second) - 2 * MIB + MIB // 4


def test_a_wrong_account_is_found():
    queue, disk = loaded_queue(10, 100)
    bodies = bodies_of(queue, disk)
    bodies.let_all_go(1 << 60)
    assert drift_of(queue) == 0
    bodies.count += 1
    assert drift_of(queue) == 1
    bodies.bytes -= 7
    assert drift_of(queue) == 1 + 7 + 7


def test_some_of_very_many_are_measured_and_named_in_turn():
    budget = BodyBudget(MIB)
    budget.floor = MIB // 16
    queues = [loaded_queue(20 + place, 1024)[0] for place in range(PAGED_AT_ONCE + 2)]
    for queue in queues:
        queue.pending_bytes += MIB // 16
    budget.measure(queues)
    assert len(budget) == len(queues)
    assert budget.to_page() == queues[:1:-1]
    for queue in queues:
        queue.pending_bytes += 1
    used = budget.used
    budget.measure_some(10)
    budget.measure_some(10)
    assert budget.used == used + 20
    budget.measure_some(len(queues))
    assert budget.used == used + len(queues)


def test_what_waits_counts_on_disk_as_well():
    queue, disk = loaded_queue(2000, 1024)
    whole = waiting_in(queue)
    assert whole == cost_of(queue)
    order = paged_order_of(queue, pages_of(queue, disk))
    assert order is not None
    assert order.page_out(1 << 40, 2000) > 0
    assert cost_of(queue) < waiting_in(queue) == whole
