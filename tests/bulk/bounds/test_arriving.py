"""What connections of bulk transfer hold is told in few words, and none is forgotten."""

from __future__ import annotations

from collections.abc import Callable

from annulet.broker.network.unfinished import Unfinished
from annulet.bulk.bounds.arriving import TOLD_BYTES, ArrivingBytes
from tests.broker.network.test_unfinished import Holder


class Account:
    """Takes figures when the test says so."""

    def __init__(self) -> None:
        self.told: list[dict[str, int]] = []
        self.takes = True
        self.taken: Callable[[], None] | None = None

    def tell(self, figures: dict[Unfinished, int], taken: Callable[[], None]) -> None:
        self.told.append({connection.name: held for connection, held in figures.items()})
        if self.takes:
            taken()
        else:
            self.taken = taken


def test_small_amounts_are_told_together_at_the_bound() -> None:
    account = Account()
    arriving = ArrivingBytes(account.tell)
    first, second = Holder("first"), Holder("second")
    arriving.note(first, TOLD_BYTES - 1)
    arriving.note(first, TOLD_BYTES - 1)
    assert account.told == []
    arriving.note(second, 1)
    assert account.told == [{"first": TOLD_BYTES - 1, "second": 1}]


def test_what_comes_and_goes_is_not_told() -> None:
    account = Account()
    arriving = ArrivingBytes(account.tell)
    for _ in range(TOLD_BYTES // 2000):
        arriving.note(Holder("gone"), 0)
        one = Holder("one")
        arriving.note(one, 1000)
        arriving.note(one, 0)
    assert [figures for figures in account.told if figures] == []


def test_the_end_of_what_was_told_is_told_at_once() -> None:
    account = Account()
    arriving = ArrivingBytes(account.tell)
    one = Holder("one")
    arriving.note(one, TOLD_BYTES)
    arriving.note(one, 0)
    assert account.told == [{"one": TOLD_BYTES}, {"one": 0}]


def test_figures_wait_until_those_before_were_taken() -> None:
    account = Account()
    account.takes = False
    arriving = ArrivingBytes(account.tell)
    one, two = Holder("one"), Holder("two")
    arriving.note(one, TOLD_BYTES)
    arriving.note(two, TOLD_BYTES)
    arriving.note(one, 3 * TOLD_BYTES)
    arriving.note(two, 0)
    assert account.told == [{"one": TOLD_BYTES}]
    assert account.taken is not None
    account.taken()
    assert account.told == [{"one": TOLD_BYTES}, {"one": 3 * TOLD_BYTES}]
