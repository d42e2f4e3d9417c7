"""Three-valued logic as tables, comparison by type, arithmetic that never raises."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from annulet.selector.values import (
    INTEGER_MAX,
    INTEGER_MIN,
    alike,
    as_number,
    both,
    calculated,
    compared,
    kind_name,
    matched_to,
    negated,
    number_of,
    opposite,
    truth_of,
)

NAN = float("nan")
INFINITY = float("inf")
VALUES = some.one_of(
    some.none(), some.booleans(), some.integers(), some.floats(), some.text(), some.binary(),
    some.lists(some.integers(), max_size=2), some.dictionaries(some.text(), some.integers(), max_size=2),
)  # fmt: skip


@pytest.mark.parametrize(
    ("left", "right", "outcome"),
    [
        (True, True, True), (True, False, False), (True, None, None),
        (False, True, False), (False, False, False), (False, None, False),
        (None, True, None), (None, False, False), (None, None, None),
    ],
)  # fmt: skip
def test_and(left, right, outcome):
    assert both(left, right) is outcome


@pytest.mark.parametrize(("value", "outcome"), [(True, False), (False, True), (None, None)])
def test_not(value, outcome):
    assert negated(value) is outcome


@pytest.mark.parametrize(
    ("left", "right", "outcomes"),  # of = <> < <= > >=
    [
        (1, 1, "TFFTFT"), (1, 2, "FTTTFF"), (2, 1.5, "FTFFTT"), (1, 1.0, "TFFTFT"), (-0.0, 0, "TFFTFT"),
        (2**53, float(2**53) + 2, "FTTTFF"), (2**53 + 1, float(2**53), "FTFFTT"),
        (INFINITY, 10**30, "FTFFTT"), (10**400, 1.0, "FTFFTT"),
        ("a", "a", "TFFFFF"), ("a", "b", "FTFFFF"), ("a", "A", "FTFFFF"),
        (True, True, "TFFFFF"), (True, False, "FTFFFF"), (b"a", b"a", "TFFFFF"), (b"a", b"b", "FTFFFF"),
        (1, "1", "FFFFFF"), (1, True, "FFFFFF"), (0.0, False, "FFFFFF"), ("a", b"a", "FFFFFF"), ([1], [1], "FFFFFF"),
        ({}, {}, "FFFFFF"), ("TRUE", True, "FFFFFF"),
        (None, 1, "??????"), (None, None, "??????"), ("a", None, "??????"), (NAN, NAN, "??????"), (NAN, 1, "??????"),
        (NAN, None, "??????"),
    ],
)  # fmt: skip
def test_comparison_by_type(left, right, outcomes):
    letters = {True: "T", False: "F", None: "?"}
    assert (
        "".join(letters[compared(operator, left, right)] for operator in ("=", "<>", "<", "<=", ">", ">=")) == outcomes
    )


@given(VALUES, VALUES, some.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
def test_comparison_never_raises_and_mirrors(left, right, operator):
    mirrored = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}[operator]
    assert compared(operator, left, right) is compared(mirrored, right, left)


@pytest.mark.parametrize(
    ("left", "operator", "right", "result"),
    [
        (2, "+", 3, 5), (2, "-", 3, -1), (2, "*", 3, 6), (7, "/", 2, 3.5), (-7, "/", 2, -3.5), (6, "/", 3, 2.0),
        (-7, "%", 2, -1), (7, "%", -2, 1), (7.0, "/", 2, 3.5), (7.5, "%", 2, 1.5),
        (-7.5, "%", 2, -1.5),
        (0.5, "+", 1, 1.5), (1, "-", 0.5, 0.5), (0.5, "*", 4, 2.0), (INFINITY, "+", 1, INFINITY),
        (INTEGER_MAX, "+", 1, float(2**64)), (INTEGER_MIN, "-", 1, float(-(2**63) - 1)), (2**63, "*", 4, float(2**65)),
        (INTEGER_MAX, "*", 1, INTEGER_MAX), (INTEGER_MIN, "%", 10, -8), (1e308, "*", 10, INFINITY),
        (1, "/", 0, None), (1.0, "/", 0.0, None), (1, "%", 0, None), (0, "/", 0, None), (1.5, "%", -0.0, None),
        (INFINITY, "-", INFINITY, None), (INFINITY, "*", 0, None), (INFINITY, "%", 2, None), (NAN, "+", 1, None),
        (10**400, "+", 1, None), (10**400, "+", 1.0, None), (10**400, "*", 10**400, None),
        ("1", "+", 1, None), (True, "+", 1, None), (None, "+", 1, None), (1, "*", b"2", None), ([], "+", [], None),
    ],
)  # fmt: skip
def test_arithmetic(left, operator, right, result):
    value = calculated(operator, left, right)
    assert (value, type(value)) == (result, type(result))


@given(VALUES, VALUES, some.sampled_from("+-*/%"))
def test_arithmetic_never_raises_and_stays_small(left, right, operator):
    value = calculated(operator, left, right)
    assert value is None or isinstance(value, float) or INTEGER_MIN <= value <= INTEGER_MAX
    assert value is None or not math.isnan(value)


@given(some.integers(INTEGER_MIN, INTEGER_MAX), some.integers(INTEGER_MIN, INTEGER_MAX).filter(bool))
def test_a_remainder_is_what_whole_division_leaves_with_the_sign_of_the_dividend(left, right):
    remainder = calculated("%", left, right)
    assert abs(remainder) < abs(right)
    assert (left - remainder) % right == 0
    assert remainder == 0 or (remainder < 0) == (left < 0)


@pytest.mark.parametrize(
    ("value", "result"), [(5, -5), (-0.5, 0.5), ("5", None), (True, None), (None, None), (b"", None)]
)
def test_unary_minus(value, result):
    assert opposite(value) == result


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5), (" -5 ", -5), ("+5", 5), ("5.5", 5.5), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("007", 7),
        ("9" * 40, float("9" * 40)), ("0x10", None), ("", None), ("five", None), ("1_000", None), ("1e999", None),
        ("inf", None), ("nan", None), ("5 5", None), ("--5", None), ("٣", None), ("9" * 9000, None),
    ],
)  # fmt: skip
def test_numbers_spelled_by_texts(text, number):
    value = number_of(text)
    assert (value, type(value)) == (number, type(number))


@pytest.mark.parametrize(("text", "truth"), [("true", True), (" FALSE ", False), ("1", None), ("", None)])
def test_truth_values_spelled_by_texts(text, truth):
    assert truth_of(text) is truth


def test_a_text_is_converted_only_to_what_it_meets_and_spells():
    assert matched_to("5", 1) == 5
    assert matched_to("x", 1) == "x"
    assert matched_to("true", False) is True
    assert matched_to("1", True) == "1"
    assert matched_to("5", "x") == "5"
    assert matched_to(5, "x") == 5
    assert as_number("5") == 5
    assert as_number("x") == "x"
    assert as_number(True) is True


def test_types_have_names_for_people():
    values = [None, True, "", 1, 1.5, b"", {}, []]
    assert [kind_name(value) for value in values] == [
        "null", "a truth value", "a text", "a number", "a number", "a binary value", "a table", "a list",
    ]  # fmt: skip


@given(VALUES, VALUES)
def test_likeness_is_symmetric(left, right):
    assert alike(left, right) is alike(right, left)
