"""Levels, sort keys, lives and victims against the tables of the specification."""

from __future__ import annotations

import pytest

from annulet.core.base.settings import QueueSettings
from annulet.testing.oracle.ranking import expiry_of, key_of, level_of, share_of, sort_rank, victim
from annulet.testing.oracle.records import OracleMessage


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (1, [0] * 10),
        (2, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]),
        (3, [0, 0, 0, 0, 1, 2, 2, 2, 2, 2]),
        (4, [0, 0, 0, 0, 1, 2, 3, 3, 3, 3]),
        (6, [0, 0, 0, 1, 2, 3, 4, 5, 5, 5]),
        (7, [0, 0, 1, 2, 3, 4, 5, 6, 6, 6]),
        (9, [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]),
        (10, list(range(10))),
        (12, list(range(10))),
    ],
)
def test_broker_j_maps_priorities_to_levels(levels: int, expected: list[int]) -> None:
    settings = QueueSettings(priorities=levels)
    assert [level_of(settings, priority) for priority in range(10)] == expected
    assert level_of(settings, None) == level_of(settings, 4)


def test_x_max_priority_starts_at_zero() -> None:
    settings = QueueSettings(max_priority=2)
    assert [level_of(settings, priority) for priority in (None, 0, 1, 2, 3, 9)] == [0, 0, 1, 2, 2, 2]


def test_shares_grow_with_the_level_unless_given() -> None:
    assert [share_of(QueueSettings(priorities=3), level) for level in range(3)] == [1, 2, 3]
    assert share_of(QueueSettings(priorities=3, priority_weights=(5, 7, 9)), 1) == 7


def test_types_of_sort_keys_never_mix() -> None:
    ordered = [None, -1, 2, 2.5, 10, "10", "9", "é", b"a", False, True, [1]]
    backwards = ordered[::-1]
    assert sorted(backwards, key=sort_rank) == ordered
    assert sort_rank(float("nan")) == sort_rank(None)


@pytest.mark.parametrize(
    ("minimum", "maximum", "expected"),
    [(-1, 10, [60, 60, 55]), (10, -1, [0, 65, 60]), (10, 20, [70, 65, 60])],
    ids=["64", "65", "66"],
)
def test_lives_are_bounded(minimum: int, maximum: int, expected: list[int]) -> None:
    settings = QueueSettings(min_ttl=minimum, max_ttl=maximum)
    messages = [OracleMessage(1, accepted_at=50, own_expiry=expiry) for expiry in (0, 65, 55)]
    assert [expiry_of(settings, message) for message in messages] == expected


def test_the_smaller_life_wins_and_a_tombstone_counts_from_when_it_pends() -> None:
    settings = QueueSettings(message_ttl=10, last_value_key="k", tombstone_ttl=2)
    message = OracleMessage(1, accepted_at=50, own_expiry=70, size=0, properties={"k": 1})
    assert expiry_of(settings, message) == 60
    message.arrived, message.life_from = 1, 55
    assert expiry_of(settings, message) == 57


def test_keys_are_equal_by_type_and_value() -> None:
    settings = QueueSettings(last_value_key="k", last_value_fallback="old")
    keys = [key_of(settings, OracleMessage(1, properties=table)) for table in ({"k": 1}, {"k": True}, {"old": 1}, {})]
    assert keys == [("int", 1), ("bool", True), ("int", 1), None]
    assert key_of(QueueSettings(), OracleMessage(1, properties={"k": 1})) is None


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("least-important", 2), ("oldest", 1), ("newest", 4), ("largest", 3), ("soonest-to-expire", 4),
        ("least-recent-key", 3),
    ],
)  # fmt: skip
def test_each_rule_has_its_victim(rule: str, expected: int) -> None:
    settings = QueueSettings(evict=rule, last_value_key="k", keep_per_key=9, priorities=3)
    facts = [(1, 2, 1, 90, "a"), (2, 0, 2, 0, "b"), (3, 1, 5, 80, "c"), (4, 0, 1, 70, "a")]
    messages = [
        OracleMessage(
            number, level=level, size=size, own_expiry=expiry, properties={"k": key}, place=(1, number), arrived=number
        )
        for number, level, size, expiry, key in facts
    ]
    last = {("str", "a"): 5, ("str", "b"): 6, ("str", "c"): 3}
    assert victim(settings, messages, last).number == expected
