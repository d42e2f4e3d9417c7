"""Rows of a sorted queue: put anywhere, taken by name, and found by whoever walks over them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from annulet.core.base.expiry_times import NEVER
from annulet.core.base.settings import QueueSettings
from annulet.core.model.entry import QueueEntry
from annulet.residency.pages.chosen_rows import ChosenRows
from annulet.residency.pages.pages import LOAD_BYTES
from annulet.residency.rows.page import PAGE_ITEMS_MAX
from tests.residency.doubles import Disk, durable_queue, pages_of, stored_entries


class Chosen:
    def __init__(self, count: int) -> None:
        self.disk, self.queue = Disk(), durable_queue(sort_key="key")
        rows = pages_of(self.queue, self.disk)
        assert isinstance(rows, ChosenRows)
        self.rows = rows
        self.entries = stored_entries(self.queue, self.disk, count)
        for entry in self.entries:
            entry.message.origin = self.entries[0].message.origin

    def sequences(self) -> list[int]:
        """Walk over all there is."""
        walk = self.rows.snapshot([]).walk(0)
        found: list[int] = []
        while walk.sequence:
            some = walk.following()
            assert some is not None
            found += [entry.sequence for entry in some]
        return found


def sequences_of(entries: list[QueueEntry]) -> list[int]:
    return [entry.sequence for entry in entries]


@pytest.mark.parametrize("seed", range(2))
def test_rows_are_put_anywhere_and_taken_by_name(seed: int) -> None:
    draw = random.Random(seed)
    chosen = Chosen(600)
    records = [entry.message.record for entry in chosen.entries]
    if seed % 2:  # what was stored anew has a record above those of what came later
        for entry in draw.sample(chosen.entries, 60):
            former = chosen.disk.stored.pop(entry.message.record)
            entry.message.record += 10_000
            chosen.disk.stored[entry.message.record] = former
    left, there = list(chosen.entries), set[int]()
    view, seen = None, [0]
    for turn in range(30):
        some = sorted(draw.sample(left, min(len(left), draw.randrange(60))))
        left = [entry for entry in left if entry not in some]
        chosen.rows.insert(some)
        there |= set(sequences_of(some))
        assert chosen.sequences() == sorted(there)
        if turn == 20:
            view, seen = chosen.rows.snapshot([]), sorted(there)
        wanted = sorted({*draw.sample(sorted(there), min(len(there), draw.randrange(50))), draw.randrange(1, 600)})
        taken = chosen.rows.take(wanted, insist=False)
        assert taken is not None
        assert sequences_of(taken) == [sequence for sequence in wanted if sequence in there]
        there -= set(wanted)
        left += taken
        rows = chosen.rows
        assert (rows.items, rows.rows, rows.bytes, rows.lost) == (len(there), len(there), 10 * len(there), 0)
        if there:
            bounds = rows.record_bounds()
            assert bounds[0] <= min(records) + 600
            assert bounds[1] <= max(records) + 10_000
    assert view is not None
    walk, found = view.walk(0), []
    while walk.sequence:
        found += walk.following() or []
    assert sequences_of(found) == seen, "who walks sees what was there when he began"


def test_full_pages_make_room() -> None:
    chosen = Chosen(2 * PAGE_ITEMS_MAX + 9)
    chosen.rows.insert(chosen.entries[::3])
    chosen.rows.insert(chosen.entries[1::3])
    chosen.rows.insert(chosen.entries[2::3])
    assert chosen.rows.rows == 2 * PAGE_ITEMS_MAX + 9
    assert max(page.items for page in chosen.rows.page_list) <= PAGE_ITEMS_MAX
    assert len(chosen.rows.page_list) <= 7
    assert sum(len(page.runs.lengths) for page in chosen.rows.page_list) <= 7, "no gap is left"
    assert chosen.sequences() == sequences_of(chosen.entries)


def test_rows_that_come_in_descending_order_share_pages() -> None:
    chosen = Chosen(400)
    for start in range(360, -1, -40):
        chosen.rows.insert(chosen.entries[start : start + 40])
    assert len(chosen.rows.page_list) <= 10
    assert chosen.sequences() == sequences_of(chosen.entries)


def test_rows_expire_wherever_they_were_put() -> None:
    chosen = Chosen(60)
    for entry in chosen.entries:
        stored = chosen.disk.stored[entry.message.record]
        entry.message.expires_at = 0 if entry.sequence % 3 else 5000 - entry.sequence
        chosen.disk.stored[entry.message.record] = stored._replace(expires_at=entry.message.expires_at)
    chosen.rows.insert(chosen.entries[::2])
    chosen.rows.insert(chosen.entries[1::2])
    assert chosen.rows.timed()
    assert chosen.rows.first_expiry(10_000) == (4940, 60)
    gone = chosen.rows.take_expired((4960, 0), 100, read=False)
    assert sequences_of(gone) == [60, 57, 54, 51, 48, 45, 42]
    assert chosen.rows.take([3, 4, 9], insist=False) is not None
    gone = chosen.rows.take_expired((10_000, 0), 100, read=True)
    assert sequences_of(gone) == [39, 36, 33, 30, 27, 24, 21, 18, 15, 12, 6]
    assert chosen.rows.first_expiry(10_000) == NEVER
    assert chosen.rows.rows == 60 - 20 - 1


def test_what_came_before_its_page_was_halved_expires_too() -> None:
    chosen = Chosen(2 * PAGE_ITEMS_MAX + 2)
    chosen.rows.insert([entry for entry in chosen.entries[::2] if entry.sequence > 4][: PAGE_ITEMS_MAX - 1])
    first, full = chosen.entries[5], chosen.entries[2 * PAGE_ITEMS_MAX - 1]
    first.message.expires_at = 5000
    chosen.rows.insert([first, chosen.entries[2 * PAGE_ITEMS_MAX - 5], full])
    assert len(chosen.rows.page_list) == 2
    assert chosen.rows.first_expiry(10_000) == (5000, first.sequence)


def test_what_got_a_page_of_its_own_expires_when_the_next_one_gets_another() -> None:
    chosen = Chosen(4)
    for entry in chosen.entries:
        entry.message.expires_at = 5000 + entry.sequence
    chosen.entries[0].message.record += 10  # stored anew: a page that begins with it takes no record below
    chosen.rows.insert(chosen.entries[3:])
    chosen.rows.insert(chosen.entries[:3])
    assert len(chosen.rows.page_list) == 3
    assert chosen.rows.first_expiry(10_000) == (5001, 1)


def test_the_last_row_a_page_takes_expires_when_the_next_one_gets_another() -> None:
    chosen = Chosen(PAGE_ITEMS_MAX + 2)
    last, following, far = chosen.entries[PAGE_ITEMS_MAX - 1 :]
    chosen.rows.insert(chosen.entries[:PAGE_ITEMS_MAX])
    chosen.rows.insert([far])
    assert chosen.rows.take([last.sequence], insist=False) is not None
    last.message.expires_at = 5000
    chosen.rows.insert([last, following])
    assert len(chosen.rows.page_list) == 3
    assert chosen.rows.first_expiry(10_000) == (5000, last.sequence)


def test_far_messages_that_are_large_come_in_as_many_as_a_load_takes() -> None:
    chosen = Chosen(12)
    for entry in chosen.entries[6:]:
        entry.message.size = LOAD_BYTES // 2
        stored = chosen.disk.stored[entry.message.record]
        chosen.disk.stored[entry.message.record] = stored._replace(body=bytes(LOAD_BYTES // 2))
    chosen.rows.insert(chosen.entries)
    taken = chosen.rows.take([12, 1, 9, 8, 2], insist=False)
    assert taken is not None
    assert sequences_of(taken) == [1, 12], "in the order in which they were named, and at least one"
    assert chosen.rows.has_row(2)


def test_hot_properties_are_not_noted_where_rows_come_in_any_order() -> None:
    chosen = Chosen(4)
    chosen.queue.settings = QueueSettings(sort_key="key", hot_properties=("region",))
    chosen.rows.insert(chosen.entries[::2])
    chosen.rows.insert(chosen.entries[1::2])
    assert [page.hot for page in chosen.rows.page_list] == [None]


def test_a_disk_that_refuses_leaves_all_where_it_is() -> None:
    chosen = Chosen(9)
    chosen.rows.insert(chosen.entries)
    chosen.disk.failing = True
    assert chosen.rows.take([2, 5], insist=False) is None
    assert chosen.rows.stalled
    chosen.disk.failing = False
    assert chosen.rows.take([2, 5], insist=False) is None, "until the next retry"
    chosen.rows.retry()
    taken = chosen.rows.take([2, 5], insist=False)
    assert taken is not None
    assert sequences_of(taken) == [2, 5]
    assert chosen.rows.take([2, 50], insist=False) == []


def test_what_is_damaged_is_lost_with_its_bytes() -> None:
    chosen = Chosen(3)
    chosen.rows.insert(chosen.entries)
    chosen.disk.damaged.add(2)
    taken = chosen.rows.take([1, 2], insist=False)
    assert taken is not None
    assert sequences_of(taken) == [1]
    assert (chosen.rows.lost, chosen.rows.lost_bytes, chosen.rows.rows, chosen.rows.bytes) == (1, 10, 1, 10)


def test_others_of_the_same_queue_are_of_the_same_kind() -> None:
    assert isinstance(Chosen(1).rows.renewed(), ChosenRows)


def test_hot_properties_are_not_noted_where_no_selector_looks() -> None:
    chosen = Chosen(60)
    chosen.queue.settings = replace(chosen.queue.settings, hot_properties=("color",))
    for start in range(0, 60, 20):
        first, *some = chosen.entries[start : start + 20]
        chosen.rows.insert(some)  # behind all
        chosen.rows.insert([first])
        assert chosen.rows.take(sequences_of(some[:-1]), insist=False) is not None
    assert [page.hot for page in chosen.rows.page_list] == [None] * len(chosen.rows.page_list), (
        "they would grow for ever"
    )
