"""Expressions as objects: truth of names, logic over three values, spelling, identifiers, remarks."""

from __future__ import annotations

from itertools import product

import pytest

from annulet.selector.expressions import (
    NOT_LEVEL,
    SUM_LEVEL,
    And,
    Calculation,
    Expression,
    Identifier,
    Literal,
    Not,
    Or,
    Sign,
    conditions_remark,
    numbers_remark,
    quoted,
    spelled,
)

A, B, C = Identifier("a"), Identifier("b"), Identifier("c")
THREE = (True, False, None)


def values(**given):
    return given.get


@pytest.mark.parametrize(("a", "b", "c"), list(product(THREE, THREE, THREE)))
def test_and_or_not_over_three_values(a, b, c):
    lookup = values(a=a, b=b, c=c)
    # false, unknown and true are the ordered chain of Kleene's logic: AND is the least, OR the greatest
    rank = {False: 0, None: 1, True: 2}
    assert rank[And((A, B, C)).truth(lookup)] == min(rank[a], rank[b], rank[c])
    assert rank[Or((A, B, C)).truth(lookup)] == max(rank[a], rank[b], rank[c])
    assert rank[Not(A).truth(lookup)] == 2 - rank[a]


def test_and_and_or_stop_as_soon_as_they_know():
    asked = []

    def lookup(name):
        asked.append(name)
        return {"a": False, "b": True}.get(name)

    assert And((A, C)).truth(lookup) is False
    assert Or((B, C)).truth(lookup) is True
    assert asked == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "truth", "converted"),
    [
        (True, True, True),
        (False, False, False),
        (None, None, None),
        ("true", None, True),
        ("x", None, None),
        (1, None, None),
    ],
)
def test_a_name_is_a_condition_when_its_value_is_a_truth_value(value, truth, converted):
    assert A.truth(values(a=value)) is truth
    assert Identifier("a", converting=True).truth(values(a=value)) is converted


def test_numbers_and_texts_are_no_conditions():
    lookup = values(a=1)
    for expression in (
        Literal(1),
        Literal("true"),
        Sign(A, minus=True, converting=False),
        Calculation("+", A, A, converting=False),
    ):
        assert expression.truth(lookup) is None


def test_the_base_class_has_no_meaning():
    with pytest.raises(NotImplementedError):
        Expression(SUM_LEVEL, "number").truth(values())
    with pytest.raises(NotImplementedError):
        Expression(SUM_LEVEL, "number").text()


def test_evaluation_of_signs_and_calculations():
    lookup = values(a=5, b="7", c=True)
    assert Sign(A, minus=True, converting=False).evaluate(lookup) == -5
    assert Sign(A, minus=False, converting=False).evaluate(lookup) == 5
    assert Sign(B, minus=False, converting=False).evaluate(lookup) is None
    assert Sign(B, minus=True, converting=True).evaluate(lookup) == -7
    assert Sign(C, minus=False, converting=True).evaluate(lookup) is None
    assert Calculation("*", A, B, converting=False).evaluate(lookup) is None
    assert Calculation("*", A, B, converting=True).evaluate(lookup) == 35


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (Literal("it's"), "'it''s'"), (Literal(True), "TRUE"), (Literal(False), "FALSE"), (Literal(-3), "-3"),
        (Literal(1e16), "1e+16"), (Literal(2.0), "2.0"), (A, "a"), (Identifier("a-b"), '"a-b"'),
        (Identifier('"'), '""""'), (Identifier("null"), '"null"'),
        (Sign(A, minus=True, converting=False), "-a"),
        (Sign(Sign(A, minus=True, converting=False), minus=True, converting=False), "- -a"),
        (Sign(Sign(A, minus=True, converting=False), minus=False, converting=False), "+-a"),
        (Sign(Calculation("+", A, B, converting=False), minus=True, converting=False), "-(a + b)"),
        (Calculation("-", A, Calculation("-", B, C, converting=False), converting=False), "a - (b - c)"),
        (Calculation("-", Calculation("-", A, B, converting=False), C, converting=False), "a - b - c"),
        (Calculation("*", Calculation("+", A, B, converting=False), C, converting=False), "(a + b) * c"),
        (Calculation("-", A, Literal(-1), converting=False), "a - -1"),
        (And((Or((A, B)), Not(C))), "(a OR b) AND NOT c"),
        (Or((And((A, B)), C)), "a AND b OR c"),
        (Not(Or((A, B))), "NOT (a OR b)"),
        (Not(Not(A)), "NOT NOT a"),
    ],
)  # fmt: skip
def test_spelling_has_only_the_parentheses_it_needs(expression, text):
    assert expression.text() == text


def test_depth_counts_levels():
    assert A.depth == 1
    assert And((A, Not(B), C)).depth == 3


def test_helpers():
    assert quoted("a'b") == "'a''b'"
    assert spelled(Or((A, B)), NOT_LEVEL) == "(a OR b)"
    assert spelled(A, NOT_LEVEL) == "a"


def test_remarks_name_what_has_the_wrong_type():
    assert numbers_remark([1, None, 2.5], converting=False) == ""
    assert numbers_remark([1, "5"], converting=False) == "a text is no number"
    assert numbers_remark([1, "5"], converting=True) == ""
    assert numbers_remark([True], converting=True) == "a truth value is no number"
    assert conditions_remark((A, B), [True, None]) == ""
    assert conditions_remark((A, B), [True, 5]) == "a number is no condition"
    assert Calculation("/", A, B, converting=False).remark([1, 0]) == "division by zero is unknown"
    assert Calculation("/", A, B, converting=True).remark([1, "0"]) == "division by zero is unknown"
    assert Calculation("/", A, B, converting=False).remark([1, 2]) == ""
    assert Sign(A, minus=True, converting=False).remark(["x"]) == "a text is no number"
    assert Not(A).remark(["x"]) == "a text is no condition"
    assert And((A, B)).remark([True, "x"]) == Or((A, B)).remark([b"x", True]).replace("binary value", "text")
    assert A.remark([]) == ""
