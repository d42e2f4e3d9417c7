"""Filters of a batch read, evaluated in the broker: as a JMS selector, and as bounds of sequence and time of
acceptance.

The broker returns at least the rows that Spark's filters accept; Spark applies all of them again. So a filter without a
translation, or with a wider one, only costs extra rows; the result is always correct.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from annulet.bulk.protocol import protocol

TEXTS: Final = {
    "message_id": "amqp.message_id",
    "correlation_id": "amqp.correlation_id",
    "reply_to": "amqp.reply_to",
    "subject": "amqp.subject",
    "content_encoding": "amqp.content_encoding",
    "group_id": "amqp.group_id",
    "routing_key": "amqp.routing_key",
}
"""Columns whose value, null included, is that of a selector's identifier."""

OTHERS: Final = {"priority": ("amqp.priority", int), "durable": ("amqp.durable", bool)}

LENGTH_MAX: Final = 8192
"""Characters of a filter's selector, and of all together: half of the broker's limit, the rest is for the user's.

Longer ones are not passed to the broker.
"""

COMPARISONS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


@dataclass(frozen=True, slots=True)
class Pushed:
    """The request to the broker. Bounds include their ends; times are milliseconds since 1970."""

    selector: str = ""
    first: int = 0
    last: int = protocol.BATCH_MAX
    accepted_from: int = 0
    accepted_upto: int = protocol.BATCH_MAX

    def selector_with(self, selector: str) -> str:
        """Return the selector together with the user's own."""
        if not self.selector or not selector:
            return self.selector or selector
        return f"({selector}) AND {self.selector}"


def push(filters: Iterable[Filter]) -> Pushed:
    """Translate filters that are connected by AND."""
    terms: list[str] = []
    numbers, times = [0, protocol.BATCH_MAX], [0, protocol.BATCH_MAX]
    for item in filters:
        column = _column(item)
        if column in ("position", "sequence"):  # one number in a batch read
            _narrow(numbers, item, getattr(item, "value", None))
        elif column == "enqueued_at":
            _narrow(times, item, getattr(item, "value", None))
        else:
            term = _term(item)
            if term and sum(map(len, terms)) + len(term) + len(terms) * 7 < LENGTH_MAX:
                terms.append(f"({term})")
    return Pushed(" AND ".join(terms), *numbers, *times)


def _column(item: Filter) -> str:
    """Return the column a filter is about; a field inside of one is none."""
    path: Sequence[str] = getattr(item, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _narrow(bounds: list[int], item: Filter, value: Any) -> None:
    """Narrow inclusive bounds in whole units; a moment between two milliseconds counts to both sides."""
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:  # its time zone is unknown
            return
        since = value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        low, rest = divmod(since // dt.timedelta(microseconds=1), 1000)
        high = low + (rest > 0)
    elif type(value) is int:
        low = high = value
    else:
        return
    if isinstance(item, (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual)):
        bounds[0] = max(bounds[0], high + (isinstance(item, GreaterThan) and low == high))
    if isinstance(item, (EqualTo, EqualNullSafe, LessThan, LessThanOrEqual)):
        bounds[1] = min(bounds[1], low - (isinstance(item, LessThan) and low == high))


def _term(item: Filter) -> str:
    """Return the selector of a filter, with the same answer for every message; empty when it has none."""
    if isinstance(item, Not):
        inner = "" if isinstance(item.child, EqualNullSafe) else _term(item.child)  # null differs
        return inner and f"NOT ({inner})"
    column = _column(item)
    identifier = TEXTS.get(column) or OTHERS.get(column, ("", None))[0]
    if not identifier:
        return ""
    if isinstance(item, (IsNull, IsNotNull)):
        return f"{identifier} IS {'NOT ' if isinstance(item, IsNotNull) else ''}NULL" if column in TEXTS else ""
    if isinstance(item, In):
        values = [_literal(column, value) for value in item.value]
        return f"{identifier} IN ({', '.join(values)})" if column in TEXTS and values and all(values) else ""
    if isinstance(item, (StringStartsWith, StringEndsWith, StringContains)):
        return _like(identifier, item) if column in TEXTS else ""
    if isinstance(item, EqualNullSafe):
        literal = _literal(column, item.value)
        return f"{identifier} = {literal}" if literal else ""
    operator = COMPARISONS.get(type(item), "")
    literal = _literal(column, getattr(item, "value", None))
    if not operator or not literal or (operator != "=" and column != "priority"):  # selectors do not order texts
        return ""
    return f"{identifier} {operator} {literal}"


def _like(identifier: str, item: StringStartsWith | StringEndsWith | StringContains) -> str:
    text = item.value
    for special in "\\%_":
        text = text.replace(special, "\\" + special)
    before = "" if isinstance(item, StringStartsWith) else "%"
    behind = "" if isinstance(item, StringEndsWith) else "%"
    return f"{identifier} LIKE {_quoted(before + text + behind)} ESCAPE '\\'"


def _literal(column: str, value: Any) -> str:
    """Write a value as a selector does; empty when the column has no such value."""
    if column in TEXTS:
        return _quoted(value) if isinstance(value, str) else ""
    wanted = OTHERS[column][1]
    if type(value) is not wanted:
        return ""
    return str(value).upper()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
