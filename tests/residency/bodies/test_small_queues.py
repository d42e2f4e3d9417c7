"""From how many bytes on a queue counts when very many hold some each."""

from __future__ import annotations

from random import Random

import pytest

from annulet.core.paging.front_limits import FrontBounds
from annulet.core.paging.row_conditions import ENTRY_BYTES
from annulet.core.queue.queue import Queue
from annulet.residency.bodies.arrival_notes import FLOOR_BYTES, FLOOR_MESSAGES, ArrivalNotes
from annulet.residency.bodies.budget import MIB, BodyBudget, cost_of, waiting_in
from annulet.residency.bodies.small_queues import FLOOR_LEAST, IN_VAIN, LOOKED_AT, SIZES, Round, SmallQueues, step_of
from tests.residency.doubles import Disk, durable_queue, stored_entries

COST = 100 * (1024 + ENTRY_BYTES)


def holding(count: int) -> Queue:
    """Return a queue with so many messages of 1 KiB."""
    queue = durable_queue()
    for entry in stored_entries(queue, Disk(), count, size=1024):
        queue.insert(entry, arrival=True)
    return queue


def take(queue: Queue, count: int) -> None:
    """Take so many of the next messages from a queue."""
    for _ in range(count):
        entry = queue.order.take_first()
        assert entry is not None
        queue.pending_bytes -= entry.message.size


class Site:
    """Looks at ``queues``; ``told`` are those that heard of a new floor."""

    def __init__(self, queues: list[Queue], limit: int = MIB) -> None:
        self.queues = queues
        self.told: list[Queue] = []
        self.budget, self.notes = BodyBudget(limit), ArrivalNotes()
        self.small = SmallQueues(self.budget, self.notes, lambda: list(self.queues), self.told.append)

    def remove(self, begin: int) -> None:
        """Delete the queues from this place on."""
        for queue in self.queues[begin:]:
            queue.deleted = True
        self.budget.measure(self.queues[begin:])
        del self.queues[begin:]

    def settled(self) -> int:
        """Go on as long as there is something; return how many turns that took."""
        turns = 1
        while self.small.go_on():
            turns += 1
            assert turns < 1000
        return turns


@pytest.mark.parametrize("step", range(len(SIZES)))
def test_a_step_is_the_lowest_size_that_is_not_below(step: int) -> None:
    assert step_of(SIZES[step]) == step
    assert step_of(SIZES[step] + 1) == step + 1
    assert (SIZES[0], SIZES[-1]) == (FLOOR_LEAST, FLOOR_BYTES)
    assert (step_of(0), step_of(1), step_of(1 << 50)) == (0, 0, len(SIZES))


def test_together_is_what_all_may_have_with_a_floor() -> None:
    found = Round([])
    sizes = [0, 1, FLOOR_LEAST, 3 * FLOOR_LEAST, 70 * FLOOR_LEAST, 500 * FLOOR_LEAST]
    for size in sizes:
        found.note(size)
    for floor in SIZES:
        assert found.together(floor) == sum(min(size, floor) for size in sizes)
        for more in (1, floor // 2):
            assert found.together(floor + more) >= sum(min(size, floor + more) for size in sizes)


@pytest.mark.parametrize("seed", range(20))
def test_the_highest_floor_leaves_an_eighth_and_little_more(seed: int) -> None:
    random = Random(seed)
    found = Round([])
    sizes = [random.choice([0, 100, random.randrange(100 << 10), 1 << random.randrange(23)]) for _ in range(500)]
    for size in sizes:
        found.note(size)
    budget = random.randrange(2 * sum(min(size, FLOOR_BYTES) for size in sizes))
    floor = found.highest_floor(budget)
    together = sum(min(size, floor) for size in sizes)
    if floor == FLOOR_BYTES:
        assert together <= budget
    elif floor > FLOOR_LEAST:
        assert together <= budget - budget // 8
        assert sum(min(size, 2 * floor) for size in sizes) > budget - budget // 8, "twice as much is too much"
    else:
        assert sum(min(size, 2 * floor) for size in sizes) > budget - budget // 8


def test_below_the_budget_nothing_changes() -> None:
    site = Site([holding(100) for _ in range(6)])
    assert 6 * COST < MIB
    site.small.look()
    assert (site.budget.floor, site.notes.floor, site.notes.floor_messages) == (
        FLOOR_BYTES,
        FLOOR_BYTES,
        FLOOR_MESSAGES,
    )
    assert site.budget.front_of(site.queues[0]) == FrontBounds()
    assert site.budget.below == 6 * COST
    assert not site.small.go_on()
    assert site.told == []


def test_above_it_the_floor_is_the_highest_with_which_the_budget_does_but_for_an_eighth() -> None:
    queues = [holding(100) for _ in range(8)]
    site = Site([*queues, holding(0), holding(0)])
    assert 8 * COST > MIB
    site.small.look()
    floor = site.budget.floor
    assert floor == site.notes.floor == 7 * (MIB >> 6), "who holds nothing has no part"
    assert site.notes.floor_messages == 7 * FLOOR_MESSAGES >> 6
    messages, size = site.budget.front_of(queues[0])
    assert floor - 1024 - ENTRY_BYTES < messages * (1024 + ENTRY_BYTES) <= messages * ENTRY_BYTES + size == floor
    assert site.settled() == 1
    assert site.told == site.queues
    assert site.budget.used == sum(map(cost_of, queues))
    assert site.budget.to_page()
    assert site.budget.share == MIB // 8


def test_few_large_ones_among_very_many_small_ones_keep_a_high_floor() -> None:
    site = Site([*[holding(1) for _ in range(60)], *[holding(300) for _ in range(3)]])
    assert waiting_in(site.queues[-1]) < FLOOR_BYTES
    site.small.look()
    assert site.budget.floor == 16 * FLOOR_LEAST > MIB // len(site.queues)


def test_no_floor_is_less_than_what_is_worth_a_page() -> None:
    site = Site([holding(20) for _ in range(70)])
    site.small.look()
    assert site.budget.floor == FLOOR_LEAST > MIB // 70


def test_one_large_queue_is_asked_as_ever() -> None:
    site = Site([holding(3000)])
    site.small.look()
    assert site.budget.floor == FLOOR_BYTES


def test_what_stays_below_the_floor_is_taken_from_what_the_others_share() -> None:
    site = Site([*[holding(100) for _ in range(8)], *[holding(10) for _ in range(4)]])
    site.small.look()
    site.settled()
    assert site.budget.floor == 12 * (MIB >> 7)
    assert site.budget.below == sum(map(cost_of, site.queues[8:]))
    assert site.budget.share == (MIB - site.budget.below) // 8


def test_it_rises_when_an_eighth_of_what_it_may_take_is_free() -> None:
    site = Site([holding(100) for _ in range(8)])
    site.small.look()
    site.settled()
    site.remove(6)
    assert MIB - MIB // 8 < 6 * COST < MIB
    site.small.look()
    site.settled()
    assert site.budget.floor < FLOOR_BYTES
    site.remove(5)
    site.small.look()
    assert (site.budget.floor, site.notes.floor) == (FLOOR_BYTES, FLOOR_BYTES)
    site.settled()
    assert (site.budget.used, site.budget.below) == (0, 5 * COST)


def test_a_deep_queue_beside_them_does_not_hold_it_down() -> None:
    """What counts is what waits: paging makes no room for a higher floor, and a full budget takes none away."""
    deep = holding(3000)
    site = Site([deep, *[holding(100) for _ in range(20)]], 4 * MIB)
    assert MIB + 20 * COST > 4 * MIB
    site.small.look()
    site.settled()
    assert site.budget.floor < FLOOR_BYTES
    site.remove(10)
    site.small.look()
    site.settled()
    assert site.budget.used > 4 * MIB - 9 * COST
    assert site.budget.floor == FLOOR_BYTES


def test_a_round_over_very_many_takes_several_looks() -> None:
    site = Site([*[holding(0) for _ in range(2 * LOOKED_AT)], *[holding(100) for _ in range(8)]])
    for _ in range(2):
        site.small.look()
        assert site.budget.floor == FLOOR_BYTES
    site.small.look()
    assert site.budget.floor < FLOOR_BYTES
    assert site.settled() == 3, "all are told at once, and measured, some in each turn"
    assert site.told == site.queues


def test_a_round_begins_at_once_when_more_came_than_there_was_room_for() -> None:
    site = Site([holding(100) for _ in range(3)])
    site.small.look()
    room = MIB - 3 * COST
    site.queues += [holding(100) for _ in range(3)]
    site.notes.arrived = room
    assert not site.small.go_on()
    assert site.budget.below == 3 * COST
    site.notes.arrived += 1
    site.settled()
    assert site.budget.below == 6 * COST
    assert site.notes.arrived == 0


def test_what_comes_during_a_round_is_not_taken_for_seen() -> None:
    """Ticks take a while to look at all: who was seen empty may hold much at the end of the round."""
    site = Site([holding(0) for _ in range(2 * LOOKED_AT)])
    site.small.tick()
    site.queues[:6] = [holding(100) for _ in range(6)]
    site.notes.arrived += 6 * COST
    for _ in range(2):
        site.small.tick()
    assert (site.budget.below, site.notes.arrived) == (0, 6 * COST)
    site.small.tick()  # the next round begins
    site.queues[6:8] = [holding(100) for _ in range(2)]
    site.notes.arrived += 2 * COST
    site.settled()
    assert site.budget.used + site.budget.below == 8 * COST > MIB
    assert (site.budget.floor < FLOOR_BYTES, site.notes.arrived) == (True, 0)


def test_beside_a_deep_queue_that_has_the_budget_rounds_wait_for_an_eighth_too() -> None:
    site = Site([holding(1000), *[holding(0) for _ in range(20)]])
    site.small.look()
    assert (site.budget.floor, site.budget.used) == (FLOOR_BYTES, 10 * COST)
    assert site.budget.used > MIB
    site.queues[1] = holding(100)
    site.notes.arrived = MIB // 8
    site.settled()
    assert site.budget.below == 0
    site.notes.arrived += 1
    site.settled()
    assert site.budget.below == COST


def test_a_round_that_found_much_beside_a_deep_queue_that_paged_for_it_was_not_in_vain() -> None:
    deep = holding(1000)
    site = Site([deep, *[holding(0) for _ in range(200)]])
    site.small.look()
    for number in (1, 2, 3):
        site.queues[number] = holding(100)
        take(deep, 100)
        site.notes.arrived = MIB // 8
        site.settled()
        assert site.budget.below == (number - 1) * COST
        site.notes.arrived += 1
        site.settled()
        assert site.budget.below == number * COST, "after an eighth each time"


def test_who_pages_until_he_is_small_goes_from_one_account_to_the_other() -> None:
    site = Site([holding(100) for _ in range(8)])
    site.small.look()
    site.settled()
    assert (site.budget.used, site.budget.below) == (8 * COST, 0)
    queue = site.queues[0]
    take(queue, 80)
    for _ in range(2):
        site.budget.measure([queue])
        assert (site.budget.used, site.budget.below) == (7 * COST, COST // 5)
    site.remove(7)
    assert (site.budget.used, site.budget.below) == (6 * COST, COST // 5)
    queue.deleted = True
    site.budget.account(queue)
    assert (site.budget.used, site.budget.below) == (6 * COST, 0)


def test_however_full_it_is_a_round_waits_for_an_eighth_of_the_budget() -> None:
    site = Site([holding(20) for _ in range(70)])
    site.small.look()
    site.settled()
    assert site.budget.below + site.budget.used > MIB
    site.told.clear()
    site.queues += [holding(20) for _ in range(70)]
    before = site.budget.used
    site.notes.arrived = MIB // 8
    site.settled()
    assert site.budget.used == before
    site.notes.arrived += 1
    site.settled()
    assert site.budget.used == 2 * before
    assert site.told == [], "the floor is the same"


def test_before_a_start_all_queues_may_be_deep() -> None:
    site = Site([holding(0) for _ in range(4)])
    site.small.expect()
    assert site.budget.floor == 7 * (MIB >> 5)
    few = Site([holding(0)])
    few.small.expect()
    assert few.budget.floor == FLOOR_BYTES
    many = Site([holding(0) for _ in range(100)])
    many.small.expect()
    assert many.budget.floor == FLOOR_LEAST


def test_until_the_first_tick_after_a_start_the_floor_does_not_rise() -> None:
    """A round finds queues empty that are restored behind it."""
    site = Site([holding(0) for _ in range(4)])
    site.small.expect()
    lowered = site.budget.floor
    site.settled()
    assert site.budget.floor == lowered < FLOOR_BYTES
    site.queues += [holding(100) for _ in range(20)]
    site.notes.arrived = 2 * MIB
    site.settled()
    assert site.budget.floor < lowered, "it may sink"
    site.remove(4)
    site.small.tick()
    site.settled()
    assert site.budget.floor == FLOOR_BYTES


@pytest.mark.parametrize("settings", [{}, {"last_value_key": "key"}])
@pytest.mark.parametrize("large", [0, 10 * MIB])
def test_a_front_has_more_than_one_of_small_messages_beside_a_huge_one(settings: dict[str, str], large: int) -> None:
    queue, disk = durable_queue(**settings), Disk()
    for size in ([100] * 20 + [large]) if large else []:
        for entry in stored_entries(queue, disk, 1, size=size):
            queue.insert(entry, arrival=True)
    budget = BodyBudget(MIB)
    budget.floor = FLOOR_LEAST
    messages, size = budget.front_of(queue)
    assert messages >= 6
    assert 4 << 10 <= size <= FLOOR_LEAST


def test_a_front_of_large_messages_has_one() -> None:
    queue = durable_queue()
    for entry in stored_entries(queue, Disk(), 10, size=FLOOR_LEAST // 2 + 1):
        queue.insert(entry, arrival=True)
    budget = BodyBudget(MIB)
    budget.floor = FLOOR_LEAST
    assert budget.front_of(queue).size <= FLOOR_LEAST // 2
    assert budget.front_of(queue, [10] * 10).messages > 6, "it goes by those that are to be read"


def test_what_comes_to_a_deep_queue_begins_no_round() -> None:
    queue = durable_queue()
    notes = ArrivalNotes()
    notes.lower(FLOOR_LEAST)
    for entry in stored_entries(queue, Disk(), 100, size=1024):
        queue.insert(entry, arrival=True)
        notes.stored(entry)
    assert notes.arrived == (FLOOR_LEAST // 1024) * (1024 + ENTRY_BYTES)


def test_rounds_for_what_is_taken_at_once_come_less_and_less_often_until_a_tick_ends_one() -> None:
    site = Site([holding(20) for _ in range(70)])
    site.small.look()
    site.settled()
    before = site.budget.used
    came = []
    for _ in range(5):
        site.queues[0].pending_bytes += 1  # seen by a round only
        site.notes.arrived, size = 0, 0
        while site.budget.used == before:
            size += MIB // 16
            site.notes.arrived = size + 1
            site.settled()
        before = site.budget.used
        came.append(size)
    assert came == [MIB // 8, MIB // 4, MIB // 2, 9 * MIB // 16, 9 * MIB // 16], "8 KiB for each at most"
    assert MIB // 2 < 70 * IN_VAIN < 9 * MIB // 16
    site.small.look()
    site.queues[0].pending_bytes += 1
    site.notes.arrived = MIB // 8 + 1
    site.settled()
    assert site.budget.used == before + 1
