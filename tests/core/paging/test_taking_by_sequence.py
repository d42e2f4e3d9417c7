"""What is wanted of a deep order is taken out, wherever it stands, and nothing else."""

from __future__ import annotations

import random
from collections import deque

from annulet.core.paging import taking_by_sequence
from annulet.core.paging.paged_fifo import ROTATED_LEAST, PagedFifo
from annulet.core.paging.taking_by_sequence import gather, take_from
from tests.core.deep_doubles import Deep


def order_of(deep: Deep) -> PagedFifo:
    order = deep.queue.order
    assert isinstance(order, PagedFifo)
    return order


def test_it_finds_entries_rows_and_what_stands_aside() -> None:
    for number in range(20):
        choose = random.Random(number)
        deep = Deep(300, keep=20)
        deep.publish(30)
        order = order_of(deep)
        assert order.paged_count() > 200
        for entry in gather(order, sorted(choose.sample([5, 100, 250, 320], 2)))[0]:
            order.reinsert(entry)
        wanted = sorted(choose.sample(range(1, 340), choose.choice([1, 10, 200])))
        standing = [sequence for sequence in wanted if sequence <= 330]
        found, handled = gather(order, wanted)
        assert [entry.sequence for entry in found] == standing
        assert handled == len(wanted)
        assert order.count == 330 - len(standing)
        assert [entry.sequence for entry in order.entries()] == [n for n in range(1, 331) if n not in set(standing)]


def test_a_look_at_few_or_many_in_memory_leaves_them_where_they_are() -> None:
    deep = Deep(100, keep=60)
    deep.publish(60)
    order = order_of(deep)
    order.look_entries = 2 * ROTATED_LEAST
    for start in (1, 20, 60, 101, 130, 160):
        end = 61 if start <= 60 else 161
        for count in (1, ROTATED_LEAST - 1, ROTATED_LEAST, ROTATED_LEAST + 1):
            found = order.look(start, [], count)
            assert found is not None
            assert [entry.sequence for entry in found] == list(range(start, min(start + count, end)))
            assert order.looked_upto == found[-1].sequence + 1
    assert [entry.sequence for entry in order.entries()] == list(range(1, 161))


def test_it_stops_where_the_disk_refuses_and_loses_nothing() -> None:
    deep = Deep(100, keep=4)
    order = order_of(deep)
    found, _ = gather(order, [2, 50])
    for entry in found:
        order.reinsert(entry)
    deep.disk.failing = True
    found, handled = gather(order, [1, 2, 3, 40, 50])
    assert ([entry.sequence for entry in found], handled) == ([1, 2, 3], 3)
    deep.disk.failing = False
    deep.pages.retry()
    found, handled = gather(order, [40, 50])
    assert ([entry.sequence for entry in found], handled) == ([40, 50], 2)


def test_it_reads_what_lies_together_at_once_and_the_rest_alone() -> None:
    deep = Deep(2000)
    deep.disk.reads.clear()
    gather(order_of(deep), list(range(100, 200)))
    assert deep.disk.reads == [100]
    deep.disk.reads.clear()
    gather(order_of(deep), list(range(300, 1300, 100)))
    assert deep.disk.reads == [1] * 10


def test_it_takes_out_no_more_bytes_than_one_read_and_a_look() -> None:
    size = taking_by_sequence.GATHERED_BYTES // 4
    deep = Deep(20, size=size)
    found, handled = gather(order_of(deep), list(range(5, 20)))
    assert handled == len(found) < 10
    assert sum(entry.message.size for entry in found) >= taking_by_sequence.GATHERED_BYTES
    assert gather(order_of(deep), []) == ([], 0)


def test_entries_are_taken_from_the_middle_of_others() -> None:
    deep = Deep()
    deep.publish(50)
    entries = deep.queue.order.snapshot()
    for start, step in ((0, 1), (10, 3), (49, 1), (20, 7)):
        standing = deque(entries)
        wanted = entries[start::step]
        take_from(standing, wanted)
        assert list(standing) == [entry for entry in entries if entry not in wanted]
    take_from(standing, [])
    assert len(standing) == 45
