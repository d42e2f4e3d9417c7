"""When rows expire: in the order of time and sequence, wherever they stand, whatever page they are in."""

from __future__ import annotations

import random

import pytest

from annulet.core.base.expiry_times import NEVER
from annulet.core.base.settings import QueueSettings
from annulet.residency.pages import page_list as page_list_module
from annulet.residency.pages import pages as pages_module
from annulet.residency.pages.pages import LOAD_MESSAGES, StoredQueueArea
from annulet.residency.rows import page as page_module
from annulet.residency.rows import row_times
from annulet.residency.rows.row_times import COMPACTION_MINIMUM
from tests.core.helpers import NOW
from tests.core.queue.test_costs import Calls
from tests.residency.doubles import Disk, durable_queue, pages_of, stored_entries


def timed(times: list[int], kept: list[int], ends: list[int] | None = None, **settings: int):
    """Return pages of entries accepted at these times, which end at those (0: never), in a queue that gives 1000."""
    queue, disk = durable_queue(**settings or {"message_ttl": 1000}), Disk()
    pages, entries = pages_of(queue, disk), stored_entries(queue, disk, len(times))
    for entry, accepted_at, expires_at in zip(entries, times, ends or [0] * len(times), strict=True):
        entry.message.accepted_at, entry.message.expires_at = accepted_at, expires_at
        disk.stored[entry.message.record] = disk.stored[entry.message.record]._replace(expires_at=expires_at)
    pages.add(entries, bytearray(kept))
    return pages, disk, entries


def expired(pages: StoredQueueArea, at: int, below: int = 0, limit: int = 100, *, read: bool = False) -> list[int]:
    """Return the sequences of rows that expire before this time and sequence, taken in as many steps as it takes."""
    found: list[int] = []
    while pages.first_expiry(at) < (at, below) and len(found) < limit:
        some = pages.take_expired((at, below), limit - len(found), read=read)
        assert some
        found += [entry.sequence for entry in some]
    return found


def test_rows_are_taken_before_a_time_and_sequence_and_what_is_kept_stays():
    pages, disk, entries = timed([5, 6, 0, 7, 7, 8], [0, 0, 1, 0, 0, 0])
    assert pages.timed()
    assert pages.first_expiry(5000) == (1005, 1)
    assert expired(pages, 1006) == [1]
    assert expired(pages, 1007, 5) == [2, 4]
    assert expired(pages, 2000, limit=1) == [5]
    assert (pages.items, pages.rows, pages.bytes, disk.reads) == (2, 1, 10, [])
    (last,) = pages.take_expired((1009, 0), 100, read=False)
    message = last.message
    assert (last.sequence, message.size, message.accepted_at, message.expires_at) == (6, 10, 8, 0)
    assert (pages.rows, pages.bytes, pages.entries_kept()) == (0, 0, [entries[2]])
    assert pages.first_expiry(5000) == NEVER


def test_rows_with_times_of_their_own_go_from_anywhere_by_time_and_sequence():
    ends = [300, 0, 100, 200, 100, 0, 2000]
    pages, disk, _entries = timed([10] * 7, [0] * 7, ends, max_ttl=-1)
    assert pages.first_expiry(99) == (100, 1)
    assert expired(pages, 100, 5) == [3]
    assert expired(pages, 300) == [5, 4]
    assert expired(pages, 1 << 50) == [1, 7]
    assert (pages.items, pages.rows, pages.bytes, disk.reads) == (2, 2, 20, [])
    assert [entry.sequence for entry in pages.load(insist=False)] == [2, 6]


def test_the_order_is_that_of_all_pages_whatever_page_a_row_stands_in(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_list_module, "PAGE_ITEMS_MAX", 8)
    chance = random.Random(20)
    ends = [chance.choice([0, chance.randrange(100, 130)]) for _ in range(100)]
    pages, _disk, _entries = timed([50] * 100, [0] * 100, ends, max_ttl=-1)
    assert len(pages.page_list) > 8
    expected = sorted((at, sequence) for sequence, at in enumerate(ends, 1) if at)
    assert expired(pages, 115) == [sequence for at, sequence in expected if at < 115]
    view = pages.snapshot([]).walk(1)
    assert expired(pages, 1000, limit=1000) == [sequence for at, sequence in expected if at >= 115]
    assert pages.rows == ends.count(0)
    assert len(view.following()) == len([at for at in ends if not 0 < at < 115]), "what a browser walks over stays"


def test_other_settings_give_rows_other_times():
    pages, disk, _entries = timed([10, 20, 30], [0] * 3, [500, 40, 0], min_ttl=0)
    queue = disk.queue
    for settings, at, sequence in (
        (QueueSettings(min_ttl=100), 120, 2),
        (QueueSettings(min_ttl=100, max_ttl=5), 15, 1),
        (QueueSettings(message_ttl=21), 31, 1),
        (QueueSettings(), 40, 2),
    ):
        queue.settings = settings
        pages.retime()
        assert pages.first_expiry(-1) <= (at, sequence)
        assert pages.first_expiry(1000) == (at, sequence)
    assert expired(pages, 1000) == [2, 1]
    assert pages.rows == 1


def test_pages_that_grow_expire_what_came_later_too():
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    for number, at in enumerate([50, 50, 50, 30, 30, 90], 1):
        (entry,) = stored_entries(queue, disk, 1)
        entry.message.accepted_at, entry.message.expires_at = 20, at
        pages.add([entry], bytearray(1))
        assert pages.first_expiry(at) == ((at, number) if number < 6 else (30, 5))
        if number in (1, 2, 4):
            assert expired(pages, at + 1) == [number]
    assert expired(pages, 100) == [5, 3, 6]


def test_what_is_sent_on_is_read_a_load_at_a_time_and_stays_while_the_disk_refuses():
    pages, disk, _entries = timed([10] * 600, [0] * 600, [100 + number % 2 for number in range(600)], max_ttl=-1)
    disk.failing = True
    assert pages.first_expiry(200) == (100, 1)
    assert pages.take_expired((200, 0), 1000, read=True) == []
    assert (pages.rows, pages.first_expiry(200)) == (600, NEVER), "nobody asks while it does"
    disk.failing = False
    pages.retry()
    disk.damaged.update({1, 3})
    found = pages.take_expired((200, 0), 1000, read=True)
    assert [entry.sequence for entry in found] == list(range(5, 2 * LOAD_MESSAGES, 2))
    assert (pages.lost, pages.lost_bytes) == (2, 20)
    assert [entry.message.body for entry in found[:2]] == [b"0000000005", b"0000000007"]
    assert (pages.rows, pages.bytes) == (600 - LOAD_MESSAGES, 10 * (600 - LOAD_MESSAGES))
    assert expired(pages, 200, limit=1000, read=True) == [*range(2 * LOAD_MESSAGES + 1, 600, 2), *range(2, 601, 2)]


def test_large_ones_are_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pages_module, "LOAD_BYTES", 25)
    pages, disk, _entries = timed([10] * 10, [0] * 10, [100 + number % 3 for number in range(10)], max_ttl=-1)
    assert expired(pages, 200, read=True) == [1, 4, 7, 10, 2, 5, 8, 3, 6, 9]
    assert disk.reads == [2] * 5
    monkeypatch.setattr(pages_module, "LOAD_BYTES", 5)
    pages, disk, _entries = timed([10] * 3, [0] * 3, [100] * 3, max_ttl=-1)
    assert expired(pages, 200, read=True) == [1, 2, 3]
    assert disk.reads == [1] * 3, "one always fits"


def test_of_rows_made_without_a_time_to_live_no_time_is_known():
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    pages.add(stored_entries(queue, disk, 3), bytearray(3))
    assert not pages.timed()
    assert pages.first_expiry(1 << 50) == NEVER
    pages, _disk, _entries = timed([5], [1])
    assert pages.timed(), "what is kept says so itself"
    assert pages.first_expiry(1 << 50) == NEVER


def test_pages_that_were_consumed_leave_nothing_behind():
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    for number in range(300):
        (entry,) = stored_entries(queue, disk, 1)
        entry.message.expires_at = NOW + number
        pages.add([entry], bytearray(1))
        pages.load(insist=False)
    assert (len(pages.page_list), pages.first_expiry(1 << 50)) == (0, NEVER)
    assert pages.page_list.times.size <= COMPACTION_MINIMUM + 2


def test_a_page_that_had_no_rows_left_expires_what_it_gets_later():
    """A selector took all its rows, one that was kept stands in it still, and rows of other pages are looked at."""
    pages, disk, _entries = timed([10, 10], [0, 0], [500, 500], max_ttl=-1)
    short, stays = stored_entries(disk.queue, disk, 2)
    short.message.expires_at = 100
    pages.page_list.pages.extend(made := pages.page_list._made_of([short, stays], bytearray([0, 1])))
    pages.page_list.times.note(made[0], pages.page_list.pages)
    pages.take_out([short])
    assert pages.first_expiry(200) == (500, 1)
    (late,) = stored_entries(disk.queue, disk, 1)
    late.message.expires_at = 300
    pages.add([late], bytearray(1))
    assert len(pages.page_list) == 2
    assert expired(pages, 400) == [5]


def test_pages_that_were_consumed_are_let_go_of_though_their_time_has_not_come(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_list_module, "PAGE_ITEMS_MAX", 4)
    pages, _disk, _entries = timed([10] * 400, [0] * 400, [10_000 - number for number in range(400)], max_ttl=-1)
    while pages.items:
        pages.load(insist=False)
        assert pages.page_list.times.size <= 2 * len(pages.page_list)


@pytest.mark.skipif(not str(page_module.__file__).endswith(".py"), reason="compiled code reports no calls to count")
def test_what_a_row_costs_that_expires_hardly_depends_on_how_many_there_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_list_module, "PAGE_ITEMS_MAX", 50)
    chance = random.Random(20)
    costs = []
    for count in (200, 1600):
        ends = [chance.randrange(100, 10_000) for _ in range(count)]
        pages, _disk, _entries = timed([50] * count, [0] * count, ends, max_ttl=-1)
        with Calls() as calls:
            for now in range(100, 10_001, 100):
                expired(pages, now, limit=count)
        assert pages.rows == 0
        costs.append(calls.count / count)
    assert costs[1] < 1.5 * costs[0]


def test_pages_that_have_ended_go_together_while_enough_others_have(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_list_module, "PAGE_ITEMS_MAX", 10)
    pages, disk, entries = timed([50] * 50, [0] * 50, [100] * 30 + [200] * 20, max_ttl=-1)
    assert (pages.take_ended(99, 0), pages.take_ended(100, 21)) == (None, None)
    taken = pages.take_ended(100, 20)
    assert taken == ([(entries[0].message.record, entries[9].message.record)], 10, 100)
    assert (pages.items, pages.rows, pages.bytes, pages.first_sequence()) == (40, 40, 400, 11)
    assert pages.take_ended(100, 20) is None
    assert pages.take_ended(100, 10) is not None
    assert pages.take_ended(100, 0) is not None
    assert (pages.take_ended(199, 0), pages.first_expiry(199)) == (None, (200, 31))
    assert pages.take_ended(200, 10) is not None
    assert (pages.rows, expired(pages, 201), disk.reads) == (10, list(range(41, 51)), [])


def test_pages_that_are_gone_do_not_count_as_others_that_have_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_list_module, "PAGE_ITEMS_MAX", 10)
    pages, _, entries = timed([50] * 40, [0] * 40, [100] * 40, max_ttl=-1)
    pages.snapshot([])
    pages.take_out([entries[15], entries[25]])  # of copies: those who walk have the pages themselves
    assert pages.take_ended(100, 29) is None
    assert pages.take_ended(100, 28) is not None


def test_of_thousands_of_pages_those_only_are_looked_at_that_are_due(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_list_module, "PAGE_ITEMS_MAX", 1)
    looked_at = []

    def ended(page, settings, now):
        looked_at.append(page)
        return has_ended(page, settings, now)

    has_ended = row_times._has_ended
    monkeypatch.setattr(row_times, "_has_ended", ended)
    pages, _, entries = timed([50] * 100, [0] * 100, list(range(100, 200)), max_ttl=-1)
    assert pages.take_ended(109, 10) is None
    assert len(looked_at) == 10
    taken = pages.take_ended(109, 9)
    assert taken == ([(entries[0].message.record, entries[0].message.record)], 1, 10)


def test_a_page_goes_together_with_its_like_only_if_nothing_is_to_be_known_of_each(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_list_module, "PAGE_ITEMS_MAX", 10)
    kept, later, endless, back = ([place == number for place in range(50)] for number in (3, 13, 23, 33))
    queue, disk = durable_queue(max_ttl=-1), Disk()
    pages, entries = pages_of(queue, disk), stored_entries(queue, disk, 50)
    for place, entry in enumerate(entries):
        entry.message.expires_at = 0 if endless[place] else 300 if later[place] else 100
        entry.delivery_count = int(back[place])
    pages.add(entries, bytearray(kept))
    left = []
    for _ in range(4):
        assert pages.take_ended(100, 0) is None
        left += expired(pages, 101, limit=10 - (len(left) < 27))
    assert pages.take_ended(100, 0) is not None
    assert (pages.rows, len(left), disk.reads) == (2, 37, [])
