"""Cursors of lists: the place of the last item of a page, so that the next page begins behind it.

A cursor has the order of the list, and the value and key that the item was sorted by. Items that appear or disappear in
the meantime move no others between pages.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from annulet.admin.requests.responses import ResourceError

if TYPE_CHECKING:
    from annulet.admin.requests.columns import SortKey

CURSOR_CHARACTERS_MAX: Final = 8192
"""Characters of a cursor: names of a virtual host and an object, 255 octets each, and 256 characters of a sorted text,
each written as six characters of JSON, in base64: 6.2 thousand."""

Key = tuple[Any, ...]
"""Texts and numbers that name an item of a list."""


class _Content(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    order: str
    rank: int
    value: int | float | str
    key: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place of an item in a list of this order; ``key`` names the item."""

    order: str
    value: SortKey
    key: Key

    def text(self) -> str:
        """Return the cursor as clients get it."""
        octets = msgspec.json.encode(_Content(self.order, self.value[0], self.value[1], self.key))
        return base64.urlsafe_b64encode(octets).decode("ascii").rstrip("=")


def read_cursor(text: str, order: str, shape: tuple[type, ...]) -> Cursor:
    """Return a cursor; refuse (400) text that is none, and one of a list in another order or of other items.

    ``shape``: the types of the parts of a key.
    """
    remedy = "give the 'next' of an answer with the same sort, or none for the first page"
    if len(text) > CURSOR_CHARACTERS_MAX:
        raise ResourceError(400, f"query parameter 'cursor' has {len(text)} characters; {remedy}")
    try:
        octets = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        content = msgspec.json.decode(octets, type=_Content)
    except (ValueError, RecursionError) as error:
        raise ResourceError(400, f"query parameter cursor={text!r} is none; {remedy}") from error
    fits = len(content.key) == len(shape) and all(map(isinstance, content.key, shape))
    if content.order != order or not fits or isinstance(content.value, str) != (content.rank != 0):
        raise ResourceError(400, f"query parameter cursor={text!r} is of another list or order; {remedy}")
    return Cursor(content.order, (content.rank, content.value), content.key)
