from __future__ import annotations

from pathlib import Path

from librt.strings import BytesWriter

from annulet.store.log.window import (
    HEADS_SHARE,
    JOIN_BELOW,
    PREPARED_BEHIND,
    PREPARED_TOGETHER,
    RUN_BYTES,
    HeadRun,
    LogTransaction,
    WindowPart,
    end_run,
)
from annulet.store.segments.records import message_size
from annulet.store.segments.segment import Segment
from tests.store.log.test_log_tools import message


def filled(bodies: list[bytes]) -> WindowPart:
    part = WindowPart(Segment(3, Path("3"), 1, 2))
    for number, body in enumerate(bodies):
        part.messages.append(message(body))
        part.targets.append([(1, number + 1)])
        part.sizes.append(1000)
    return part


def test_ordinals_cancelled_at_the_end_are_given_back_and_holes_stay() -> None:
    part = filled([b"a", b"b", b"c", b"d"])
    for entry in (1, 3):
        assert part.drop(entry) == 1000
    sequences: dict[int, int] = {}
    _, count = part.encode(1, sequences, None)
    assert count == 2
    assert len(part.segment.offsets) == 3
    assert list(part.segment.live_ordinals()) == [0, 2]
    assert sequences == {1: 3}


def test_large_bodies_are_not_copied() -> None:
    body = bytes(JOIN_BELOW)
    buffers, _ = filled([body, body[1:]]).encode(1, {}, None)
    assert buffers[1] is body
    assert len(buffers) == 3


def test_heads_come_in_runs_of_neighbours() -> None:
    """Each a bound's worth, the last what is left; what is cancelled takes no place in the segment and in no run."""
    part = WindowPart(Segment(3, Path("3"), 1, 2))
    body = bytes(1000)
    for number in range(500):
        written = message(body)
        part.messages.append(written)
        part.targets.append([(1, number + 1)])
        part.sizes.append(message_size(written, 1))
    part.drop(1)
    start, size = part.segment.size, part.sizes[0]
    runs: list[HeadRun] = []
    buffers, count = part.encode(1, {}, runs)
    assert count == 499
    each = -(-RUN_BYTES // len(buffers[0]))
    assert len(runs) > 1
    assert [(run.first, run.end) for run in runs] == [
        (start + number * size, start + min(number + each, count) * size) for number in range(0, count, each)
    ]
    assert b"".join(run.heads for run in runs) == b"".join(buffers[::2])


def test_heads_are_kept_where_bodies_are_long_enough() -> None:
    runs: list[HeadRun] = []
    segment = Segment(3, Path("3"), 1, 2)
    heads = BytesWriter()
    heads.write(bytes(160))
    end_run(segment, 64, 64 + 160 * HEADS_SHARE - 1, heads, runs)
    assert (runs, len(heads)) == ([], 0)
    heads.write(bytes(160))
    end_run(segment, 64, 64 + 160 * HEADS_SHARE, heads, runs)
    assert [len(run.heads) for run in runs] == [160]
    end_run(segment, 64, 64, heads, runs)
    assert len(runs) == 1, "none, no run"


def test_heads_of_the_oldest_of_very_many_are_made_as_others_come() -> None:
    """All at once held the event loop for 12 ms, of what had come while the disk was slow."""
    part = filled([b""] * (PREPARED_BEHIND + PREPARED_TOGETHER - 1))
    part.prepare(7)
    assert part.heads == []
    part.messages.append(message(b"one more"))
    part.targets.append([(1, 1)])
    part.sizes.append(1000)
    for _ in range(2):  # once is enough until as many more came
        part.prepare(7)
        assert len(part.heads) == PREPARED_TOGETHER
        assert all(part.heads)


def test_what_is_made_in_advance_is_what_sealing_makes() -> None:
    """Also of what is cancelled before that, behind it and at the end, and of transactions."""
    count = PREPARED_BEHIND + PREPARED_TOGETHER
    at_once, ahead = [filled([b"%d" % number * (number % 300) for number in range(count)]) for _ in range(2)]
    for part in (at_once, ahead):
        part.transactions[5] = 9
        part.drop(1)
        part.drop(count - 1)
    ahead.prepare(7)
    assert ahead.heads[1] == b""
    for part in (at_once, ahead):
        part.drop(2)
        part.drop(count - 2)
    assert ahead.heads[2] == b"", "nobody needs it any more"
    assert ahead.encode(7, {}, None) == at_once.encode(7, {}, None)
    assert list(ahead.segment.live_ordinals()) == list(at_once.segment.live_ordinals())


def test_all_that_was_made_in_advance_may_be_cancelled() -> None:
    part = filled([b""] * (PREPARED_BEHIND + PREPARED_TOGETHER))
    part.prepare(7)
    for entry in range(len(part.messages)):
        part.drop(entry)
    assert part.encode(7, {}, None) == ([], 0)


def test_a_transaction_counts_its_records_of_one_window() -> None:
    opened = LogTransaction()
    opened.add(1, 4)
    opened.add(2, 4)
    assert (opened.own(4), opened.own(5)) == (2, 0)
    opened.add(3, 5)
    assert (opened.own(5), list(opened.records)) == (1, [1, 2, 3])
