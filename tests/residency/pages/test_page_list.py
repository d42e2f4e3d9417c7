"""What comes back among rows: every entry is one thing in one place, and who looks at the rows of before sees those."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from annulet.core.model.entry import QueueEntry
from annulet.core.queue.queue import Queue
from annulet.residency.loading.figures import PagingFigures
from annulet.residency.pages.page_list import PageList
from annulet.residency.pages.pages import StoredQueueArea
from annulet.residency.rows.page import ORIGINS_MAX, PAGE_ITEMS_MAX
from tests.residency.doubles import Disk, bodies_of, durable_queue, pages_of, stored_entries


class Area:
    """``COUNT`` stored messages of a queue; ``there`` are those in its pages."""

    def __init__(self, count: int = 100, queue: Queue | None = None) -> None:
        self.queue, self.disk = queue or durable_queue(), Disk()
        self.entries = stored_entries(self.queue, self.disk, count)
        self.pages: StoredQueueArea = pages_of(self.queue, self.disk)

    def of(self, sequences: Iterable[int]) -> list[QueueEntry]:
        return [self.entries[sequence - 1] for sequence in sequences]

    def add(self, sequences: Iterable[int]) -> None:
        entries = self.of(sequences)
        self.pages.add(entries, bytearray(len(entries)))

    def add_among(self, sequences: Iterable[int], kept: Iterable[int] = ()) -> list[int]:
        entries = self.of(sequences)
        stay = set(kept)
        refused = self.pages.add_among(entries, bytearray([entry.sequence in stay for entry in entries]))
        return [entry.sequence for entry in refused]

    def drained(self) -> list[tuple[int, int]]:
        """Return sequences and counts of all that is there, which are read; the account is checked."""
        pages = self.pages
        assert pages.bytes == 10 * pages.rows
        found: list[tuple[int, int]] = []
        items = pages.items
        while pages.items:
            found += [(entry.sequence, entry.delivery_count) for entry in pages.load(insist=True) or []]
        assert (len(found), pages.rows, pages.bytes, pages.lost_bytes) == (items, 0, 0, 0)
        return found


@pytest.mark.parametrize("seed", range(5))
def test_the_totals_are_the_sums_of_the_pages_and_no_page_is_empty(seed: int) -> None:
    draw = random.Random(seed)
    queue = durable_queue()
    entries = stored_entries(queue, Disk(), 300)
    pages = PageList(queue, PagingFigures(), 1 << 20, all_timed=True)
    there: list[QueueEntry] = []
    pages.append(entries[100:110], bytearray(10))
    there += entries[100:110]
    for _ in range(200):
        some = sorted(draw.sample(entries, draw.randrange(1, 6)))
        outside = [entry for entry in some if entry not in there]
        inside = [entry for entry in some if entry in there]
        step = draw.randrange(4)
        if step == 0:
            refused, (taken, _) = pages.put_among(outside, bytearray(len(outside)))
            assert sorted([*refused, *taken]) == outside
            there = sorted([*there, *taken])
        elif step == 1 and there:
            behind = [entry for entry in outside if entry.sequence > there[-1].sequence]
            pages.append(behind, bytearray(len(behind)))
            there += behind
        elif step == 2 and len(pages) and pages[0].rows > 1:
            assert pages.take_first(1, 1, there.pop(0).message.size) == 0
        else:
            for page in pages.pages:
                page.shared = draw.random() < 0.5
            assert pages.take_out(inside) == 0
            there = [entry for entry in there if entry not in inside]
        assert [row for page in pages.pages for row in page.peek(PAGE_ITEMS_MAX).sequences] == [
            entry.sequence for entry in there
        ]
        sums = [sum(getattr(page, total) for page in pages.pages) for total in ("items", "rows", "bytes")]
        assert [pages.items, pages.rows, pages.bytes] == sums
        assert all(page.items for page in pages.pages)


def test_a_row_is_found_in_the_page_that_has_it() -> None:
    area = Area()
    area.add(range(1, 4))
    area.add_among([10])
    pages = area.pages.page_list
    assert [pages.index_of(sequence) for sequence in (1, 3, 4, 10, 11)] == [0, 0, 1, 1, 2]
    assert [pages.index_before(sequence) for sequence in (0, 1, 9, 10, 99)] == [-1, 0, 0, 1, 1]
    assert [pages.page_with(sequence) for sequence in (2, 4, 10, 11)] == [pages[0], None, pages[1], None]


def test_between_pages_they_are_pages_before_them_and_behind() -> None:
    area = Area()
    area.add(range(20, 30))
    area.pages.add_before(area.of(range(5, 8)), bytearray(3))
    assert area.add_among([1, 2, 10, 11, 40, 50]) == []
    assert [page.first_sequence for page in area.pages.page_list] == [1, 5, 10, 20, 40]
    assert [number for number, _ in area.drained()] == [1, 2, 5, 6, 7, 10, 11, *range(20, 30), 40, 50]


def test_in_the_middle_of_a_page_they_are_its_rows_with_their_counts() -> None:
    area = Area()
    for entry in area.of([4, 5, 9]):
        entry.delivery_count = entry.sequence
    area.add([1, 2, 3, 6, 7, 8, 10])
    area.pages.load(insist=True)
    area.add([20, 21, 30])
    area.pages.take_out((area.pages.look(21, [], 1) or [])[:1])
    assert area.add_among([4, 5, 9, 22, 25]) == []
    assert len(area.pages.page_list) == 2, "the first one was used up"
    assert area.drained() == [(4, 4), (5, 5), (9, 9), (20, 0), (22, 0), (25, 0), (30, 0)]


def test_what_stays_an_object_stands_between_pages_but_not_within() -> None:
    area = Area()
    area.add([10, 20])
    assert area.add_among([5, 6, 15, 30], kept=[6, 15, 30]) == [15]
    assert area.pages.entries_kept() == area.of([6, 30])
    assert area.pages.rows == 3
    assert [number for number, _ in area.drained()] == [5, 6, 10, 20, 30]


@pytest.mark.parametrize(("free", "refused"), [(1, []), (0, [2])])
def test_a_full_page_refuses(free: int, refused: list[int]) -> None:
    area = Area(PAGE_ITEMS_MAX + 2)
    area.add([1, *range(3, PAGE_ITEMS_MAX + 2 - free)])
    assert len(area.pages.page_list) == 1
    assert area.add_among([2]) == refused


def test_a_page_refuses_what_it_would_have_to_know_more_of() -> None:
    area = Area()
    area.add([1, 3])
    area.entries[1].message.expires_at = 5
    assert area.add_among([2]) == [2], "it may expire, and the page knows no times"
    hot = Area(queue=durable_queue(hot_properties=("colour",)))
    hot.add([1, 3])
    assert hot.add_among([2]) == [2]
    assert hot.add_among([4]) == []


def test_a_page_that_knows_times_takes_what_expires() -> None:
    area = Area()
    for entry in area.entries:
        entry.message.expires_at = 1000 - entry.sequence
    area.add([1, 30])
    assert area.add_among([20]) == []
    assert area.pages.first_expiry(2000) == (970, 30)
    assert [entry.sequence for entry in area.pages.take_expired((981, 0), 9, read=False)] == [30, 20]


def test_who_looks_at_the_rows_of_before_does_not_see_them() -> None:
    area = Area()
    area.add([1, 2, 6, 7])
    walk = area.pages.snapshot([]).walk(1)
    assert area.add_among([4]) == []
    assert [entry.sequence for entry in walk.following() or []] == [1, 2, 6, 7]
    assert [number for number, _ in area.drained()] == [1, 2, 4, 6, 7]


def test_entries_kept_and_taken_before_a_place_are_passed_over() -> None:
    area = Area()
    area.pages.add(area.of([1, 2, 3, 6, 8]), bytearray([0, 1, 0, 1, 0]))
    pages = area.pages.page_list
    page = pages[0]
    page.take(3)
    pages.items, pages.rows, pages.bytes, page.bytes = 2, 1, 10, 10
    assert area.add_among([7]) == []
    assert area.pages.entries_kept() == area.of([6])
    assert [number for number, _ in area.drained()] == [6, 7, 8]


def test_bodies_are_told_of_what_stays() -> None:
    area = Area()
    bodies = bodies_of(area.queue, area.disk)
    bodies.rows = True
    area.add([10, 20])
    area.add_among([1, 2, 15], kept=[2, 15])
    assert bodies.waiting == area.of([2]), "the other one was refused"


@pytest.mark.parametrize("seed", range(5))
def test_whatever_goes_and_comes_back_is_there_by_sequence(seed: int) -> None:
    draw = random.Random(seed)
    area = Area(300)
    for entry in area.entries:
        entry.delivery_count = draw.choice([0, 0, 0, 1, 2, 70])
    area.add(range(1, 301))
    there = set(range(1, 301))
    for _ in range(60):
        first = draw.randrange(1, 301)
        found = area.pages.look(first, [], 20) or [] if first <= max(there, default=0) else []
        taken = [entry for entry in found if draw.random() < 0.5]
        area.pages.take_out(taken)
        there -= {entry.sequence for entry in taken}
        away = sorted(set(range(1, 301)) - there)
        back = sorted(draw.sample(away, min(len(away), draw.randrange(8))))
        assert area.add_among(back) == []
        there |= set(back)
    expected = [(sequence, area.entries[sequence - 1].delivery_count) for sequence in sorted(there)]
    assert area.drained() == expected


class Counted(list[Any]):
    """Counts the elements of the slices that were asked for."""

    looked_at = 0

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        if isinstance(place, slice):
            self.looked_at += len(found)
        return found


def test_the_origins_of_a_page_are_looked_at_once_for_all_that_come_into_it() -> None:
    """Each message is of another connection, as where every publisher connects for one message."""
    area = Area(1000)
    area.add(range(1, 1001, 2))
    (page,) = area.pages.page_list
    origins = page.origins = Counted(page.origins)
    assert len(origins) == 500
    assert area.add_among(range(2, 1000, 2)) == []
    assert len(origins) == 999
    assert origins.looked_at <= 499 * ORIGINS_MAX + 500
    assert [sequence for sequence, _ in area.drained()] == list(range(1, 1000))
