"""What a page knows of its rows without reading them: the same for each row, however it is kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.expiry_times import NEVER, time_of
from annulet.core.base.settings import QueueSettings
from annulet.residency.rows.page import Page
from annulet.residency.rows.row_facts import NO_LIFE, Bounds, Column, RowFacts
from tests.residency.doubles import Disk, durable_queue, stored_entries

START = 1_700_000_000_000
Step = tuple[int, int, int, int, int]
STEPS = st.lists(
    st.tuples(st.integers(1, 3), st.integers(-1, 2), st.integers(0, 2), st.integers(0, 255), st.integers(-2, 5)),
    min_size=1,
)
SETTINGS = st.builds(QueueSettings, message_ttl=st.integers(-1, 5), min_ttl=st.integers(-1, 5))


def noted(steps: list[Step]) -> tuple[RowFacts, list[tuple[int, int, int, int, int]]]:
    facts, rows, sequence, accepted_at = RowFacts(), [], 0, START
    for step, later, size, priority, life in steps:
        sequence, accepted_at = sequence + step, accepted_at + later
        expires_at = accepted_at + life if life != 5 else 0
        facts.note(sequence, accepted_at, size << 40, priority, expires_at)
        rows.append((sequence, accepted_at, size << 40, priority, expires_at))
    return facts, rows


@given(STEPS)
def test_every_row_has_its_own(steps: list[Step]) -> None:
    facts, rows = noted(steps)
    for one in (facts, facts.copy()):
        assert [(number, *one.of(number)) for number, *_ in rows] == rows


@given(STEPS, SETTINGS)
def test_no_row_expires_before_the_bound(steps: list[Step], settings: QueueSettings) -> None:
    facts, rows = noted(steps)
    times = [at for _, accepted_at, _, _, own in rows if (at := time_of(settings, accepted_at, own))]
    for one in (facts, facts.copy()):
        assert bool(one.bound(settings)) == bool(times)
        assert one.bound(settings) == one.bound_of_new(settings) <= min(times, default=0)
        assert one.bound_of_new(settings) == 0, "none came since"
        one.note(*rows[-1][:2], *rows[-1][2:])
        assert one.bound_of_new(settings) == time_of(settings, rows[-1][1], rows[-1][4]), (
            "nor is one like the last forgotten"
        )


@given(STEPS, SETTINGS, st.integers(-3, 8), st.integers(0, 20), st.integers(1, 9))
def test_rows_are_due_in_the_order_of_time_and_sequence(
    steps: list[Step], settings: QueueSettings, at: int, below: int, most: int
) -> None:
    facts, rows = noted(steps)
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, len(rows))
    for entry, (sequence, *_) in zip(entries, rows, strict=True):
        entry.sequence = sequence
    page = Page.of(entries, bytearray(len(entries)))
    left = {sequence: time_of(settings, accepted_at, own) for sequence, accepted_at, _, _, own in rows}
    while True:
        expected = sorted((time, sequence) for sequence, time in left.items() if time)
        assert facts.first(page, settings) == min(expected, default=NEVER)
        due = facts.due(page, settings, (START + at, below), most)
        assert due == [sequence for time, sequence in expected if (time, sequence) < (START + at, below)][:most]
        if not due:
            break
        for sequence in due:
            page.remove(sequence)
            del left[sequence]
    assert page.rows == len(left)


def test_what_is_known_of_rows_that_left_from_the_end_goes_when_a_lower_one_comes() -> None:
    queue, disk = durable_queue(), Disk()
    entries = [entry for size in range(10, 19) for entry in stored_entries(queue, disk, 1, size=size)]
    for come in (entries[1:2], entries[3:4], entries[1::2]):
        page = Page.of(entries[::2], bytearray(len(entries[::2])), timed=True)
        for entry in entries[2::2]:
            page.remove(entry.sequence)
        assert page.extend(come, bytearray(len(come)))
        assert page.facts is not None
        left = [entries[0], *come]
        assert [page.facts.of(entry.sequence)[1] for entry in left] == [entry.message.size for entry in left]


def test_rows_that_are_alike_take_no_room() -> None:
    facts = RowFacts()
    for sequence in range(1000):
        facts.note(sequence, 5, 1024, 4, 70)
    assert facts.kept == 1


def test_numbers_that_are_all_the_same_are_kept_once() -> None:
    column = Column("q")
    for number in (7, 7, 7):
        column.append(number)
    assert column.kept == 1
    column.append(NO_LIFE)
    column.append(3)
    assert [column.of(place) for place in (0, 1, 2, 3, 4, -1)] == [7, 7, 7, NO_LIFE, 3, 3]
    assert column.copy().of(3) == NO_LIFE


def test_nothing_has_no_earliest_time() -> None:
    bounds = Bounds()
    assert bounds.empty
    assert bounds.bound(QueueSettings(message_ttl=5)) == bounds.upper_bound(QueueSettings(message_ttl=5)) == 0
    bounds.note(20, 0)
    bounds.note(10, 0)
    assert not bounds.empty
    assert (bounds.bound(QueueSettings(message_ttl=5)), bounds.bound(QueueSettings())) == (15, 0)
    assert (bounds.upper_bound(QueueSettings(message_ttl=5)), bounds.upper_bound(QueueSettings())) == (25, 0)


def test_all_have_ended_by_the_last_end_and_by_none_where_one_has_none() -> None:
    facts = RowFacts()
    facts.note(1, 30, 1024, 4, 40)
    facts.note(2, 20, 1024, 4, 90)
    assert (facts.bound(QueueSettings()), facts.upper_bound(QueueSettings())) == (40, 90)
    assert facts.upper_bound(QueueSettings(max_ttl=15)) == 45
    facts.note(3, 50, 1024, 4, 0)
    assert (facts.bound(QueueSettings()), facts.upper_bound(QueueSettings())) == (40, 0)
    assert facts.copy().upper_bound(QueueSettings(max_ttl=15)) == 65


def test_a_copy_is_one_of_its_own() -> None:
    facts = RowFacts()
    facts.note(1, 5, 1024, 4, 0)
    copied = facts.copy()
    facts.note(2, 6, 1024, 4, 9)
    assert (facts.of(2), copied.of(2)) == ((6, 1024, 4, 9), (5, 1024, 4, 0))
    assert (facts.bound(QueueSettings()), copied.bound(QueueSettings())) == (9, 0)


class AskedPage:
    """A page that has every row it is asked for, and remembers from where on that was; it is its own runs."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.runs = self

    def next_row(self, sequence: int) -> int:
        return sequence

    def rows_between(self, first: int, behind: int, limit: int) -> list[int]:
        self.asked.append(first)
        return list(range(first, behind))[:limit]


def test_rows_of_the_same_time_behind_a_sequence_are_not_looked_at() -> None:
    """Of messages that all end at midnight rows are asked for one by one where another level has those between."""
    facts, page = RowFacts(), AskedPage()
    for sequence in range(1, 101, 2):
        facts.note(sequence, 5, sequence, 4, 70)
    assert facts.first(page, QueueSettings()) == (70, 1)
    assert facts.due(page, QueueSettings(), (70, 2), 500) == [1]
    assert page.asked == [1]
