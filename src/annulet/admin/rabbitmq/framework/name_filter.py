"""The filter ``name=`` of listings: a part of the name, or with ``use_regex=true`` an expression found anywhere in it.

Both ignore case (RabbitMQ).
"""

from __future__ import annotations

from collections.abc import Callable

from annulet.admin.requests.name_expressions import name_expression
from annulet.admin.requests.responses import bad_request
from annulet.core.base.linear_expressions import ExpressionError

Matcher = Callable[[str], bool]


def name_filter(text: str, *, regular: bool) -> Matcher | None:
    """Return the filter of the query; ``None`` when all names pass."""
    if not text:
        return None
    if regular:
        try:
            return name_expression(text, ignore_case=True).search
        except ExpressionError as error:
            raise bad_request("name", text, f"give a regular expression, or use_regex=false: {error}") from error
    wanted = text.lower()
    return lambda name: wanted in name.lower()
