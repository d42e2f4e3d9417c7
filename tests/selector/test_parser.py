"""The grammar as tables: what is read, how it is read, what is refused where; bounds on length and nesting."""

from __future__ import annotations

import pytest

from annulet.selector.errors import SelectorError
from annulet.selector.parser import DEPTH_MAX, LENGTH_MAX, NESTING_MAX, SEARCHES_MAX, parse


def canonical(text):
    return parse(text)[0].text()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # precedence: OR, AND, NOT, comparison, sum, product, sign
        ("a or b and c", "a OR b AND c"),
        ("(a or b) and c", "(a OR b) AND c"),
        ("not a and b", "NOT a AND b"),
        ("not (a and b)", "NOT (a AND b)"),
        ("not a = 1", "NOT a = 1"),
        ("not not a", "NOT NOT a"),
        ("a + b * c = 1", "a + b * c = 1"),
        ("(a + b) * c = 1", "(a + b) * c = 1"),
        ("a - b - c = 1", "a - b - c = 1"),
        ("a - (b - c) = 1", "a - (b - c) = 1"),
        ("a / b % c = 1", "a / b % c = 1"),
        ("-a * b = 1", "-a * b = 1"),
        ("-(a * b) = 1", "-(a * b) = 1"),
        ("a - -b = - - c", "a - -b = - -c"),
        ("+a = +5", "+a = 5"),
        ("a = 1 and b < 2 or not c >= 3", "a = 1 AND b < 2 OR NOT c >= 3"),
        # both are associative, so parentheses within one of them say nothing
        ("a and (b and c)", "a AND b AND c"),
        ("((a or b)) or (c or (d))", "a OR b OR c OR d"),
        # literals
        ("a = 0x10 or a = 010 or a = 5.", "a = 16 OR a = 8 OR a = 5.0"),
        ("a = -9223372036854775808", "a = -9223372036854775808"),
        ("a = -(5)", "a = -5"),
        ("5 < a", "a > 5"),
        ("'x' = a", "a = 'x'"),
        ("true = a", "a = TRUE"),
        ("1 = 2", "1 = 2"),
        ("true", "TRUE"),
        ("False or a", "FALSE OR a"),
        # conditions
        ("a between 1 and 2 and b", "a BETWEEN 1 AND 2 AND b"),
        ("a + 1 not between b and c * 2", "a + 1 NOT BETWEEN b AND c * 2"),
        ("a like 'x'", "a LIKE 'x'"),
        ("a not like 'x' escape '\\'", "a NOT LIKE 'x' ESCAPE '\\'"),
        ("'abc' like 'a%'", "'abc' LIKE 'a%'"),
        ("a in ('x')", "a IN ('x')"),
        ("a not in ('x', 'y', -1, +2, true)", "a NOT IN ('x', 'y', -1, 2, TRUE)"),
        ("a is null", "a IS NULL"),
        ("a + b is not null", "a + b IS NOT NULL"),
        ("(a > 1) = true", "(a > 1) = TRUE"),
        ("(a is null) <> (b is null)", "(a IS NULL) <> (b IS NULL)"),
        ("a = b", "a = b"),
        ('"and" = 1 and "x y" = 2', '"and" = 1 AND "x y" = 2'),
        ("hyphenated_props:a-b = 1", '"a-b" = 1'),
        # the examples of JMS 2.0 §3.8.1
        (
            "JMSType = 'car' AND color = 'blue' AND weight > 2500",
            "JMSType = 'car' AND color = 'blue' AND weight > 2500",
        ),
        ("Country IN ('UK', 'US', 'France')", "Country IN ('UK', 'US', 'France')"),
    ],
)
def test_reading(text, expected):
    assert canonical(text) == expected
    assert canonical(expected) == expected


def test_the_prefix_for_conversion_is_reported():
    assert parse("convert_string_expressions:a > '5'")[1] is True
    assert parse("a > 5")[1] is False


@pytest.mark.parametrize(
    ("text", "position", "found", "expected"),
    [
        ("", 0, "nothing", "leave an empty selector out"),
        (" -- only a comment", 18, "nothing", "a condition"),
        ("a =", 3, "the end", "a property name, a literal or ("),
        ("a = 1 b", 6, "found b", "an operator or the end"),
        ("color = 'red' AN weight = 3", 14, "found AN", "did you mean AND?"),
        ("color LKE 'x'", 6, "found LKE", "did you mean LIKE?"),
        ("a = 1 = 2", 6, "found =", "comparisons do not chain"),
        ("a < b is null", 6, "found is", "comparisons do not chain"),
        ("not a = 1 = 2", 10, "found =", "comparisons do not chain"),
        ("a = not b", 4, "found NOT", "put the negation in parentheses"),
        ("- not b = 1", 2, "found NOT", "put the negation in parentheses"),
        ("a not 5", 6, "found 5", "BETWEEN, IN or LIKE behind NOT"),
        ("a is 5", 5, "found 5", "NULL or NOT NULL behind IS"),
        ("a is not 5", 9, "found 5", "NULL"),
        ("a = null", 4, "found null", "write IS NULL or IS NOT NULL"),
        ("between = 1", 0, "found between", '"between"'),
        ("lower(a) = 'x'", 5, "found (", "selectors have no functions"),
        ("XPATH '//a'", 6, "found '//a'", "selectors see properties, not bodies"),
        ("(a = 1", 6, "the end", "an operator or )"),
        ("a = 1)", 5, "found )", "an operator or the end"),
        ("()", 1, "found )", "a property name"),
        ("a between 1", 11, "the end", "AND and the upper bound of BETWEEN"),
        ("a between 1 or 2", 12, "found or", "AND and the upper bound of BETWEEN"),
        ("a between 'x' and 'y'", 10, "a text as operand of BETWEEN", "= and <> only"),
        ("a between 1 and true", 16, "a condition as operand of BETWEEN", "a number"),
        ("a in 'x'", 5, "found 'x'", "( and the list of IN"),
        ("a in ()", 6, "found )", "a literal in the list of IN"),
        ("a in ('x' 'y')", 10, "found 'y'", ", or ) in the list of IN"),
        ("a in ('x',)", 10, "found )", "a literal in the list of IN"),
        ("a in (b)", 6, "found b", "a literal in the list of IN"),
        ("a in (-'x')", 7, "found 'x'", "a number behind the sign"),
        ("a in (-18446744073709551615)", 6, "below -9223372036854775808", "at least that"),
        ("a = -18446744073709551615", 4, "below -9223372036854775808", "at least that"),
        ("a like b", 7, "found b", "the pattern of LIKE"),
        ("a + 1 like 'x'", 0, "a number as operand of LIKE", "a text"),
        ("a like 'x' escape 'ab'", 18, "found 'ab'", "one character in quotes"),
        ("a like 'x' escape ''", 18, "found ''", "one character in quotes"),
        ("a like 'x' escape b", 18, "found b", "one character in quotes"),
        ("a like 'x!' escape '!'", 7, "last of the pattern", "another character behind it"),
        ("'x'", 0, "found a text", "a condition such as"),
        ("a + 1", 0, "found a number", "a condition such as"),
        ("a and 'x'", 6, "a text as operand of AND", "a condition"),
        ("5 or a", 0, "a number as operand of OR", "a condition"),
        ("not 5", 4, "a number as operand of NOT", "a condition"),
        ("'x' + a = 1", 0, "a text as operand of +", "a number"),
        ("a * true = 1", 4, "a condition as operand of *", "a number"),
        ("-'x' = 1", 1, "a text as operand of the sign -", "a number"),
        ("a < 'x'", 4, "a text as operand of <", "= and <> only"),
        ("true >= a", 0, "a condition as operand of >=", "= and <> only"),
        ("a = 1 'a very long text that goes on and on'", 6, "found 'a very long text that goes on...", "the end"),
    ],
)  # fmt: skip
def test_refusals_name_the_place_what_was_found_and_what_was_expected(text, position, found, expected):
    with pytest.raises(SelectorError) as caught:
        parse(text)
    problem = caught.value.problem
    assert (caught.value.position, caught.value.text) == (position, text)
    assert found in problem
    assert expected in problem
    assert "expected" in problem


def test_texts_are_operands_of_order_and_arithmetic_under_conversion():
    assert parse("convert_string_expressions:a < '5' and '1' + a = 2 and a between '1' and '2'")[1] is True


def test_length_is_bounded():
    padding = "a = 1" + " " * (LENGTH_MAX - 5)
    assert canonical(padding) == "a = 1"
    with pytest.raises(SelectorError, match=f"found {LENGTH_MAX + 1} characters, expected at most {LENGTH_MAX}"):
        parse(padding + " ")


def test_patterns_that_take_a_step_for_each_character_are_bounded():
    slow = " OR ".join(["a LIKE '%b_c%'"] * SEARCHES_MAX)
    fast = " OR ".join(["a LIKE 'b_c%'", "a LIKE '%bc%'", "a LIKE '%b_c'", "a LIKE '%\\_c%' ESCAPE '\\'"] * 50)
    parse(f"{slow} OR {fast}")
    with pytest.raises(SelectorError, match=f"more than {SEARCHES_MAX} patterns of LIKE with _ between two %"):
        parse(f"{slow} OR {fast} OR a LIKE '%d_e%f%'")


def nested(opening, closing, levels):
    return opening * levels + "a" + closing * levels


@pytest.mark.parametrize(
    ("opening", "closing", "suffix"),
    [("(", ")", ""), ("not ", "", ""), ("- ", "", " = 1"), ("+", "", " = 1"), ("not (not (", "))", "")],
)
def test_nesting_is_bounded(opening, closing, suffix):
    levels = NESTING_MAX // (2 * opening.count("(") if "not (" in opening else 1)
    assert parse(nested(opening, closing, levels) + suffix)[0].truth({"a": True}.get) is not False
    with pytest.raises(SelectorError, match=f"more than {NESTING_MAX} of"):
        parse(nested(opening, closing, levels + 1) + suffix)


def test_the_deepest_mixture_the_bounds_allow_is_read_spelled_and_evaluated():
    text = "a"
    for _ in range(NESTING_MAX // 2):
        text = f"b OR c AND (1 + 2 * -d = 3) = ({text})"
    expression = parse(text)[0]
    assert expression.depth <= DEPTH_MAX
    assert parse(expression.text())[0].text() == expression.text()
    assert expression.truth({}.get) is None


@pytest.mark.parametrize("levels", [NESTING_MAX, NESTING_MAX * 3, LENGTH_MAX // 14])
def test_anything_deeper_is_an_error_of_the_selector_not_of_the_interpreter(levels):
    with pytest.raises(SelectorError, match="more than"):
        parse("a and (b = (" * levels + "c" + "))" * levels)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%"])
def test_terms_of_a_sum_are_bounded_by_the_depth_of_the_tree(operator):
    terms = DEPTH_MAX - 1  # the comparison is a level, each operator one, the first term the last
    text = operator.join(["a"] * terms) + " = 1"
    assert parse(text)[0].depth == DEPTH_MAX
    assert parse(text)[0].truth({"a": 1}.get) is (operator in {"*", "/"})
    with pytest.raises(SelectorError, match=f"more than {DEPTH_MAX} levels"):
        parse(f"a {operator} {text}")


@pytest.mark.parametrize(("word", "value"), [("and", True), ("or", False)])
def test_chains_of_conditions_have_no_bound_but_the_length(word, value):
    text = f" {word} ".join(["a"] * (LENGTH_MAX // 6))
    expression = parse(text)[0]
    assert expression.depth == 2
    assert expression.truth({"a": value}.get) is value
