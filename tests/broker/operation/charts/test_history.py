"""The history over real queues: what is kept, who has a fine one, and its bounds."""

from __future__ import annotations

import gc
import itertools
import math
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from annulet.broker.operation.charts import history as module
from annulet.broker.operation.charts.history import (
    COARSE,
    DAY,
    FINE,
    FINE_QUEUES_MAX,
    HISTORY_BYTES_MAX,
    HISTORY_HOSTS_MAX,
    HISTORY_QUEUES_MAX,
    HOUR,
    PROMOTION_ROUNDS,
    REASONS,
    ROUND_MILLISECONDS,
    FigureHistory,
    Sum,
)
from annulet.core.base.reply_names import new_reply_name
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.queue.queue import Queue
from annulet.testing import VirtualClock, broker

HOUR_MILLISECONDS = 3_600_000
ORIGIN = Origin("", "q", "guest@test", ContentView("none"))


class Room:
    def __init__(self, running: Any, clock: VirtualClock) -> None:
        self.hosts = running.broker.hosts
        self.clock = clock
        self.history = FigureHistory()

    def queue(self, name: str, **arguments: Any) -> Queue:
        given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        return self.hosts["/"].declare_queue(name, now=self.clock(), owner=None, durable=False, arguments=given)

    def fill(self, queue: Queue, count: int, size: int = 10) -> None:
        for _ in range(count):
            queue.enqueue(Message(b"", b"x" * size, ORIGIN, accepted_at=self.clock()), self.clock())

    def round(self, count: int = 1) -> None:
        for _ in range(count):
            self.clock.advance(ROUND_MILLISECONDS)
            self.history.tick(self.hosts, self.clock())  # begins
            self.history.tick(self.hosts, self.clock())  # reads all of these few queues


@pytest.fixture
async def room(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Room]:
    monkeypatch.setattr(module, "SLICE_SECONDS", 60)  # a round is one slice, on slow machines too
    clock = VirtualClock()
    async with broker(clock=clock, http=False) as running:
        yield Room(running, clock)


def last(points: Any) -> Any:
    return points[-1]


async def test_a_queue_has_its_rates_depth_bytes_and_age(room: Room) -> None:
    queue = room.queue("q")
    room.round()
    room.fill(queue, 20, size=100)
    room.round()
    point = last(room.history.of_queue("/", "q", HOUR))
    assert (point.published, point.delivered, point.acknowledged, point.lost) == (2, 0, 0, 0)
    assert (point.messages, point.bytes, point.oldest_age) == (20, 2000, ROUND_MILLISECONDS)
    assert point.at == room.clock() - room.clock() % ROUND_MILLISECONDS


async def test_losses_have_their_reasons(room: Room) -> None:
    queue = room.queue("q", ring_size=5)
    room.round()
    room.fill(queue, 25)
    room.round()
    point = last(room.history.of_queue("/", "q", HOUR))
    assert (point.lost, point.reasons[REASONS.index("replaced-ring")]) == (2, 2)
    assert sum(point.reasons) == 2


async def test_counters_of_before_the_first_round_are_no_rate(room: Room) -> None:
    room.fill(room.queue("old"), 1000)
    room.round(2)
    room.fill(room.queue("new"), 100)
    room.round()
    assert last(room.history.of_broker(HOUR)).published == 10
    assert last(room.history.of_host("/", HOUR)).published == 10


async def test_sums_go_on_when_a_queue_is_deleted(room: Room) -> None:
    queue, other = room.queue("q"), room.queue("other")
    room.round()
    room.fill(queue, 500)
    room.round()
    room.hosts["/"].delete_queue(queue, room.clock())
    room.fill(other, 30)
    room.round()
    point = last(room.history.of_host("/", HOUR))
    assert (point.published, point.messages) == (3, 30)
    assert room.history.of_queue("/", "q", HOUR) is None
    assert (len(room.history), room.history.fine) == (1, 1)


async def test_another_queue_of_the_name_begins_anew(room: Room) -> None:
    room.fill(room.queue("q"), 500)
    room.round(2)
    room.hosts["/"].delete_queue(room.hosts["/"].queues["q"], room.clock())
    room.fill(room.queue("q"), 20)
    room.round(2)
    points = room.history.of_queue("/", "q", HOUR)
    assert math.isnan(points[-2].published)
    assert points[-1].published == 0
    assert [point.published for point in room.history.of_host("/", HOUR)][-2:] == [2, 0]


async def test_an_hour_and_a_day_have_their_steps(room: Room) -> None:
    queue = room.queue("q")
    for _ in range(2 * 3600 // 10):
        room.fill(queue, 1)
        room.round()
    hour, day = (room.history.of_queue("/", "q", window) for window in (HOUR, DAY))
    fine = [point for point in hour if point.reasons is not None]
    assert len(fine) == 360
    assert {after.at - before.at for before, after in itertools.pairwise(fine)} == {10_000}
    assert {round(point.published, 6) for point in fine} == {0.1}
    assert len([point for point in day if point.reasons is not None]) == pytest.approx(24, abs=1)
    assert last(day).published == pytest.approx(0.1)


async def test_a_queue_beyond_the_fine_ones_has_a_coarse_history(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FINE_QUEUES_MAX", 1)
    room.queue("first")
    queue = room.queue("second")
    room.round()
    for _ in range(PROMOTION_ROUNDS - 1):
        room.fill(queue, 10)
        room.round()
    points = room.history.of_queue("/", "second", HOUR)
    assert 1 <= len(points) <= 2
    assert all(point.reasons is None for point in points)


async def test_a_queue_that_is_much_busier_takes_the_place_of_one_with_a_fine_history(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FINE_QUEUES_MAX", 1)
    first, second = room.queue("first"), room.queue("second")
    room.round()
    for _ in range(2 * PROMOTION_ROUNDS):
        room.fill(first, 2)
        room.fill(second, 4)  # twice as busy is not enough
        room.round()
    assert last(room.history.of_queue("/", "first", HOUR)).reasons is not None
    for _ in range(2 * PROMOTION_ROUNDS):
        room.fill(first, 2)
        room.fill(second, 10)
        room.round()
    assert last(room.history.of_queue("/", "second", HOUR)).reasons is not None
    points = room.history.of_queue("/", "first", HOUR)
    assert all(point.reasons is None for point in points)
    assert room.history.fine == 1
    mixed = room.history.of_queue("/", "second", HOUR)
    assert [point.reasons is None for point in mixed] == sorted(
        (point.reasons is None for point in mixed), reverse=True
    ), "coarse steps come before fine ones"
    assert [point.at for point in mixed] == sorted(point.at for point in mixed)


async def test_queues_beyond_the_bound_have_none_and_are_counted(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HISTORY_QUEUES_MAX", 3)
    for number in range(5):
        room.queue(f"q{number}")
    room.round(2)
    assert (len(room.history), room.history.left_out) == (3, 2)
    assert room.history.of_queue("/", "q4", HOUR) is None


async def test_virtual_hosts_beyond_the_bound_are_in_the_sums_of_the_broker(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HISTORY_HOSTS_MAX", 0)
    room.fill(room.queue("q"), 5)
    room.round()
    assert room.history.of_host("/", HOUR) is None
    assert last(room.history.of_broker(HOUR)).messages == 5


async def test_a_tick_reads_for_a_slice_of_time(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_SECONDS", 0)
    for number in range(4):
        room.queue(f"q{number}")
    room.clock.advance(ROUND_MILLISECONDS)
    lengths = []
    for _ in range(5):
        room.history.tick(room.hosts, room.clock())
        lengths.append(len(room.history))
    assert lengths == [0, 1, 2, 3, 4]


async def test_no_round_begins_before_its_time(room: Room) -> None:
    queue = room.queue("q")
    room.round()
    room.fill(queue, 1)
    for _ in range(5):
        room.history.tick(room.hosts, room.clock())
    assert last(room.history.of_queue("/", "q", HOUR)).messages == 0


async def test_it_goes_on_when_the_clock_goes_back(room: Room) -> None:
    queue = room.queue("q")
    room.round(5)
    room.clock.now -= 3_600_000
    room.fill(queue, 20)
    room.round(2)
    points = [point for point in room.history.of_queue("/", "q", HOUR) if point.reasons is not None]
    assert [point.at for point in points] == sorted(point.at for point in points)
    assert max(point.at for point in points) <= room.clock()


async def test_reply_queues_have_none(room: Room) -> None:
    host, name = room.hosts["/"], new_reply_name()
    host.queues[name] = room.queue("q")
    host.reply_queues += 1
    room.round()
    assert (len(room.history), room.history.left_out) == (1, 0)
    assert room.history.of_queue("/", name, HOUR) is None
    del host.queues[name]
    host.reply_queues -= 1


async def test_a_day_of_ten_thousand_queues_stays_within_the_bound_in_bytes(room: Room) -> None:
    """Two rounds, 21 hours apart, as each takes the time of ten thousand samples.

    Each queue is read as one with other counters, without ten thousand queues that the broker would have to hold."""
    queue = room.queue("q")

    class Renamed:
        deleted = False

        def __init__(self, name: str) -> None:
            self.name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(queue, name)

    names = [f"a-queue-of-a-usual-name-{number}" for number in range(HISTORY_QUEUES_MAX)]

    class Host:
        reply_queues = 0
        queues: ClassVar[dict[str, Renamed]] = {name: Renamed(name) for name in names}

    hosts: Any = {"/": Host()}
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        history = FigureHistory()
        for _ in range(2):
            room.clock.advance(21 * HOUR_MILLISECONDS)
            room.fill(queue, 1)
            history.tick(hosts, room.clock())
            history.tick(hosts, room.clock())
        others = [Sum() for _ in range(HISTORY_HOSTS_MAX)]
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert (len(history), history.fine, len(others)) == (HISTORY_QUEUES_MAX, FINE_QUEUES_MAX, HISTORY_HOSTS_MAX)
    assert HISTORY_BYTES_MAX // 2 < used < HISTORY_BYTES_MAX
    days = [history.of_queue("/", name, DAY) for name in (names[0], names[-1])]
    hours = 21 * HOUR_MILLISECONDS
    fine, coarse = (len(day or ()) for day in days)
    assert fine > hours // FINE[DAY].step
    assert coarse > hours // COARSE[DAY].step


async def test_removals_a_second_are_known_by_reason(room: Room) -> None:
    ring = room.queue("ring", ring_size=2)
    room.round()
    assert room.history.removal_rates(["/"]) == {}
    room.fill(ring, 12)
    room.round()
    assert room.history.removal_rates(["/", "gone"]) == {"replaced-ring": 10 * 1000 / ROUND_MILLISECONDS}
    room.round()
    assert room.history.removal_rates(["/"]) == {}
