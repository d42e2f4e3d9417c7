"""What no log holds leaves memory all the same: written before, once, far end first; what is refused stays."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.model.entry import DELIVERING, QueueEntry
from annulet.core.queue.queue import Queue
from annulet.residency.bodies.bodies import StoredBodies
from annulet.residency.bodies.budget import BodyBudget, drift_of
from annulet.residency.bodies.spilling import BODY_BYTES_LEAST, CHUNK_BODIES, CHUNK_BYTES, Spilling, SpillWork
from annulet.residency.loading.row_reading import ATTEMPTS_MAX
from tests.core.helpers import NOW, RecordingSession, make_message, queue_of
from tests.residency.doubles import Disk, Spill, bodies_of, durable_queue, filled, spilling_of

ALL = 1 << 60
SIZE = BODY_BYTES_LEAST


def transient(queue: Queue, count: int, size: int = SIZE) -> list[QueueEntry]:
    return [queue.enqueue(make_message(b"%0*d" % (size, queue.next_sequence)), NOW) for _ in range(count)]


class Site:
    """A queue that is not durable, filled, with four messages that stay in front."""

    def __init__(self, count: int, *, size: int = SIZE, limit: int = ALL, queue: Queue | None = None) -> None:
        self.queue = queue_of() if queue is None else queue
        self.spill = Spill(limit)
        self.spilling = spilling_of(self.spill)
        self.disk = Disk()
        self.entries = transient(self.queue, count, size)
        self.bodies: StoredBodies = bodies_of(self.queue, self.disk, self.spilling)
        self.bodies.keep_messages = 4

    def run_pass(self, wanted: int = ALL, deliveries: int = 0, durable: int = ALL) -> None:
        self.bodies.begin(wanted, deliveries)
        while self.bodies.passing:
            self.bodies.step(durable, 100)

    def away(self) -> list[int]:
        return [entry.sequence for entry in self.entries if entry.away]


def test_the_far_end_is_written_and_leaves_and_comes_back_in_order():
    site = Site(20)
    site.run_pass(5 * SIZE)
    assert site.away() == [16, 17, 18, 19, 20]
    assert (site.bodies.count, site.bodies.bytes, site.spilling.figures.spilled) == (5, 5 * SIZE, 5)
    assert list(site.spill.bodies.values()) == [b"%0*d" % (SIZE, number) for number in range(16, 21)], "oldest first"
    session = RecordingSession()
    session.consume(site.queue)
    assert [int(body) for body in session.received] == list(range(1, 21))
    assert site.spill.reads == [5]
    assert drift_of(site.queue) == 0


def test_the_front_stays():
    site = Site(20)
    site.run_pass()
    assert site.away() == list(range(5, 21))


def test_the_space_is_given_back_when_the_message_is_gone():
    site = Site(20)
    site.bodies.let_all_go(ALL)
    assert len(site.spill.bodies) == 20
    session = RecordingSession()
    session.consume(site.queue, messages=3)
    assert not any(entry.away for entry in site.entries)
    assert len(site.spill.bodies) == 20
    site.run_pass()
    assert (site.spill.writes, len(site.away())) == ([20], 16), "what left before is not written again"
    site.entries.clear()
    session.deliveries.clear()
    for tag in (1, 2, 3):
        session.acknowledge(tag, NOW)
    session.deliveries.clear()
    assert sorted(site.spill.bodies) == list(range(4, 21)), "all but what was acknowledged"


def test_a_purge_gives_all_back():
    site = Site(50)
    site.bodies.let_all_go(ALL)
    site.entries.clear()
    assert site.queue.purge(NOW) == 50
    assert (site.spill.bodies, site.bodies.count, drift_of(site.queue)) == ({}, 0, 0)


def test_small_bodies_stay():
    site = Site(20, size=BODY_BYTES_LEAST - 1)
    site.run_pass()
    assert (site.away(), site.spill.writes) == ([], [])
    site = Site(20, size=BODY_BYTES_LEAST)
    site.run_pass()
    assert len(site.away()) == 16


def test_without_a_store_nothing_leaves():
    queue = queue_of()
    entries = transient(queue, 20)
    bodies = bodies_of(queue, Disk())
    bodies.let_all_go(ALL)
    assert not any(entry.away for entry in entries)


@pytest.mark.parametrize(("size", "expected"), [(CHUNK_BYTES // 4, [4, 4, 1]), (2 * CHUNK_BYTES, [1] * 9)])
def test_a_write_is_a_mebibyte_and_one_body_at_least(size, expected):
    site = Site(9, size=size)
    site.bodies.let_all_go(ALL)
    assert site.spill.writes == expected


def test_a_write_is_of_a_bounded_number():
    site = Site(CHUNK_BODIES + 500)
    site.bodies.begin(ALL)
    site.bodies.keep_messages = 0
    site.bodies.step(ALL, ALL)
    assert site.spill.writes == [CHUNK_BODIES]


class Later:
    """Keeps disk work until it is asked to do it."""

    def __init__(self) -> None:
        self.waiting: list[tuple[SpillWork, Callable[[], None]]] = []

    def submit(self, work: SpillWork, done: Callable[[], None]) -> None:
        self.waiting.append((work, done))

    def do(self) -> None:
        while self.waiting:
            work, done = self.waiting.pop(0)
            work.run()
            done()


def slow_site(count: int, **options) -> tuple[Site, Later]:
    site, later = Site(count, **options), Later()
    site.spilling = Spilling(site.spill, site.spilling.figures, later.submit)
    site.bodies.store.spilling = site.spilling
    return site, later


def test_a_body_stays_until_it_is_written():
    site, later = slow_site(20)
    site.run_pass(5 * SIZE)
    assert (site.away(), site.bodies.writing, site.bodies.freed) == ([], 5 * SIZE, 5 * SIZE)
    site.run_pass()
    assert site.spill.writes == [5, 11], "what is being written is not written again"
    later.do()
    assert (site.away(), site.bodies.writing) == (list(range(5, 21)), 0)
    assert drift_of(site.queue) == 0


def test_what_went_while_it_was_written_gives_its_place_back():
    site, later = slow_site(6)
    site.run_pass()
    site.entries.clear()
    site.queue.purge(NOW)
    assert len(site.spill.bodies) == 2
    later.do()
    later.waiting.clear()
    assert (site.spill.bodies, site.bodies.writing, site.bodies.count) == ({}, 0, 0)


def test_what_is_pulled_while_it_was_written_stays():
    site, later = slow_site(6)
    site.run_pass()
    pulled = site.queue.acquire(6, -1, NOW)
    later.do()
    assert not any(entry.message.absent for entry in pulled)
    assert site.away() == []


def test_a_message_of_two_queues_is_written_once_and_leaves_with_the_second():
    first, second = queue_of(), queue_of()
    spill = Spill()
    spilling = spilling_of(spill)
    sites = [bodies_of(queue, Disk(), spilling) for queue in (first, second)]
    message = make_message(b"x" * SIZE)
    entries = [queue.enqueue(message, NOW) for queue in (first, second)]
    sites[0].let_all_go(ALL)
    assert (entries[0].away, message.absent) == (True, False)
    sites[1].let_all_go(ALL)
    assert (entries[1].away, message.absent, spill.writes) == (True, True, [1])
    assert first.purge(NOW) == 1
    session = RecordingSession()
    session.consume(second)
    assert session.received == ["x" * SIZE]
    assert drift_of(second) == 0


def test_a_record_of_another_queue_is_no_place():
    """The durable queue may settle its record any time: what it shares with a queue that is not is spilled."""
    durable, other = durable_queue(), queue_of()
    disk, spill = Disk(), Spill()
    spilling = spilling_of(spill)
    (entry,) = filled(durable, disk, 1, size=SIZE)
    shared = other.enqueue(entry.message, NOW)
    bodies_of(durable, disk, spilling).let_all_go(ALL)
    assert spill.writes == [], "the log has it"
    bodies_of(other, disk, spilling).let_all_go(ALL)
    assert (shared.away, spill.writes) == (True, [1])
    durable.purge(NOW)
    disk.stored.clear()
    session = RecordingSession()
    session.consume(other)
    assert [int(body) for body in session.received] == [1]


def test_transient_messages_of_a_durable_queue_are_spilled_and_persistent_ones_are_not():
    queue = durable_queue(priorities=10)
    site = Site(3, queue=queue)
    logged = filled(queue, site.disk, 3, size=SIZE)
    site.bodies.let_all_go(ALL)
    assert all(entry.away for entry in [*site.entries, *logged])
    assert site.spill.writes == [3]
    session = RecordingSession()
    session.consume(queue)
    assert [int(body) for body in session.received] == list(range(1, 7))


def test_what_waits_to_be_logged_is_not_spilled():
    queue = durable_queue(priorities=10)
    site = Site(0, queue=queue)
    logged = filled(queue, site.disk, 3, size=SIZE)
    site.run_pass(durable=2)
    assert (site.spill.writes, [entry.away for entry in logged]) == ([], [False] * 3)


def test_deliveries_stay_up_to_their_share():
    site = Site(20)
    session = RecordingSession()
    session.consume(site.queue, messages=8)
    assert [entry.state for entry in site.entries[:8]] == [DELIVERING] * 8
    site.run_pass(deliveries=8 * SIZE)
    assert site.away() == list(range(13, 21))
    site.run_pass(deliveries=8 * SIZE - 1)
    assert site.away() == [*range(1, 9), *range(13, 21)]
    session.close(NOW)
    assert drift_of(site.queue) == 0
    again = RecordingSession()
    again.consume(site.queue)
    assert [int(body) for body in again.received] == list(range(1, 21))


def test_a_full_store_leaves_bodies_in_memory_and_says_so_once(caplog: pytest.LogCaptureFixture):
    site = Site(40, size=CHUNK_BYTES, limit=10 * CHUNK_BYTES)
    site.run_pass()
    assert site.away() == list(range(31, 41)), "met to the byte"
    assert (site.spilling.refusing, site.spilling.figures.spill_refused, site.spilling.full) == (True, 1, True)
    site.run_pass()
    assert site.spilling.figures.spill_refused == 1, "nothing is asked of it before the next retry"
    site.spilling.retry()
    assert site.spilling.full, "to be asked again makes no room"
    site.run_pass()
    assert site.spilling.figures.spill_refused == 2
    assert caplog.text.count("spill_limit is reached") == 1
    assert (site.bodies.writing, drift_of(site.queue)) == (0, 0)
    session = RecordingSession()
    session.consume(site.queue)
    assert [int(body[-9:]) for body in session.received] == list(range(1, 41))


def test_as_many_are_written_as_there_is_room_for():
    site = Site(20, limit=10 * SIZE)
    site.run_pass()
    assert (site.away(), site.spill.writes) == (list(range(5, 15)), [10]), "oldest first"
    assert (site.spilling.figures.spilled, site.spilling.figures.spill_refused) == (10, 6)
    assert (site.bodies.freed, site.bodies.writing, drift_of(site.queue)) == (10 * SIZE, 0, 0)
    session = RecordingSession()
    session.consume(site.queue)
    assert [int(body) for body in session.received] == list(range(1, 21))


def test_a_store_is_full_until_there_is_room_for_what_did_not_fit_or_nobody_wants_it_written():
    site = Site(8, limit=3 * SIZE)
    site.run_pass(3 * SIZE)
    assert not site.spilling.full, "nothing was refused"
    site.run_pass(SIZE)
    assert (site.away(), site.spilling.full) == ([6, 7, 8], True)
    site.spill.limit += SIZE
    assert not site.spilling.full
    site.spill.limit -= SIZE
    assert site.spilling.full
    site.spilling.retry()
    assert site.spilling.full, "to be asked again makes no room"
    site.spilling.retry()
    assert not site.spilling.full, "it was not tried again: its queue may be gone"


def test_a_full_store_takes_more_when_it_has_room_for_a_chunk():
    site = Site(200, size=1 << 16, limit=64 << 16)
    site.run_pass()
    assert site.spilling.full
    site.spill.limit += (8 << 16) - 1
    assert site.spilling.full, "an eighth of what its limit was is lacking"
    site.spill.limit += 1
    assert not site.spilling.full


def test_what_could_never_fit_does_not_make_a_store_full():
    """No consumer could make room for it."""
    site = Site(8, limit=SIZE - 1)
    site.run_pass(SIZE)
    assert (site.away(), site.spilling.refusing, site.spilling.full) == ([], True, False)


def test_a_disk_that_refuses_leaves_bodies_in_memory_until_it_does_not(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING)
    site = Site(20)
    site.spill.refusing = True
    site.run_pass()
    assert (site.away(), site.bodies.writing, site.spill.bodies) == ([], 0, {})
    assert (site.spilling.refusing, site.spilling.full) == (True, False)
    assert "No space left" in caplog.text
    site.spill.refusing = False
    site.run_pass()
    assert site.away() == []
    site.spilling.retry()
    site.run_pass()
    assert site.away() == list(range(5, 21))
    assert drift_of(site.queue) == 0


def test_damage_is_counted_and_passed_over():
    site = Site(3)
    site.bodies.let_all_go(ALL)
    assert site.entries[1].message.spill is not None
    site.spill.damaged = {site.entries[1].message.spill.number}
    session = RecordingSession()
    session.consume(site.queue)
    assert [int(body) for body in session.received] == [1, 3]
    assert site.queue.counters.removed[RemovalReason.UNREADABLE] == 1
    assert drift_of(site.queue) == 0


def test_a_disk_that_gives_nothing_delays():
    site = Site(3)
    site.bodies.let_all_go(ALL)
    site.spill.failing = True
    session = RecordingSession()
    session.consume(site.queue)
    assert (session.received, site.bodies.stalled) == ([], True)
    site.spill.failing = False
    site.bodies.retry()
    site.queue.wake(NOW)
    assert [int(body) for body in session.received] == [1, 2, 3]


def test_a_spill_store_that_gives_nothing_withholds_nothing_of_a_durable_queue():
    durable, other = durable_queue(), queue_of()
    disk, spill = Disk(), Spill()
    spilling = spilling_of(spill)
    (entry,) = filled(durable, disk, 1, size=SIZE)
    other.enqueue(entry.message, NOW)
    bodies = bodies_of(durable, disk, spilling)
    bodies.let_all_go(ALL)
    bodies_of(other, disk, spilling).let_all_go(ALL)
    assert (entry.message.absent, spill.writes) == (True, [1])
    spill.failing = True
    session = RecordingSession()
    session.consume(durable)
    for _ in range(ATTEMPTS_MAX):
        bodies.retry()
        durable.wake(NOW)
    assert [int(body) for body in session.received] == [1]


def test_upkeep_is_one_piece_at_a_time_and_rests_while_the_disk_refuses():
    site, later = slow_site(0)
    works = [SpillWorkWithSequel(), SpillWorkWithSequel()]
    site.spill.upkeeps = list(works)
    site.spilling.reclaim(100)
    site.spilling.reclaim(100)
    assert len(later.waiting) == 1
    works[1].error = OSError(5, "Input/output error")
    later.do()
    site.spilling.reclaim(100)
    later.do()
    assert [work.finished for work in works] == [0, 2]
    site.spilling.retry()
    later.do()
    assert ([work.finished for work in works], site.spilling.works) == ([2, 2], 0)


def test_upkeep_that_fails_says_nothing_about_writes():
    """Else what is transient would stay in memory up to a tick whenever the disk refuses to read a file."""
    site, later = slow_site(20)
    work = SpillWorkWithSequel()
    work.error = OSError(5, "Input/output error")
    site.spill.upkeeps = [work]
    site.spilling.reclaim(100)
    later.do()
    assert work.finished == 2
    site.run_pass()
    later.do()
    assert site.away() == list(range(5, 21))


def test_a_full_store_goes_on_with_upkeep_and_takes_more_as_soon_as_there_is_room():
    """With a rest of a tick after each file, a compaction at the limit would take minutes."""
    site, later = slow_site(4, limit=2 * SIZE)
    site.run_pass()
    site.bodies.keep_messages = 0
    later.do()
    site.run_pass()
    later.do()
    assert site.spilling.refusing
    site.spill.upkeeps = [SpillWorkWithSequel(), SpillWorkWithSequel()]
    works = list(site.spill.upkeeps)
    site.spilling.reclaim(100)
    later.do()
    assert ([work.finished for work in works], site.spilling.refusing) == ([2, 2], False)


class SpillWorkWithSequel:
    def __init__(self) -> None:
        self.error: OSError | None = None
        self.finished = 0

    def run(self) -> None:
        assert self.finished < 2

    def finish(self) -> None:
        self.finished += 1

    def following(self) -> SpillWorkWithSequel | None:
        return self if self.finished == 1 else None


def test_after_the_end_nothing_is_begun():
    site = Site(20)
    site.spill.upkeeps = [SpillWorkWithSequel()]
    site.spilling.close()
    site.spilling.retry()
    site.run_pass()
    assert (site.spill.writes, len(site.spill.upkeeps)) == ([], 1)


def test_queues_that_are_not_durable_count_where_their_bodies_can_leave():
    site = Site(100, size=64 << 10)
    assert BodyBudget(1 << 20).spills is False
    budgets = [BodyBudget(1 << 20), BodyBudget(1 << 20, spills=True)]
    for budget in budgets:
        budget.measure([site.queue])
    assert [budget.exceeded() for budget in budgets] == [False, True]
