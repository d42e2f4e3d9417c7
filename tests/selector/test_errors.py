"""Errors of selectors say where, in a form that fits a terminal and one that fits a reply text."""

from __future__ import annotations

import pytest

from annulet.selector.errors import EXCERPT_LENGTH, SelectorError


def test_an_error_keeps_text_position_and_problem_and_draws_a_caret():
    error = SelectorError("color = ", 8, "found the end, expected a literal")
    assert (error.text, error.position, error.line, error.column) == ("color = ", 8, 1, 9)
    assert str(error) == (
        "selector: character 9: found the end, expected a literal\n"
        "  color = \n"
        "          ^"
    )  # fmt: skip


def test_an_error_on_a_later_line_names_and_shows_that_line():
    error = SelectorError("a = 1\nAND\tb == 2\nOR c", 13, "found ==")
    assert (error.line, error.column) == (2, 8)
    assert str(error).splitlines() == ["selector: line 2, character 8: found ==", "  AND b == 2", "         ^"]


@pytest.mark.parametrize("position", [0, 40, 500, 999, 1000])
def test_a_long_line_is_shown_around_the_place(position):
    text = "".join(chr(ord("a") + index % 26) for index in range(1000))
    shown, caret = str(SelectorError(text, position, "found x")).splitlines()[1:]
    assert len(shown) <= EXCERPT_LENGTH + 2 + 6
    column = caret.index("^")
    if position < len(text):
        assert shown[column] == text[position]
    else:
        assert column == len(shown)


def test_the_summary_has_one_line_for_protocols_that_allow_few_octets():
    error = SelectorError("x" * 5000, 10, "found x")
    assert error.summary == "selector: character 11: found x"


def test_it_is_a_value_error_so_that_callers_without_selectors_understand_it():
    with pytest.raises(ValueError, match="character 1"):
        raise SelectorError("?", 0, "found ?")
