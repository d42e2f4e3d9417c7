"""A durable queue with a disk whose messages are numbers: for tests of deep queues with lanes and browsers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from annulet.core.message.message import Message, Origin, PropertyValue
from annulet.core.paging.paged_fifo import PagedFifo
from annulet.core.paging.paged_priorities import PagedLevels, paged_order_of
from annulet.core.policies.staged_batches import HiddenBatch
from annulet.core.queue.invariants import check_parts
from annulet.core.queue.queue import Queue
from annulet.core.searching.deep_lanes import DeepLanes
from tests.core.helpers import NOW, RecordingSession, TableView, make_message
from tests.residency.doubles import Disk, durable_queue, pages_of

ALL = 1 << 60


class CountingView(TableView):
    """A message's body is its number, which is all its properties; counts who asked about what."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked: dict[tuple[int, str], int] = {}

    def application_property(self, message: Message, name: str) -> PropertyValue:
        number = int(message.body)
        self.asked[number, name] = self.asked.get((number, name), 0) + 1
        return number % 3 if name in ("three", "third") else number % 7


def priority_of(number: int) -> int:
    """Return the priority of a message: one of three, in no regular order."""
    return (4, 7, 2)[number * 5 % 7 % 3]


def numbers(session: RecordingSession) -> list[int]:
    return [int(body) for body in session.received]


def check_parts_behind_lanes(queue: Queue) -> None:
    """Compare what is known of the parts behind the lanes with a look at each of them."""
    check_parts(queue)
    lanes = queue.lanes
    if not isinstance(lanes, DeepLanes) or lanes.stock is None:
        return
    areas = lanes.stock.areas()
    for match_class in queue.matchers.classes():
        unasked = [area for area in areas if match_class.frontier_on(area.pages.level) <= area.last_sequence()]
        assert lanes.next_area(match_class) is (unasked[0] if unasked else None), "no part is passed over"
    assert not areas or lanes.stock.first_area() is areas[0]


class Deep:
    """A durable queue with a disk, turns that have to be taken, and everything that was ever in it."""

    def __init__(self, count: int = 0, *, keep: int = 2, size: int = 10, levels: bool = False, **settings: Any) -> None:
        self.view = CountingView()
        self.origin = Origin("", "q", "guest@test", self.view)
        self.disk, self.queue = Disk(), durable_queue(priorities=10 if levels else 0, **settings)
        self.asking = False
        self.asks = 0  # times somebody asked for a turn
        self.pages = pages_of(self.queue, self.disk, ask_turn=self.ask_turn)
        self.keep = keep
        self.size = size
        if count:
            self.publish(count)
            self.page_out(ALL)

    def ask_turn(self, queue: Queue) -> None:
        assert queue is self.queue
        self.asks += 1
        self.asking = True

    def publish(self, count: int = 1, *, expires_at: int = 0) -> None:
        for _ in range(count):
            sequence = self.queue.next_sequence
            body = b"%*d" % (self.size, sequence)
            message = make_message(body, expires_at=expires_at, priority=priority_of(sequence))
            message.origin = self.origin
            self.disk.store(self.queue, message, sequence)
            self.queue.enqueue(message, NOW)

    def publish_hidden(self, count: int) -> HiddenBatch:
        """Publish as a commit does that is not durable yet."""
        batch = self.queue.batches.current = HiddenBatch()
        self.publish(count)
        self.queue.batches.current = None
        return batch

    def page_out(self, limit: int) -> int:
        order = paged_order_of(self.queue, self.pages)
        assert order is not None
        order.keep_messages = self.keep
        for standing in order.lists():
            if isinstance(standing, PagedFifo):
                standing.look_entries = self.keep + 2
        if isinstance(order, PagedLevels):
            order.fold_least = 1
        return order.page_out(ALL, limit)

    def in_order(self, numbers: Iterable[int]) -> list[int]:
        """Return numbers as they are dispatched, unless some came back."""
        ranks = self.queue.ranker.ranks
        return sorted(numbers, key=lambda number: (-priority_of(number) if ranks else 0, number))

    def take_turns(self) -> int:
        """Scan until nobody asks any more; return how often."""
        count = 0
        while self.asking:
            self.asking = False
            more = self.queue.scan(NOW)
            self.asking = self.asking or more
            count += 1
        return count

    def retry(self) -> None:
        """Have the disk asked again."""
        for pages in [self.pages, *self.queue.order.page_parts()]:
            pages.retry()

    def in_memory(self) -> int:
        return self.queue.order.count - self.queue.order.paged_count()
