"""A sorted queue with most of it on disk: the same order, whatever came when."""

from __future__ import annotations

import random
from typing import Any

import pytest

from annulet.core.base.errors import PreconditionFailed
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import BROWSE_FOLLOW, QueueSettings
from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.deliveries.bodies import claim
from annulet.core.message.message import Message, Origin, PropertyValue
from annulet.core.model.entry import QueueEntry
from annulet.core.model.entry_holds import Pin
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.paging.paged_sorted import PagedSorted
from annulet.core.paging.redelivered_ranges import redelivered_ranges
from annulet.core.policies.staged_batches import HiddenBatch
from annulet.core.queue.deep_queue_scan import scan_of
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.purging import Gone
from annulet.core.queue.queue import Queue
from annulet.residency.bodies.budget import drift_of
from annulet.residency.pages.chosen_rows import ChosenRows
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, TableView, make_message
from tests.residency.doubles import Disk, bodies_of, durable_queue, pages_of

ALL = 1 << 60


class KeyView(TableView):
    """Keys by message number, which is the body."""

    def __init__(self) -> None:
        super().__init__({})
        self.keys: dict[int, PropertyValue] = {}

    def application_property(self, message: Message, name: str) -> PropertyValue:
        return self.keys[int(message.body[-9:])]


class Knowing(SlicingEffects):
    """The log takes all records at once."""

    def emptied(self, queue: Queue, gone: Gone) -> bool:
        return True


class Sorted:
    """A sorted queue; ``put`` stores messages with these keys and enqueues them."""

    def __init__(self, effects: SlicingEffects | None = None, room: int = ALL, **settings: Any) -> None:
        self.disk = Disk()
        self.view = KeyView()
        self.origin = Origin("", "q", "guest@test", self.view)
        self.queue = durable_queue(sort_key="key", **settings)
        if effects is not None:
            self.queue.effects = effects
        order = paged_order_of(self.queue, pages_of(self.queue, self.disk, lambda: room))
        assert isinstance(order, PagedSorted)
        self.order = order
        order.keep_messages = order.fold_least = 0
        order.load_messages = 4

    def put(self, *keys: PropertyValue, size: int = 10, durable: bool = True, **times: int) -> list[QueueEntry]:
        entries = []
        for key in keys:
            number = self.queue.next_sequence
            self.view.keys[number] = key
            message = make_message(b"%0*d" % (size, number), **times)
            message.origin = self.origin
            if durable:
                self.disk.store(self.queue, message, number)
            entries.append(self.queue.enqueue(message, NOW))
        return entries

    def page_out(self, limit: int = 1000, durable: int = ALL) -> int:
        moved = self.order.page_out(durable, limit)
        assert self.order.count == len([1 for entry in self.order.in_memory() if entry.state == 0]) + (
            self.order.paged_count()
        )
        assert drift_of(self.queue) == 0
        return moved

    def taken(self, count: int = -1) -> list[PropertyValue]:
        return [self.view.keys[int(entry.message.body[-9:])] for entry in self.queue.acquire(count, -1, NOW)]


def test_arrivals_before_between_and_behind_the_rows_are_in_order() -> None:
    deep = Sorted()
    deep.put(50, 10, 30, 20, 40)
    assert deep.page_out() == 5
    deep.put(25, 5, 60)
    assert (deep.order.paged_count(), deep.queue.statistics().messages_paged) == (5, 5)
    assert deep.order.first_sequence() == 7
    assert deep.taken(1) == [5]
    assert deep.order.first_sequence() == 2, "a row, which is not read for that"
    assert deep.disk.reads == []
    assert deep.taken(2) == [10, 20]
    assert deep.disk.reads == [4]
    assert deep.page_out() == 4
    check_invariants(deep.queue)
    assert deep.taken() == [25, 30, 40, 50, 60]
    assert (deep.queue.pending_bytes, deep.order.count, deep.order.exhausted()) == (0, 0, True)


def test_the_time_of_what_is_next_is_known_without_reading() -> None:
    deep = Sorted()
    deep.put(50, accepted_at=NOW - 50)
    deep.put(10, accepted_at=NOW - 10)
    deep.put(30, accepted_at=NOW - 30)
    assert deep.order.oldest_accepted_at() == NOW - 10, "of the next one, which is not the oldest here"
    assert deep.page_out() == 3
    assert deep.order.oldest_accepted_at() == NOW - 10
    deep.put(5, accepted_at=NOW - 5)
    assert deep.order.oldest_accepted_at() == NOW - 5
    assert (deep.disk.reads, deep.order.paged_count()) == ([], 3)
    assert deep.taken() == [5, 10, 30, 50]
    assert deep.order.oldest_accepted_at() == 0


def test_the_time_of_what_is_next_when_the_row_before_it_has_expired() -> None:
    deep = Sorted()
    deep.put(10, accepted_at=NOW - 10, expires_at=NOW + 5)
    deep.put(20, accepted_at=NOW - 20)
    assert deep.page_out() == 2
    assert deep.queue.expire(NOW + 6) == 1
    assert deep.order.oldest_accepted_at() == NOW - 20


def test_the_next_stay_in_memory_and_the_far_ones_leave() -> None:
    deep = Sorted()
    deep.order.keep_messages = 10
    deep.put(*[key * 37 % 101 for key in range(101)])
    assert deep.page_out(limit=20) == 20
    assert deep.page_out() == 101 - 10 - 20
    there = sorted(deep.view.keys[entry.sequence] for entry in deep.order.in_memory())
    assert there == list(range(10))
    deep.order.fold_least = 8
    deep.put(*[-1] * 7)
    assert deep.page_out() == 0, "a few of them are no gain"
    deep.put(-1)
    assert deep.page_out() == 8
    assert deep.taken() == [-1] * 8 + list(range(101))


def test_the_front_is_counted_in_bytes_too() -> None:
    deep = Sorted()
    deep.order.keep_messages, deep.order.keep_bytes = 1000, 1 << 16
    deep.put(*range(80), size=1 << 11)
    assert deep.page_out() == 80 - 32


def test_what_the_log_has_not_written_yet_stays_until_it_has() -> None:
    deep = Sorted()
    deep.put(1, 2, 3, 4)
    assert deep.page_out(durable=3) == 2
    assert sorted(entry.sequence for entry in deep.order.in_memory()) == [3, 4]
    assert deep.page_out() == 2
    assert deep.taken() == [1, 2, 3, 4]


def test_what_is_hidden_stays_until_it_is_shown() -> None:
    stored, batch = Sorted(), HiddenBatch()
    stored.put(5, 6)
    stored.queue.batches.current = batch
    stored.put(*range(10, 20))
    stored.queue.batches.current = None
    while stored.page_out():
        pass
    assert stored.queue.purge(NOW) == 2
    check_invariants(stored.queue)
    batch.show(NOW)
    assert stored.queue.purge(NOW) == 10


def test_what_cannot_be_a_row_stays_for_good_and_in_order() -> None:
    deep = Sorted()
    deep.put("a much longer key than a row has", 2, "b", [1])
    deep.put(1, 7, durable=False)
    assert deep.page_out() == 2
    assert deep.page_out() == 0
    assert len(deep.order.in_memory()) == 4
    gone = deep.order.first()
    assert gone is not None
    assert gone.sequence == 5
    deep.queue.remove(gone, RemovalReason.MOVED, NOW)
    assert deep.taken() == [2, 7, "a much longer key than a row has", "b", [1]]


def test_what_stays_for_good_is_found_a_part_at_a_time() -> None:
    deep = Sorted()
    deep.put(1, *["a key too long for a row"] * 9)
    assert deep.page_out(limit=4) == 4, "none of them is a row, but there are more to be looked at"
    assert (deep.order.paged_count(), deep.order.staying) == (0, 4)
    while deep.page_out(limit=4):
        pass
    assert (deep.order.paged_count(), deep.order.staying) == (1, 9)


def test_large_messages_behind_small_ones_come_in_a_few_at_a_time() -> None:
    deep = Sorted()
    deep.order.load_messages = 200
    deep.put(*range(100))
    deep.put(*range(100, 120), size=200_000)
    deep.page_out()
    deep.put(-1)
    assert deep.taken(101) == list(range(-1, 100))
    assert deep.taken(1) == [100]
    assert len(deep.order.in_memory()) < 6, "1 MiB of them"
    assert deep.taken() == list(range(101, 120))


def test_who_has_to_see_all_of_it_is_refused_while_the_disk_refuses_and_nothing_is_lost() -> None:
    deep = Sorted()
    deep.put(3, 1, 2)
    deep.page_out()
    deep.disk.failing = True
    with pytest.raises(PreconditionFailed, match="the disk does not give it now"):
        deep.queue.browse()
    with pytest.raises(PreconditionFailed, match="the disk does not give it now"):
        scan_of(deep.queue, pending=True, scheduled=False, chosen=None, reader="a preview")
    assert (deep.order.count, deep.order.paged_count()) == (3, 3)
    deep.disk.failing = False
    deep.order.pages.retry()
    assert deep.taken() == [1, 2, 3]


def test_bodies_of_what_stays_may_leave() -> None:
    deep = Sorted()
    bodies = bodies_of(deep.queue, deep.disk)
    deep.put("a key too long for a row", 1)
    deep.put(2)
    assert deep.page_out() == 2
    assert {entry.sequence for entry in bodies.waiting} == {1}


def test_what_somebody_holds_becomes_a_row_when_he_holds_it_no_more() -> None:
    deep = Sorted()
    deep.put(3, 1)
    deep.page_out()
    held, pin = set(deep.order.snapshot()), Pin(deep.queue, 2)
    deep.put(2)
    assert deep.page_out() == 1
    assert set(deep.order.in_memory()) == held
    del pin
    assert deep.page_out() == 2
    assert deep.taken() == [1, 2, 3]


def test_equal_keys_go_by_arrival_wherever_they_are() -> None:
    deep = Sorted()
    deep.put(1, 1)
    deep.page_out()
    deep.put(1, 1.0)
    assert [entry.sequence for entry in deep.queue.acquire(-1, -1, NOW)] == [1, 2, 3, 4]


def test_what_comes_back_takes_its_place_and_may_be_a_row_again_with_its_count() -> None:
    deep, session = Sorted(), RecordingSession()
    deep.put(*range(10))
    deep.page_out()
    session.consume(deep.queue, messages=4)
    entries = [entry for _, entry in session.deliveries]
    assert [deep.view.keys[entry.sequence] for entry in entries] == [0, 1, 2, 3]
    consumer = next(iter(deep.queue.consumers))
    deep.queue.remove_consumer(consumer, NOW)
    deep.queue.return_entries(entries[:2], NOW)
    deep.queue.return_entries(entries[2:], NOW, counted=False)
    assert deep.page_out() == 4 + 4, "and the next ones, which were read to see who may have them"
    assert redelivered_ranges(deep.queue).lengths() == [1, 4]
    again = deep.queue.acquire(6, -1, NOW)
    assert [entry.sequence for entry in again] == [1, 2, 3, 4, 5, 6]
    assert [entry.redelivered for entry in again] == [True] * 4 + [False] * 2
    assert [entry.delivery_count for entry in again] == [1, 1, 0, 0, 0, 0]


def test_nobody_overtakes_while_the_disk_refuses() -> None:
    deep = Sorted()
    deep.put(1, 2, 9)
    deep.page_out()
    deep.disk.failing = True
    deep.put(5)
    assert deep.taken() == []
    deep.put(0)
    assert deep.taken() == [0], "but for what stands before"
    assert not deep.order.bring_all()
    deep.disk.failing = False
    assert deep.taken() == [], "it is not asked each time"
    deep.order.pages.retry()
    assert deep.taken() == [1, 2, 5, 9]


def test_damaged_rows_are_passed_over_and_counted() -> None:
    deep = Sorted()
    deep.put(4, 3, 2, 1)
    deep.page_out()
    deep.disk.damaged |= {1, 4}
    assert deep.taken() == [2, 3]
    figures = deep.queue.statistics()
    assert (figures.messages_unreadable, figures.pending_count, figures.pending_bytes) == (2, 0, 0)


def test_rows_expire_at_their_time_and_their_keys_are_forgotten() -> None:
    deep = Sorted()
    deep.order.load_messages = 1
    for number in range(40):
        deep.put(number * 7 % 40, expires_at=NOW + 10 if number % 4 else 0)
    assert deep.page_out() == 40
    assert deep.queue.next_due_at() == NOW + 10
    assert deep.queue.tick(NOW + 10) == 30
    assert (deep.order.count, deep.order.paged_count(), len(deep.disk.reads)) == (10, 10, 0)
    assert len(deep.order.keys) <= 20
    assert deep.taken() == sorted(number * 7 % 40 for number in range(0, 40, 4))
    assert len(deep.order.keys) == 0


def test_a_time_to_live_that_comes_later_holds_for_rows() -> None:
    deep = Sorted()
    deep.put(3, 1, 2)
    deep.page_out()
    deep.queue.update(QueueSettings(sort_key="key", message_ttl=50), NOW)
    assert deep.order.paged_count() == 3
    assert deep.queue.tick(NOW + 51) == 3
    assert deep.queue.counters.removed[RemovalReason.EXPIRED] == 3


@pytest.mark.parametrize("count", [20, AT_ONCE_MAX + 50])
def test_a_purge_leaves_nothing(count: int) -> None:
    effects = Knowing()
    deep = Sorted(effects)
    deep.put(*range(count))
    deep.page_out(limit=count // 2)
    assert deep.queue.purge(NOW) == count
    effects.turns()
    assert (deep.order.count, deep.order.paged_count(), deep.queue.pending_bytes) == (0, 0, 0)
    assert (deep.order.first(), deep.order.first_sequence()) == (None, 0)
    assert len(deep.order.keys) == 0
    deep.put(5, 4)
    deep.page_out()
    assert deep.taken() == [4, 5]


def test_a_purge_on_a_disk_that_refuses_lets_go_of_all() -> None:
    deep = Sorted()
    deep.put(*range(20))
    deep.page_out(limit=10)
    deep.disk.failing = True
    assert deep.queue.purge(NOW) == 20
    assert (deep.order.count, deep.queue.pending_bytes) == (0, 0)


def test_who_has_to_see_all_of_it_brings_it_into_memory_if_there_is_room() -> None:
    deep = Sorted()
    deep.put(3, 1, 2)
    deep.page_out()
    session = RecordingSession()
    session.consume(deep.queue, browse=BROWSE_FOLLOW)
    assert [int(body) for body in session.received] == [2, 3, 1]
    assert not deep.queue.pageable() or deep.page_out() == 0, "a browser has references to all of them"


@pytest.mark.parametrize("refusing", ["room", "disk", ""])
def test_who_refuses_a_message_for_itself_ends_where_not_all_of_it_can_be_in_memory(refusing: str) -> None:
    deep, session = Sorted(room=100 if refusing == "room" else ALL), RecordingSession()
    deep.put(*range(20))
    deep.page_out()
    consumer = session.consume(deep.queue, messages=1)
    deep.disk.failing = refusing == "disk"
    rows = deep.order.paged_count()
    deep.queue.return_entries([session.deliveries[0][1]], NOW, exclude=consumer)
    if not refusing:
        assert (consumer.cancelled, session.received[1][-2:]) == (False, "02")
        return
    assert (consumer.cancelled, len(session.received)) == (True, 1)
    assert consumer.ended_for.startswith("queue 'q': undeliverable-here has to read all of it, but")
    assert (deep.order.count, deep.order.paged_count()) == (20, rows)
    deep.disk.failing = False
    deep.order.pages.retry()
    assert deep.taken() == list(range(20))


def test_who_has_to_see_all_of_it_is_refused_where_there_is_no_room() -> None:
    deep = Sorted(room=100)
    deep.put(3, 1, 2)
    deep.page_out()
    with pytest.raises(PreconditionFailed, match="3 of its messages are on disk only"):
        deep.queue.browse()
    assert deep.order.paged_count() == 3


def test_a_look_at_the_first_messages_loads_no_more_than_these() -> None:
    deep = Sorted()
    deep.put(*[key * 7 % 30 for key in range(30)])
    deep.page_out()
    deep.put(100)
    there = deep.order.leading(5)
    assert sorted(deep.view.keys[entry.sequence] for entry in there) == list(range(8)), "two loads of four"
    assert deep.order.paged_count() == 22
    pin = Pin(deep.queue, 31)
    deep.page_out()
    assert deep.order.paged_count() == 22
    del pin
    deep.page_out()
    assert deep.order.paged_count() == 31


def test_a_queue_with_selectors_does_not_page() -> None:
    deep = Sorted()
    deep.put(3, 1, 2)
    deep.page_out()
    deep.queue.use_lanes(None, None)
    assert not deep.queue.pageable()
    assert paged_order_of(deep.queue, deep.order.pages) is None
    assert deep.taken() == [1, 2, 3]


@pytest.mark.parametrize("seed", range(4))
def test_random_events_leave_the_order_of_a_list(seed: int) -> None:
    draw = random.Random(seed)
    deep = Sorted()
    deep.order.keep_messages = 3
    keys = [None, True, -5, 1, 2, 2.5, float("inf"), "a", "ab", b"z", "a key too long for a row", 1 << 70]
    model: list[tuple[Any, int]] = []
    held: list[QueueEntry] = []
    for _ in range(250):
        event = draw.randrange(6)
        if event < 2:
            came = deep.put(*draw.choices(keys, k=draw.randrange(8)), durable=draw.random() < 0.9)
            model += [(entry.rank, entry.sequence) for entry in came]
        elif event == 2:
            deep.page_out(limit=draw.choice([1, 5, 100]))
        elif event == 3:
            model.sort()
            wanted = draw.randrange(6)
            got = deep.queue.acquire(wanted, -1, NOW)
            assert [(entry.rank, entry.sequence) for entry in got] == model[:wanted]
            del model[:wanted]
            held += got
        elif event == 4 and held:
            draw.shuffle(held)
            back = [held.pop() for _ in range(draw.randrange(len(held)))]
            deep.queue.return_entries(back, NOW, counted=draw.random() < 0.3)
            model += [(entry.rank, entry.sequence) for entry in back]
        elif event == 5:
            there = [entry for entry in deep.order.in_memory() if entry.state == 0]
            for entry in draw.sample(there, min(len(there), draw.randrange(3))):
                deep.queue.remove(entry, RemovalReason.MOVED, NOW)
                model.remove((entry.rank, entry.sequence))
        assert deep.order.count == len(model)
    model.sort()
    assert [(entry.rank, entry.sequence) for entry in deep.queue.acquire(-1, -1, NOW)] == model
    assert deep.queue.pending_bytes == 0


def test_a_row_takes_sixteen_bytes_with_its_key() -> None:
    deep, draw = Sorted(), random.Random(1)
    for _ in range(3):
        deep.put(*[draw.random() for _ in range(1000)])
        deep.page_out()
    rows = deep.order.paged_count()
    assert rows > 2500
    pages = deep.order.page_parts()[0]
    columns = [column for run in deep.order.keys.runs() for column in (run.sequences, run.whole, run.fractions)]
    assert isinstance(pages, ChosenRows)
    for page in pages.page_list:
        columns += [page.runs.sequences, page.runs.records, page.runs.lengths, page.runs.marks]
        assert page.facts is not None
        columns += [page.facts._sequences, page.facts._accepted]
    assert sum(column.itemsize * len(column) for column in columns) < 16 * rows


def test_bodies_that_were_in_delivery_are_not_looked_for_when_their_messages_are_rows() -> None:
    """A pass took what was noted at its delivery for an entry of the queue, and the account was wrong from then on."""
    deep = Sorted()
    bodies = bodies_of(deep.queue, deep.disk)
    session = RecordingSession()
    deep.put(*range(10))
    bodies.adopt()
    session.consume(deep.queue, messages=4)
    entries = [entry for _, entry in session.deliveries]
    for entry in entries:
        claim(entry, bodies)
    deep.queue.remove_consumer(next(iter(deep.queue.consumers)), NOW)
    deep.queue.return_entries(entries, NOW, counted=False)
    assert deep.order.came_back() == 10
    assert deep.order.fold(ALL, 20) == 10
    bodies.begin(ALL)
    bodies.step(ALL, 20)
    assert (bodies.count, drift_of(deep.queue)) == (0, 0)
