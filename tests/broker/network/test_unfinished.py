from __future__ import annotations

import pytest

from annulet.broker.network.unfinished import UnfinishedWork, commit_limit, unfinished_limit
from annulet.broker.settings.configuration import BrokerConfiguration
from annulet.broker.settings.limits import Limits


class Holder:
    """A connection that holds what it says."""

    def __init__(self, name: str, held: int = 0) -> None:
        self.name = name
        self.held = held
        self.refusals: list[str] = []

    def unfinished_bytes(self) -> int:
        return self.held

    def refuse_unfinished(self, text: str) -> None:
        self.refusals.append(text)
        self.held = 0


def test_at_the_bound_nobody_is_refused_and_one_byte_above_the_largest_is() -> None:
    work = UnfinishedWork(100)
    small, large = Holder("small"), Holder("large")
    work.note(small, 40)
    work.note(large, 60)
    assert (work.total, work.refused) == (100, 0)
    work.note(small, 41)
    assert (work.total, work.refused) == (41, 1)
    assert small.refusals == []
    assert "exceed 100 bytes (max_unfinished_bytes)" in large.refusals[0]
    assert "60 bytes" in large.refusals[0]


def test_one_that_ends_or_finishes_is_not_counted_any_more() -> None:
    work = UnfinishedWork(100)
    first, second = Holder("first"), Holder("second")
    work.note(first, 70)
    work.forget(first)
    work.note(second, 70)
    work.note(second, 0)
    work.forget(second)
    assert (work.total, work.refused) == (0, 0)


def test_a_connection_whose_refusal_fails_is_not_counted_any_more() -> None:
    class Broken(Holder):
        def refuse_unfinished(self, text: str) -> None:
            raise RuntimeError(text)

    work = UnfinishedWork(100)
    with pytest.raises(RuntimeError):
        work.note(Broken("broken"), 101)
    assert work.total == 0


def test_the_bound_is_half_of_the_memory_limit_unless_it_is_set() -> None:
    assert unfinished_limit(BrokerConfiguration(memory_limit_bytes=1000)) == 500
    limits = Limits(max_unfinished_bytes=123)
    assert unfinished_limit(BrokerConfiguration(memory_limit_bytes=1000, limits=limits)) == 123


def test_the_bound_of_commits_is_half_of_the_memory_limit_unless_it_is_set() -> None:
    assert commit_limit(BrokerConfiguration(memory_limit_bytes=1000)) == 500
    assert commit_limit(BrokerConfiguration(memory_limit_bytes=1000, limits=Limits(max_commit_bytes=7))) == 7
