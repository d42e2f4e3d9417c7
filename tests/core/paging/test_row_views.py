"""Rows of several levels are one view: by sequence, and level by level in order of dispatch."""

from __future__ import annotations

from collections import Counter

import pytest

from annulet.core.model.entry import QueueEntry, position_of
from annulet.core.model.queue_area import RowWalk
from annulet.core.paging.row_views import LevelsView, view_of
from annulet.residency.pages import pages as pages_module
from annulet.residency.pages import walk as walk_module
from tests.core.helpers import NOW
from tests.core.queue.test_deep_queue_scan import Site, deep_site


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_module, "WALK_MESSAGES", 4)
    monkeypatch.setattr(pages_module, "LOAD_MESSAGES", 3)


def levels_view(site: Site, noted: list[QueueEntry]) -> LevelsView:
    pages = site.queue.order.pages_behind()
    assert pages is not None
    view = view_of(site.queue, pages, noted)
    assert isinstance(view, LevelsView)
    return view


def all_of(walk: RowWalk) -> list[QueueEntry]:
    found = []
    while walk.sequence:
        rows = walk.following()
        assert rows is not None
        found += rows
    return found


def by_rank(site: Site, numbers: range) -> list[int]:
    """Return numbers by the priorities that the site gave them."""
    return sorted(numbers, key=lambda number: (-(4, 7, 2)[number // 2 % 3], number))


def test_a_view_shows_rows_and_what_was_noted_in_either_order() -> None:
    site = deep_site(40, levels=True)
    noted = site.queue.order.in_memory()
    view = levels_view(site, noted)
    assert [entry.sequence for entry in all_of(view.walk(0))] == list(range(1, 41))
    assert [entry.sequence for entry in all_of(view.walk(5, 20, [1, 5, 9, 30]))] == [5, 9]
    found = all_of(view.walk_in_order(0))
    assert [entry.sequence for entry in found] == by_rank(site, range(1, 41))
    assert sorted(found, key=position_of) == found == sorted(found)
    assert [entry.sequence for entry in all_of(view.walk_in_order(7, [3, 8, 9, 10]))] == by_rank(site, range(8, 11))
    assert site.queue.order.paged_count() == 38, "and brings nothing into memory"


def test_what_has_left_is_counted_and_named_in_either_order() -> None:
    site = deep_site(40, levels=True)
    view = levels_view(site, site.queue.order.in_memory())
    for entry in site.queue.acquire(10, -1, NOW):
        site.queue.acknowledge(entry)
    left = by_rank(site, range(1, 41))[10:]
    for walk in (view.walk(0), view.walk_in_order(0)):
        found: list[int] = []
        settled: list[int] = []
        while walk.sequence:
            rows = walk.following()
            assert rows is not None
            assert all(walk.holds(entry) for entry in rows)
            found += [entry.sequence for entry in rows]
            settled += walk.settled
        assert (sorted(found), sorted([*found, *settled])) == (sorted(left), list(range(1, 41)))
        assert walk.passed == 40


def test_a_refusal_of_the_disk_ends_neither_walk_and_damage_is_named() -> None:
    site = deep_site(40, levels=True)
    view = levels_view(site, site.queue.order.in_memory())
    site.disk.damaged.add(20)
    for walk in (view.walk(0), view.walk_in_order(0)):
        site.disk.failing = True
        first = (walk.base, walk.sequence)
        assert walk.following() is None
        assert (walk.base, walk.sequence) == first
        site.disk.failing = False
        found: list[int] = []
        damaged: list[int] = []
        while walk.sequence:
            rows = walk.following()
            assert rows is not None
            found += [entry.sequence for entry in rows]
            damaged += walk.damaged
        assert (sorted(found), damaged) == ([number for number in range(1, 41) if number != 20], [20])


def test_walks_of_levels_that_alternate_return_what_one_read_allows() -> None:
    site = deep_site(40, levels=True)
    walk = levels_view(site, site.queue.order.in_memory()).walk(0)
    calls = 0
    while walk.sequence:
        assert walk.following() is not None
        calls += 1
    counts = Counter((4, 7, 2)[number // 2 % 3] for number in range(1, 41))
    assert calls <= sum(len(range(0, rows, 4)) for rows in counts.values()), "a call for each read"


def test_the_view_of_a_plain_queue_is_that_of_its_rows_also_when_none_are_left() -> None:
    site = deep_site(10)
    pages = site.queue.order.pages_behind()
    assert pages is not None
    noted = site.queue.order.entries()
    assert site.queue.order.pages_behind() is None
    view = view_of(site.queue, pages, noted)
    assert not isinstance(view, LevelsView)
    assert [entry.sequence for entry in all_of(view.walk_in_order(0))] == list(range(1, 11))
    assert all_of(view_of(site.queue, pages, []).walk(0)) == []
