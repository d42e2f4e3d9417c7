"""What is remembered of a search process's answers: exactly what it said, of exactly the file it was said of."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from annulet.core.message.message import Message
from annulet.store.log.log import MessageLog
from annulet.store.log.memory import MemoryLog
from annulet.store.searching.search import (
    DOUBTS_MAX,
    GAPS_SHARE,
    NEEDLES_BYTES_MAX,
    PART_RECORDS,
    PENDING_BYTES_MAX,
    PENDING_MAX,
    STRETCH_RECORDS_MAX,
    STRETCHES_MAX,
    Search,
    Stretch,
)
from annulet.store.segments.records import ORDINAL_BITS
from tests.store.log.test_log_tools import DIRECTORY, ORIGIN, SEGMENT, flush, reader_of, upkeep
from tests.store.searching.test_search_tools import RED, StandIn, wanted
from tests.store.simulated_files import SimulatedFiles

QUEUE = 3


def coloured(log: MessageLog, colours: list[bytes], *, size: int = 10) -> list[int]:
    """Store a message with each of these headers; return their records."""
    records = []
    for number, colour in enumerate(colours, 1):
        message = Message(colour, b"%06d" % number + bytes(size), ORIGIN, durable=True)
        records.append(log.append(message, [(QUEUE, number)]))
        if number % 50 == 0:
            flush(log)
    flush(log)
    return records


def opened(files: SimulatedFiles | None = None, *, segment: int = SEGMENT) -> MessageLog:
    return MessageLog.open(DIRECTORY, files=files or SimulatedFiles(), segment_bytes=segment)


def search_of(log: MessageLog) -> Search:
    assert log.search is not None
    return log.search


def test_records_that_lack_it_are_known_and_those_in_doubt_are_named() -> None:
    log = opened()
    records = coloured(log, [b"red" if number in (3, 4, 9) else b"blue" for number in range(20)])
    search = search_of(log)
    other = StandIn(search)
    search.ask([(records[0], records[-1])], wanted(b"red", b"green"))
    assert (search.clear(records[0], 20, RED), search.is_awaited(records[0], RED)) == (0, True)
    assert other.answer() == 1
    assert search.clear(records[0], 20, RED) == 3
    assert search.clear(records[0], 2, RED) == 2
    assert search.clear(records[3], 17, RED) == 0
    assert search.clear(records[5], 15, wanted(b"red", b"green")) == 4
    assert search.clear(records[10], 10, RED) == 10
    assert search.clear(records[10], 500, RED) == 10, "nothing is known of what was not asked for"
    assert search.clear(records[10], 10, wanted(b"red", b"blue")) == 0, "something else was not looked for"
    assert [search.doubtful(records[place], 256, RED) for place in (2, 3, 4, 9, 10)] == [0, 7, 6, 1, 0]
    assert search.doubtful(records[3], 3, RED) == 2
    assert not search.is_awaited(records[3], RED)
    log.close()


def test_stretches_of_several_segments_and_with_holes() -> None:
    log = opened()
    search, colours = search_of(log), [b"red" if number % 40 == 39 else b"blue" for number in range(400)]
    records = coloured(log, colours, size=200)
    hole = Message(b"blue", b"gone", ORIGIN, durable=True)
    gone = log.append(hole, [(QUEUE, 401)])
    records += coloured(log, [b"blue"])
    last = log.append(Message(b"blue", b"last", ORIGIN, durable=True), [(QUEUE, 402)])
    flush(log)
    assert len({record >> ORDINAL_BITS for record in records}) > 3
    other = StandIn(search)
    search.ask([(records[0], last)], RED)
    assert {stretch.first >> ORDINAL_BITS for stretch in other.asked} == {record >> ORDINAL_BITS for record in records}
    other.answer()
    lacking = {record for record in records if search.clear(record, 1, RED)}
    assert {record for record, colour in zip(records, [*colours, b"blue"], strict=True) if colour != b"red"} == lacking
    assert search.clear(gone, 1, RED) == 1, "it was written"
    log.close()


def test_a_record_that_is_nowhere_is_in_doubt() -> None:
    log = opened()
    first = log.append(Message(b"blue", b"1", ORIGIN, durable=True), [(QUEUE, 1)])
    gone = log.append(Message(b"blue", b"2", ORIGIN, durable=True), [(QUEUE, 2)])
    last = log.append(Message(b"blue", b"3", ORIGIN, durable=True), [(QUEUE, 3)])
    log.settle(gone, QUEUE)
    flush(log)
    search, other = search_of(log), StandIn(search_of(log))
    search.ask([(first, last)], RED)
    other.answer()
    assert [search.clear(record, 1, RED) for record in (first, gone, last)] == [1, 0, 1]
    log.close()


def test_who_waits_is_called_once_with_the_next_answer_or_when_none_is_to_come() -> None:
    log = opened()
    records = coloured(log, [b"blue"] * 20)
    search, called = search_of(log), []
    other = StandIn(search)

    def wake() -> None:
        called.append(search.pending)

    search.ask([(records[0], records[9])], RED)
    search.ask([(records[10], records[19])], RED)
    search.wait(wake)
    search.wait(wake)
    other.answer(1)
    assert called == [1]
    other.answer()
    assert called == [1]
    search.ask([(records[0], records[9])], wanted(b"green"))
    search.wait(wake)
    search.forget_pending()
    assert (called, search.pending, search.prompt) == ([1, 0], 0, False)
    search.answer(3, [])
    assert search.clear(records[0], 1, wanted(b"green")) == 0, "an answer that nobody waits for is none"
    log.close()


@pytest.mark.parametrize("answered_first", [False, True])
def test_what_was_said_of_a_file_goes_with_it(answered_first: bool) -> None:
    """Compaction puts another file in its place, with other offsets."""
    log = opened()
    records = coloured(log, [b"red" if number % 10 == 9 else b"blue" for number in range(400)], size=200)
    search, other = search_of(log), StandIn(search_of(log))
    first = [record for record in records if record >> ORDINAL_BITS == records[0] >> ORDINAL_BITS]
    search.ask([(first[0], first[-1])], RED)
    (stretch,) = other.asked
    doubts = other.doubts_of(stretch)
    assert doubts is not None
    if answered_first:
        search.answer(stretch.number, doubts)
        assert search.clear(first[0], 1, RED) == 1
    called: list[int] = []
    search.wait(lambda: called.append(1))
    left = first[::9]
    for record in records:
        if record not in left:
            log.settle(record, QUEUE)
    flush(log)
    for number in range(3):  # a segment that consumers may be about to empty waits for a round
        log.append(Message(b"blue", b"late", ORIGIN, durable=True), [(QUEUE + 1, number + 1)])
        flush(log)
        upkeep(log, checkpoint=True)
    assert log.statistics().compactions
    assert called, "who waited is told"
    assert [search.clear(record, 1, RED) for record in left] == [0] * len(left)
    assert search.files_of(stretch) == []
    search.answer(stretch.number, doubts)
    assert search.clear(first[0], 1, RED) == 0, "an answer that comes too late is dropped"
    search.ask([(first[0], first[-1])], RED)
    other.asked.remove(stretch)
    other.answer()
    assert [search.clear(record, 1, RED) for record in left] == [
        int(records.index(record) % 10 != 9) for record in left
    ]
    log.close()


def test_a_file_that_cannot_be_opened_is_left_to_the_loop() -> None:
    files = SimulatedFiles()
    log = opened(files)
    records = coloured(log, [b"blue"] * 20)
    search, other = search_of(log), StandIn(search_of(log))
    reader_of(log).close()
    search.ask([(records[0], records[-1])], RED)
    files.fail_at, files.fail_with = files.operations + 1, errno.EMFILE
    assert search.files_of(other.asked[-1]) == []
    assert (search.pending, search.clear(records[0], 1, RED)) == (0, 0)
    log.close()


@pytest.fixture
def wide() -> Iterator[tuple[Search, list[int]]]:
    """A log with a segment of twenty records and more places behind them than a stretch may have; those records."""
    log = opened()
    records = coloured(log, [b"blue"] * 20)
    offsets = log.segments[records[0] >> ORDINAL_BITS].offsets
    offsets.extend([0] * STRETCH_RECORDS_MAX)
    yield search_of(log), records
    del offsets[len(records) :]
    log.close()


def test_what_stands_far_apart_is_not_asked_for(wide: tuple[Search, list[int]]) -> None:
    search, records = wide
    other = StandIn(search)
    search.ask([(records[0], records[0] + STRETCH_RECORDS_MAX)], RED)
    assert other.asked == []
    search.ask([(records[0], records[0] + STRETCH_RECORDS_MAX - 1)], RED)
    assert len(other.asked) == 1
    assert search.ask([(records[0], records[1])] * 3, frozenset({(b"x" * NEEDLES_BYTES_MAX, b"y")})) == 3
    assert len(other.asked) == 1, "what is looked for is too long"
    search.ask([(records[0], records[1])], frozenset({(b"x" * NEEDLES_BYTES_MAX,)}))
    assert len(other.asked) == 2


def bounds_of(stretches: list[Stretch]) -> list[tuple[int, int]]:
    return [(stretch.first, stretch.last) for stretch in stretches]


def test_pages_next_to_each_other_in_a_segment_are_one_stretch() -> None:
    log = opened()
    records = coloured(log, [b"blue"] * 400, size=200)
    search, other = search_of(log), StandIn(search_of(log))
    pages = [(records[number], records[number + 9]) for number in range(0, 400, 10)]
    assert search.ask(pages, RED) == len(pages)
    segments = sorted({record >> ORDINAL_BITS for record in records})
    assert len(segments) > 3
    assert [stretch.first >> ORDINAL_BITS for stretch in other.asked] == segments, "one for each"
    assert sum(last - first + 1 for first, last in bounds_of(other.asked)) == 400
    other.answer()
    assert all(search.clear(record, 1, RED) for record in records)
    log.close()


def test_pages_with_much_between_them_are_not_one_stretch() -> None:
    log = opened(segment=1 << 20)
    records = coloured(log, [b"blue"] * 200)
    search, other = search_of(log), StandIn(search_of(log))
    apart = 80 // (GAPS_SHARE - 1)  # of 80 + apart that are one in so many
    near = [(records[0], records[39]), (records[40 + apart], records[79 + apart])]
    search.ask(near, RED)
    assert bounds_of(other.asked) == [(records[0], records[79 + apart])]
    far = [(records[0], records[39]), (records[41 + apart], records[80 + apart])]
    search.ask(far, wanted(b"green"))
    assert bounds_of(other.asked[1:]) == far
    mixed = [(records[50], records[122]), (records[40], records[119]), (records[48], records[120])]
    search.ask(mixed, wanted(b"black"))
    assert bounds_of(other.asked[3:]) == [(records[40], records[122])], "what stands among each other is read once"
    gaps = [(records[start], records[start + 9]) for start in (0, 13, 26)]
    search.ask(gaps, wanted(b"white"))
    assert bounds_of(other.asked[4:]) == [
        (records[0], records[9]),
        (records[13], records[22]),
        (records[26], records[35]),
    ]
    some = [(records[start], records[start + 9]) for start in (0, 11, 22, 33)]
    search.ask(some, wanted(b"grey"))
    assert bounds_of(other.asked[7:]) == [(records[0], records[42])], "3 of 43"
    growing = [(records[0], records[69]), (records[78], records[87]), (records[94], records[103])]
    search.ask(growing, wanted(b"pink"))
    assert bounds_of(other.asked[8:]) == [(records[0], records[87]), (records[94], records[103])], "all gaps count"
    log.close()


def test_a_stretch_of_several_pages_has_a_bound(wide: tuple[Search, list[int]]) -> None:
    search, records = wide
    other = StandIn(search)
    first, half = records[0], STRETCH_RECORDS_MAX // 2
    pages = [(first, first + half - 1), (first + half, first + 2 * half - 1), (first + 2 * half, first + 2 * half)]
    search.ask(pages, RED)
    assert bounds_of(other.asked) == [(first, first + STRETCH_RECORDS_MAX - 1), pages[2]]


def test_no_more_pages_are_taken_than_there_is_room_for() -> None:
    log = opened()
    records = coloured(log, [b"blue"] * 20)
    search, other = search_of(log), StandIn(search_of(log))
    for _ in range(PENDING_MAX - 1):
        search.ask([(records[0], records[1])], RED)
    pages = [(records[0], records[1]), (records[8], records[9]), (records[16], records[17])]
    assert search.ask(pages, RED) == 2
    assert len(other.asked) == PENDING_MAX + 1, "what might have been one with the next is open until there is none"
    assert search.ask(pages[2:], RED) == 0
    log.close()


def test_only_so_many_stretches_are_asked_for_and_remembered() -> None:
    log = opened()
    records = coloured(log, [b"blue"] * 20)
    search, other = search_of(log), StandIn(search_of(log))
    for number in range(PENDING_MAX):
        assert search.has_room, number
        search.ask([(records[0], records[1])], RED)
    assert not search.has_room
    other.answer()
    assert search.has_room
    for number in range(PENDING_MAX, STRETCHES_MAX + 1):
        search.ask([(records[2], records[3])], RED)
        other.answer()
        if number == STRETCHES_MAX - 1:
            assert search.known == STRETCHES_MAX
    assert search.known == STRETCHES_MAX, "the oldest was forgotten"
    log.close()


def test_a_process_that_is_lost_while_it_is_asked_is_asked_no_more() -> None:
    log = opened()
    records = coloured(log, [b"blue"] * 400, size=200)
    search, asked = search_of(log), []

    def submit(stretch: Stretch) -> None:
        asked.append(stretch)
        search.submit = None
        search.forget_pending()

    search.submit = submit
    pages = [(records[number], records[number + 9]) for number in range(0, 400, 10)]
    assert search.ask(pages, RED) < len(pages)
    assert (len(asked), search.pending, search.known) == (1, 0, 0)
    log.close()


def test_what_matches_close_together_leaves_the_rest_of_a_stretch_known() -> None:
    log = opened(segment=4 << 20)
    many = range(PART_RECORDS + 100, PART_RECORDS + 100 + DOUBTS_MAX + 1)
    colours = [b"red" if number in many or number == 9 else b"blue" for number in range(3 * PART_RECORDS + 10)]
    records = coloured(log, colours)
    assert records[0] >> ORDINAL_BITS == records[-1] >> ORDINAL_BITS
    search, other = search_of(log), StandIn(search_of(log))
    assert search.ask([(records[0], records[-1])], RED) == 1
    assert len(other.asked) == 1
    other.answer()
    known = [search.clear(record, 1, RED) for record in records]
    assert known == [int(number != 9 and number // PART_RECORDS != 1) for number in range(len(records))], (
        "of the part with too many in doubt nothing is known"
    )
    assert search.doubtful(records[9], 256, RED) == 1
    assert not search.is_awaited(records[PART_RECORDS], RED)
    assert (search.known, search.pending) == (3, 0)
    log.close()


def test_an_answer_with_very_many_in_doubt_is_not_kept() -> None:
    log = opened(segment=1 << 20)
    records = coloured(log, [b"red"] * (DOUBTS_MAX + 1))
    search = search_of(log)
    other = StandIn(search)
    told: list[int] = []
    search.ask([(records[0], records[-2])], RED)
    other.answer()
    assert search.doubtful(records[0], len(records), RED) == DOUBTS_MAX
    search.ask([(records[0], records[-1])], wanted(b"re"))
    search.wait(lambda: told.append(search.pending))
    other.answer()
    assert search.doubtful(records[0], len(records), wanted(b"re")) == 0
    assert not search.is_awaited(records[0], wanted(b"re"))
    assert (told, search.known) == ([0], 1)
    log.close()


def test_large_messages_fill_it_by_their_bytes() -> None:
    log = opened()
    records = coloured(log, [b"blue"] * 2)
    search = search_of(log)
    StandIn(search)
    search.ask([(records[0], records[1])], RED)
    (number,) = search._pending
    search._pending[number] = PENDING_BYTES_MAX - 1
    assert search.has_room
    search._pending[number] = PENDING_BYTES_MAX
    assert not search.has_room
    log.close()


def test_without_a_process_nothing_is_known() -> None:
    log = opened()
    records = coloured(log, [b"blue"] * 20)
    search = search_of(log)
    assert not search.has_room
    search.ask([(records[0], records[-1])], RED)
    assert (search.pending, search.clear(records[0], 20, RED)) == (0, 0)
    assert MemoryLog().search is None
    log.close()
