"""Loading from pages: how much at once, what is asked for ahead, what damage and a refusing disk do."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest

from annulet.core.model.entry import REMOVED
from annulet.residency.loading.load_ahead import PREFETCH_LOADS
from annulet.residency.loading.row_reading import ATTEMPTS_MAX
from annulet.residency.pages.pages import LOAD_BYTES, LOAD_MESSAGES
from annulet.residency.rows.page import PAGE_ITEMS_MAX
from tests.core.helpers import NOW
from tests.residency.doubles import Disk, durable_queue, pages_of, stored_entries


def filled(count: int, *, size: int = 10):
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    entries = stored_entries(queue, disk, count, size=size)
    pages.add(entries, bytearray(count))
    return pages, disk, entries


def searchable(count, monkeypatch):
    """Return empty pages, and stored entries of one origin, of whose headers the texts are verbatim."""
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, count)
    origin = entries[0].message.origin
    monkeypatch.setattr(origin.view, "verbatim_texts", True)
    for entry in entries:
        entry.message.origin = origin
    return pages_of(queue, disk), disk, entries


def test_a_load_is_some_hundred_messages():
    pages, _disk, entries = filled(LOAD_MESSAGES * 2)
    loaded = pages.load(insist=False)
    assert [entry.sequence for entry in loaded] == [entry.sequence for entry in entries[:LOAD_MESSAGES]]
    assert not set(loaded) & set(entries)
    assert (pages.items, pages.rows, pages.bytes) == (LOAD_MESSAGES, LOAD_MESSAGES, 10 * LOAD_MESSAGES)
    assert pages.first_sequence() == LOAD_MESSAGES + 1


def test_a_load_of_large_messages_is_a_mebibyte_and_one_message_at_least():
    assert len(filled(20, size=LOAD_BYTES // 4)[0].load(insist=False)) == 4
    assert len(filled(3, size=LOAD_BYTES * 2)[0].load(insist=False)) == 1


def test_a_load_of_messages_of_all_sizes_is_no_more():
    """By the average of the page all the large ones would come at once."""
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    large = stored_entries(queue, disk, 9, size=LOAD_BYTES // 2)
    small = stored_entries(queue, disk, 1000)
    pages.add([*large, *small], bytearray(1009))
    found = pages.look(1, [], LOAD_MESSAGES)
    assert found is not None
    assert len(found) == 2
    loads = []
    while pages.items:
        loads.append([entry.message.size for entry in pages.load(insist=False)])
    assert sum(map(len, loads)) == 1009
    assert max(map(sum, loads)) <= LOAD_BYTES
    assert len(loads) < 12


def test_the_disk_is_asked_ahead_anew_for_what_comes_before():
    queue, disk = durable_queue(), Disk()
    pages, entries = pages_of(queue, disk), stored_entries(queue, disk, 6 * LOAD_MESSAGES)
    pages.add(entries[3 * LOAD_MESSAGES :], bytearray(3 * LOAD_MESSAGES))
    pages.load(insist=False)
    disk.prefetched.clear()
    pages.add_before(entries[: 3 * LOAD_MESSAGES], bytearray(3 * LOAD_MESSAGES))
    pages.load(insist=False)
    pages.load(insist=False)
    following = entries[LOAD_MESSAGES : 2 * LOAD_MESSAGES]
    assert disk.prefetched[:LOAD_MESSAGES] == [entry.message.record for entry in following]


def test_many_entries_make_several_pages():
    count = PAGE_ITEMS_MAX * 2 + 5
    pages, _, _ = filled(count)
    loaded = 0
    while pages.items:
        loaded += len(pages.load(insist=False))
    assert loaded == count
    assert (pages.rows, pages.bytes) == (0, 0)


def test_kept_entries_come_back_themselves():
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    entries = stored_entries(queue, disk, 4)
    pages.add(entries, bytearray([0, 1, 1, 0]))
    assert pages.entries_kept() == entries[1:3]
    entries[1].state = REMOVED
    pages.sweep()
    loaded = pages.load(insist=False)
    assert [entry.sequence for entry in loaded] == [1, 3, 4]
    assert loaded[1] is entries[2]


def test_the_bytes_of_damaged_records_are_told_when_their_page_is_used_up():
    pages, disk, entries = filled(LOAD_MESSAGES + 10)
    disk.damaged = {entries[3].message.record}
    assert len(pages.load(insist=False)) == LOAD_MESSAGES - 1
    assert (pages.lost, pages.lost_bytes) == (1, 0)
    assert len(pages.load(insist=False)) == 10
    assert (pages.lost, pages.lost_bytes, pages.bytes) == (0, 10, 0)
    assert disk.figures.unreadable == 1


def test_a_refusing_disk_is_asked_again_only_when_told():
    pages, disk, _ = filled(5)
    disk.failing = True
    assert pages.load(insist=False) is None
    disk.failing = False
    assert pages.load(insist=False) is None
    pages.retry()
    assert len(pages.load(insist=False)) == 5
    assert disk.figures.postponed == 1


def test_after_many_attempts_what_cannot_be_read_is_lost():
    pages, disk, _ = filled(5)
    disk.failing = True
    for _ in range(ATTEMPTS_MAX - 1):
        assert pages.load(insist=False) is None
        pages.retry()
    assert pages.load(insist=False) == []
    assert (pages.lost, pages.lost_bytes, pages.items) == (5, 50, 0)


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_what_the_disk_is_not_to_blame_for_is_never_lost(error):
    pages, disk, _ = filled(5)
    disk.failing, disk.error = True, error
    for _ in range(2 * ATTEMPTS_MAX):
        assert pages.load(insist=False) is None
        pages.retry()
    disk.failing = False
    assert len(pages.load(insist=False)) == 5


def test_rows_that_are_given_up_are_named(caplog):
    pages, disk, _ = filled(5)
    disk.failing = True
    pages.load(insist=True)
    assert "5 messages from 1 on cannot be read" in caplog.text


def test_who_insists_gets_what_there_is():
    pages, disk, _ = filled(5)
    disk.failing = True
    assert pages.load(insist=True) == []
    assert pages.lost == 5


@pytest.mark.parametrize("redelivered", [0, 3])
def test_redelivered_rows_are_known_and_come_back_so(redelivered):
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    entries = stored_entries(queue, disk, 5)
    for entry in entries:
        entry.redelivered = entry.sequence == redelivered
    pages.add(entries, bytearray(5))
    assert list(pages.redelivered_ranges()) == [(3, 3)] * bool(redelivered)
    assert [entry.sequence for entry in pages.load(insist=False) if entry.redelivered] == [3] * bool(redelivered)


def test_cleared_pages_hold_nothing():
    pages, disk, _ = filled(5)
    disk.failing = True
    pages.load(insist=False)
    pages.clear()
    assert (pages.items, pages.rows, pages.bytes, pages.stalled) == (0, 0, 0, False)
    assert list(pages.redelivered_ranges()) == []


def test_rows_that_come_one_at_a_time_share_a_page():
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    entries = stored_entries(queue, disk, PAGE_ITEMS_MAX + 10)
    for entry in entries:
        entry.redelivered = entry.sequence % 100 == 0
        pages.add([entry], bytearray([entry.sequence % 50 == 1]))
        if entry.sequence == 300:
            found = pages.load(insist=False)
    assert len(pages.page_list) == 2
    assert disk.figures.paged_out == sum(entry.sequence % 50 != 1 for entry in entries)
    while pages.items:
        found += pages.load(insist=False)
    assert [entry.sequence for entry in found] == [entry.sequence for entry in entries]
    assert [entry.redelivered for entry in found] == [entry.redelivered for entry in entries]
    assert [entry.message.body for entry in found] == [entry.message.body for entry in entries]
    assert (pages.rows, pages.bytes) == (0, 0)


def test_rows_are_spread_over_pages_with_the_bytes_of_each():
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    count = PAGE_ITEMS_MAX + 500
    entries = stored_entries(queue, disk, count)
    origin = entries[0].message.origin
    records = [entry.message.record for entry in entries]
    first, rest = range(1, 301), range(301, count + 1)
    pages.add_rows(first, records[:300], [10] * 300, [origin] * 300, redelivered=False)
    pages.add_rows(rest, records[300:], [10] * len(rest), [origin] * len(rest), redelivered=True)
    assert (pages.items, pages.rows, pages.bytes) == (count, count, 10 * count)
    assert list(pages.redelivered_ranges()) == [(301, PAGE_ITEMS_MAX), (PAGE_ITEMS_MAX + 1, count)]
    found = []
    while pages.items:
        loaded = pages.load(insist=False)
        assert (pages.lost, pages.lost_bytes) == (0, 0)
        found += [(entry.sequence, entry.redelivered) for entry in loaded]
    assert found == [(number, number > 300) for number in range(1, count + 1)]
    assert pages.bytes == 0


def test_looks_have_the_disk_read_ahead_once_for_several():
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    count = LOAD_MESSAGES * (PREFETCH_LOADS + 3)
    pages.add(stored_entries(queue, disk, count), bytearray(count))
    sequence = 1
    for _ in range(PREFETCH_LOADS):
        looked = pages.look(sequence, [], LOAD_MESSAGES)
        assert looked is not None
        assert [entry.sequence for entry in looked] == list(range(sequence, sequence + LOAD_MESSAGES))
        sequence = pages.looked_upto
    assert disk.prefetched == list(range(LOAD_MESSAGES + 1, LOAD_MESSAGES * (PREFETCH_LOADS + 1) + 1))
    assert (pages.rows, pages.items) == (count, count)


def test_what_stood_before_all_rows_can_be_put_there_again():
    queue, disk = durable_queue(), Disk()
    pages, entries = pages_of(queue, disk), stored_entries(queue, disk, 3 * LOAD_MESSAGES)
    pages.add(entries[100:], bytearray(len(entries) - 100))
    pages.add_before(entries[:100], bytearray([0, 1] * 50))
    assert (pages.items, pages.rows, pages.first_sequence()) == (len(entries), len(entries) - 50, 1)
    assert pages.entries_kept() == entries[1:100:2]
    found = []
    while pages.items:
        found += pages.load(insist=False)
    assert [entry.sequence for entry in found] == [entry.sequence for entry in entries]
    assert pages.bytes == 0


def test_rows_without_times_share_a_page_with_those_that_have_some_but_not_the_other_way_round():
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    pages.add(stored_entries(queue, disk, 2), bytearray(2))
    (timed_entry,) = stored_entries(queue, disk, 1)
    timed_entry.message.expires_at = NOW + 5
    pages.add([timed_entry], bytearray(1))
    pages.add(stored_entries(queue, disk, 2), bytearray(2))
    assert [(page.rows, page.facts is None) for page in pages.page_list] == [(2, True), (3, False)]
    origin = timed_entry.message.origin
    pages.add_rows([6, 7], [6, 7], [10, 20], [origin, origin], redelivered=False)
    assert len(pages.page_list) == 3
    pages.add_rows([8, 9], [8, 9], [10, 20], [origin, origin], redelivered=False, times=[(8, 4, 0), (9, 5, 11)])
    assert len(pages.page_list) == 4
    assert pages.page_list[-1].facts.of(9) == (9, 20, 5, 11)
    assert pages.first_expiry(50) == (11, 9)


def test_rows_that_lack_what_is_looked_for_are_passed_over_together(monkeypatch: pytest.MonkeyPatch) -> None:
    pages, disk, entries = searchable(2000, monkeypatch)
    match = entries[1499].message.record
    disk.stored[match] = disk.stored[match]._replace(header=b"red")
    pages.add(entries, bytearray(2000))
    fails_or_not, asked = disk.lack, []

    def lack(records: Sequence[int], needles: Sequence[list[bytes]]) -> bool:
        asked.append((records[0], len(records)))
        return fails_or_not(records, needles) or match not in records

    monkeypatch.setattr(disk, "lack", lack)
    disk.failing = True
    assert (pages.look(1400, [[b"red"]], 256), pages.stalled) == (None, True)
    disk.failing = False
    pages.retry()
    asked.clear()
    seen, found, sequence = [], [], 1
    while sequence <= 2000:
        some = pages.look(sequence, [[b"red"]], 256)
        assert some is not None
        found += [entry.sequence for entry in some]
        sequence = pages.looked_upto
        seen.append(sequence)
    assert found == [1500]
    assert seen == [1025, 1281, 1537, 1793, 2001]
    assert [count for _, count in asked] == [1024, 976, 256, 720, 256, 256, 208]
    assert disk.reads == [256], "messages are made where one may match"
    assert disk.figures.scanned == 2000


def test_runs_that_are_shorter_than_a_look_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    pages, disk, entries = searchable(2000, monkeypatch)
    some = entries[::2]
    pages.add(some, bytearray(1000))
    asked = []

    def lack(records: Sequence[int], needles: Sequence[list[bytes]]) -> bool:
        asked.append(len(records))
        return True

    monkeypatch.setattr(disk, "lack", lack)
    sequence = some[0].sequence
    while sequence <= some[-1].sequence:
        assert pages.look(sequence, [[b"red"]], 256) == []
        sequence = pages.looked_upto
    assert asked == [256, 256, 256, 232]


def test_what_was_kept_among_the_rows_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, disk = durable_queue(), Disk()
    pages, entries = pages_of(queue, disk), stored_entries(queue, disk, 20)
    origin = entries[0].message.origin
    monkeypatch.setattr(origin.view, "verbatim_texts", True)
    for entry in entries:
        entry.message.origin = origin
    pages.add(entries, bytearray([number == 7 for number in range(20)]))
    monkeypatch.setattr(disk, "lack", lambda records, needles: True)
    found = pages.look(1, [[b"red"]], 256)
    assert found is not None
    assert entries[7] in found


def test_what_is_taken_out_of_several_pages_leaves_the_others_and_no_empty_page():
    pages, _, entries = filled(4 * PAGE_ITEMS_MAX)
    taken = [
        *entries[PAGE_ITEMS_MAX - 3 : PAGE_ITEMS_MAX + 2],  # the end of a page and the beginning of the next
        *entries[2 * PAGE_ITEMS_MAX : 3 * PAGE_ITEMS_MAX],  # all of one
        entries[-1],
    ]
    left = [entry.sequence for entry in entries if entry not in set(taken)]
    pages.take_out(taken)
    assert len(pages.page_list) == 3
    assert (pages.items, pages.rows, pages.bytes) == (len(left), len(left), 10 * len(left))
    assert [pages.has_row(entry.sequence) for entry in taken].count(True) == 0
    found = []
    while pages.items:
        found += [entry.sequence for entry in pages.load(insist=False)]
    assert found == left
