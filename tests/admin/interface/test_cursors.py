from __future__ import annotations

import pytest

from annulet.admin.interface.cursors import CURSOR_CHARACTERS_MAX, Cursor, read_cursor
from annulet.admin.requests.responses import ResourceError

SHAPE = (str, str)
LONGEST = Cursor("-name", (4, "\1" * 256), ("\1" * 255, "\1" * 255))
"""Each of its characters is six of JSON."""


@pytest.mark.parametrize(
    "cursor",
    [
        Cursor("", (0, 0), ("/", "q")),
        Cursor("-messages", (0, 5), ("/", "é")),
        Cursor("name", (4, "x"), ("", "")),
        Cursor("rate", (0, 0.5), ("/", "q")),
    ],
)
def test_a_cursor_is_read_again(cursor: Cursor) -> None:
    assert read_cursor(cursor.text(), cursor.order, SHAPE) == cursor


@pytest.mark.parametrize(
    "text",
    ["", "x", "é", "!!!!", Cursor("name", (0, 0), ("/", "q")).text() + "A", Cursor("", (4, "x"), ("/",)).text()],
)
def test_other_texts_are_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(ResourceError, match="give the 'next' of an answer with the same sort") as refused:
        read_cursor(text, "", SHAPE)
    assert refused.value.status == 400


def test_a_cursor_of_another_order_or_list_is_refused() -> None:
    for text in (Cursor("name", (0, 0), ("/", "q")).text(), Cursor("", (0, 0), (1, "q")).text()):
        with pytest.raises(ResourceError, match="is of another list or order"):
            read_cursor(text, "", SHAPE)


def test_the_bound_of_a_cursor() -> None:
    assert read_cursor(Cursor("", (0, 0), ("a" * 1000, "b")).text(), "", SHAPE).key[0] == "a" * 1000
    with pytest.raises(ResourceError, match=f"has {CURSOR_CHARACTERS_MAX + 1} characters"):
        read_cursor("A" * (CURSOR_CHARACTERS_MAX + 1), "", SHAPE)
    with pytest.raises(ResourceError, match="is none"):
        read_cursor("A" * CURSOR_CHARACTERS_MAX, "", SHAPE)


def test_the_longest_cursor_of_a_list_fits() -> None:
    text = LONGEST.text()
    assert len(text) <= CURSOR_CHARACTERS_MAX
    assert read_cursor(text, "-name", SHAPE) == LONGEST
