from __future__ import annotations

from pathlib import Path

from annulet.core.message import Origin
from annulet.store.segment import Segment
from annulet.store.window import JOIN_BELOW, ORIGINS_MAX, LogTransaction, OriginCodes, WindowPart
from tests.store.log_tools import View, message


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
    _, count = part.encode(1, OriginCodes(), sequences)
    assert count == 2
    assert len(part.segment.offsets) == 3
    assert list(part.segment.live_ordinals()) == [0, 2]
    assert sequences == {1: 3}


def test_large_bodies_are_not_copied() -> None:
    body = bytes(JOIN_BELOW)
    buffers, _ = filled([body, body[1:]]).encode(1, OriginCodes(), {})
    assert buffers[1] is body
    assert len(buffers) == 3


def test_encoded_origins_are_kept_within_a_bound() -> None:
    codes = OriginCodes()
    origin = Origin("e", "k", "p", View())
    assert codes.of(origin) is codes.of(origin)
    for number in range(ORIGINS_MAX + 5):
        codes.of(Origin("e", str(number), "p", View()))
    assert len(codes._codes) <= ORIGINS_MAX


def test_a_transaction_counts_its_records_of_one_window() -> None:
    opened = LogTransaction()
    opened.add(1, 4)
    opened.add(2, 4)
    assert (opened.own(4), opened.own(5)) == (2, 0)
    opened.add(3, 5)
    assert (opened.own(5), list(opened.records)) == (1, [1, 2, 3])
