"""Tokens: every literal of JMS 2.0 §3.8.1.1, the comments and quoted names of Artemis, and what is refused where."""

from __future__ import annotations

import pytest

from annulet.selector.errors import SelectorError
from annulet.selector.lexer import END, IDENTIFIER, KEYWORD, KEYWORDS, NUMBER, SYMBOL, TEXT, Lexer, is_plain_name


def read(text):
    return [(token.kind, token.word or token.value) for token in Lexer(text).tokens()[:-1]]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("57", 57), ("57L", 57), ("57l", 57), ("18446744073709551615", 2**64 - 1),
        ("0x1F", 31), ("0X1fL", 31), ("0xFFFFFFFFFFFFFFFF", 2**64 - 1), ("0x0000000000000000000000001", 1),
        ("017", 15), ("00", 0), ("0777L", 511),
        ("7.", 7.0), ("95.7", 95.7), (".5", 0.5), ("7E3", 7000.0), ("57.9e-2", 0.579), ("7.e+1", 70.0), (".5e1", 5.0),
        ("1f", 1.0), ("1.5F", 1.5), ("2d", 2.0), ("2e1D", 20.0), ("0.0", 0.0), ("09.5", 9.5), ("1e-400", 0.0),
    ],
)  # fmt: skip
def test_numbers(text, value):
    ((kind, read_value),) = read(text)
    assert (kind, read_value, type(read_value)) == (NUMBER, value, type(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [("''", ""), ("'it''s'", "it's"), ("''''", "'"), ("'a\n--b /* c */'", "a\n--b /* c */"), ("'ü😀\"'", 'ü😀"')],
)
def test_texts(text, value):
    ((kind, read_value),) = [(token.kind, token.value) for token in Lexer(text).tokens()[:-1]]
    assert (kind, read_value) == (TEXT, value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("color", "color"), ("$a_1", "$a_1"), ("_x", "_x"), ("größe", "größe"), ("m.x", "m.x"), ("a.b.c", "a.b.c"),
        ('"color"', "color"), ('"a-b c"', "a-b c"), ('"say ""hi"""', 'say "hi"'), ('"and"', "and"), ("ANDY", "ANDY"),
    ],
)  # fmt: skip
def test_names(text, name):
    assert read(text) == [(IDENTIFIER, name)]


@pytest.mark.parametrize("word", sorted(KEYWORDS))
@pytest.mark.parametrize("case", [str.lower, str.upper, str.title])
def test_keywords_in_every_case(word, case):
    assert read(case(word)) == [(KEYWORD, word)]


def test_an_error_shows_a_token_on_one_short_line():
    assert Lexer("'a\nb'").tokens()[0].found == "'a b'"
    assert Lexer("x" * 100).tokens()[0].found == "x" * 30 + "..."


def test_symbols_take_the_longest():
    assert [word for kind, word in read("<><=>=<>=+-*/%(),") if kind == SYMBOL] == [
        "<>", "<=", ">=", "<>", "=", "+", "-", "*", "/", "%", "(", ")", ",",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["a=1", " a\t=\r\n1 ", "a--comment\n=1--end", "a/* one */=/* two\nlines */1", "/**/a/***/=1", "a -- ' /*\n= 1"],
)
def test_blanks_and_comments_separate_and_vanish(text):
    assert read(text) == [(IDENTIFIER, "a"), (SYMBOL, "="), (NUMBER, 1)]


def test_the_end_is_a_token_behind_the_last_character():
    token = Lexer("a  ").tokens()[-1]
    assert (token.kind, token.position, token.found) == (END, 3, "the end")


def test_hyphenated_names_need_the_prefix():
    assert read("a-b") == [(IDENTIFIER, "a"), (SYMBOL, "-"), (IDENTIFIER, "b")]
    assert read("hyphenated_props:a-b - c--d -1") == [
        (IDENTIFIER, "a-b"), (SYMBOL, "-"), (IDENTIFIER, "c--d"), (SYMBOL, "-"), (NUMBER, 1),
    ]  # fmt: skip
    assert read("hyphenated_props:a- b")[:2] == [(IDENTIFIER, "a"), (SYMBOL, "-")]


@pytest.mark.parametrize(
    ("text", "hyphenated", "converting"),
    [
        ("a", False, False),
        ("hyphenated_props:a", True, False),
        (" convert_string_expressions: a", False, True),
        ("convert_string_expressions:hyphenated_props:a", True, True),
        ("hyphenated_props: /* and */ convert_string_expressions:a", True, True),
        ("hyphenated_props", False, False),
    ],
)
def test_prefixes_in_any_order(text, hyphenated, converting):
    lexer = Lexer(text)
    assert len(lexer.tokens()) == 2
    assert (lexer.hyphenated, lexer.converting) == (hyphenated, converting)


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("a = 'x", 4, "closing '"),
        ("a = 'x''", 4, "closing '"),
        ('"a', 0, 'closing "'),
        ('"" = 1', 0, "expected a property name in the quotes"),
        ("a /* b", 2, "closing */"),
        ("a = 18446744073709551616", 4, "above 18446744073709551615"),
        ("a = " + "9" * 9000, 4, "above 18446744073709551615"),
        ("a = 0x10000000000000000", 4, "above 18446744073709551615"),
        ("a = 1e999", 4, "range of a double"),
        ("a = 0178", 7, "digit 8"),
        ("a = 12ab", 4, "found 12ab"),
        ("a = 0b1", 4, "found 0b1"),
        ("a = 0xg", 4, "found 0xg"),
        ("a = 1.2.3", 4, "found 1.2.3"),
        ("a = 1e", 4, "found 1e"),
        ("a != 1", 2, "write <>"),
        ("a == 1", 2, "write ="),
        ("a && b", 2, "write AND"),
        ("a || b", 2, "write OR"),
        ("!a", 0, "write NOT"),
        ("a = ?", 4, "no parameters"),
        ("a = 1;", 5, "leave it out"),
        ("a = \u2019x\u2019", 4, "straight single quotes"),
        ("x:y = 1", 1, "double quotes"),
        ("a = \x00", 4, r"'\x00'"),
        ("a = 1 AND hyphenated_props:b = 1", 10, "before everything else"),
    ],
)
def test_what_is_no_token_is_refused_at_its_place(text, position, problem):
    with pytest.raises(SelectorError) as caught:
        Lexer(text).tokens()
    assert caught.value.position == position
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("a", True),
        ("a.b$", True),
        ("ü", True),
        ("a-b", False),
        ("and", False),
        ("1a", False),
        ("", False),
        ("a b", False),
    ],
)
def test_plain_names_need_no_quotes(name, plain):
    assert is_plain_name(name) is plain
