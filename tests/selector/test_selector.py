"""Compiled selectors: matching, sharing, the bounded cache; random conditions against an interpreter of its own."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from annulet.selector.errors import SelectorError
from annulet.selector.selector import CACHE_SIZE, SelectorCache, compile_selector


def test_a_selector_matches_evaluates_names_and_explains():
    selector = compile_selector("color = 'red' and weight>2500 -- heavy")
    assert selector.identifiers == {"color", "weight"}
    assert selector.canonical == "color = 'red' AND weight > 2500"
    assert selector.evaluate({"color": "red", "weight": 2501}.get) is True
    assert selector.evaluate({"color": "red"}.get) is None
    assert selector.evaluate({"color": "blue"}.get) is False
    assert selector.matches({"color": "red", "weight": 2501}.get) is True
    assert selector.matches({"color": "red"}.get) is False
    assert selector.explain({"color": "red"}.get).verdict == "unknown"
    assert repr(selector) == "<Selector color = 'red' AND weight > 2500>"


def test_equal_and_equivalent_texts_share_one_object():
    selector = compile_selector("shared = 0x10 AND (b OR c)")
    assert selector.text == "shared = 0x10 AND (b OR c)"
    for text in ("shared = 0x10 AND (b OR c)", "16=shared and/**/(((b) or c))", selector.canonical):
        assert compile_selector(text) is selector
    assert compile_selector("shared = 17 AND (b OR c)") is not selector


def test_conversion_is_part_of_what_a_selector_means():
    plain, converting = compile_selector("a = 5"), compile_selector("convert_string_expressions:a=5")
    assert converting.canonical == "convert_string_expressions: a = 5"
    assert compile_selector(converting.canonical) is converting
    assert (plain.matches({"a": "5"}.get), converting.matches({"a": "5"}.get)) == (False, True)


def test_hyphenated_names_share_with_quoted_ones():
    assert compile_selector("hyphenated_props:a-b = 1") is compile_selector('"a-b"=1')


def test_an_error_leaves_nothing_behind():
    cache = SelectorCache()
    with pytest.raises(SelectorError, match="character 4"):
        cache.get("a =")
    assert len(cache) == 0


def test_the_cache_forgets_what_was_used_longest_ago():
    cache = SelectorCache(3)
    first = cache.get("a")
    cache.get("b")
    cache.get("c")
    assert cache.get("a") is first
    cache.get("d")  # b goes: a was used since
    assert len(cache) == 3
    assert cache.get("a") is first
    assert cache.get("a").matches({"a": True}.get)


def test_the_cache_is_bounded_whatever_is_compiled():
    cache = SelectorCache()
    for number in range(CACHE_SIZE + 10):
        cache.get(f"a={number}")
    assert len(cache) == CACHE_SIZE


def test_names_come_without_quotes_and_once():
    assert compile_selector('"x y" = 1 OR "x y" = 2 OR m.z IN (1) OR NOT b').identifiers == {"x y", "m.z", "b"}
    assert compile_selector("TRUE").identifiers == frozenset()


def test_what_a_lookup_raises_is_passed_on():
    def lookup(name):
        raise LookupError(name)

    with pytest.raises(LookupError, match="a"):
        compile_selector("a = 1").matches(lookup)


# A second reading of the standard: conditions as nested tuples, printed with all parentheses, and interpreted by
# looking at Python values. It shares no code with the package.

NAMES = ("a", "b", "c", "and", "x y")
NAN = float("nan")
SCALARS = (None, True, False, 0, 1, -2, 7, 2.5, -0.5, NAN, 2**63, "", "a", "ab", "b%", "7", "it's", b"a")


def is_number(value):
    return type(value) in {int, float}


def is_nan(value):
    return isinstance(value, float) and math.isnan(value)


def combine(operator, left, right):
    if not is_number(left) or not is_number(right) or (operator in "/%" and right == 0):
        return None
    if operator == "%" and type(left) is type(right) is int:
        outcome = int(abs(left) % abs(right) * (-1 if left < 0 else 1))
    else:
        outcome = {
            "+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right, "/": lambda: left / right,
            "%": lambda: NAN if is_nan(left) or is_nan(right) else abs(left) % abs(right) * (-1 if left < 0 else 1),
        }[operator]()  # fmt: skip
    if is_nan(outcome):
        return None
    return outcome if type(outcome) is float or -(2**63) <= outcome < 2**64 else float(outcome)


def compare(operator, left, right):
    if left is None or right is None or is_nan(left) or is_nan(right):
        # the order of the rules: ordering looks at types before it looks for NaN
        if operator in {"=", "<>"} or left is None or right is None or (is_number(left) and is_number(right)):
            return None
        return False
    if operator in {"=", "<>"}:
        like = (is_number(left) and is_number(right)) or type(left) is type(right)
        return like and (left == right) == (operator == "=")
    if not is_number(left) or not is_number(right):
        return False
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]


def form_fits(pattern, text):
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(form_fits(pattern[1:], text[start:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in {"_", text[0]} and form_fits(pattern[1:], text[1:])


def interpret(tree, values):  # noqa: C901, PLR0911, PLR0912 - one case per form
    match tree:
        case ("literal", value):
            return value
        case ("name", name):
            return values[name]
        case ("minus", operand):
            value = interpret(operand, values)
            return combine("*", -1, value)
        case ("calculate", operator, left, right):
            return combine(operator, interpret(left, values), interpret(right, values))
        case ("compare", operator, left, right):
            return compare(operator, interpret(left, values), interpret(right, values))
        case ("truth", name):
            return values[name] if isinstance(values[name], bool) else None
        case ("not", operand):
            value = interpret(operand, values)
            return None if value is None else not value
        case ("and", *operands):
            found = [interpret(operand, values) for operand in operands]
            return False if False in found else None if None in found else True
        case ("or", *operands):
            found = [interpret(operand, values) for operand in operands]
            return True if True in found else None if None in found else False
        case ("between", value, low, high):
            return interpret(("and", ("compare", ">=", value, low), ("compare", "<=", value, high)), values)
        case ("in", value, literals):
            return interpret(("or", *(("compare", "=", value, ("literal", literal)) for literal in literals)), values)
        case ("like", name, pattern):
            value = values[name]
            return None if value is None else isinstance(value, str) and form_fits(pattern, value)
        case ("null", operand):
            return interpret(operand, values) is None
    raise AssertionError(tree)


def literal_text(value):
    if isinstance(value, bool):
        return "True" if value else "false"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def print_tree(tree):  # noqa: PLR0911 - one case per form
    match tree:
        case ("literal", value):
            return literal_text(value)
        case ("name" | "truth", name):
            return f'"{name}"' if name in {"and", "x y"} else name
        case ("minus", operand):
            return f"-({print_tree(operand)})"
        case ("calculate" | "compare", operator, left, right):
            return f"(({print_tree(left)}) {operator}({print_tree(right)}))"
        case ("not", operand):
            return f"(Not({print_tree(operand)}))"
        case ("and" | "or" as word, *operands):
            return "(" + f" {word} ".join(print_tree(operand) for operand in operands) + ")"
        case ("between", value, low, high):
            return f"({print_tree(value)} Between {print_tree(low)} aNd {print_tree(high)})"
        case ("in", value, literals):
            return f"({print_tree(value)} in({','.join(literal_text(literal) for literal in literals)}))"
        case ("like", name, pattern):
            return f"({print_tree(('name', name))} LIKE {literal_text(pattern)})"
        case ("null", operand):
            return f"({print_tree(operand)} is/* really */null)"
    raise AssertionError(tree)


NAME = some.sampled_from(NAMES)
NUMBER_LITERAL = some.sampled_from([0, 1, 7, -2, 2.5, 2**63, 1e300])
ANY_LITERAL = some.one_of(NUMBER_LITERAL, some.sampled_from(["", "a", "7", "it's"]), some.booleans())
NUMERIC = some.recursive(
    some.one_of(some.tuples(some.just("name"), NAME), some.tuples(some.just("literal"), NUMBER_LITERAL)),
    lambda inner: some.one_of(
        some.tuples(some.just("minus"), inner),
        some.tuples(some.just("calculate"), some.sampled_from("+-*/%"), inner, inner),
    ),
    max_leaves=4,
)
SIMPLE = some.one_of(NUMERIC, some.tuples(some.just("literal"), ANY_LITERAL))
LEAVES = some.one_of(
    some.tuples(some.just("truth"), NAME),
    some.tuples(some.just("literal"), some.booleans()),
    some.tuples(some.just("compare"), some.sampled_from(["=", "<>"]), SIMPLE, SIMPLE),
    some.tuples(some.just("compare"), some.sampled_from(["<", "<=", ">", ">="]), NUMERIC, NUMERIC),
    some.tuples(some.just("between"), NUMERIC, NUMERIC, NUMERIC),
    some.tuples(some.just("in"), NUMERIC, some.lists(ANY_LITERAL, min_size=1, max_size=3)),
    some.tuples(some.just("like"), NAME, some.text("ab%_7", max_size=3)),
    some.tuples(some.just("null"), NUMERIC),
)
CONDITIONS = some.recursive(
    LEAVES,
    lambda inner: some.one_of(
        some.tuples(some.just("not"), inner),
        some.tuples(some.sampled_from(["and", "or"]), inner, inner),
        some.tuples(some.sampled_from(["and", "or"]), inner, inner, inner),
    ),
    max_leaves=6,
)
VALUES = some.fixed_dictionaries({name: some.sampled_from(SCALARS) for name in NAMES})


@given(CONDITIONS, VALUES)
def test_random_conditions_mean_what_a_second_reading_says(tree, values):
    selector = compile_selector(print_tree(tree))
    expected = interpret(tree, values)
    assert selector.evaluate(values.get) is expected
    assert selector.matches(values.get) is (expected is True)
    assert selector.explain(values.get).value is expected


@given(CONDITIONS, VALUES)
def test_the_canonical_text_is_the_same_selector_read_again(tree, values):
    selector = compile_selector(print_tree(tree))
    again = SelectorCache().get(selector.canonical)
    assert again.canonical == selector.canonical
    assert again.identifiers == selector.identifiers
    assert again.evaluate(values.get) is selector.evaluate(values.get)


@given(some.text("ab='\"()<>-+*/ 1.0x%,NOTandlike\n", max_size=30))
def test_no_text_fails_in_any_other_way_than_with_its_place(text):
    try:
        canonical = SelectorCache().get(text).canonical
    except SelectorError as caught:
        error = caught
    else:
        assert SelectorCache().get(canonical).canonical == canonical
        return
    assert 0 <= error.position <= len(text)
    assert "expected" in error.problem
    assert str(error).count("\n") == 2
