"""Deep orders keep less of what comes next, and read less at once, while very many queues are deep."""

from __future__ import annotations

import pytest

from annulet.core.paging.folding import FOLD_BYTES_LEAST, FOLD_MESSAGES_LEAST
from annulet.core.paging.front_limits import FrontBounds
from annulet.core.paging.paged_fifo import KEEP_BYTES, KEEP_MESSAGES, PagedFifo
from annulet.core.paging.paged_priorities import PagedLevels, paged_order_of
from annulet.core.paging.paged_sorted import PagedSorted
from annulet.core.queue.queue import Queue
from annulet.residency.bodies.budget import drift_of
from annulet.residency.pages.pages import LOAD_MESSAGES
from tests.core.helpers import NOW
from tests.residency.doubles import Disk, durable_queue, filled, pages_of

ALL = 1 << 60
COUNT = 2000
FEW = FrontBounds(messages=20, size=1 << 14)
KINDS = [{}, {"max_priority": 9}, {"sort_key": "rank"}]


def deep(size: int = 10, **settings: object) -> tuple[Queue, PagedFifo | PagedLevels | PagedSorted]:
    queue, disk = durable_queue(**settings), Disk()
    filled(queue, disk, COUNT, size=size)
    order = paged_order_of(queue, pages_of(queue, disk))
    kind = PagedSorted if "sort_key" in settings else PagedLevels if "max_priority" in settings else PagedFifo
    assert isinstance(order, kind)
    return queue, order


def paged(order: PagedFifo | PagedLevels | PagedSorted) -> None:
    while order.page_out(ALL, COUNT):
        pass


@pytest.mark.parametrize("settings", KINDS)
def test_no_more_is_kept_and_what_was_kept_before_goes(settings: dict[str, object]) -> None:
    queue, order = deep(**settings)
    paged(order)
    assert COUNT - order.paged_count() == KEEP_MESSAGES
    FEW.apply(order)
    paged(order)
    assert COUNT - order.paged_count() == 20
    assert drift_of(queue) == 0
    taken = queue.acquire(COUNT, -1, NOW)
    assert [entry.sequence for entry in taken] == list(range(1, COUNT + 1))


@pytest.mark.parametrize("settings", KINDS)
def test_few_large_bodies_go_as_well(settings: dict[str, object]) -> None:
    _, order = deep(size=1 << 12, **settings)
    paged(order)
    assert COUNT - order.paged_count() == KEEP_BYTES >> 12
    FEW.apply(order)
    paged(order)
    assert COUNT - order.paged_count() == FEW.size >> 12


@pytest.mark.parametrize("settings", KINDS)
def test_a_load_is_no_longer_than_a_front(settings: dict[str, object]) -> None:
    queue, order = deep(**settings)
    FEW.apply(order)
    paged(order)
    assert queue.acquire(20, -1, NOW)
    assert queue.acquire(1, -1, NOW)
    assert COUNT - 21 - order.paged_count() == 19
    FrontBounds().apply(order)
    assert queue.acquire(20, -1, NOW)
    assert COUNT - 41 - order.paged_count() == LOAD_MESSAGES - 1


@pytest.mark.parametrize("settings", KINDS)
def test_who_may_keep_all_again_does(settings: dict[str, object]) -> None:
    _, order = deep(**settings)
    FEW.apply(order)
    assert (order.fold_least, order.fold_bytes) == FEW
    FrontBounds().apply(order)
    assert (order.keep_messages, order.keep_bytes) == (KEEP_MESSAGES, KEEP_BYTES)
    assert (order.fold_least, order.fold_bytes) == (FOLD_MESSAGES_LEAST, FOLD_BYTES_LEAST)
    paged(order)
    assert COUNT - order.paged_count() == KEEP_MESSAGES


def test_a_level_that_pages_later_reads_no_more_at_once_either() -> None:
    _, order = deep(max_priority=9)
    assert isinstance(order, PagedLevels)
    FEW.apply(order)
    level = order.paged_level(7)
    assert (level.pages.most_messages, level.pages.most_bytes) == FEW


def test_an_order_without_a_front_of_its_own_is_left_alone() -> None:
    queue = durable_queue(fair_key="key")
    filled(queue, Disk(), 10)
    FEW.apply(queue.order)
    assert queue.order.count == 10


def test_a_level_keeps_no_more_of_what_came_back_than_the_order() -> None:
    _, order = deep(max_priority=9)
    assert isinstance(order, PagedLevels)
    FEW.apply(order)
    paged(order)
    occupied = [level for level in order.levels if isinstance(level, PagedFifo) and level.count]
    assert occupied
    assert [(level.fold_least, level.fold_bytes) for level in occupied] == [FEW] * len(occupied)


def test_a_level_whose_front_cannot_go_yet_goes_later() -> None:
    _, order = deep(max_priority=9)
    assert isinstance(order, PagedLevels)
    paged(order)
    fewer = KEEP_MESSAGES - FOLD_MESSAGES_LEAST // 2
    FrontBounds(messages=fewer).apply(order)
    assert order.page_out(1, COUNT) == 0, "nothing of it is written"
    paged(order)
    assert COUNT - order.paged_count() == fewer
