"""The filter ``name=`` of listings: a part of the name, or with ``use_regex=true`` an expression found anywhere in it.

Both ignore case (RabbitMQ).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from annulet.admin.rabbitmq.framework.errors import bad_request
from annulet.core.base.linear_expressions import ExpressionError, LinearExpression

CHARACTERS_MAX: Final = 256
"""Characters of the expression of a filter; names have at most 255 bytes."""

STATES_MAX: Final = 300
"""States of the expression of a filter, which is searched in thousands of names: the worst ones found took 2 ms for the
first name of 255 letters, 0.2 ms for the next."""

Matcher = Callable[[str], bool]


def name_filter(text: str, *, regular: bool) -> Matcher | None:
    """Return the filter of the query; ``None`` when all names pass."""
    if not text:
        return None
    if regular:
        try:
            return LinearExpression(text, ignore_case=True, characters_max=CHARACTERS_MAX, states_max=STATES_MAX).search
        except ExpressionError as error:
            raise bad_request("name", text, f"give a regular expression, or use_regex=false: {error}") from error
    wanted = text.lower()
    return lambda name: wanted in name.lower()
