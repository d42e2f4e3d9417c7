from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.linear_expressions import (
    LOOKS_MAX,
    STATES_MAX,
    ExpressionError,
    LinearExpression,
    UnusableExpression,
    stored_expression,
)
from tests.hypothesis_profiles import fewer_examples

EXPRESSIONS = [
    "", "a", "abc", "^a", "a$", "^$", "^a$", ".", "a.c", "a*", "a+b", "a?b", "(ab)+", "a|b", "^(foo|bar)-.*$", "[a-c]x",
    "[^a-c]x", "[]a]", "[a-]", "\\d+", "\\w\\W", "\\s", "\\.", "a{2}", "a{2,}", "a{1,2}b", "a{x", "(?:ab|cd)*e", "a*?b",
    "(?i)ABC", "(?i)[A-B]+$", "(?P<n>a)b", "\\Aa", "b\\Z", "a\\tb", "b\\tc", "^(?!foo).*", "^(?!a)",
    "(?i)^(?!A|foo-)\\w",
    "^(?!a(b|c))(?:a|b)", "^(?!)a", "^(?!a$)a",
    "(a|b)*c$", "x*y*z*", "[\\d.]+$", "(^a|b$)", "a(b(c(d)))", "(a*)*b", "$a", "a^",
]  # fmt: skip
TEXTS = [
    "", "a", "b", "ab", "abc", "ABC", "aabb", "foo-1", "bar-", "xfoo-", "a-c", "12.5", "a b", "]", "-", "cx", "dx",
    "abcd", "aa", "a{x", "ababe", "zzy", "b\tc",
]  # fmt: skip


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_it_finds_what_re_finds(text: str) -> None:
    for ignore_case in (False, True):
        expression = LinearExpression(text, ignore_case=ignore_case)
        model = re.compile(text, re.IGNORECASE if ignore_case else 0)
        for name in TEXTS:
            assert expression.search(name) == (model.search(name) is not None), name
            assert expression.search(name) == (model.search(name) is not None), "the second time from memory"


atoms = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^b]", "(a|bc)", "(?:ab)?", "\\w", "^", "$", "a{1,3}"])
parts = st.tuples(atoms, st.sampled_from(["", "", "*", "+", "?", "{2}"])).map(
    lambda pair: pair[0] if pair[0] in "^$" or pair[0].endswith(("?", "}")) else "".join(pair)
)


@fewer_examples(300)
@given(
    st.lists(st.lists(parts, max_size=5).map("".join), min_size=1, max_size=3).map("|".join),
    st.text("abcd", max_size=9),
)
def test_it_finds_what_re_finds_in_any_text(text: str, name: str) -> None:
    assert LinearExpression(text, ignore_case=True).search(name) == (re.search(text, name, re.IGNORECASE) is not None)
    assert LinearExpression(text).search(name) == (re.search(text, name) is not None)


@given(st.lists(parts, max_size=3).map("".join), st.lists(parts, max_size=3).map("".join), st.text("abcd", max_size=9))
def test_an_excluded_start_is_that_of_re(excluded: str, rest: str, name: str) -> None:
    text = f"^(?!{excluded}){rest}"
    assert LinearExpression(text).search(name) == (re.search(text, name) is not None)


@pytest.mark.parametrize("text", ["(a+)+$", "(a*)*b", "(a|a)*b", "a*a*a*a*a*a*b", "(.*)*(.*)*(.*)*x", "(a?){50}a{50}b"])
def test_each_character_is_looked_at_by_each_state_once_at_most(text: str) -> None:
    expression = LinearExpression(text)
    looks = 0

    def counted(test: object) -> object:
        def look(character: str) -> bool:
            nonlocal looks
            looks += 1
            assert callable(test)
            return bool(test(character))

        return look

    for state in expression._states:
        if state.test is not None:
            state.test = counted(state.test)  # type: ignore[assignment]
    name = "a" * 254 + "!"
    expression.search(name)
    assert looks <= len(name) * STATES_MAX
    before = looks
    expression.search(name)
    assert looks == before, "a second search is look-ups only"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(", "missing '\\)'"),
        ("a)", "unbalanced"),
        ("*a", "nothing to repeat"),
        ("[a", "ends too early"),
        ("a\\", "ends too early"),
        ("[z-a]", "wrong way round"),
        ("(a)\\1", "the back reference \\\\1 is not supported"),
        ("(?P<n>a)(?P=n)", "a back reference \\(\\?P=…\\) is not supported"),
        ("(?=a)", "looking ahead .* is not supported"),
        ("a(?!b)", "looking ahead .* is not supported"),
        ("^(?!a)b|c", "supported without '|'"),
        ("^(?!a", "missing '\\)'"),
        ("(?<=a)b", "looking behind .* is not supported"),
        ("(?<!a)b", "looking behind .* is not supported"),
        ("(?>a)", "an atomic group"),
        ("(a)?(?(1)b|c)", "a condition"),
        ("\\ba", "the word boundary"),
        ("(?s).", "other than"),
        ("(?P<1>a)", "other than"),
        ("a{300}", "at most 255"),
        ("a{5,2}", "lower bound first"),
        ("(a{100}){100}", "more than 5000 states"),
        ("(((){255}){255}){255}", "more than 5000 states"),
        ("(" * 31 + ")" * 31, "groups within groups"),
        ("a" * 4097, "4097 characters"),
    ],
)
def test_others_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason):
        LinearExpression(text)


def test_every_printable_character_is_a_literal_behind_a_backslash_or_refused() -> None:
    for character in string.punctuation:
        assert LinearExpression(f"\\{character}").search(character)


def test_a_search_of_too_many_states_ends_and_finds_nothing() -> None:
    """A8: ``(a?){n}a{n}`` took seconds with ``re``, and half a second here with 4,000 states."""
    expression = LinearExpression("^(a?){255}(a?){255}(a?){255}(a?){255}b")
    assert not expression.search("a" * 254 + "b"), "it was not found within the bound"
    assert expression._looks < 0
    assert expression._looks > -2 * STATES_MAX, "the step that reached the bound was the last"
    assert LOOKS_MAX > 254 * 200, "an expression with 200 states is never cut off"


def test_a_list_of_names_is_no_special_case() -> None:
    names = [f"orders.region-{number}" for number in range(180)]
    expression = LinearExpression(f"^({'|'.join(names)})$")
    assert all(expression.search(name) for name in names)
    assert not expression.search("orders.region-180")


def test_the_bounds_of_an_expression() -> None:
    assert LinearExpression("aaaa", characters_max=4, states_max=4).search("aaaa")
    with pytest.raises(ExpressionError, match="5 characters; 4 are allowed"):
        LinearExpression("aaaaa", characters_max=4)
    with pytest.raises(ExpressionError, match="more than 4 states"):
        LinearExpression("a{5}", states_max=4)


def test_a_stored_expression_that_is_not_taken_any_more_finds_nothing() -> None:
    usable, unusable = stored_expression("^a"), stored_expression("a(?=b)")
    assert (usable.search("ab"), usable.pattern) == (True, "^a")
    assert (unusable.search("ab"), unusable.pattern) == (False, "a(?=b)")
    assert isinstance(unusable, UnusableExpression)
    assert "looking ahead" in unusable.reason
