"""What came back and the front behind it are one front: the end of a longer one becomes rows."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.model.entry import QueueEntry
from annulet.core.model.entry_holds import Pin
from annulet.core.paging.folding import FOLD_BYTES_LEAST, FOLD_MESSAGES_LEAST
from annulet.core.paging.paged_fifo import PagedFifo
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.queue.queue import Queue
from annulet.core.queue.returning import return_many
from annulet.residency.bodies.budget import drift_of
from annulet.residency.pages import pages as pages_module
from tests.core.helpers import NOW, SlicingEffects
from tests.residency.doubles import Disk, bodies_of, durable_queue, filled, pages_of

ALL = 1 << 60
COUNT = 400
KEEP = 10
LOADED = 256


class Front:
    """A queue of ``COUNT`` with a front that was loaded, and behind it rows. ``held``: what was pulled before it."""

    def __init__(self, size: int = 10) -> None:
        self.queue: Queue = durable_queue()
        self.disk = Disk()
        order = paged_order_of(self.queue, pages_of(self.queue, self.disk))
        assert order is not None
        self.order: PagedFifo = order
        order.keep_messages = KEEP
        filled(self.queue, self.disk, COUNT, size=size)
        assert order.page_out(ALL, COUNT) == COUNT - KEEP
        self.held: list[QueueEntry] = self.queue.acquire(KEEP + 1, -1, NOW)

    def give_back(self) -> None:
        self.queue.return_entries(self.held, NOW)


def test_a_front_behind_what_came_back_becomes_rows() -> None:
    front = Front()
    assert front.order.front_length == LOADED - 1
    assert not front.order.worth_folding(), "it is what consumers take next"
    front.give_back()
    assert front.order.worth_folding()
    assert front.order.page_out(ALL, COUNT) == LOADED - 1
    assert (front.order.front_length, front.order.paged_count()) == (0, COUNT - KEEP - 1)
    assert not front.order.worth_folding()
    assert front.order.page_out(ALL, COUNT) == 0
    assert drift_of(front.queue) == 0
    taken = front.queue.acquire(COUNT, -1, NOW)
    assert [entry.sequence for entry in taken] == list(range(1, COUNT + 1))


def test_the_front_is_as_long_as_what_came_back_leaves_it() -> None:
    front = Front()
    del front.held[4:]  # the others stay with who pulled them
    front.give_back()
    assert front.order.length_kept() == KEEP - 4
    front.order.keep_bytes = 60
    assert front.order.length_kept() == 2, "40 bytes came back, and 20 more are there to be taken"
    pin = Pin(front.queue, front.order._front[5].sequence)
    assert front.order.length_kept() == 6, "what somebody holds stays"
    del pin
    assert front.order.length_kept() == 2


@pytest.mark.parametrize(
    ("size", "excess", "worth"),
    [
        (1, FOLD_MESSAGES_LEAST, True),
        (1, FOLD_MESSAGES_LEAST - 1, False),
        (FOLD_BYTES_LEAST // 2, 2, True),
        (FOLD_BYTES_LEAST // 2, 1, False),
    ],
)
def test_few_are_not_worth_a_page(size: int, excess: int, worth: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_module, "LOAD_BYTES", 1 << 30)
    front = Front(size)
    front.give_back()
    front.order.keep_bytes = 1 << 30
    front.order.keep_messages = KEEP + 1 + front.order.front_length - excess
    assert front.order.worth_folding() is worth


def test_nothing_that_is_not_written_yet_or_stands_at_the_end_becomes_rows() -> None:
    front = Front()
    front.give_back()
    assert front.order.fold_front(1, COUNT) == 0
    assert front.order.front_length == LOADED - 1
    front.queue.acquire(COUNT, -1, NOW)
    assert not front.order.pages.items
    assert front.order.fold_front(ALL, COUNT) == 0


class Back:
    """A queue of ``COUNT`` of which nothing is left in memory but what was pulled, all of it ``held``."""

    def __init__(self, *, rows: int = 0, **settings: Any) -> None:
        self.queue, self.disk = durable_queue(**settings), Disk()
        order = paged_order_of(self.queue, pages_of(self.queue, self.disk))
        assert isinstance(order, PagedFifo)
        self.order = order
        order.keep_messages = KEEP
        filled(self.queue, self.disk, COUNT)
        if rows:
            assert order.page_out(ALL, COUNT) == COUNT - KEEP
        self.held: list[QueueEntry] = self.queue.acquire(COUNT - rows, -1, NOW)

    def give_back(self, *sequences: int) -> None:
        wanted = set(sequences) or {entry.sequence for entry in self.held}
        self.queue.return_entries([entry for entry in self.held if entry.sequence in wanted], NOW)

    def taken(self) -> list[tuple[int, int]]:
        assert drift_of(self.queue) == 0
        return [(entry.sequence, entry.delivery_count) for entry in self.queue.acquire(COUNT, -1, NOW)]


def everything(count: int = 1) -> list[tuple[int, int]]:
    return [(sequence, count) for sequence in range(1, COUNT + 1)]


def test_what_came_back_becomes_rows_but_for_the_next_ones() -> None:
    back = Back()
    back.give_back()
    assert back.order.came_back() == COUNT
    assert back.order.fold(ALL, 100) == 100
    assert back.order.page_out(ALL, COUNT) == COUNT - KEEP - 100
    assert (back.order.came_back(), back.order.paged_count(), back.order.count) == (KEEP, COUNT - KEEP, COUNT)
    assert back.order.page_out(ALL, COUNT) == 0
    assert back.taken() == everything()


@pytest.mark.parametrize(
    ("excess", "moved"), [(FOLD_MESSAGES_LEAST, FOLD_MESSAGES_LEAST), (FOLD_MESSAGES_LEAST - 1, 0)]
)
def test_few_that_came_back_are_not_worth_a_page(excess: int, moved: int) -> None:
    back = Back()
    back.order.keep_messages = COUNT - excess
    back.give_back()
    assert back.order.fold_back(ALL, COUNT) == moved


def test_what_comes_back_later_takes_its_place_among_the_rows() -> None:
    back = Back()
    back.order.fold_least = 1
    among = range(150, 160)
    back.give_back(*range(1, 150), *range(160, COUNT + 1))
    assert back.order.fold(ALL, COUNT) == COUNT - len(among) - KEEP
    back.give_back(*among)
    assert back.order.first_sequence() == 1
    assert back.order.fold(ALL, COUNT) == len(among)
    assert back.order.paged_count() == COUNT - KEEP
    assert back.taken() == everything()


def test_entries_at_the_front_and_late_ones_keep_those_around_them() -> None:
    """Nothing that stands before the last at the front, or behind the first late one, is among the rows between."""
    back = Back(rows=200)
    back.order.fold_least = 1
    back.order.keep_messages = 0
    front = back.order._front[-1].sequence
    back.give_back()
    filled(back.queue, back.disk, 5)
    assert back.order.fold(ALL, COUNT) > 0
    assert back.order.front_length == 0, "the front goes first"
    assert front < back.order.pages.last_sequence()
    while back.order.fold(ALL, COUNT):
        pass
    assert (back.order.came_back(), back.order.paged_count()) == (0, COUNT)
    found = back.queue.acquire(COUNT + 5, -1, NOW)
    assert [entry.sequence for entry in found] == list(range(1, COUNT + 6))
    assert {entry.delivery_count for entry in found[COUNT - 200 :]} == {0}


def test_what_cannot_move_stays_and_what_cannot_be_a_row_is_kept_among_them() -> None:
    back = Back()
    back.order.fold_least, back.order.keep_messages = 1, 0
    transient, unwritten, pinned, removed = (back.held[place] for place in (COUNT - 1, COUNT - 2, 9, COUNT - 3))
    transient.message.durable = False
    back.give_back()
    pin = Pin(back.queue, pinned.sequence)
    back.queue.remove_pending(removed, RemovalReason.PURGED, NOW, 0)
    assert back.order.fold_back(unwritten.message.record, COUNT) == COUNT - 2 - 10, "and the pinned ones stay"
    assert back.order.pages.entries_kept() == [transient]
    assert back.order.came_back() == 11
    del pin
    assert back.order.fold_back(ALL, COUNT) == 11
    assert [sequence for sequence, _ in back.taken()] == [*range(1, COUNT - 2), COUNT - 1, COUNT]


def test_where_none_can_be_a_row_nothing_moves() -> None:
    back = Back()
    for entry in back.held:
        entry.message.durable = False
    back.give_back()
    assert back.order.fold_back(ALL, COUNT) == 0
    assert back.order.came_back() == COUNT
    assert back.taken() == everything()


def test_behind_lanes_nothing_moves() -> None:
    """Frontiers would take it for what nobody was asked about, or everybody was."""
    back = Back()
    back.give_back()
    back.queue.use_lanes(None, None)
    assert back.queue.order.came_back() == 0
    for entry in list(back.queue.order.in_memory()):
        back.order.reinsert(entry)
    assert back.order.fold_back(ALL, COUNT) == 0


def test_a_pass_over_bodies_knows_nothing_of_what_is_a_row_by_then() -> None:
    back = Back()
    bodies = bodies_of(back.queue, back.disk)
    bodies.adopt()
    for entry in back.held:
        bodies.add(entry)
    back.give_back()
    back.order.fold(ALL, COUNT)
    bodies.begin(ALL)
    bodies.step(ALL, COUNT)
    assert drift_of(back.queue) == 0
    assert bodies.count == 0, "the next ones stay, and all others are rows"
    assert back.taken() == everything()


def test_a_short_front_behind_what_came_back_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no gain as such, and would hold up all that stands before it."""
    monkeypatch.setattr(pages_module, "LOAD_MESSAGES", 50)
    back = Back(rows=70)
    front = back.order.front_length
    assert 0 < front < FOLD_MESSAGES_LEAST
    assert back.order.paged_count() > 0
    back.give_back()
    assert not back.order.worth_folding()
    assert back.order.fold(ALL, COUNT) == front
    assert back.order.fold(ALL, COUNT) == len(back.held) - KEEP
    assert [sequence for sequence, _ in back.taken()] == list(range(1, COUNT + 1))


def test_large_ones_that_came_back_are_worth_a_page() -> None:
    back = Back()
    back.order.keep_messages = COUNT - 2
    for entry in back.held:
        entry.message.size = 1
    last, other = back.held[-1].message, back.held[-2].message
    back.give_back()
    last.size, other.size = FOLD_BYTES_LEAST - 2, 1
    assert back.order.fold(ALL, COUNT) == 0
    other.size = 2
    assert back.order.fold(ALL, COUNT) == 2


@pytest.mark.parametrize("handed_out", ["entries", "held", "snapshot"])
def test_what_somebody_holds_is_no_row_until_he_holds_it_no_more(handed_out: str) -> None:
    back = Back()
    back.give_back()
    kept = list(getattr(back.order, handed_out)())
    pin = Pin(back.queue, max(entry.sequence for entry in kept))
    assert back.order.fold(ALL, COUNT) == 0
    assert {id(entry) for entry in back.order.in_memory()} >= {id(entry) for entry in kept}
    del pin
    assert back.order.fold(ALL, COUNT) == COUNT - KEEP


def test_of_what_came_back_the_first_are_shown_and_the_others_may_become_rows() -> None:
    back = Back()
    back.give_back()
    assert [entry.sequence for entry in sorted(back.order.leading(2 * KEEP))][: 2 * KEEP] == list(
        range(1, 2 * KEEP + 1)
    )
    pin = Pin(back.queue, 2 * KEEP)
    assert back.order.fold(ALL, COUNT) == COUNT - 2 * KEEP
    del pin
    assert [entry.sequence for entry in sorted(back.order.leading(3 * KEEP))][: 3 * KEEP] == list(
        range(1, 3 * KEEP + 1)
    )
    assert [sequence for sequence, _ in back.taken()] == list(range(1, COUNT + 1))


def test_while_a_return_goes_on_nothing_moves() -> None:
    """What it gave back may yet have to go, where a ring has no room for all."""
    effects = SlicingEffects()
    back = Back()
    back.queue.effects = effects
    return_many(back.queue, list(back.held), NOW, 100, counted=True)
    assert back.order.came_back() == 100
    assert back.order.fold_back(ALL, COUNT) == 0
    effects.turns()
    assert back.order.fold_back(ALL, COUNT) == COUNT - KEEP
    assert back.taken() == everything()
