"""What the harness holds browsers, kills and joins against, without a broker."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from annulet.store.files.files import UNFINISHED_SUFFIX
from annulet.store.log.checkpoint import checkpoint_name
from benchmarks.deep import joins
from benchmarks.deep.client import Delivery
from benchmarks.deep.killing import GONE, LEAST, OLD_AGE, PRESENT, UNCERTAIN, Killed, Load
from benchmarks.deep.looking import Browses
from benchmarks.deep.site import Site

COUNT = 8


def marks(*numbers: int) -> bytearray:
    found = bytearray(COUNT)
    for number in numbers:
        found[number] = 1
    return found


def values(browses: Browses) -> list[float]:
    """Seen and gone, not seen and there."""
    return [relation.value for relation in browses.relations()]


def test_browses_that_saw_what_was_there() -> None:
    browses = Browses(COUNT)
    browses.note(marks(*range(COUNT)), COUNT, COUNT - 2)  # 0 and 1 went behind the browser
    browses.note(marks(2, 3, 5, 6, 7), 6, 4)  # 4 went before it was reached, 5 behind it
    browses.note_truth(marks(2, 3, 6, 7))
    assert values(browses) == [0, 0]
    assert all(relation.holds for relation in browses.relations())


@pytest.mark.parametrize(
    ("seen", "opened", "ended", "there", "expected"),
    [
        ([*range(COUNT)], COUNT - 1, COUNT - 1, [*range(1, COUNT)], [1, 0]),  # one more than there were
        ([*range(1, COUNT)], COUNT, COUNT, [*range(COUNT)], [0, 2]),  # one fewer, and it was there in the end
        ([*range(1, COUNT)], COUNT, COUNT - 1, [*range(COUNT - 1)], [0, 1]),  # the right number of the wrong ones
    ],
)
def test_browses_that_saw_something_else(
    seen: list[int], opened: int, ended: int, there: list[int], expected: list[int]
) -> None:
    browses = Browses(COUNT)
    browses.note(marks(*seen), opened, ended)
    browses.note_truth(marks(*there))
    assert values(browses) == expected


def test_what_a_browse_sees_the_one_before_saw() -> None:
    browses = Browses(COUNT)
    browses.note(marks(*range(1, COUNT)), COUNT, COUNT - 1)
    browses.note(marks(*range(COUNT - 1)), COUNT - 1, COUNT - 1)
    assert values(browses) == [0, 1], "0 was there, or is gone"


class Channel:
    """What a load does with its client."""

    def __init__(self) -> None:
        self.confirmed = 0
        self.published = 0
        self.acknowledged: list[int] = []

    def want_confirms(self) -> None:
        pass

    def consume(self, queue: str, prefetch: int) -> None:
        assert prefetch == 0

    def acknowledge_each(self, tags: list[int]) -> None:
        self.acknowledged += tags

    def publish_some(self, queue: str, numbers: range, header_of: Callable[[int], bytes], size: int) -> None:
        assert numbers.start == 4 + self.published
        self.published += len(numbers)


def delivery(number: int) -> Delivery:
    return Delivery(number + 1, False, b"%012d...." % number)


def test_an_acknowledgement_is_certain_when_what_was_published_behind_it_is_confirmed() -> None:
    channel, present = Channel(), bytearray([PRESENT]) * 4
    client: Any = channel
    load = Load(client, "q", present)
    load.go_on([delivery(0), delivery(1)])
    load.go_on([delivery(2), delivery(3), delivery(5)])  # 5 was published by itself
    assert channel.acknowledged == [2, 4], "odd ones of what was there before"
    assert list(present) == [PRESENT, UNCERTAIN, PRESENT, UNCERTAIN]
    channel.confirmed = 1
    load.note_confirmed()
    assert list(present) == [PRESENT, GONE, PRESENT, UNCERTAIN]
    channel.confirmed = LEAST
    load.note_confirmed()
    assert list(present) == [PRESENT, GONE, PRESENT, UNCERTAIN], "all that was published before the second one"
    channel.confirmed = LEAST + 1
    load.note_confirmed()
    assert list(present) == [PRESENT, GONE, PRESENT, GONE]
    assert load.confirmed == range(4, 4 + LEAST + 1)
    assert load.done == 2 * LEAST + 2


@pytest.mark.parametrize(("age", "holds"), [(OLD_AGE, True), (OLD_AGE - 0.1, False)])
def test_a_kill_right_after_a_checkpoint_is_none(age: float, holds: bool) -> None:
    assert all(relation.holds for relation in Killed(range(1), age, 1.0).relations()) is holds


def test_when_the_last_checkpoint_was_written(tmp_path: Path) -> None:
    site: Any = SimpleNamespace(data=tmp_path)
    folder = tmp_path / "messages"
    folder.mkdir()
    assert Site.checkpoint_at(site) == 0
    for number, when in ((7, 500), (8, 600)):
        path = folder / checkpoint_name(number)
        path.touch()
        os.utime(path, (when, when))
    (folder / (checkpoint_name(9) + UNFINISHED_SUFFIX)).touch()
    assert Site.checkpoint_at(site) == 600


def test_the_front_is_what_is_next_in_memory() -> None:
    figures = {'body_bytes{residence="direct"}': 2048.0, 'body_bytes{residence="head"}': 1024.0}
    figures |= {'body_bytes{residence="late"}': 4096.0, 'body_bytes{residence="in_delivery"}': 8192.0}
    site: Any = SimpleNamespace(metrics=lambda: figures)
    assert joins.front(site) == 3


@pytest.mark.parametrize(("count", "expected"), [(joins.SMALL - 1, joins.JOINS_FEW), (joins.SMALL, joins.JOINS)])
def test_a_small_run_has_few_joins(count: int, expected: int) -> None:
    assert joins.joins_at(count) == expected
