from __future__ import annotations

import pytest

from annulet.broker.amqp10.remembered import (
    REMEMBERED_LINKS_MAX,
    REMEMBERED_OUTCOMES_MAX,
    LinkName,
    RememberedOutcomes,
)
from annulet.wire.amqp10.frames.outcomes import Accepted

OUTCOME = Accepted()


def name(number: int) -> LinkName:
    return LinkName("/", "guest", "client", str(number))


def tags(count: int) -> dict[bytes, Accepted]:
    return {number.to_bytes(4, "big"): OUTCOME for number in range(count)}


def test_what_is_remembered_is_told_once() -> None:
    known = RememberedOutcomes()
    known.keep(name(1), tags(2))
    assert known.take(LinkName("/", "somebody else", "client", "1")) == {}
    assert (name(1) in known, len(known), known.count) == (True, 1, 2)
    assert known.take(name(1)) == tags(2)
    assert known.take(name(1)) == {}
    assert (len(known), known.count, known.forgotten) == (0, 0, 0)


def test_a_link_has_what_it_left_last() -> None:
    known = RememberedOutcomes()
    known.keep(name(1), tags(5))
    known.keep(name(1), tags(1))
    assert known.count == 1
    known.keep(name(1), {})
    assert (len(known), known.count) == (0, 0)


@pytest.mark.parametrize(
    ("each", "kept"), [(1, REMEMBERED_LINKS_MAX), (REMEMBERED_OUTCOMES_MAX // 8, 8), (REMEMBERED_OUTCOMES_MAX + 1, 1)]
)
def test_the_longest_suspended_links_make_room(each: int, kept: int) -> None:
    known = RememberedOutcomes()
    outcomes = tags(each)
    for number in range(kept):
        known.keep(name(number), outcomes)
    assert (len(known), known.forgotten) == (kept, 0)
    known.keep(name(kept), outcomes)
    assert (len(known), known.count, known.forgotten) == (kept, kept * each, each)
    assert name(0) not in known
    assert name(kept) in known
