"""Comparisons, BETWEEN, IN, LIKE and IS NULL over values of every type; short paths equal the general one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from annulet.selector.comparisons import (
    MIRRORED,
    Between,
    Comparison,
    In,
    IsNull,
    Like,
    NumberComparison,
    TextComparison,
    comparison,
)
from annulet.selector.expressions import Identifier, Literal
from annulet.selector.like import LikePattern

A = Identifier("a")
NAN = float("nan")
VALUES = some.one_of(
    some.none(), some.booleans(), some.integers(-3, 3), some.floats(), some.sampled_from(["", "x", "1"]),
    some.binary(max_size=1), some.just([]), some.just({}),
)  # fmt: skip


def truth(condition, value):
    return condition.truth({"a": value}.get)


@given(some.sampled_from(sorted(MIRRORED)), VALUES, some.sampled_from([0, 1, -2, 1.5, "", "x", "1"]))
def test_short_paths_equal_the_general_one(operator, value, literal):
    short = comparison(operator, A, Literal(literal), converting=False)
    general = Comparison(operator, A, Literal(literal), converting=False)
    assert truth(short, value) is truth(general, value)
    assert short.text() == general.text()


def test_common_comparisons_take_the_short_paths_and_literals_go_right():
    assert isinstance(comparison("=", A, Literal("x"), converting=False), TextComparison)
    assert isinstance(comparison("<", Literal(5), A, converting=False), NumberComparison)
    assert comparison("<", Literal(5), A, converting=False).text() == "a > 5"
    assert type(comparison("=", A, Literal(True), converting=False)) is Comparison
    assert type(comparison("=", A, Literal("x"), converting=True)) is Comparison
    assert comparison("<", Literal(5), Literal(6), converting=False).text() == "5 < 6"


@pytest.mark.parametrize(
    ("operator", "literal", "value", "plain", "converted"),
    [
        ("=", 5, "5", False, True), ("=", "5", 5, False, True), ("<>", 5, "6", False, True),
        ("=", 5, "five", False, False),
        ("=", True, "true", False, True), ("=", "TRUE", True, False, True), ("=", "5", "5.0", False, False),
        ("<", 5, "4", False, True), (">", "4.5", 5, False, True), (">", "4", "5", False, True),
        ("<", 5, None, None, None),
        ("=", True, 1, False, False), ("<", 5, True, False, False),
    ],
)  # fmt: skip
def test_conversion_of_texts_is_asked_for(operator, literal, value, plain, converted):
    assert truth(Comparison(operator, A, Literal(literal), converting=False), value) is plain
    assert truth(Comparison(operator, A, Literal(literal), converting=True), value) is converted


@given(VALUES, some.integers(-3, 3), some.integers(-3, 3), some.booleans())
def test_between_is_what_the_standard_says_it_equals(value, low, high, converting):
    def compare(operator, bound):
        return truth(Comparison(operator, A, Literal(bound), converting=converting), value)

    def between(*, opposite):
        return truth(Between(A, Literal(low), Literal(high), opposite=opposite, converting=converting), value)

    rank = {False: 0, None: 1, True: 2}
    assert rank[between(opposite=False)] == min(rank[compare(">=", low)], rank[compare("<=", high)])
    assert rank[between(opposite=True)] == max(rank[compare("<", low)], rank[compare(">", high)])


@pytest.mark.parametrize("bound", [None, NAN])
def test_a_missing_bound_leaves_between_undecided_only_where_it_matters(bound):
    condition = Between(A, Identifier("low"), Literal(5), opposite=False, converting=False)
    assert condition.truth({"a": 3, "low": bound}.get) is None
    assert condition.truth({"a": 9, "low": bound}.get) is False


@given(
    VALUES, some.lists(some.sampled_from([0, 1, -2, 1.5, "", "x", "1", True]), min_size=1, max_size=4), some.booleans()
)
def test_in_is_a_chain_of_equals(value, literals, converting):
    items = [Literal(literal) for literal in literals]
    equals = [truth(Comparison("=", A, item, converting=converting), value) for item in items]
    expected = None if None in equals else any(equals)
    assert truth(In(A, items, opposite=False, converting=converting), value) is expected
    opposite = truth(In(A, items, opposite=True, converting=converting), value)
    assert opposite is (None if expected is None else not expected)


def test_in_keeps_truth_values_and_numbers_apart():
    assert truth(In(A, [Literal(1), Literal("x")], opposite=False, converting=False), True) is False
    assert truth(In(A, [Literal(True)], opposite=False, converting=False), 1) is False
    assert truth(In(A, [Literal(True)], opposite=False, converting=False), True) is True
    assert truth(In(A, [Literal(2)], opposite=False, converting=False), 2.0) is True


@pytest.mark.parametrize(
    ("value", "like", "not_like"), [("red", True, False), ("blue", False, True), (5, False, True), (None, None, None)]
)
def test_like(value, like, not_like):
    assert truth(Like(A, LikePattern("r%"), opposite=False), value) is like
    assert truth(Like(A, LikePattern("r%"), opposite=True), value) is not_like


@pytest.mark.parametrize(("value", "null"), [(None, True), ("", False), (0, False), (False, False), (NAN, False)])
def test_is_null_is_never_unknown(value, null):
    assert truth(IsNull(A, opposite=False), value) is null
    assert truth(IsNull(A, opposite=True), value) is not null


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Between(A, Literal(-1), Literal(2.5), opposite=True, converting=False), "a NOT BETWEEN -1 AND 2.5"),
        (In(A, [Literal("x"), Literal(-1), Literal(True)], opposite=False, converting=False), "a IN ('x', -1, TRUE)"),
        (Like(A, LikePattern("it's%"), opposite=True), "a NOT LIKE 'it''s%'"),
        (Like(A, LikePattern("'%", "'"), opposite=False), "a LIKE '''%' ESCAPE ''''"),
        (IsNull(A, opposite=True), "a IS NOT NULL"),
        (Comparison("=", Comparison("=", A, A, converting=False), Literal(True), converting=False), "(a = a) = TRUE"),
    ],
)
def test_spelling(condition, text):
    assert condition.text() == text


def test_remarks_say_which_types_do_not_compare():
    def remark(condition, *given):
        return condition.remark(list(given))

    assert remark(Comparison("=", A, Literal("5"), converting=False), 5, "5") == "a number is not compared with a text"
    assert remark(Comparison("=", A, Literal("5"), converting=True), 5, "5") == ""
    assert remark(Comparison("=", A, Literal("5"), converting=False), None, "5") == ""
    assert remark(Comparison("<", A, A, converting=False), "4", "5") == "a text is no number"
    assert remark(Comparison("<", A, A, converting=True), "4", "5") == ""
    assert remark(Between(A, A, A, opposite=False, converting=False), 1, 2, b"") == "a binary value is no number"
    assert remark(In(A, [Literal("x")], opposite=False, converting=False), 5) == (
        "the list has nothing to compare with a number"
    )
    assert remark(In(A, [Literal("x")], opposite=False, converting=False), "y") == ""
    assert remark(In(A, [Literal("x")], opposite=False, converting=False), None) == ""
    assert remark(Like(A, LikePattern("x"), opposite=False), 5) == "a number has no form that LIKE could match"
    assert remark(Like(A, LikePattern("x"), opposite=False), None) == ""
