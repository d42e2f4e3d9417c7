"""Bodies leave furthest first and come back some hundred at once; what a refusing disk and damage do to them."""

from __future__ import annotations

import errno
import threading

import pytest

from annulet.core.base.errors import ContentUnavailable
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.model.entry import DELIVERING
from annulet.core.policies.fair_keys import Fairness
from annulet.residency.bodies import body_store
from annulet.residency.bodies.bodies import SAMPLE
from annulet.residency.bodies.body_store import BodyStore
from annulet.residency.bodies.budget import drift_of
from annulet.residency.bodies.candidates import SWEEP_MOST
from annulet.residency.loading.figures import PagingFigures
from annulet.residency.loading.load_ahead import PREFETCH_LOADS
from annulet.residency.loading.row_reading import ATTEMPTS_MAX
from annulet.residency.pages.pages import LOAD_BYTES, LOAD_MESSAGES
from tests.core.helpers import NOW, RecordingSession, make_message
from tests.residency.doubles import Disk, bodies_of, durable_queue, filled, plenty, stored_entries

ALL = 1 << 60

BY_AGE = {"priorities": 10, "priority_discipline": "ageing", "priority_age": 1 << 31}
"""Levels without rows: strict in effect, where all messages are of one time."""


def priority_queue(count: int, *, size: int = 10, **settings):
    queue, disk = durable_queue(**BY_AGE, **settings), Disk()
    entries = filled(queue, disk, count, size=size)
    bodies = bodies_of(queue, disk)
    bodies.keep_messages = 4
    return queue, disk, entries, bodies


def away(entries):
    return [entry.sequence for entry in entries if entry.away]


def run_pass(bodies, wanted: int, *, durable: int = ALL) -> int:
    bodies.begin(wanted)
    looked = 0
    while bodies.passing:
        looked += bodies.step(durable, 100)
    return looked


def test_the_furthest_leave_and_no_more_than_wanted():
    _, _, entries, bodies = priority_queue(20)
    assert run_pass(bodies, 50) == 20
    assert away(entries) == [16, 17, 18, 19, 20]
    assert (bodies.count, bodies.bytes, bodies.freed, bodies.in_memory) == (5, 50, 50, 15)


def test_furthest_is_what_its_order_says():
    queue, disk = durable_queue(**BY_AGE), Disk()
    entries = stored_entries(queue, disk, 20)
    for entry in entries:
        entry.message.priority = entry.sequence % 10
        queue.ranker.assign(entry, NOW)
        queue.insert(entry, arrival=True)
    bodies = bodies_of(queue, disk)
    bodies.keep_messages = 4
    run_pass(bodies, 60)
    assert away(entries) == [1, 2, 10, 11, 12, 20], "of two messages each, priorities 0 to 2"


def test_the_front_never_leaves():
    _, _, entries, bodies = priority_queue(20)
    run_pass(bodies, 10_000)
    assert away(entries) == list(range(5, 21))
    bodies.keep_bytes = 15
    run_pass(bodies, 10_000)
    assert away(entries) == list(range(3, 21)), "a message that begins within the bytes stays whole"


def test_of_many_a_sample_tells_which_are_far():
    count = 10 * SAMPLE
    _, _, entries, bodies = priority_queue(count)
    wanted = 10 * count // 4
    run_pass(bodies, wanted)
    assert abs(bodies.freed - wanted) < wanted // 2
    gone = away(entries)
    assert gone == list(range(gone[0], count + 1)), "all behind one place and nothing before it"


def test_what_is_not_written_or_on_no_disk_stays():
    _, _, entries, bodies = priority_queue(10)
    entries[9].message.record = 0
    run_pass(bodies, 10_000, durable=9)
    assert away(entries) == [5, 6, 7, 8]


def test_deliveries_leave_first_but_not_what_was_pulled():
    queue, disk, entries, bodies = priority_queue(10)
    session = RecordingSession()
    session.consume(queue, messages=3)
    pulled = queue.acquire(2, -1, NOW)
    assert [entry.state for entry in entries[:5]] == [DELIVERING] * 5
    run_pass(bodies, 30)
    assert away(entries) == [1, 2, 3]
    assert not any(entry.message.absent for entry in pulled)
    reads = list(disk.reads)
    session.close(NOW)
    assert (away(entries), disk.reads) == ([1, 2, 3], reads), "a return reads nothing"
    assert drift_of(queue) == 0


def test_bodies_come_back_in_one_read_when_the_first_is_delivered():
    queue, disk, _, bodies = priority_queue(LOAD_MESSAGES + 50)
    bodies.let_all_go(ALL)
    session = RecordingSession()
    session.consume(queue, messages=1)
    assert (disk.reads, bodies.count) == ([LOAD_MESSAGES], 50)
    for tag in range(1, LOAD_MESSAGES + 50):
        session.acknowledge(tag, NOW)
    assert [int(body) for body in session.received] == list(range(1, LOAD_MESSAGES + 51))
    assert (disk.reads, bodies.count) == ([LOAD_MESSAGES, 50], 0)


def test_a_read_of_large_bodies_is_a_mebibyte_and_one_at_least():
    for size, expected in ((LOAD_BYTES // 4, 4), (2 * LOAD_BYTES, 1)):
        queue, disk, _, bodies = priority_queue(6, size=size)
        bodies.let_all_go(ALL)
        RecordingSession().consume(queue, messages=1)
        assert disk.reads == [expected]


def test_the_disk_is_asked_ahead_once_in_some_reads():
    queue, disk, entries, bodies = priority_queue(LOAD_MESSAGES * 6)
    bodies.let_all_go(ALL)
    session = RecordingSession()
    session.consume(queue, messages=1)
    assert disk.prefetched == [
        entry.message.record for entry in entries[LOAD_MESSAGES : LOAD_MESSAGES * (PREFETCH_LOADS + 1)]
    ]


def test_a_refusing_disk_delays():
    queue, disk, entries, bodies = priority_queue(3)
    bodies.let_all_go(ALL)
    disk.failing = True
    session = RecordingSession()
    session.consume(queue)
    assert (session.received, bodies.stalled, queue.order.count) == ([], True, 3)
    assert queue.acquire(1, -1, NOW) == []
    disk.failing = False
    queue.wake(NOW)
    assert session.received == [], "it is asked again only when told"
    bodies.retry()
    queue.wake(NOW)
    assert [int(body) for body in session.received] == [1, 2, 3]
    assert bodies.store.figures.postponed == 1
    assert away(entries) == []


def test_after_many_attempts_what_cannot_be_read_is_passed_over():
    queue, disk, _, bodies = priority_queue(2)
    bodies.let_all_go(ALL)
    disk.failing = True
    session = RecordingSession()
    session.consume(queue)
    for _ in range(ATTEMPTS_MAX - 1):
        assert bodies.stalled
        bodies.retry()
        queue.wake(NOW)
    assert (queue.counters.removed[RemovalReason.UNREADABLE], queue.order.count) == (1, 1)
    disk.failing = False
    bodies.retry()
    queue.wake(NOW)
    assert [int(body) for body in session.received] == [2]


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENOMEM])
def test_what_the_disk_is_not_to_blame_for_is_never_passed_over(error):
    queue, disk, _, bodies = priority_queue(1)
    bodies.let_all_go(ALL)
    disk.failing, disk.error = True, error
    RecordingSession().consume(queue)
    for _ in range(2 * ATTEMPTS_MAX):
        bodies.retry()
        queue.wake(NOW)
    assert queue.order.count == 1


def test_damaged_records_are_passed_over_and_stay_in_the_log():
    queue, disk, entries, bodies = priority_queue(4, last_value_key="")
    bodies.let_all_go(ALL)
    disk.damaged = {entries[0].message.record, entries[2].message.record}
    session = RecordingSession()
    session.consume(queue)
    assert [int(body) for body in session.received] == [2, 4]
    figures = queue.statistics()
    assert (figures.messages_unreadable, figures.pending_bytes, figures.pending_count) == (2, 0, 0)
    assert queue.effects.settled == []
    assert drift_of(queue) == 0


def test_a_body_of_another_length_is_damaged():
    _, disk, entries, bodies = priority_queue(1)
    bodies.let_all_go(ALL)
    record = entries[0].message.record
    disk.stored[record] = disk.stored[record]._replace(body=b"another message")
    with pytest.raises(ContentUnavailable, match="its record is damaged"):
        _ = entries[0].message.body


def test_browsers_read_some_at_once_and_keep_nothing_in_memory():
    queue, disk, _, bodies = priority_queue(150)
    bodies.let_all_go(ALL)
    browser = RecordingSession()
    browser.consume(queue, browse="follow")
    assert [int(body) for body in browser.received] == list(range(1, 151))
    assert (bodies.count, len(disk.reads)) == (150, 3)


def test_browsers_wait_for_the_disk_and_pass_over_damage():
    queue, disk, entries, bodies = priority_queue(4)
    bodies.let_all_go(ALL)
    disk.failing = True
    browser = RecordingSession()
    browser.consume(queue, browse="follow")
    assert (browser.received, bodies.stalled) == ([], True)
    disk.failing = False
    disk.damaged = {entries[1].message.record}
    bodies.retry()
    queue.wake(NOW)
    assert [int(body) for body in browser.received] == [1, 3, 4]
    assert queue.statistics().messages_unreadable == 1


def test_what_was_read_ahead_makes_room_for_what_comes(monkeypatch):
    monkeypatch.setattr(body_store, "AHEAD_BYTES", 100)
    _, disk, entries, bodies = priority_queue(30)
    bodies.let_all_go(ALL)
    store = bodies.store
    for entry in entries:
        bodies.look([entry.message])
        assert store.at_hand(entry.message)
        assert store.ahead_bytes <= 100
    assert not store.at_hand(entries[0].message)
    assert len(disk.reads) == 30


def test_another_thread_is_told_to_come_again():
    _, _, entries, bodies = priority_queue(1)
    bodies.let_all_go(ALL)
    errors = []

    def read() -> None:
        try:
            _ = entries[0].message.body
        except ContentUnavailable as error:
            errors.append(str(error))

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert errors == ["a message of 10 bytes left memory while it was read; take a new view of the queue"]


def test_who_looks_while_the_disk_refuses_is_told():
    _, disk, entries, bodies = priority_queue(1)
    bodies.let_all_go(ALL)
    disk.failing = True
    with pytest.raises(ContentUnavailable, match=r"the disk does not give it now: .*; try again when the disk is well"):
        _ = entries[0].message.body


def test_plain_waiting_messages_are_left_to_rows():
    queue, disk = durable_queue(), Disk()
    entries = filled(queue, disk, 20)
    entries[6].message.expires_at = NOW + 1
    entries[7].message.deliver_at = NOW + 1
    bodies = bodies_of(queue, disk)
    bodies.keep_messages = 4
    run_pass(bodies, 10_000)
    assert away(entries) == [8]
    queue.use_lanes(None, Fairness(queue.settings))  # nothing becomes a row any more
    run_pass(bodies, 10_000)
    assert away(entries) == list(range(5, 21))


def test_arrivals_and_deliveries_become_candidates_and_are_forgotten_when_gone():
    queue, disk, _, bodies = priority_queue(0)
    session = RecordingSession()
    session.consume(queue)
    for _ in range(5000):
        (entry,) = stored_entries(queue, disk, 1)
        entry.message.near -= 1
        entry = queue.enqueue(entry.message, NOW)
        bodies.note(entry)
        session.acknowledge(session.last_tag, NOW)
    assert len(bodies.waiting) <= 1100


def test_what_is_delivered_again_and_again_is_one_candidate():
    queue, disk = durable_queue(), Disk()
    bodies = bodies_of(queue, disk)
    filled(queue, disk, 1)
    for _ in range(5000):
        (entry,) = queue.acquire(1, -1, NOW)
        queue.return_entries([entry], NOW)
    assert len(bodies.waiting) <= 2100


def test_a_pass_that_nobody_ends_holds_nothing_that_is_gone():
    queue, disk, _, bodies = priority_queue(2000)
    bodies.begin(50)
    bodies.step(ALL, 100)
    queue.remove_all(RemovalReason.PURGED, NOW)
    for _ in range(5000):
        (entry,) = filled(queue, disk, 1)
        bodies.note(entry)
        queue.remove(entry, RemovalReason.PURGED, NOW)
    assert len(bodies.waiting) + len(bodies.scanning) <= 3100


def test_a_drained_queue_holds_nothing_that_is_gone():
    queue, _, _, bodies = priority_queue(20)
    bodies.tidy()
    assert len(bodies.waiting) == 20
    bodies.begin(50)
    queue.remove_all(RemovalReason.PURGED, NOW)
    bodies.tidy()
    assert (bodies.waiting, bodies.scanning, bodies.front) == ([], [], set())


def test_ticks_between_which_little_comes_and_goes_do_not_keep_it_beside_much_that_stays():
    queue, disk, entries, bodies = priority_queue(4 * SWEEP_MOST)
    waiting = bodies.waiting
    most = 0
    for _ in range(SWEEP_MOST // 100):
        for entry in filled(queue, disk, 200):
            bodies.add(entry)
            queue.remove_pending(entry, RemovalReason.PURGED, NOW, 0)
        bodies.end()
        bodies.tidy()
        most = max(most, len(bodies.waiting))
    assert most <= len(entries) + SWEEP_MOST
    assert bodies.waiting is waiting, "a copy of a million each tick holds the loop"


def test_a_pass_that_is_ended_begins_anew():
    _, _, entries, bodies = priority_queue(20)
    bodies.begin(50)
    bodies.step(ALL, 3)
    bodies.end()
    assert not bodies.passing
    run_pass(bodies, 10_000)
    assert away(entries) == list(range(5, 21))


def test_a_queue_that_was_not_told_of_its_messages_finds_them():
    queue, disk = durable_queue(**BY_AGE), Disk()
    bodies = bodies_of(queue, disk)
    bodies.keep_messages = 4
    entries = filled(queue, disk, 20)
    run_pass(bodies, 10_000)
    assert len(away(entries)) == 16


@pytest.mark.parametrize("settings", [{}, {"max_delivery_attempts": 9}], ids=["plainly", "each judged"])
def test_what_was_pulled_and_given_back_is_asked_for_when_it_is_much(settings):
    queue, _, _, bodies = priority_queue(20, size=LOAD_BYTES // 5, **settings)
    told = []
    bodies.store.changed = told.append
    pulled = queue.acquire(8, -1, NOW)
    queue.return_entries(pulled[:5], NOW)
    assert told == [], "a fifth of a load is rounded down: a byte less than a load"
    queue.return_entries(pulled[5:6], NOW)
    assert told == [queue]
    queue.return_entries(pulled[6:], NOW)
    assert told == [queue]
    run_pass(bodies, 1)
    pulled = queue.acquire(5, -1, NOW)
    queue.return_entries(pulled, NOW)
    assert told == [queue], "a pass looked at what had come back before"


def test_what_a_consumer_gives_back_could_leave_before():
    queue, _, _, bodies = priority_queue(20, size=LOAD_BYTES)
    told = []
    session = RecordingSession()
    session.consume(queue, messages=3)
    bodies.store.changed = told.append
    queue.return_entries([entry for _, entry in session.deliveries], NOW)
    assert told == []


def test_the_one_who_accounts_is_told_of_what_came_back():
    queue, disk = durable_queue(**BY_AGE), Disk()
    filled(queue, disk, 3)
    bodies = bodies_of(queue, disk)
    told = []
    bodies.store = BodyStore(disk, PagingFigures(), plenty, told.append)
    bodies.let_all_go(ALL)
    RecordingSession().consume(queue, messages=1)
    assert told == [queue]


def test_a_transient_message_of_a_durable_queue_stays():
    queue, disk = durable_queue(**BY_AGE), Disk()
    queue.enqueue(make_message(b"transient"), NOW)
    bodies = bodies_of(queue, disk)
    bodies.let_all_go(ALL)
    assert (bodies.count, bodies.in_memory) == (0, 1)


@pytest.mark.parametrize("settings", [{}, {"max_delivery_attempts": 9}], ids=["plainly", "each judged"])
def test_what_comes_back_from_delivery_where_messages_are_rows_may_leave_before_it_is_one(settings):
    queue, disk = durable_queue(**settings), Disk()
    bodies = bodies_of(queue, disk)
    bodies.keep_messages = 1
    session = RecordingSession()
    filled(queue, disk, 9)
    bodies.adopt()
    session.consume(queue, messages=6)
    entries = [entry for _, entry in session.deliveries]
    queue.remove_consumer(next(iter(queue.consumers)), NOW)
    queue.return_entries(entries[:4], NOW)
    run_pass(bodies, ALL)
    assert [entry.away for entry in entries] == [False, *[True] * 5]
    assert drift_of(queue) == 0
