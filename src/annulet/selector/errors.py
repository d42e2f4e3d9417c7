"""The error in a selector's text and its position."""

from __future__ import annotations

from typing import Final

EXCERPT_LENGTH: Final = 96
"""Characters of the offending line that an error shows; the text itself may be very long."""


class SelectorError(ValueError):
    """A text is no selector. Nothing was compiled.

    ``text`` is the whole text, ``position`` the index in it (from 0) of the erroneous character, equal to its length
    for an error at its end. ``problem`` has the text found there and the expected one. ``str()`` is one line with the
    position counted from 1, then the line of the text with a caret under the position.
    """

    def __init__(self, text: str, position: int, problem: str) -> None:
        super().__init__(text, position, problem)
        self.text = text
        self.position = position
        self.problem = problem

    @property
    def line(self) -> int:
        """The line of the place, from 1."""
        return self.text.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int:
        """The character of the place within its line, from 1."""
        return self.position - (self.text.rfind("\n", 0, self.position) + 1) + 1

    @property
    def place(self) -> str:
        """The place for people, counted from 1; with the line when there are several."""
        character = f"character {self.column}"
        return f"line {self.line}, {character}" if "\n" in self.text else character

    @property
    def summary(self) -> str:
        """The error in one line, without the text: for reply texts that protocols limit to 255 octets."""
        return f"selector: {self.place}: {self.problem}"

    def __str__(self) -> str:
        """Return the summary, the offending line and a caret under the place."""
        start = self.position - self.column + 1
        end = self.text.find("\n", self.position)
        line = self.text[start : len(self.text) if end < 0 else end]
        caret = self.column - 1
        # a window of the line that contains the position
        left = max(0, min(caret - EXCERPT_LENGTH // 2, len(line) - EXCERPT_LENGTH))
        excerpt = line[left : left + EXCERPT_LENGTH]
        before = "..." if left else ""
        after = "..." if left + EXCERPT_LENGTH < len(line) else ""
        shown = "".join(character if character.isprintable() else " " for character in excerpt)
        return f"{self.summary}\n  {before}{shown}{after}\n  {' ' * (len(before) + caret - left)}^"
