"""Which entries become rows: those of the log, and in a queue with a time to live only in the order of their times."""

from __future__ import annotations

from annulet.core.row_choice import RowChoice
from tests.core.helpers import NOW
from tests.residency.doubles import Disk, durable_queue, pages_of, stored_entries


def kept(times: list[int], rows: list[int] | None = None, *, before: bool = False, **settings: int) -> list[int]:
    """Return the marks of entries accepted at these times, behind or before rows of those times."""
    queue, disk = durable_queue(**settings), Disk()
    pages = pages_of(queue, disk)
    entries = stored_entries(queue, disk, len(times) + len(rows or []))
    for entry, accepted_at in zip(entries, [*(rows or []), *times], strict=True):
        entry.message.accepted_at = accepted_at
    if rows:
        pages.add(entries[: len(rows)], bytearray(len(rows)))
    choice = RowChoice(queue, pages, before=before)
    return list(choice.kept_of(entries[len(rows or []) :]))


def test_without_a_time_to_live_times_do_not_matter():
    assert kept([5, 3, 4], [9]) == [0, 0, 0]


def test_times_of_rows_never_decrease():
    assert kept([5, 5, 3, 4, 6], message_ttl=1000) == [0, 0, 1, 1, 0]
    assert kept([5, 7, 8], [7], max_ttl=1000) == [1, 0, 0]


def test_backwards_before_rows_they_never_increase():
    assert kept([8, 7, 6, 7, 5], [7, 9], before=True, message_ttl=1000) == [1, 0, 0, 1, 0]


def test_what_the_log_does_not_know_enough_of_stays_and_sets_no_time():
    queue, disk = durable_queue(message_ttl=1000), Disk()
    entries = stored_entries(queue, disk, 3)
    for entry, accepted_at in zip(entries, (5, 9, 6), strict=True):
        entry.message.accepted_at = accepted_at
    entries[1].message.expires_at = NOW
    assert list(RowChoice(queue, pages_of(queue, disk)).kept_of(entries)) == [0, 1, 0]
