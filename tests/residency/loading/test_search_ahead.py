"""Walks that use a search process find what walks without one do, whatever it says when, and read less."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence

import pytest

from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.queue import Queue
from annulet.residency.loading import search_ahead
from annulet.residency.loading.figures import PagingFigures
from annulet.residency.loading.search_ahead import ROWS_LEAST, SearchAhead
from annulet.residency.pages.pages import StoredQueueArea
from annulet.residency.rows.page import PAGE_ITEMS_MAX, Page
from annulet.store.log.log import MessageLog
from annulet.store.segments.records import ORDINAL_BITS
from tests.residency.doubles import durable_queue, plenty
from tests.store.log.test_log_tools import DIRECTORY, flush, upkeep
from tests.store.searching.test_search_tools import RED, StandIn
from tests.store.simulated_files import SimulatedFiles

ORIGIN = Origin("", "q", "guest@test", ContentView("amqp-0-9-1", verbatim_texts=True))
COLOURS = [b"red", b"green", b"black"]
COMMON = b"white"


class Stock:
    """Rows of one queue, what colour each that is there has, and who has called for a turn."""

    def __init__(self, log: MessageLog, number: int) -> None:
        self.log = log
        self.queue = durable_queue()
        self.queue.queue_id = number
        self.turns = 0
        self.figures = PagingFigures()
        self.area = StoredQueueArea(self.queue, log, self.figures, plenty, self._asked, log.search)
        self.colours: dict[int, bytes] = {}
        self.records: dict[int, int] = {}

    def _asked(self, queue: Queue) -> None:
        queue.turn_asked = False
        self.turns += 1

    def entry(self, colour: bytes) -> QueueEntry:
        sequence = self.queue.next_sequence
        self.queue.next_sequence += 1
        message = Message(colour, b"%09d" % sequence, ORIGIN, durable=True)
        message.record = self.log.append(message, [(self.queue.queue_id, sequence)])
        self.colours[sequence], self.records[sequence] = colour, message.record
        return QueueEntry(self.queue, message, sequence)

    def gone(self, entry: QueueEntry) -> None:
        del self.colours[entry.sequence]
        self.log.settle(self.records[entry.sequence], self.queue.queue_id)


class Walk:
    """Looks for some colours from the first message on, and checks each look."""

    def __init__(self, stock: Stock, colours: list[bytes]) -> None:
        self.stock = stock
        self.needles = [[colour] for colour in colours]
        self.colours = colours
        self.position = 1
        self.waited = 0

    def done(self) -> bool:
        return not self.stock.area.items or self.position > self.stock.area.last_sequence()

    def look(self, messages: int = 256) -> list[QueueEntry]:
        """Look once; return what was found. Nothing that matches may be missing."""
        area = self.stock.area
        found = area.look(self.position, self.needles, messages)
        if found is None:
            assert not area.stalled
            self.waited += 1
            return []
        assert area.looked_upto > self.position
        there = {entry.sequence: entry for entry in found}
        matching = [
            sequence for sequence, colour in self.stock.colours.items()
            if colour in self.colours and self.position <= sequence < area.looked_upto
        ]  # fmt: skip
        assert set(matching) <= set(there), "some were passed over"
        self.position = area.looked_upto
        return [there[sequence] for sequence in matching]


class World:
    """A log with the rows of two queues among each other, and a stand-in for the search process."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log = MessageLog.open(DIRECTORY, files=SimulatedFiles(), segment_bytes=64 << 10)
        assert self.log.search is not None
        self.search = self.log.search
        self.process = StandIn(self.search)
        self.stocks = [Stock(self.log, 7), Stock(self.log, 8)]
        self.walks: list[Walk] = []

    def publish(self) -> None:
        """To both queues, among each other or one behind the other; now and then one stays an object."""
        shared = self.random.random() < 0.3
        made: list[list[QueueEntry]] = [[], []]
        chance = self.random.choice([0.0, 0.002, 0.02, 0.5])
        for number in range(self.random.choice([40, 400, 900])):
            place = self.random.randrange(2) if shared else number % 400 // 200
            colour = self.random.choice(COLOURS) if self.random.random() < chance else COMMON
            made[place].append(self.stocks[place].entry(colour))
        flush(self.log)
        keeps = self.random.random() < 0.2
        for stock, entries in zip(self.stocks, made, strict=True):
            kept = bytearray([keeps and self.random.random() < 0.02 for _ in entries])
            stock.area.add(entries, kept)

    def begin(self) -> None:
        stock = self.random.choice(self.stocks)
        self.walks.append(Walk(stock, self.random.sample(COLOURS, self.random.randint(1, 2))))

    def look(self) -> None:
        for walk in self.walks:
            for _ in range(self.random.randint(0, 12)):
                if walk.done():
                    break
                found = walk.look(self.random.choice([256, 256, 7]))
                if found and self.random.random() < 0.5:
                    walk.stock.area.take_out(found)
                    for entry in found:
                        walk.stock.gone(entry)

    def answer(self) -> None:
        self.process.answer(self.random.choice([1, 3, 1000]))

    def load(self) -> None:
        """Somebody takes the first ones."""
        stock = self.random.choice(self.stocks)
        for _ in range(self.random.choice([1, 5])):
            if stock.area.items:
                for entry in stock.area.load(insist=True) or []:
                    stock.gone(entry)

    def purge(self) -> None:
        if self.random.random() < 0.1:
            stock = self.random.choice(self.stocks)
            stock.area.clear()
            for sequence in list(stock.colours):
                self.log.settle(stock.records[sequence], stock.queue.queue_id)
            stock.colours.clear()

    def compact(self) -> None:
        flush(self.log)
        upkeep(self.log, checkpoint=True)

    def fail(self) -> None:
        """The process dies, is slow, or is there again."""
        self.search.prompt = self.random.random() < 0.7
        if self.random.random() < 0.3:
            self.process.asked.clear()
            self.search.forget_pending()


@pytest.mark.parametrize("first", range(0, 16, 4))
def test_every_match_is_found_whatever_happens_meanwhile(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_ahead, "ROWS_LEAST", 0)
    monkeypatch.setattr(search_ahead, "PAGES_AHEAD", 3)
    searched = sum(history(World(seed)) for seed in range(first, first + 4))
    assert searched > 1000, "it was of use"


def history(world: World) -> int:
    """Run one; return how many rows were passed over unread."""
    world.publish()
    events = [
        world.publish, world.publish, world.begin, world.look, world.look, world.look, world.look, world.answer,
        world.answer, world.answer, world.load, world.purge, world.compact, world.fail,
    ]  # fmt: skip
    for _ in range(80):
        world.random.choice(events)()
    for walk in world.walks:
        while not walk.done():
            walk.look()
            if walk.waited:
                assert world.process.answer() or world.search.pending == 0
                world.search.prompt, walk.waited = False, 0
    world.log.close()
    return sum(stock.figures.searched for stock in world.stocks)


def deep(count: int, matching: list[int]) -> tuple[World, Stock, Walk]:
    """Return a queue with so many rows, of which some match, and a walk."""
    world = World(1)
    stock = world.stocks[0]
    for start in range(0, count, 500):
        entries = [stock.entry(b"red" if number in matching else COMMON) for number in range(start, start + 500)]
        flush(world.log)
        stock.area.add(entries, bytearray(500))
    return world, stock, Walk(stock, [b"red"])


def test_what_is_known_is_passed_over_in_a_few_looks_and_only_what_is_in_doubt_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search_ahead, "ROWS_LEAST", 0)
    world, stock, walk = deep(3 * PAGE_ITEMS_MAX // 500 * 500, [100, 9000, 9003])
    world.search.prompt = False
    walk.look(1)  # which asks
    walk.position = 1
    world.process.answer()
    searched = stock.figures.searched
    looks, found = 0, []
    while not walk.done():
        looks += 1
        found += [entry.sequence - 1 for entry in walk.look()]
    assert found == [100, 9000, 9003]
    assert stock.figures.searched - searched == stock.area.rows - 5
    assert looks <= 8
    assert stock.figures.scanned >= stock.area.rows
    world.log.close()


def test_what_is_in_memory_among_the_rows_is_asked_about_though_the_process_knows_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search_ahead, "ROWS_LEAST", 0)
    world = World(1)
    stock = world.stocks[0]
    entries = [stock.entry(COMMON) for _ in range(300)]
    flush(world.log)
    kept = entries[150]
    entries[150] = QueueEntry(stock.queue, Message(b"red", b"", ORIGIN, durable=False), kept.sequence)
    stock.colours[kept.sequence] = b"red"
    stock.area.add(entries, bytearray([number == 150 for number in range(300)]))
    walk, found = Walk(stock, [b"red"]), []
    walk.look(7)  # which asks
    walk.position = 1
    assert world.process.answer() == 1
    while not walk.done():
        found += walk.look()
    assert [entry.sequence for entry in found] == [kept.sequence]
    world.log.close()


def test_who_comes_to_what_is_being_searched_waits_for_the_answer_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search_ahead, "ROWS_LEAST", 0)
    world, stock, walk = deep(1000, [])
    assert walk.look() == []
    assert (walk.position, walk.waited, stock.turns) == (1, 1, 0)
    world.process.answer(1)
    assert stock.turns == 1
    walk.look()
    assert walk.position > 1
    world.search.forget_pending()
    while not walk.done():
        walk.look()
    assert stock.figures.scanned == 1000
    world.log.close()


def test_a_second_walk_for_the_same_asks_again_for_what_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_ahead, "ROWS_LEAST", 0)
    monkeypatch.setattr(search_ahead, "PAGES_AHEAD", 1)
    world, stock, walk = deep(3 * PAGE_ITEMS_MAX // 500 * 500, [])
    for _ in range(2):
        walk.position = 1
        searched = stock.figures.searched
        while not walk.done():
            walk.look()
            world.process.answer()
        assert stock.figures.searched - searched == stock.area.rows
        for number in {record >> ORDINAL_BITS for record in stock.records.values()}:
            world.search.release(number)
    world.log.close()


class Everything:
    """A search that has room for ``room`` pages, and notes what it is asked."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.asked: list[tuple[int, int]] = []
        self.room = room

    def ask(self, pages: Sequence[tuple[int, int]], needles: object) -> int:
        taken = pages[: self.room - len(self.asked)]
        self.asked += taken
        return len(taken)

    def clear(self, first: int, count: int, needles: object) -> int:
        return 0

    doubtful = clear

    def is_awaited(self, record: int, needles: object) -> bool:
        return False

    def wait(self, wake: object) -> None:
        raise AssertionError("nothing is awaited")


def page_of(first: int) -> Page:
    """Return a full page whose rows have the same numbers as their records."""
    rows = range(first, first + PAGE_ITEMS_MAX)
    page = Page.for_rows(rows, rows, 0, len(rows))
    page.add_rows(rows, rows, len(rows), [ORIGIN] * len(rows), redelivered=False)
    return page


FEW = ROWS_LEAST // PAGE_ITEMS_MAX


@pytest.mark.parametrize(("pages", "asked"), [(FEW, 0), (FEW + 1, FEW + 1)])
def test_for_a_few_rows_no_process_is_asked(pages: int, asked: int) -> None:
    search = Everything()
    ahead = SearchAhead(search, PagingFigures())
    some = deque(page_of(1 + number * PAGE_ITEMS_MAX) for number in range(pages))
    needles = [[b"red"]]
    for _ in range(pages):
        search_ahead_ask(ahead, some, 0, needles)
    assert len(search.asked) == asked
    assert frozenset(map(tuple, needles)) == RED


def search_ahead_ask(ahead: SearchAhead, pages: deque[Page], index: int, needles: list[list[bytes]]) -> None:
    search = ahead.search
    assert search is not None
    ahead._ask(search, pages, index, frozenset(map(tuple, needles)))


def test_what_there_was_no_room_for_is_asked_for_later() -> None:
    search = Everything(room=11)
    ahead = SearchAhead(search, PagingFigures())
    some = deque(page_of(1 + number * PAGE_ITEMS_MAX) for number in range(40))
    for room in (11, 11, 25):
        search.room = room
        for _ in range(4):
            search_ahead_ask(ahead, some, 0, [[b"red"]])
        assert search.asked == [page.record_bounds for page in some][:room]


def test_pages_without_rows_are_not_asked_about_and_hold_nobody_up() -> None:
    search = Everything()
    ahead = SearchAhead(search, PagingFigures())
    some = deque(page_of(1 + number * PAGE_ITEMS_MAX) for number in range(96))
    empty = range(20, 20 + 2 * search_ahead.PAGES_ASKED)
    for number in empty:
        some[number].rows = 0
    for _ in range(96 // search_ahead.PAGES_ASKED):
        search_ahead_ask(ahead, some, 0, [[b"red"]])
    assert search.asked == [page.record_bounds for number, page in enumerate(some) if number not in empty]


def test_how_far_the_process_was_asked_is_known_of_a_few_walks() -> None:
    search = Everything()
    ahead = SearchAhead(search, PagingFigures())
    some = deque(page_of(1 + number * PAGE_ITEMS_MAX) for number in range(200))
    for index, expected in ((0, 96), (0, 96), (10, 106), (150, 200 - 150 + 106), (0, 96 + 50 + 106)):
        for _ in range(96 // search_ahead.PAGES_ASKED):
            search_ahead_ask(ahead, some, index, [[b"red"]])
        assert len(search.asked) == expected
    for number in range(search_ahead.WALKS_MAX):
        search_ahead_ask(ahead, some, number, [[b"%d" % number]])
    assert len(ahead._asked) == search_ahead.WALKS_MAX
    assert RED not in ahead._asked
