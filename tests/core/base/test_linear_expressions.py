from __future__ import annotations

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annulet.admin.requests.linear_expressions import STATES_MAX, ExpressionError, LinearExpression

EXPRESSIONS = [
    "", "a", "abc", "^a", "a$", "^$", "^a$", ".", "a.c", "a*", "a+b", "a?b", "(ab)+", "a|b", "^(foo|bar)-.*$", "[a-c]x",
    "[^a-c]x", "[]a]", "[a-]", "\\d+", "\\w\\W", "\\s", "\\.", "a{2}", "a{2,}", "a{1,2}b", "a{x", "(?:ab|cd)*e", "a*?b",
    "(?i)ABC", "(a|b)*c$", "x*y*z*", "[\\d.]+$", "(^a|b$)", "a(b(c(d)))", "(a*)*b", "$a", "a^",
]  # fmt: skip
TEXTS = [
    "", "a", "b", "ab", "abc", "ABC", "aabb", "foo-1", "bar-", "xfoo-", "a-c", "12.5", "a b", "]", "-", "cx", "dx",
    "abcd", "aa", "a{x", "ababe", "zzy", "b\tc",
]  # fmt: skip


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_it_finds_what_re_finds(text: str) -> None:
    expression, model = LinearExpression(text), re.compile(text, re.IGNORECASE)
    for name in TEXTS:
        assert expression.search(name) == (model.search(name) is not None), name
        assert expression.search(name) == (model.search(name) is not None), "the second time from memory"


atoms = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^b]", "(a|bc)", "(?:ab)?", "\\w", "^", "$", "a{1,3}"])
parts = st.tuples(atoms, st.sampled_from(["", "", "*", "+", "?", "{2}"])).map(
    lambda pair: pair[0] if pair[0] in "^$" or pair[0].endswith(("?", "}")) else "".join(pair)
)


@settings(max_examples=300)
@given(
    st.lists(st.lists(parts, max_size=5).map("".join), min_size=1, max_size=3).map("|".join),
    st.text("abcd", max_size=9),
)
def test_it_finds_what_re_finds_in_any_text(text: str, name: str) -> None:
    assert LinearExpression(text).search(name) == (re.search(text, name, re.IGNORECASE) is not None)


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
        ("\\1", "not supported"),
        ("(?=a)", "not supported"),
        ("a{300}", "at most 255"),
        ("a{5,2}", "lower bound first"),
        ("(a{100}){100}", "more than 300 states"),
        ("(((){255}){255}){255}", "more than 300 states"),
        ("(" * 31 + ")" * 31, "groups within groups"),
        ("a" * 257, "257 characters"),
    ],
)
def test_others_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason):
        LinearExpression(text)


def test_every_printable_character_is_a_literal_behind_a_backslash_or_refused() -> None:
    for character in string.punctuation:
        assert LinearExpression(f"\\{character}").search(character)
