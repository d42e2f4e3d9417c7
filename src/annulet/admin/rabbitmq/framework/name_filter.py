"""The filter ``name=`` of listings: a part of the name, or with ``use_regex=true`` an expression found anywhere in it.

Both ignore case (RabbitMQ).
"""

from __future__ import annotations

from collections.abc import Callable

from annulet.admin.requests.responses import bad_request
from annulet.core.base.linear_expressions import ExpressionError, filter_expression

Matcher = Callable[[str], bool]


def name_filter(text: str, *, regular: bool) -> Matcher | None:
    """Return the filter of the query; ``None`` when all names pass."""
    if not text:
        return None
    if regular:
        try:
            return filter_expression(text).search
        except ExpressionError as error:
            raise bad_request("name", text, f"give a regular expression, or use_regex=false: {error}") from error
    wanted = text.lower()
    return lambda name: wanted in name.lower()
