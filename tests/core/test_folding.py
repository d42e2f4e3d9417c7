"""What came back and the front behind it are one front: the end of a longer one becomes rows."""

from __future__ import annotations

import pytest

from annulet.core.entry import QueueEntry
from annulet.core.folding import FOLD_BYTES_LEAST, FOLD_MESSAGES_LEAST, fold_back, fold_front, length_kept, worth_folding
from annulet.core.paged_levels import paged_order_of
from annulet.core.paged_order import TargetList
from annulet.core.queue import Queue
from annulet.residency import pages as pages_module
from annulet.residency.budget import drift_of
from tests.core.helpers import NOW
from tests.residency.doubles import Disk, durable_queue, filled, pages_of

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
        self.order: TargetList = order
        order.keep_messages = KEEP
        filled(self.queue, self.disk, COUNT, size=size)
        assert order.page_out(ALL, COUNT) == COUNT - KEEP
        self.held: list[QueueEntry] = self.queue.acquire(KEEP + 1, -1, NOW)

    def give_back(self) -> None:
        self.queue.return_entries(self.held, NOW)


def test_a_front_behind_what_came_back_becomes_rows() -> None:
    front = Front()
    assert front.order.watermark == LOADED - 1
    assert not worth_folding(front.order), "it is what consumers take next"
    front.give_back()
    assert worth_folding(front.order)
    assert front.order.page_out(ALL, COUNT) == LOADED - 1
    assert (front.order.watermark, front.order.paged_count()) == (0, COUNT - KEEP - 1)
    assert not worth_folding(front.order)
    assert front.order.page_out(ALL, COUNT) == 0
    assert drift_of(front.queue) == 0
    taken = front.queue.acquire(COUNT, -1, NOW)
    assert [entry.sequence for entry in taken] == list(range(1, COUNT + 1))


def test_the_front_is_as_long_as_what_came_back_leaves_it() -> None:
    front = Front()
    del front.held[4:]  # the others stay with who pulled them
    front.give_back()
    assert length_kept(front.order) == KEEP - 4
    front.order.keep_bytes = 60
    assert length_kept(front.order) == 2, "40 bytes came back, and 20 more are there to be taken"
    front.order.pinned = front.order._tail[5].sequence
    assert length_kept(front.order) == 6, "what somebody was given to keep stays"


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
    front.order.keep_messages = KEEP + 1 + front.order.watermark - excess
    assert worth_folding(front.order) is worth


def test_nothing_that_is_not_written_yet_or_stands_at_the_end_becomes_rows() -> None:
    front = Front()
    front.give_back()
    assert fold_front(front.order, 1, COUNT) == 0
    assert front.order.watermark == LOADED - 1
    front.queue.acquire(COUNT, -1, NOW)
    assert not front.order.pages.items
    assert fold_front(front.order, ALL, COUNT) == 0
