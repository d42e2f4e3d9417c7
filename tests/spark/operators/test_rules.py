"""What follows from rules: which need state, which a whole queue, which the course of events."""

from __future__ import annotations

import pytest

from annulet.spark.operators import (
    Operator,
    assign_groups,
    combine,
    deduplicate,
    expire,
    keep_last,
    overflow,
    prioritise,
    ring,
    sort_by,
)
from annulet.spark.operators.rules import Rules, path_dependence


@pytest.mark.parametrize("operator", [prioritise(), sort_by("k"), assign_groups(buckets=2)])
def test_order_and_groups_need_no_state(operator: Operator) -> None:
    assert not operator.rules.stateful


@pytest.mark.parametrize(
    "operator", [keep_last(1, "k"), ring(1), overflow("reject", max_length=1), expire(), deduplicate()]
)
def test_everything_else_does(operator: Operator) -> None:
    assert operator.rules.stateful


def test_only_keys_alone_split_a_queue() -> None:
    assert keep_last(1, "k").rules.by_key
    assert combine(keep_last(1, "k"), expire(clock="wall")).rules.by_key
    for other in (ring(1), overflow("reject", max_length=1), expire(), deduplicate()):
        assert not combine(keep_last(1, "k"), other).rules.by_key


@pytest.mark.parametrize(
    ("operator", "why"),
    [
        (deduplicate(5), "a bounded window"),
        (overflow("reject", max_bytes=1), "refusals depend"),
        (combine(overflow("reject", max_length=1), expire()), "refusals depend"),
        (combine(keep_last(1, "k"), ring(1, evict="least-recent-key")), "every message changes"),
        (combine(ring(1), expire()), "make room again"),
        (combine(keep_last(1, "k"), ring(1, evict="largest")), "a replacement may be"),
        (combine(keep_last(1, "k"), overflow("ring", max_bytes=1)), "a replacement may be"),
        (combine(prioritise(), overflow("ring", max_bytes=1)), "a small message may fit"),
    ],
)
def test_what_depends_on_the_course_of_events_says_why(operator: Operator, why: str) -> None:
    assert why in path_dependence(operator.rules)


def test_a_fingerprint_names_what_is_set() -> None:
    assert Rules().fingerprint == ""
    assert combine(ring(3), keep_last(2, "k")).rules.fingerprint == "key='k', keep=2, ring_size=3"


@pytest.mark.parametrize(("levels", "offset"), [(1, 4), (3, 3), (4, 3), (9, 0), (10, 0), (256, 0)])
def test_few_levels_keep_the_default_priority_in_the_middle(levels: int, offset: int) -> None:
    assert prioritise(levels).rules.level_offset == offset
