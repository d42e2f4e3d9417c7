"""LIKE against a reference that tries everything, and against texts that make backtracking matchers stand still."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as some

from annulet.selector.like import LikePattern, Segment


def reference(pattern, escape, text):
    """Dynamic programming over all prefixes: slow, and plainly what the standard says."""
    tokens, index = [], 0
    while index < len(pattern):
        if pattern[index] == escape:
            tokens.append(("is", pattern[index + 1]))
            index += 2
        else:
            tokens.append(({"%": "many", "_": "one"}.get(pattern[index], "is"), pattern[index]))
            index += 1
    row = [True] + [False] * len(text)
    for kind, character in tokens:
        if kind == "many":
            row = [any(row[: place + 1]) for place in range(len(row))]
        else:
            row = [False] + [row[place] and (kind == "one" or text[place] == character) for place in range(len(text))]
    return row[-1]


@pytest.mark.parametrize(
    ("pattern", "escape", "yes", "no"),
    [
        # the examples of JMS 2.0 §3.8.1.1
        ("12%3", "", ["123", "12993", "123123"], ["1234", "12"]),
        ("l_se", "", ["lose", "l%se"], ["loose", "lse"]),
        ("\\_%", "\\", ["_foo", "_"], ["bar", "\\_foo"]),
        ("", "", [""], ["a"]),
        ("%", "", ["", "a", "\n"], []),
        ("%%", "", ["", "a"], []),
        ("_", "", ["a", "\n", "😀"], ["", "ab"]),
        ("%_%", "", ["a", "ab"], [""]),
        ("a%a", "", ["aa", "aba"], ["a", "ab"]),
        ("%ab%ab%", "", ["abab", "xabxabx"], ["ab", "aba", "abxba"]),
        ("%a_c%", "", ["abc", "aabcc", "aaxc"], ["ac", "abdc"]),
        ("a.c", "", ["a.c"], ["abc"]),
        ("[a-z]*", "", ["[a-z]*"], ["abc"]),
        ("100\\%", "", ["100\\", "100\\x"], ["100%"]),
        ("100x%", "x", ["100%"], ["100x"]),
        ("x%xx", "x", ["%x"], ["%", "xx"]),
        ("%%_", "%", ["%a"], ["%", "%%%"]),
        ("!a_", "!", ["ab"], ["!ab", "b"]),
    ],
)
def test_patterns(pattern, escape, yes, no):
    compiled = LikePattern(pattern, escape)
    assert [text for text in yes if not compiled.matches(text)] == []
    assert [text for text in no if compiled.matches(text)] == []


SHORT = some.text("ab%_!", max_size=9)


@given(SHORT, SHORT, some.sampled_from(["", "!", "%", "_", "a"]))
def test_equals_the_reference(pattern, text, escape):
    try:
        compiled = LikePattern(pattern, escape)
    except ValueError:
        assert escape
        assert pattern.endswith(escape)
        return
    assert compiled.matches(text) is reference(pattern, escape, text)


@given(some.text("ab", max_size=12), some.text("ab_", min_size=1, max_size=4))
def test_a_segment_is_found_at_its_first_place(text, literal):
    segment = Segment(["" if character == "_" else character for character in literal])
    fitting = [at for at in range(len(text) - len(literal) + 1) if segment.fits(text, at)]
    assert segment.find(text, 0, len(text)) == (fitting[0] if fitting else -1)


def test_an_escape_without_anything_behind_it_is_refused():
    with pytest.raises(ValueError, match="last of the pattern"):
        LikePattern("a!", "!")


@pytest.mark.skipif(not hasattr(Segment.find, "__code__"), reason="compiled code has no lines to count; pure code has")
@pytest.mark.parametrize(
    "pattern", ["%a" * 40 + "b", "%" + "a_" * 40 + "%b", "%a%_" * 40 + "b%c", "%" + "_" * 40 + "b%"]
)
def test_the_work_grows_with_the_text_not_with_its_powers(pattern):
    def steps(size):
        """Bytecode lines executed: a clock would measure the machine."""
        count = 0
        code = {function.__code__ for function in (LikePattern.matches, Segment.find, Segment.fits)}

        def trace(frame, event, _):
            nonlocal count
            if frame.f_code not in code:
                return None
            count += event == "line"
            return trace

        compiled = LikePattern(pattern)
        earlier = sys.gettrace()
        sys.settrace(trace)
        try:
            assert compiled.matches("a" * size) is False
        finally:
            sys.settrace(earlier)
        return count

    assert steps(4000) <= 2.2 * steps(2000) + 100
