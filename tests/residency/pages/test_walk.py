"""A walk shows the rows of its moment, whatever becomes of the pages, and none whose record is settled."""

from __future__ import annotations

import pytest

from annulet.residency.pages import walk
from annulet.residency.pages.walk import WALK_BYTES, PageWalk
from tests.residency.doubles import Disk, durable_queue, pages_of, stored_entries


def walked(found: PageWalk) -> list[int]:
    seen = []
    while found.sequence:
        entries = found.following()
        assert entries is not None
        seen += [entry.sequence for entry in entries]
    return seen


def test_it_shows_what_is_taken_selected_or_added_meanwhile_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "WALK_MESSAGES", 7)
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    before, rows, later = (stored_entries(queue, disk, count) for count in (5, 6000, 10))
    pages.add(rows, bytearray(6000))
    found = pages.snapshot(before).walk(0)
    assert isinstance(found, PageWalk)
    assert found.sequence == 1
    pages.load(insist=False)
    looked = pages.look(3000, [], 256)
    assert looked is not None
    pages.take_out(looked[::2])
    pages.add(later, bytearray(10))
    disk.settled.update(entry.message.record for entry in rows[100:200])
    disk.damaged.add(rows[300].message.record)
    assert walked(found) == [number for number in range(1, 6006) if not 106 <= number < 206 and number != 306]
    again = pages.snapshot([]).walk(5000)
    assert isinstance(again, PageWalk)
    assert walked(again) == list(range(5000, 6016))


def test_it_reads_large_messages_in_small_slices() -> None:
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    pages.add(stored_entries(queue, disk, 20, size=WALK_BYTES // 2), bytearray(20))
    found = pages.snapshot([]).walk(0)
    first = found.following()
    assert first is not None
    assert len(first) == 2


def test_it_waits_for_the_disk_and_for_what_is_not_written() -> None:
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    pages.add(stored_entries(queue, disk, 20), bytearray(20))
    found = pages.snapshot([]).walk(0)
    disk.failing = True
    assert (found.following(), found.sequence) == (None, 1)
    disk.failing = False
    disk.unwritten_from = 11
    assert (found.following(), found.sequence) == (None, 1)
    disk.unwritten_from = 1 << 40
    entries = found.following()
    assert entries is not None
    assert ([entry.sequence for entry in entries], found.sequence) == (list(range(1, 21)), 0)


def test_a_view_is_walked_over_in_parts_as_often_as_one_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "WALK_MESSAGES", 7)
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    before, rows = (stored_entries(queue, disk, count) for count in (5, 6000))
    pages.add(rows, bytearray(6000))
    view = pages.snapshot(before)
    pages.skip(6000)
    for first, last, seen in (
        (0, 3, range(1, 4)),
        (4, 8, range(4, 9)),
        (0, 3, range(1, 4)),
        (6000, -1, range(6000, 6006)),
    ):
        part = view.walk(first, last)
        assert isinstance(part, PageWalk)
        assert walked(part) == list(seen)
    assert view.walk(7000).sequence == 0


def test_only_the_rows_that_were_chosen_are_read() -> None:
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    rows = stored_entries(queue, disk, 6000)
    pages.add(rows, bytearray([sequence % 10 == 0 for sequence in range(6000)]))
    disk.settled.add(rows[3].message.record)
    disk.damaged.add(rows[5].message.record)
    part = pages.snapshot([]).walk(0, -1, [1, 2, 4, 6, 5000, 7000])
    assert isinstance(part, PageWalk)
    assert walked(part) == [2, 5000]
    assert (disk.reads, part.passed, part.damaged) == ([3], 4, [6])


@pytest.mark.parametrize("size", [1, 7, 256])
def test_what_was_in_memory_comes_between_the_rows_it_stood_between(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In slices that are full however the pages lie between each other."""
    monkeypatch.setattr(walk, "WALK_MESSAGES", size)
    monkeypatch.setattr(walk, "PAGE_ITEMS_MAX", 9)
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    entries = stored_entries(queue, disk, 400)
    before, rows, behind = entries[:20], entries[20:380], entries[380:]
    held = [entry for entry in rows if entry.sequence % 7 < 2 or 100 <= entry.sequence < 140]
    pages.add([entry for entry in rows if entry not in held], bytearray(len(rows) - len(held)))
    view = pages.snapshot([])
    view.note(before[::2] + held[::2] + behind)
    view.note(before[1::2] + held[1::2])
    found = view.walk(0)
    assert isinstance(found, PageWalk)
    assert walked(found) == list(range(1, 401))
    assert disk.reads == [size] * (400 // size) + [400 % size] * (400 % size > 0)
    chosen = view.walk(0, -1, list(range(1, 500, 3)))
    assert isinstance(chosen, PageWalk)
    assert walked(chosen) == list(range(1, 401, 3))
