"""The filter ``name=`` of listings: a part of the name, whatever its case (RabbitMQ)."""

from __future__ import annotations

from collections.abc import Callable

from annulet.admin.rabbitmq.framework.errors import bad_request

Matcher = Callable[[str], bool]


def name_filter(text: str, *, regular: bool) -> Matcher | None:
    """Return the filter of the query; ``None`` when all names pass."""
    if not text:
        return None
    if regular:
        raise bad_request("use_regex", "true", "give a part of the name and use_regex=false")
    wanted = text.lower()
    return lambda name: wanted in name.lower()
