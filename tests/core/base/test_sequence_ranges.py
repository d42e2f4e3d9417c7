"""Sequences as ranges against a set, and what a reader does when an operator's moves take too many of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.sequence_ranges import RANGES_MAX, SequenceRanges
from annulet.core.base.settings import BROWSE_FOLLOW, BROWSE_OFF
from annulet.core.reading.browse_order import BrowseOrder
from tests.core.deep_doubles import ALL, numbers
from tests.core.helpers import NOW, RecordingSession
from tests.core.reading.test_browse_order import Storing, deep_queue

HIGHEST = 30


@given(st.lists(st.tuples(st.sampled_from(["add", "add", "add", "drop_below"]), st.integers(1, HIGHEST))))
def test_they_are_a_set(steps: list[tuple[str, int]]) -> None:
    ranges, wanted = SequenceRanges(), set[int]()
    for step, sequence in steps:
        getattr(ranges, step)(sequence)
        wanted = {other for other in wanted if other >= sequence} if step == "drop_below" else wanted | {sequence}
        assert {other for other in range(HIGHEST + 2) if other in ranges} == wanted
        assert ranges.count == len([other for other in wanted if other - 1 not in wanted]), "none touches another"
    ranges.clear()
    assert ranges.count == 0


def test_one_range_too_many_is_not_taken() -> None:
    ranges = SequenceRanges()
    for sequence in range(0, 2 * RANGES_MAX + 2, 2):
        ranges.add(sequence)
    assert ranges.count == RANGES_MAX
    assert 2 * RANGES_MAX - 2 in ranges
    assert 2 * RANGES_MAX not in ranges
    ranges.add(2 * RANGES_MAX - 1)
    assert 2 * RANGES_MAX - 1 in ranges, "it goes on with the last"
    ranges.drop_below(1)
    ranges.add(2 * RANGES_MAX + 1)
    assert ranges.count == RANGES_MAX


@pytest.mark.parametrize("kind", [BROWSE_OFF, BROWSE_FOLLOW])
@pytest.mark.parametrize("too_many", [0, 3])
def test_a_reader_is_shown_again_only_what_was_moved_too_often_while_it_waited(kind: str, too_many: int) -> None:
    deep, session = deep_queue(100, non_destructive=kind == BROWSE_OFF), RecordingSession()
    deep.queue.effects = Storing(deep)
    consumer = session.consume(deep.queue, browse=kind)
    deep.take_turns()
    deep.publish(1)
    assert numbers(session) == list(range(1, 102))
    consumer.window.messages_max = 101
    (moved,) = [entry for entry in deep.queue.order.in_memory() if entry.sequence == 101]
    deep.publish(1)
    for turn in range(RANGES_MAX + too_many):
        another = deep.queue.reprioritise(moved, 5 + turn % 2, NOW)
        assert another is not None
        moved = another
        deep.publish(1)
    unseen = consumer.unseen
    assert isinstance(unseen, BrowseOrder)
    assert unseen.noted_as_seen == RANGES_MAX
    deep.page_out(ALL)
    consumer.window.messages_max = ALL
    deep.queue.wake(NOW)
    deep.take_turns()
    assert numbers(session).count(101) == (2 if too_many else 1)
    assert len(session.received) == deep.queue.order.count + bool(too_many)
    assert unseen.noted_as_seen == 0
