"""The functions users call: what they refuse, and in which words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import annulet.spark
from annulet.spark import operators
from annulet.spark.operators import (
    Operator,
    OperatorError,
    assign_groups,
    combine,
    deduplicate,
    expire,
    keep_last,
    last_value,
    overflow,
    prioritise,
    ring,
    sort_by,
)
from annulet.spark.operators.rules import SHARDS_MAX

REFUSED: list[tuple[Callable[[], Operator], str]] = [
    (lambda: keep_last(0, "k"), "n: 0 is out of range; give at least 1"),
    (lambda: keep_last(True, "k"), "n: True is not a whole number; give at least 1"),
    (lambda: last_value(""), "key: '' is not the name of a column; give one"),
    (lambda: ring(-1), "n: -1 is out of range; give at least 1"),
    (lambda: ring(5, evict="latest"), "evict: 'latest' is unknown; did you mean 'largest'"),
    (lambda: overflow("block", max_length=1), "overflow policy 'block' removes nothing, .* choose 'ring' or 'reject'"),
    (lambda: overflow("rign", max_length=1), "overflow policy: 'rign' is unknown; did you mean 'ring'"),
    (lambda: overflow("ring"), "overflow: no limit is given; give max_length=, max_bytes= or both"),
    (lambda: overflow("ring", max_bytes=-1), "max_bytes: -1 is out of range; give at least 0"),
    (lambda: prioritise(257), "levels: 257 is out of range; give 1 to 256"),
    (lambda: prioritise(3, max_priority=2), "levels and max_priority both number the levels; give one"),
    (lambda: prioritise(age=0), "age: 0 is out of range; give at least 1"),
    (lambda: sort_by(""), "key: '' is not the name of a column"),
    (lambda: assign_groups(buckets=0), "buckets: 0 is out of range; give 1 to 2147483647"),
    (lambda: expire(clock="sun"), "clock: 'sun' is unknown; choose arrival, wall"),
    (lambda: expire(min_ttl=-5), "min_ttl: -5 is out of range; give at least 0"),
    (lambda: deduplicate(0), "window: 0 is out of range; give at least 1"),
    (lambda: ring(1, shards=SHARDS_MAX + 1), "shards: 1025 is out of range; give 1 to 1024"),
    (lambda: combine(ring(1), shards=0), "shards: 0 is out of range; give 1 to 1024"),
]


@pytest.mark.parametrize(("make", "text"), REFUSED, ids=[text[:30] for _, text in REFUSED])
def test_what_is_impossible_is_refused_with_the_remedy(make: Callable[[], Operator], text: str) -> None:
    with pytest.raises(OperatorError, match=text):
        make()


def test_limits_are_inclusive() -> None:
    assert keep_last(1, "k").rules.keep == 1
    assert prioritise(256).rules.highest_level == 255
    assert prioritise(max_priority=255).rules.highest_level == 255
    assert ring(1, shards=SHARDS_MAX).shards == SHARDS_MAX
    assert overflow("reject", max_length=0).rules.max_length == 0


def test_last_value_keeps_the_last_one() -> None:
    assert last_value("k") == keep_last(1, "k")


def test_the_package_offers_them_too() -> None:
    for name in operators.__all__:
        assert getattr(annulet.spark, name) is getattr(operators, name)
