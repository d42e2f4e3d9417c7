"""Finds the name most similar to an unknown one, among the many of a broker, for the text of a refusal.

``difflib`` compares a name with 100,000 others in three seconds, and the event loop waits. Here few are compared: those
of about the same length that begin or end as the name does.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

COMPARED_MAX: Final = 64
"""Names that are compared: some 5 ms with the longest ones."""

LENGTHS_APART: Final = 2
"""Characters by which the length of a misspelt name differs at most."""

SAME_CHARACTERS: Final = 2
"""Common characters at the beginning or at the end of a misspelt name and the intended one."""


def nearest_name(name: str, names: Iterable[str]) -> str:
    """Return which of these is most like ``name``; empty when none is, or none of those that were compared."""
    shortest, longest = len(name) - LENGTHS_APART, len(name) + LENGTHS_APART
    first, last = name[:SAME_CHARACTERS], name[-SAME_CHARACTERS:]
    compared: list[str] = []
    for other in names:
        if shortest <= len(other) <= longest and (other.startswith(first) or other.endswith(last)):
            compared.append(other)
            if len(compared) == COMPARED_MAX:
                break
    found = get_close_matches(name, compared, n=1)
    return found[0] if found else ""
