"""Rules put together: what agrees, what contradicts itself."""

from __future__ import annotations

import pytest

from annulet.spark.operators import (
    Columns,
    Operator,
    OperatorError,
    combine,
    deduplicate,
    keep_last,
    overflow,
    prioritise,
    ring,
    sort_by,
)
from annulet.spark.operators.operator import check_composition, merge
from annulet.spark.operators.rules import Rules


def test_rules_of_one_queue_are_one() -> None:
    both = combine(keep_last(2, "k"), ring(5))
    assert both.rules == Rules(key="k", keep=2, ring_size=5)
    assert combine(ring(5), keep_last(2, "k")) == both


@pytest.mark.parametrize(
    ("operators", "text"),
    [
        ((), r"combine\(\): no rule is given"),
        ((3,), r"combine\(\): 3 is no rule; give what ring"),
        ((ring(1), ring(2)), "ring_size is 1 in one rule and 2 in another; a queue has one of each"),
        ((ring(1, evict="oldest"), overflow("ring", max_length=3, evict="newest")), "evict is 'oldest' in one rule"),
        ((sort_by("k"), prioritise()), "sort_by and prioritise are both an order; a queue has one"),
        ((prioritise(3), prioritise(max_priority=3)), "both number the levels; a queue has one"),
        ((ring(1, evict="least-recent-key"),), "there are no keys without keep_last; add it, or evict 'oldest'"),
        ((ring(1), deduplicate(columns=Columns(queue=None))), "need the same columns; give columns= to combine only"),
        ((ring(1), deduplicate(shards=2)), "need the same shards; give shards= to combine only"),
    ],
)
def test_contradictions_are_refused(operators: tuple[Operator, ...], text: str) -> None:
    with pytest.raises(OperatorError, match=text):
        merge(operators, None, None)


def test_columns_and_shards_of_the_whole_win() -> None:
    whole = combine(ring(1), deduplicate(shards=2), columns=Columns(queue=None), shards=3)
    assert (whole.columns, whole.shards) == (Columns(queue=None), 3)


def test_least_recent_key_with_keys_is_legal() -> None:
    check_composition(combine(keep_last(1, "k"), ring(1, evict="least-recent-key")).rules)
