"""A grouped queue deeper than memory: what a stalled owner's group has is parked, and no group is out of order."""

from __future__ import annotations

import random

import pytest

from annulet.core.base.errors import PreconditionFailed
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import ConsumerSettings
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.queue import Queue
from annulet.residency.bodies.budget import drift_of
from tests.core.deep_doubles import ALL, numbers
from tests.core.grouped_doubles import GroupedDeep, check_grouped, ten_groups
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, removed
from tests.residency.doubles import bodies_of

HALF = 300


def stalled_first(number: int) -> str:
    """The first half is of one group, the second of ten others."""
    return "stalled" if number <= HALF else ten_groups(number)


def acknowledge_all(deep: GroupedDeep, session: RecordingSession) -> None:
    """Settle what it has until nothing more comes."""
    while session.unacknowledged:
        session.acknowledge(max(session.unacknowledged), NOW, multiple=True)
        deep.take_turns()


def stalled_queue() -> tuple[GroupedDeep, RecordingSession]:
    """Return a queue whose first half belongs to a consumer that holds one of it and takes no more."""
    deep, owner = GroupedDeep(stalled_first), RecordingSession("owner")
    deep.publish(HALF)
    owner.consume(deep.queue, messages=1)
    deep.publish(HALF)
    deep.page_out(ALL)
    return deep, owner


def stalled_queue_drained() -> tuple[GroupedDeep, RecordingSession, RecordingSession]:
    """Return such a queue of which another consumer, which goes on, has had the other groups, and both consumers."""
    deep, owner = stalled_queue()
    other = RecordingSession("other")
    other.consume(deep.queue, messages=20)
    deep.take_turns()
    acknowledge_all(deep, other)
    return deep, owner, other


def test_other_groups_go_on_in_order_while_one_of_them_stalls_and_stays_on_disk() -> None:
    deep, owner = stalled_queue()
    assert deep.queue.order.paged_count() > 2 * HALF - 20
    other = RecordingSession("other")
    other.consume(deep.queue, messages=20)
    deep.take_turns()
    acknowledge_all(deep, other)
    assert numbers(other) == list(range(HALF + 1, 2 * HALF + 1))
    assert numbers(owner) == [1]
    assert deep.queue.order.count == HALF - 1
    assert deep.in_memory() < 20
    assert deep.lanes.parked > HALF - 20
    asked = {number: count for (number, name), count in deep.view.asked.items() if name == "JMSXGroupID"}
    assert max(asked.values()) == 2, "when they leave memory, and when they are read"
    assert {asked[number] for number in range(265, HALF + 1)} == {1}, "the first look reads 256, with room for some"
    check_grouped(deep.queue)


def test_the_owner_gets_what_was_parked_when_it_has_credit_again() -> None:
    deep, owner, other = stalled_queue_drained()
    deep.publish(3)
    acknowledge_all(deep, owner)
    assert numbers(owner) == list(range(1, HALF + 1))
    assert numbers(other)[-3:] == [2 * HALF + 1, 2 * HALF + 2, 2 * HALF + 3]
    acknowledge_all(deep, other)
    assert (deep.queue.order.count, deep.lanes.parked) == (0, 0)
    check_grouped(deep.queue)


def test_what_a_consumer_leaves_stands_before_what_is_parked_and_goes_to_who_is_next() -> None:
    deep, owner, other = stalled_queue_drained()
    owner.close(NOW)
    deep.take_turns()
    acknowledge_all(deep, other)
    assert numbers(other)[HALF:] == list(range(1, HALF + 1))
    assert deep.queue.order.count == 0
    assert [holding.owner for holding in deep.lanes.holdings()] == [None, None]


def test_groups_of_a_consumer_without_credit_do_not_fill_the_memory() -> None:
    deep, slow, fast = GroupedDeep(), RecordingSession("slow"), RecordingSession("fast")
    deep.publish(10)
    slow.consume(deep.queue, messages=5)
    fast.consume(deep.queue, messages=5)
    held = {ten_groups(number) for number in numbers(slow)}
    deep.publish(600)
    deep.page_out(ALL)
    acknowledge_all(deep, fast)
    assert numbers(fast)[5:] == [number for number in range(11, 611) if ten_groups(number) not in held]
    assert deep.in_memory() < 30
    check_grouped(deep.queue)


def test_a_message_that_arrives_in_front_of_nothing_needs_no_look() -> None:
    deep, owner = stalled_queue()
    other = RecordingSession("other")
    other.consume(deep.queue)
    deep.take_turns()
    assert numbers(other)[-1] == 2 * HALF
    reads = len(deep.disk.reads)
    deep.publish(5)
    assert numbers(other)[-5:] == list(range(2 * HALF + 1, 2 * HALF + 6))
    assert len(deep.disk.reads) == reads
    assert not deep.lanes.unpassed()
    assert numbers(owner) == [1]


def test_the_oldest_leave_a_ring_and_their_groups_are_forgotten() -> None:
    deep, owner = GroupedDeep(stalled_first, ring_size=HALF), RecordingSession("owner")
    deep.publish(HALF)
    owner.consume(deep.queue, messages=1)
    other = RecordingSession("other")
    other.consume(deep.queue, messages=1)
    deep.publish(HALF)
    deep.page_out(ALL)
    assert deep.queue.order.count == HALF
    owner.close(NOW)
    acknowledge_all(deep, other)
    assert numbers(other) == [HALF + 1, HALF, *range(HALF + 2, 2 * HALF + 1)], "all but the last of it were replaced"
    assert (deep.queue.order.count, deep.lanes.parked) == (0, 0)
    check_grouped(deep.queue)


@pytest.mark.parametrize("emptied", ["purge", "delete", "expiry"])
def test_nothing_is_known_of_groups_whose_parked_messages_are_gone(emptied: str) -> None:
    deep, owner, other = GroupedDeep(stalled_first), RecordingSession("owner"), RecordingSession("other")
    deep.publish(HALF, expires_at=NOW + 1000)
    owner.consume(deep.queue, messages=1)
    other.consume(deep.queue, messages=1)
    deep.publish(100, expires_at=NOW + 1000)
    deep.page_out(ALL)
    deep.take_turns()
    lanes = deep.lanes
    assert lanes.parked > 0
    if emptied == "purge":
        assert deep.queue.purge(NOW) == HALF + 98
    elif emptied == "delete":
        deep.queue.delete(NOW)
    else:
        deep.queue.expire(NOW + 1000)
        assert removed(deep.queue, RemovalReason.EXPIRED) == HALF + 98
    assert (deep.queue.order.count, lanes.parked, lanes.holdings()[0].count) == (0, 0, 0)
    assert len(lanes.table.groups) <= 2
    if emptied != "delete":
        check_grouped(deep.queue)


def test_sequences_of_messages_that_left_are_dropped_before_they_are_many() -> None:
    deep, owner, other = GroupedDeep(stalled_first), RecordingSession("owner"), RecordingSession("other")
    lanes = deep.lanes
    lanes.sweep.stale_least = 10
    lanes.sweep.looks_least = 200
    deep.publish(HALF)
    owner.consume(deep.queue, messages=1)
    other.consume(deep.queue, messages=1)
    deep.publish(1)
    deep.page_out(ALL)
    deep.take_turns()
    parked = lanes.parked
    for _ in range(150):
        first = deep.queue.order.first()
        assert first is not None
        deep.queue.remove(first, RemovalReason.DELETED, NOW)
    assert parked - lanes.parked > 80
    check_grouped(deep.queue)


def test_a_selector_has_all_of_it_brought_into_lanes_and_later_it_pages_again() -> None:
    deep, owner = stalled_queue()
    choosy = RecordingSession("choosy")
    choosy.consume(deep.queue, selector="seven = 2", messages=1)
    assert deep.queue.order.paged_count() == 0
    assert (deep.lanes.stock is not None and deep.lanes.stock.count, deep.lanes.parked) == (0, 0)
    assert numbers(choosy) == [next(n for n in range(HALF + 1, 2 * HALF) if n % 7 == 2)]
    deep.publish(10)
    assert deep.page_out_if_it_may() == 0
    choosy.close(NOW)
    deep.publish(10)
    assert deep.page_out_if_it_may() > 0
    assert numbers(owner) == [1]


def test_a_selector_is_refused_where_all_of_it_is_more_than_memory() -> None:
    deep, _ = stalled_queue()
    deep.disk.free = 1000
    host = VirtualHost("/", RecordingEffects())
    with pytest.raises(PreconditionFailed, match=r"a consumer that selects.*where there are groups.*are on disk only"):
        host.check_reader(deep.queue, ConsumerSettings(selector="seven = 2"))
    host.check_reader(deep.queue, ConsumerSettings(browse="snapshot"))
    host.check_reader(deep.queue, ConsumerSettings())
    assert deep.queue.order.paged_count() > HALF


def test_a_queue_that_keeps_from_all_consumers_what_is_their_own_does_not_page() -> None:
    deep, session = GroupedDeep(no_local=True), RecordingSession()
    deep.publish(HALF)
    assert deep.page_out_if_it_may() == 0, "the first consumer would need all of it, whatever the disk says"
    session.connection_identity = object()
    session.consume(deep.queue)
    assert numbers(session) == list(range(1, HALF + 1))


def test_a_pull_gets_what_nobody_has_in_order() -> None:
    deep, owner = stalled_queue()
    taken = deep.queue.acquire(30, -1, NOW)
    assert [entry.sequence for entry in taken] == list(range(HALF + 1, HALF + 31))
    check_grouped(deep.queue)
    deep.queue.return_entries(taken, NOW)
    owner.close(NOW)
    taken = deep.queue.acquire(2 * HALF, -1, NOW)
    assert [entry.sequence for entry in taken] == list(range(1, 2 * HALF + 1))


def test_a_pull_goes_only_so_far_at_once() -> None:
    deep, _ = stalled_queue()
    deep.lanes.pull_looks = 1
    assert deep.queue.acquire(1, -1, NOW) == []
    assert deep.asking
    deep.take_turns()
    assert [entry.sequence for entry in deep.queue.acquire(1, -1, NOW)] == [HALF + 1]


def test_a_pull_that_went_so_far_asks_for_a_turn_where_nothing_was_on_disk_yet() -> None:
    asking: list[Queue] = []

    class Turns(RecordingEffects):
        def turns_for(self, queue: Queue) -> bool:
            asking.append(queue)
            return True

    deep = GroupedDeep(stalled_first)
    deep.queue.effects = Turns()
    deep.publish(HALF)
    RecordingSession("owner").consume(deep.queue, messages=1)
    deep.publish(HALF)
    deep.lanes.pull_looks = 1
    assert deep.queue.acquire(1, -1, NOW) == []
    assert asking == [deep.queue]
    while deep.queue.scan(NOW):
        pass
    assert [entry.sequence for entry in deep.queue.acquire(1, -1, NOW)] == [HALF + 1]


@pytest.mark.parametrize("parked", [True, False])
def test_nobody_overtakes_what_the_disk_refuses(parked: bool) -> None:
    deep, owner = stalled_queue()
    other = RecordingSession("other")
    if parked:
        other.consume(deep.queue, messages=1)
        deep.take_turns()
    deep.disk.failing = True
    before = numbers(owner)
    acknowledge_all(deep, owner)
    held = len(numbers(owner))
    assert held < 20
    assert numbers(owner)[: len(before)] == before
    deep.disk.failing = False
    deep.retry()
    deep.queue.wake(NOW)
    acknowledge_all(deep, owner)
    assert numbers(owner)[:HALF] == list(range(1, HALF + 1))


def test_after_a_restart_what_a_lease_gives_back_waits_for_older_ones_of_its_group() -> None:
    source = GroupedDeep(lambda number: "one" if number % 2 else "two")
    source.publish(40)
    messages = [entry.message for entry in source.queue.order.entries()]
    deep = GroupedDeep(lambda number: "one" if number % 2 else "two")
    deep.disk = source.disk
    deep.queue.expect_leased([21, 23])
    leased: list[QueueEntry] = []
    for number, message in enumerate(messages, 1):
        entry = deep.queue.restore(message, number, redelivered=False)
        if number in (21, 23):
            leased.append(entry)
    deep.queue.finish_restore(41)
    assert deep.lanes.stock is not None
    assert deep.lanes.stock.count == 36
    deep.queue.return_entries(leased, NOW)
    check_grouped(deep.queue)
    session = RecordingSession()
    session.consume(deep.queue, messages=1)
    acknowledge_all(deep, session)
    assert numbers(session) == list(range(1, 41))


def test_bodies_of_what_was_brought_leave_and_come_back() -> None:
    deep, slow = GroupedDeep(lambda number: "one", enough=50), RecordingSession("slow")
    bodies = bodies_of(deep.queue, deep.disk)
    deep.publish(200)
    deep.page_out(ALL)
    slow.consume(deep.queue, messages=1)
    for tag in range(1, 6):  # those that are in memory, and one of the rows
        slow.acknowledge(tag, NOW)
    assert deep.queue.order.count - deep.queue.order.paged_count() > 20
    bodies.keep_messages = 0
    bodies.begin(1 << 30)
    while bodies.passing:
        bodies.step(ALL, 1000)
    assert bodies.count > 20
    assert drift_of(deep.queue) == 0
    acknowledge_all(deep, slow)
    assert numbers(slow) == list(range(1, 201))
    assert (bodies.count, drift_of(deep.queue)) == (0, 0)


class Machine:
    """Random commands on a grouped queue with its disk, and per group the list of what it must deliver next."""

    def __init__(self, random_numbers: random.Random, mode: str) -> None:
        self.random = random_numbers
        self.deep = GroupedDeep(self.group_of, enough=random_numbers.choice([1, 3, 300]), mode=mode)
        self.names: dict[int, str] = {}
        self.sessions: list[RecordingSession] = []

    def group_of(self, number: int) -> str:
        if number not in self.names:
            self.names[number] = self.random.choice(["a", "a", "a", "b", "c", "d"])
        return self.names[number]

    def publish(self) -> None:
        self.deep.publish(self.random.choice([1, 5, 40]))

    def join(self) -> None:
        session = RecordingSession(f"session {len(self.sessions)}")
        self.sessions.append(session)
        session.consume(self.deep.queue, messages=self.random.choice([1, 1, 3, 30]))

    def settle(self) -> None:
        for session in self.sessions:
            if session.unacknowledged and self.random.random() < 0.5:
                session.acknowledge(min(session.unacknowledged), NOW)

    def leave(self) -> None:
        if len(self.sessions) > 1:
            self.sessions.pop(self.random.randrange(len(self.sessions))).close(NOW)

    def remove(self) -> None:
        first = self.deep.queue.order.first()
        if first is not None:
            self.deep.queue.remove(first, RemovalReason.DELETED, NOW)

    def page(self) -> None:
        self.deep.page_out(self.random.choice([3, ALL]))

    def fail(self) -> None:
        self.deep.disk.failing = not self.deep.disk.failing
        if not self.deep.disk.failing:
            self.deep.retry()
            self.deep.queue.wake(NOW)

    def pull(self) -> None:
        self.deep.queue.return_entries(self.deep.queue.acquire(3, -1, NOW), NOW)

    def run(self, steps: int) -> None:
        commands = [self.publish, self.settle, self.settle, self.settle, self.page, self.join, self.pull, self.remove]
        rare = [self.leave, self.fail]
        for _ in range(steps):
            self.random.choice(commands if self.random.random() < 0.9 else rare)()
            for _ in range(3):
                self.deep.asking = self.deep.queue.scan(NOW) if self.deep.asking else False
            self.compare()

    def compare(self) -> None:
        """Whoever holds some of a group holds its oldest: nothing older of it waits."""
        queue = self.deep.queue
        if self.deep.disk.failing:
            return
        check_grouped(queue)
        youngest: dict[str, int] = {}
        for entry in queue.delivering:
            name = self.names[entry.sequence]
            youngest[name] = max(youngest.get(name, 0), entry.sequence)
        for entry in queue.order.entries():
            assert entry.sequence > youngest.get(self.names[entry.sequence], 0), "no group is overtaken"
        self.page()

    def finish(self) -> None:
        """Settle everything: nothing may stay."""
        if self.deep.disk.failing:
            self.fail()
        self.join()
        while any(session.unacknowledged for session in self.sessions):
            for session in self.sessions:
                if session.unacknowledged:
                    session.acknowledge(max(session.unacknowledged), NOW, multiple=True)
            self.deep.take_turns()
            self.compare()
        assert (self.deep.queue.order.count, self.deep.lanes.parked) == (0, 0)


@pytest.mark.parametrize("mode", ["sticky", "shared"])
def test_no_history_has_a_group_overtaken_or_a_message_left(mode: str) -> None:
    parked = 0
    for number in range(5):
        machine = Machine(random.Random(number), mode)
        machine.run(60)
        parked += machine.deep.lanes.parked
        machine.finish()
    assert parked > 0
