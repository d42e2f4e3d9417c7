"""Of rows whose groups have enough nothing is read, whatever became of them and of the others."""

from __future__ import annotations

from collections.abc import Callable

from annulet.core.model.entry import REMOVED, QueueEntry
from annulet.core.queue.queue import Queue
from annulet.residency.pages.pages import LOAD_BYTES, LOAD_MESSAGES, StoredQueueArea
from annulet.residency.rows.group_column import CODES_MAX, NAMES_CHARACTERS_MAX, PASSED_TIMES, TEXTS_MAX, GroupColumn
from annulet.residency.rows.page import PAGE_ITEMS_MAX
from tests.core.helpers import make_message
from tests.residency.doubles import Disk, durable_queue, pages_of, read_and_changed


def stalled_but_each_tenth(number: int) -> str:
    """Each tenth of another group, or of none."""
    return "stalled" if number % 10 else ("other", "")[number // 10 % 2]


def entries_in(
    queue: Queue, disk: Disk, count: int, group_of: Callable[[int], str] = stalled_but_each_tenth, size: int = 10
) -> list[QueueEntry]:
    made = []
    for _ in range(count):
        number = queue.next_sequence
        message = make_message(b"%0*d" % (size, number), JMSXGroupID=group_of(number))
        disk.store(queue, message, number)
        made.append(QueueEntry(queue, message, number))
        queue.next_sequence += 1
    return made


def filled(
    count: int, group_of: Callable[[int], str] = stalled_but_each_tenth, *, size: int = 10, kept: bytes = b""
) -> tuple[StoredQueueArea, Disk, list[QueueEntry]]:
    queue, disk = durable_queue(group_mode="sticky"), Disk()
    pages = pages_of(queue, disk)
    entries = entries_in(queue, disk, count, group_of, size)
    pages.add(entries, bytearray(kept or count))
    return pages, disk, entries


def walk(pages: StoredQueueArea, *full: str, messages: int = LOAD_MESSAGES) -> tuple[list[int], dict[str, list[int]]]:
    """Return the sequences that looks give to the end, and by group those that they pass over."""
    found: list[int] = []
    passed: dict[str, list[int]] = {}
    sequence = pages.first_sequence()
    while pages.items and sequence <= pages.last_sequence():
        looked = pages.look(sequence, [], messages, full=full.__contains__)
        assert looked is not None
        assert len(looked) <= messages
        assert all(sequence <= entry.sequence < pages.looked_upto for entry in looked)
        assert pages.looked_upto > sequence
        found += [entry.sequence for entry in looked]
        for name, some in pages.passed_over.items():
            assert some[0] >= sequence
            passed.setdefault(name, []).extend([one for one in some if one < pages.looked_upto])
        sequence = pages.looked_upto
    return found, passed


def of_stalled(numbers: range) -> list[int]:
    return [number for number in numbers if number % 10]


def test_nothing_of_a_full_group_is_read() -> None:
    count = PAGE_ITEMS_MAX + 500
    pages, disk, _ = filled(count)
    everything = range(1, count + 1)
    assert walk(pages, "stalled") == ([*range(10, count + 1, 10)], {"stalled": of_stalled(everything)})
    assert sum(disk.reads) == len(range(10, count + 1, 10)), "what has no group is read as well"
    assert walk(pages, "stalled", "other")[0] == [*range(10, count + 1, 20)]
    assert walk(pages) == ([*everything], {})


def test_a_look_passes_so_many_times_what_it_reads() -> None:
    pages, disk, _ = filled(PAGE_ITEMS_MAX, lambda number: "stalled")
    assert pages.look(1, [], 100, full=lambda name: name == "stalled") == []
    assert pages.looked_upto == 1 + 100 * PASSED_TIMES
    assert sum(map(len, pages.passed_over.values())) == 100 * PASSED_TIMES
    assert disk.reads in ([], [0])
    assert disk.prefetched == [], "nothing is read ahead that is passed over"


def test_what_is_to_be_read_in_order_is_read_ahead() -> None:
    pages, disk, _ = filled(PAGE_ITEMS_MAX)
    pages.look(1, [], LOAD_MESSAGES, full=lambda name: name == "none of these")
    assert disk.prefetched


def test_a_look_ends_with_as_many_bytes_as_a_load() -> None:
    pages, disk, _ = filled(100, size=LOAD_BYTES // 2)
    assert walk(pages, "stalled") == ([*range(10, 101, 10)], {"stalled": of_stalled(range(1, 101))})
    assert max(disk.reads) == 2


def test_bodies_larger_than_their_average_end_a_look_before_what_was_passed() -> None:
    queue, disk = durable_queue(group_mode="sticky"), Disk()
    pages = pages_of(queue, disk)
    entries = []
    for number in range(1, 401):
        entries += entries_in(queue, disk, 1, size=10 if number % 10 else LOAD_BYTES // 3)
    pages.add(entries, bytearray(400))
    assert walk(pages, "stalled") == ([*range(10, 401, 10)], {"stalled": of_stalled(range(1, 401))})


def test_of_more_groups_than_a_byte_tells_those_of_the_last_are_read() -> None:
    count = 3 * CODES_MAX
    pages, _disk, _ = filled(count, lambda number: f"g{number % (CODES_MAX + 10)}")
    found, passed = walk(pages, *[f"g{number}" for number in range(CODES_MAX + 10)])
    assert sorted([*found, *[one for some in passed.values() for one in some]]) == [*range(1, count + 1)]
    assert len(passed) == CODES_MAX - 1, "one code says that the row has to be read"
    assert {number % (CODES_MAX + 10) for number in found} == {0, *range(CODES_MAX, CODES_MAX + 10)}


def test_names_that_do_not_fit_a_page_have_no_code() -> None:
    """However long they are, and whatever comes into the page between messages of one group."""
    long = NAMES_CHARACTERS_MAX // 4
    names = ["short", *[f"{number:0{long}d}" for number in range(5)], "s" * (NAMES_CHARACTERS_MAX + 1)]
    pages, disk, _ = filled(7 * 10, lambda number: names[number % 7])
    pages.add(entries_in(disk.queue, disk, 70, lambda number: names[number % 7]), bytearray(70))
    (page,) = pages.page_list
    assert isinstance(page.hot, GroupColumn)
    assert page.hot.copy().characters == page.hot.characters == sum(map(len, page.hot.coded_names))
    assert page.hot.characters <= NAMES_CHARACTERS_MAX
    found, passed = walk(pages, *names)
    assert sorted([*found, *[one for some in passed.values() for one in some]]) == [*range(1, 141)]
    assert {len(some) for some in passed.values()} == {20}, "all of a group in a page, or nothing"
    assert len(passed) == 4


def test_pages_share_the_texts_of_a_bounded_number_of_names() -> None:
    pages, disk, _ = filled(3 * PAGE_ITEMS_MAX, lambda number: f"group {number % 3}")
    columns = [page.hot for page in pages.page_list]
    assert len(columns) == 3
    assert len({id(name) for column in columns if isinstance(column, GroupColumn) for name in column.coded_names}) == 4
    pages, disk, _ = filled(1)
    pages.clear()
    for _ in range(8):
        pages.add(
            entries_in(disk.queue, disk, PAGE_ITEMS_MAX, lambda number: f"group {number}"), bytearray(PAGE_ITEMS_MAX)
        )
        assert len(pages.page_list.hot._texts) < TEXTS_MAX + CODES_MAX


def test_what_has_left_a_page_is_not_passed() -> None:
    pages, _disk, _ = filled(1000)
    loaded = pages.load(insist=False)
    assert loaded is not None
    pages.take_out([entry for entry in pages.look(500, [], 30) or [] if entry.sequence % 2])
    left = [number for number in range(len(loaded) + 1, 1001) if not 500 <= number < 530 or not number % 2]
    found, passed = walk(pages, "stalled")
    assert found == [number for number in left if not number % 10]
    assert passed["stalled"] == [number for number in left if number % 10]


def test_sequences_with_gaps() -> None:
    queue, disk = durable_queue(group_mode="sticky"), Disk()
    pages = pages_of(queue, disk)
    some = [entry for entry in entries_in(queue, disk, 600) if entry.sequence % 3]
    for start in range(0, len(some), 90):
        pages.add(some[start : start + 90], bytearray(len(some[start : start + 90])))
    assert len(pages.page_list) == 1
    found, passed = walk(pages, "stalled")
    assert found == [number for number in range(1, 601) if number % 3 and not number % 10]
    assert passed["stalled"] == [number for number in range(1, 601) if number % 3 and number % 10]


def test_what_is_kept_among_the_rows_is_passed_while_it_is_pending() -> None:
    pages, disk, entries = filled(100, kept=bytes([0, 1] * 50))
    entries[3].state = REMOVED
    found, passed = walk(pages, "stalled")
    assert found == [*range(10, 101, 10)]
    assert passed["stalled"] == [number for number in range(1, 101) if number % 10 and number != 4]
    assert sum(disk.reads) == 0


def test_rows_that_came_back_at_start_are_read() -> None:
    queue, disk = durable_queue(group_mode="sticky"), Disk()
    pages = pages_of(queue, disk)
    made = entries_in(queue, disk, 700)
    origins = [entry.message.origin for entry in made[:600]]
    sequences = list(range(1, 601))
    pages.add_rows(sequences, sequences, [10] * 600, origins, redelivered=False)
    pages.add(made[600:], bytearray(100))  # not in their page
    found, passed = walk(pages, "stalled")
    assert found == [*sequences, *range(610, 701, 10)]
    assert passed["stalled"] == of_stalled(range(601, 701))


def test_damage_and_a_refusing_disk() -> None:
    pages, disk, _ = filled(100)
    disk.failing = True
    assert pages.look(1, [], LOAD_MESSAGES, full=lambda name: name == "stalled") is None
    assert pages.stalled
    disk.failing = False
    pages.retry()
    disk.damaged.update([3, 10])
    found, passed = walk(pages, "stalled")
    assert found == [*range(20, 101, 10)]
    assert passed["stalled"] == of_stalled(range(1, 101)), "nobody has read that"


def test_who_reads_a_page_keeps_it_and_its_column() -> None:
    pages, disk, entries = filled(50)
    view = read_and_changed(pages, entries_in(disk.queue, disk, 5))
    found, passed = walk(pages, "stalled")
    assert found == [*range(10, 56, 10)]
    assert passed["stalled"] == [number for number in of_stalled(range(1, 56)) if number != 5]
    assert len(view.walk(0).following() or []) == len(entries)


def test_queues_that_group_otherwise_have_no_column() -> None:
    for settings in ({}, {"fair_key": "tail"}):
        queue, disk = durable_queue(**settings), Disk()
        pages = pages_of(queue, disk)
        pages.add(entries_in(queue, disk, 10), bytearray(10))
        assert pages.page_list[0].hot is None
    pages, _disk, _ = filled(10)
    assert isinstance(pages.page_list[0].hot, GroupColumn)
