"""A read that the disk refuses is tried many times, and what cannot be read singly then is given up."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest

from annulet.core.model.entry import REMOVED
from annulet.residency.loading.figures import PagingFigures
from annulet.residency.loading.row_reading import ATTEMPTS_MAX, RowReading
from annulet.residency.rows.page import Page
from tests.core.helpers import NOW
from tests.residency.doubles import Disk, durable_queue, stored_entries

COUNT = 5


def reading() -> tuple[RowReading, Disk, PagingFigures, Page]:
    queue, disk, figures = durable_queue(), Disk(), PagingFigures()
    page = Page.of(stored_entries(queue, disk, COUNT), bytearray(COUNT))
    return RowReading(queue, disk, figures), disk, figures, page


def test_what_is_read_has_its_bytes() -> None:
    rows_of, _disk, figures, page = reading()
    rows = page.peek(3)
    found = rows_of.read(rows, rows.records, insist=False)
    assert found is not None
    assert ([entry.sequence for entry in found[0]], found[1]) == ([1, 2, 3], 30)
    assert (rows_of.attempts, figures.postponed) == (0, 0)


def test_the_time_of_the_first_message_is_read_once_where_its_page_does_not_know_it() -> None:
    rows_of, disk, figures, page = reading()
    assert page.facts is None
    assert rows_of.first_accepted_at([]) == 0
    assert [rows_of.first_accepted_at([page]) for _ in range(2)] == [NOW, NOW]
    assert (disk.reads, page.items) == ([1], COUNT)
    page.take(1)
    disk.failing = True
    assert rows_of.first_accepted_at([page]) == 0
    assert (rows_of.attempts, figures.postponed) == (0, 0), "nothing is given up for that"
    disk.failing = False
    disk.damaged.add(2)
    assert [rows_of.first_accepted_at([page]) for _ in range(2)] == [0, 0]
    assert disk.reads == [1, 1]


def test_the_time_of_the_first_message_of_a_page_that_knows_times_is_not_read() -> None:
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, COUNT)
    entries[0].message.accepted_at = NOW - 3
    rows_of = RowReading(queue, disk, PagingFigures())
    page = Page.of(entries, bytearray(COUNT), timed=True)
    assert rows_of.first_accepted_at([page]) == NOW - 3
    page.take(1)
    assert rows_of.first_accepted_at([page]) == NOW
    assert disk.reads == []


def test_what_was_removed_among_the_rows_is_not_the_first_message() -> None:
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, COUNT)
    for later, entry in enumerate(entries):
        entry.message.accepted_at = NOW + later
    entries[0].state = entries[1].state = REMOVED
    rows_of = RowReading(queue, disk, PagingFigures())
    pages = [Page.of(entries[:2], bytearray([1, 1])), Page.of(entries[2:], bytearray([1, 0, 0]))]
    assert rows_of.first_accepted_at(pages) == NOW + 2
    entries[2].state = REMOVED
    assert rows_of.first_accepted_at(pages) == NOW, "as the log has it"
    assert disk.reads == [1]


@pytest.mark.parametrize("look", [False, True])
def test_refusals_are_counted_and_the_last_gives_up(look: bool) -> None:
    rows_of, disk, figures, page = reading()
    disk.failing = True
    rows = page.peek(COUNT)
    for attempt in range(1, ATTEMPTS_MAX):
        found = rows_of.look(rows, rows.records, []) if look else rows_of.read(rows, rows.records, insist=False)
        assert found is None
        assert (rows_of.attempts, figures.postponed) == (attempt, attempt)
    if look:
        assert rows_of.look(rows, rows.records, []) == (rows, [])
    else:
        assert rows_of.read(rows, rows.records, insist=False) == ([], 0)
    assert rows_of.attempts == 0


@pytest.mark.parametrize("look", [False, True])
def test_what_can_be_read_elsewhere_meanwhile_does_not_keep_refused_rows_for_ever(look: bool) -> None:
    """A look in the middle, or a load from the front while looks come to what the disk refuses."""
    rows_of, disk, figures, page = reading()
    refused, sound = page.peek_from(3, COUNT), page.peek(2)
    for attempt in range(1, ATTEMPTS_MAX):
        disk.failing = True
        assert rows_of.read(refused, refused.records, insist=False) is None
        disk.failing = False
        found = rows_of.look(sound, sound.records, []) if look else rows_of.load(page, 2, 100, insist=False)
        assert found is not None
        assert (rows_of.attempts, figures.postponed) == (attempt, attempt)
    assert rows_of.read(refused, refused.records, insist=False) is not None
    assert rows_of.attempts == 0, "that was no damage"
    rows_of.attempts, disk.failing = ATTEMPTS_MAX - 1, True
    assert rows_of.read(refused, refused.records, insist=False) == ([], 0)
    assert rows_of.attempts == 0


def test_want_of_descriptors_gives_nothing_up() -> None:
    rows_of, disk, _figures, page = reading()
    disk.failing, disk.error = True, errno.EMFILE
    rows = page.peek(COUNT)
    assert all(rows_of.read(rows, rows.records, insist=False) is None for _ in range(2 * ATTEMPTS_MAX))
    assert rows_of.read(rows, rows.records, insist=True) == ([], 0)


@pytest.mark.parametrize("verbatim", [True, False])
def test_needles_are_searched_for_in_the_log_where_texts_stand_there_as_they_are(
    verbatim: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that says that there are none is believed; it is not asked where the view could spell them otherwise."""
    rows_of, disk, _figures, page = reading()
    rows = page.peek(COUNT)
    asked = []

    def lack(records: Sequence[int], needles: Sequence[list[bytes]]) -> bool:
        asked.append(list(needles))
        return True

    monkeypatch.setattr(disk, "lack", lack)
    for origin in rows.origins:
        assert origin is not None
        monkeypatch.setattr(origin.view, "verbatim_texts", verbatim)
    found = rows_of.look(rows, rows.records, [[b"red"]])
    assert found is not None
    assert (asked, len(disk.reads)) == (([[[b"red"]]], 0) if verbatim else ([], 1))
    assert (len(found[0]), len(found[1])) == ((0, 0) if verbatim else (COUNT, COUNT))


def test_a_look_leaves_out_what_is_damaged() -> None:
    rows_of, disk, _figures, page = reading()
    disk.damaged.add(2)
    rows = page.peek(COUNT)
    found = rows_of.look(rows, rows.records, [])
    assert found is not None
    assert (found[0], [entry.sequence for entry in found[1]]) == (rows, [1, 3, 4, 5])


def reading_a_run() -> tuple[RowReading, Disk, PagingFigures, Page]:
    queue, disk, figures = durable_queue(), Disk(), PagingFigures()
    entries = stored_entries(queue, disk, COUNT)
    for entry in entries:
        entry.message.origin = entries[0].message.origin
    page = Page.of(entries, bytearray(COUNT))
    assert len(page.runs.lengths) == 1
    return RowReading(queue, disk, figures), disk, figures, page


def test_a_run_is_loaded_without_a_list_of_its_rows_and_all_else_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rows_of, disk, _figures, page = reading_a_run()
    disk.damaged.add(2)
    peeked: list[int] = []

    def fitting(_disk: Disk, records: Sequence[int], _size: int) -> int:
        if not isinstance(records, range):
            peeked.append(len(records))
        return min(3, len(records))

    monkeypatch.setattr(Disk, "fitting", fitting)
    found = rows_of.load(page, COUNT, 100, insist=False)
    assert found is not None
    items, rows, lost, entries, size = found
    assert (items, rows, lost, [entry.sequence for entry in entries], size) == (3, 3, 1, [1, 3], 20)
    assert peeked == []
    page.remove(4)
    assert rows_of.load(page, COUNT, 100, insist=False) is not None
    assert peeked == [4], "two runs"


def test_a_run_that_the_disk_refuses_counts_once() -> None:
    rows_of, disk, figures, page = reading_a_run()
    disk.failing = True
    for attempt in range(1, 3):
        assert rows_of.load(page, COUNT, 100, insist=False) is None
        assert (rows_of.attempts, figures.postponed) == (attempt, attempt)
    disk.failing = False
    assert rows_of.load(page, COUNT, 100, insist=False) is not None
    assert rows_of.attempts == 0


def test_a_run_elsewhere_does_not_end_the_attempts() -> None:
    rows_of, disk, _figures, page = reading_a_run()
    disk.failing = True
    rows = page.peek_from(3, COUNT)
    assert rows_of.read(rows, rows.records, insist=False) is None
    disk.failing = False
    assert rows_of.load(page, 2, 100, insist=False) is not None
    assert rows_of.attempts == 1
    assert rows_of.load(page, 3, 100, insist=False) is not None
    assert rows_of.attempts == 0


def test_what_was_kept_among_the_rows_is_not_lost() -> None:
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, COUNT)
    page = Page.of(entries, bytearray([0, 1, 0, 0, 0]))
    disk.damaged.add(3)
    found = RowReading(queue, disk, PagingFigures()).load(page, COUNT, 100, insist=False)
    assert found is not None
    items, rows, lost, loaded, size = found
    assert (items, rows, lost, [entry.sequence for entry in loaded], size) == (5, 4, 1, [1, 2, 4, 5], 30)
