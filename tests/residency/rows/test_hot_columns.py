"""Of rows that selectors demand only those are read that may match, whatever became of them and of the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from annulet.core.message.hot_properties import Term, terms_of
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.queue import Queue
from annulet.residency.pages.pages import LOAD_BYTES, LOAD_MESSAGES, StoredQueueArea
from annulet.residency.rows import hot_columns
from annulet.residency.rows.hot_columns import KINDS_MAX, SEARCHES_MAX, SINGLY_MAX, HotColumns
from annulet.residency.rows.page import PAGE_ITEMS_MAX, Page
from annulet.selector.selector import compile_selector
from tests.core.helpers import make_message
from tests.residency.doubles import Disk, durable_queue, pages_of, read_and_changed

NAMES = ("color", "weight")
COLORS = ("red", "blue", "green", "black", "white")


def entries_in(queue: Queue, disk: Disk, count: int, size: int = 10) -> list[QueueEntry]:
    """Return entries whose color goes by turns and whose weight is their number."""
    made = []
    for _ in range(count):
        number = queue.next_sequence
        color, weight = COLORS[number % len(COLORS)], number
        message = make_message(b"%0*d" % (size, number), color=color, weight=weight)
        disk.store(queue, message, number)
        made.append(QueueEntry(queue, message, number))
        queue.next_sequence += 1
    return made


def terms(text: str) -> list[Term]:
    return terms_of(compile_selector(text), NAMES)


def filled(count: int, *, size: int = 10) -> tuple[StoredQueueArea, Disk, list[QueueEntry]]:
    queue, disk = durable_queue(hot_properties=NAMES), Disk()
    pages = pages_of(queue, disk)
    entries = entries_in(queue, disk, count, size)
    pages.add(entries, bytearray(count))
    return pages, disk, entries


def walk(pages: StoredQueueArea, *texts: str, messages: int = LOAD_MESSAGES) -> list[int]:
    """Return the sequences that looks give to the end."""
    found: list[int] = []
    sequence, hot = pages.first_sequence(), [terms(text) for text in texts]
    while sequence <= pages.last_sequence():
        looked = pages.look(sequence, [], messages, hot)
        assert looked is not None
        assert len(looked) <= messages
        assert all(sequence <= entry.sequence < pages.looked_upto for entry in looked)
        found += [entry.sequence for entry in looked]
        sequence = pages.looked_upto
    return found


def those(count: int, *texts: str) -> list[int]:
    selectors = [compile_selector(text) for text in texts]
    return [
        number
        for number in range(1, count + 1)
        if any(
            selector.matches({"color": COLORS[number % len(COLORS)], "weight": number}.get) for selector in selectors
        )
    ]


WIDE = PAGE_ITEMS_MAX + 900


@pytest.fixture(scope="module")
def wide() -> tuple[StoredQueueArea, Disk]:
    """Rows of two pages, of which nothing is taken."""
    pages, disk, _ = filled(WIDE)
    return pages, disk


@pytest.mark.parametrize(
    "texts",
    [
        ("weight = 4500",),
        ("weight IN (3, 4096, 4097, 4098, 4801.0)",),
        ("color = 'red' AND weight IN (1, 5, 10, 4590)",),
        ("weight = 7", "weight IN (7, 4300)", "color = 'blue' AND weight = 4301"),
        ("weight = 'red'",),
        tuple(f"weight = {number} AND color = 'red'" for number in range(0, 6000, 60)),
        ("color = 'red' AND weight = 5", *[f"weight = {number}" for number in range(4000, 4100)]),
    ],
)
def test_only_what_may_match_is_read(wide: tuple[StoredQueueArea, Disk], texts: tuple[str, ...]) -> None:
    pages, disk = wide
    disk.reads.clear()
    assert walk(pages, *texts) == those(WIDE, *texts)
    assert sum(disk.reads) == len(those(WIDE, *texts))
    assert disk.prefetched == []


def test_a_look_has_no_more_than_a_load_and_goes_on_behind_it() -> None:
    count = 6 * LOAD_MESSAGES
    pages, disk, _ = filled(count)
    assert walk(pages, "color = 'red'", messages=50) == those(count, "color = 'red'")
    assert max(disk.reads) == 50
    pages, disk, _ = filled(40, size=LOAD_BYTES // 4)
    assert walk(pages, "color = 'red'") == those(40, "color = 'red'")
    assert max(disk.reads) == 4


def test_a_look_ends_after_so_many_searches() -> None:
    pages, disk, _ = filled(1)
    pages.clear()
    rows = SEARCHES_MAX + 10
    queue = disk.queue
    for _ in range(rows):  # each a page of its own
        pages.add_before(entries_in(queue, Disk(), 1), bytearray(1))
    assert pages.look(0, [], LOAD_MESSAGES, [terms("color = 'none'")]) == []
    assert pages.looked_upto == pages.page_list[SEARCHES_MAX - 1].last_sequence + 1
    assert pages.look(0, [], LOAD_MESSAGES, [terms("color IN ('none', 'nothing')")]) == []
    assert pages.looked_upto == pages.page_list[SEARCHES_MAX // 2 - 1].last_sequence + 1
    many = [terms(f"color = 'none {number}'") for number in range(500)]
    assert pages.look(0, [], LOAD_MESSAGES, many) == []
    assert pages.looked_upto == pages.page_list[SEARCHES_MAX // SINGLY_MAX - 1].last_sequence + 1, (
        "not one after the other"
    )


@pytest.mark.parametrize("kinds", [1, KINDS_MAX, KINDS_MAX + 1])
def test_a_page_of_few_codes_is_searched_for_no_other(kinds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those noted when they were read, and in a copy."""
    queue = durable_queue(hot_properties=NAMES)
    searched: list[bytes] = []
    places_of = hot_columns._places_of

    def noting(column: bytearray, code: bytes, first: int, most: int) -> list[int]:
        searched.append(code)
        return places_of(column, code, first, most)

    monkeypatch.setattr(hot_columns, "_places_of", noting)
    messages = [make_message(b"", color=f"color {number % kinds}", weight=number) for number in range(100)]
    entries = [QueueEntry(queue, message, number) for number, message in enumerate(messages, 1)]
    appended = HotColumns(NAMES)
    appended.append(entries[:50])
    appended.append(entries[50:])
    learned = HotColumns.unread(NAMES, Page.of(entries, bytearray(100)))
    learned.learn(entries)
    assert not learned.unknown
    for column in (appended, learned, appended.copy(), learned.copy()):
        searched.clear()
        assert column.find([terms("color = 'none'")], 1, 101) == ([], 0)
        assert len(searched) == (kinds > KINDS_MAX)
        assert column.find([terms("color = 'color 0'")], 1, 101) == (list(range(1, 101, kinds)), 0)
        assert column.find([terms("color IN ('none', 'color 0')")], 1, 101)[0] == list(range(1, 101, kinds))
        assert column.find([terms("weight = 77")], 1, 101) == ([78], 0)


def test_what_has_left_a_page_is_not_read() -> None:
    pages, disk, _ = filled(1000)
    loaded = pages.load(insist=False)
    assert loaded is not None
    pages.take_out([entry for entry in pages.look(500, [], 30) or [] if entry.sequence % 2])
    gone = {*range(1, len(loaded) + 1), *range(501, 530, 2)}
    disk.reads.clear()
    expected = [number for number in those(1000, "color = 'red'") if number not in gone]
    assert walk(pages, "color = 'red'") == expected
    assert sum(disk.reads) == len(expected)


def test_what_is_kept_among_the_rows_is_found_as_well() -> None:
    queue, disk = durable_queue(hot_properties=NAMES), Disk()
    pages = pages_of(queue, disk)
    entries = entries_in(queue, disk, 100)
    pages.add(entries, bytearray([0, 1] * 50))
    assert walk(pages, "color = 'red'") == those(100, "color = 'red'")
    assert sum(disk.reads) == 10


def restored(pages: StoredQueueArea, numbers: Iterable[int]) -> None:
    """Have rows as they are after a start."""
    origin = make_message().origin
    sequences = list(numbers)
    pages.add_rows(sequences, sequences, [10] * len(sequences), [origin] * len(sequences), redelivered=False)


def test_rows_that_came_back_at_start_are_read_once_and_known_from_then_on() -> None:
    queue, disk = durable_queue(hot_properties=NAMES), Disk()
    pages = pages_of(queue, disk)
    made = entries_in(queue, disk, 700)
    view = {entry.sequence: entry.message.origin for entry in made}
    sequences = list(range(1, 601))
    pages.add_rows(sequences, sequences, [10] * 600, [view[number] for number in sequences], redelivered=False)
    pages.add(made[600:], bytearray(100))  # not in their page
    assert [page.hot is None for page in pages.page_list] == [True, False]
    found = walk(pages, "weight = 650")
    assert found == [*range(1, 601), 650]
    assert sum(disk.reads) == 601
    assert disk.prefetched, "of what is read in order more is read ahead"
    disk.reads.clear()
    wanted = [number for number in those(700, "color = 'red'") if number > 64]  # origins are kept whole for 64
    assert [number for number in walk(pages, "color = 'red'") if number > 64] == wanted
    assert sum(disk.reads) < 200


def test_other_hot_properties_read_what_is_there_anew() -> None:
    pages, disk, _ = filled(300)
    queue = disk.queue
    queue.settings = replace(queue.settings, hot_properties=("weight",))
    hot = [terms_of(compile_selector("weight = 7"), ("weight",))]
    looked = pages.look(1, [], LOAD_MESSAGES, hot)
    assert looked is not None
    assert len(looked) == LOAD_MESSAGES
    disk.reads.clear()
    again = pages.look(1, [], LOAD_MESSAGES, hot)
    assert [entry.sequence for entry in again or []][:1] == [7]
    assert sum(disk.reads) == 1 + 300 - LOAD_MESSAGES, "the rest is not known yet"
    pages.add(entries_in(queue, disk, 1), bytearray(1))
    assert len(pages.page_list) == 1
    queue.settings = replace(queue.settings, hot_properties=())
    pages.add(entries_in(queue, disk, 1), bytearray(1))
    assert [page.hot is None for page in pages.page_list] == [False, True]


def test_damage_and_a_refusing_disk() -> None:
    pages, disk, _ = filled(100)
    hot = [terms("color = 'red'")]
    disk.failing = True
    assert pages.look(1, [], LOAD_MESSAGES, hot) is None
    assert pages.stalled
    disk.failing = False
    pages.retry()
    disk.damaged.update([5, 10])
    looked = pages.look(1, [], LOAD_MESSAGES, hot)
    assert [entry.sequence for entry in looked or []] == list(range(15, 101, 5))
    assert (pages.lost, pages.rows) == (2, 98)


def test_who_reads_a_page_keeps_it_and_its_columns() -> None:
    pages, disk, entries = filled(50)
    view = read_and_changed(pages, entries_in(disk.queue, disk, 5))
    assert walk(pages, "color = 'red'") == [number for number in those(55, "color = 'red'") if number != 5]
    assert len(view.walk(0).following() or []) == len(entries)


def test_a_code_that_stands_across_two_others_is_none_of_them() -> None:
    queue = durable_queue()
    page = Page.of(entries_in(queue, Disk(), 3), bytearray(3))
    columns = HotColumns.unread(("color",), page)
    columns._columns[0][:] = b"abcdabcdcdab"
    columns._kinds = [None]
    columns.unknown = 0
    assert columns.find([[(0, [b"cdab"])]], 0, 10) == ([3], 0)
    assert columns.find([[(0, [b"dabc"])]], 0, 10) == ([], 0)
    assert columns.find([[(0, [b"abcd"])]], 2, 10) == ([2], 0)


def test_places_and_sequences_with_gaps() -> None:
    queue, disk = durable_queue(hot_properties=NAMES), Disk()
    pages = pages_of(queue, disk)
    some = [entry for entry in entries_in(queue, disk, 60) if entry.sequence % 3]
    pages.add(some, bytearray(len(some)))
    columns = pages.page_list[0].hot
    assert columns is not None
    for place, entry in enumerate(some):
        assert columns.place_from(entry.sequence) == place
        assert columns.sequence_at(place) == entry.sequence
    assert columns.place_from(0) == 0
    assert columns.place_from(3) == 2
    assert columns.place_from(99) == len(some)
    expected = [number for number in those(60, "color IN ('red', 'blue')") if number % 3]
    assert walk(pages, "color IN ('red', 'blue')") == expected
