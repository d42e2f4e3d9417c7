"""Records the content that a protocol cannot express, beside the message, so that it can be restored.

A converter writes a message in the form of its protocol, reads that back like any client, and records the differences
from the original. The record is sent with the message (AMQP 0-9-1: one header; AMQP 1.0: one message annotation) and is
applied when the message is converted again. So nothing is lost between two protocols, and the converters of a protocol
cannot forget a case.

The record is a map:

============== ======================================================================================================
``fields``     name of a field: ``[converted value, original]``. Applies only while the field still has this value: a
forwarder that changed the value means the new one ``properties`` application properties that could not be written as
such ``without``    names that are not application properties: added by the protocol itself ==============
======================================================================================================

Peers may write a record, too. It can say nothing a sender could not say in AMQP 1.0, and a value of a type the field
does not have is passed over. ``user_id`` is never in it: the broker has checked that of the message itself.
"""

from __future__ import annotations

import math
from typing import Any, Final

from annulet.core.base.typed_values import Uuid
from annulet.core.message.message import PropertyValue
from annulet.core.message.neutral_content import MessageContent

_TEXT: Final = 1
_IDENTIFIER: Final = 2
_NUMBER: Final = 3
_MAP: Final = 4

_FIELDS: Final[dict[str, int]] = {
    "priority": _NUMBER,
    "time_to_live": _NUMBER,
    "message_id": _IDENTIFIER,
    "correlation_id": _IDENTIFIER,
    "to": _TEXT,
    "subject": _TEXT,
    "reply_to": _TEXT,
    "content_type": _TEXT,
    "content_encoding": _TEXT,
    "absolute_expiry_time": _NUMBER,
    "creation_time": _NUMBER,
    "group_id": _TEXT,
    "group_sequence": _NUMBER,
    "reply_to_group_id": _TEXT,
    "app_id": _TEXT,
    "annotations": _MAP,
    "footer": _MAP,
}
"""Fields that are compared, by type. The others can be expressed in every protocol, or are known to the broker."""

_NEVER_NONE: Final = frozenset({"priority", "time_to_live"})
"""Numbers that are -1 when not given."""

_NUMBER_MIN: Final = -(2**63)
_NUMBER_MAX: Final = 2**63 - 1
_RANGES: Final[dict[str, tuple[int, int]]] = {"priority": (-1, 255), "time_to_live": (-1, _NUMBER_MAX)}


def differences(wanted: MessageContent, natural: MessageContent) -> dict[str, PropertyValue]:
    """Return the record of what ``natural`` lacks of ``wanted``; empty when it lacks nothing.

    Bodies are not compared: their converters handle them.
    """
    record: dict[str, PropertyValue] = {}
    fields: dict[str, PropertyValue] = {}
    for name in _FIELDS:
        value = getattr(wanted, name)
        read = getattr(natural, name)
        if not same_value(value, read):
            fields[name.replace("_", "-")] = [read, value]
    if fields:
        record["fields"] = fields
    properties: dict[str, PropertyValue] = {
        name: value
        for name, value in wanted.application.items()
        if name not in natural.application or not same_value(value, natural.application[name])
    }
    if properties:
        record["properties"] = properties
    without: list[PropertyValue] = [name for name in natural.application if name not in wanted.application]
    if without:
        record["without"] = without
    return record


def apply_differences(content: MessageContent, record: dict[str, PropertyValue]) -> None:
    """Apply a record to ``content`` as read from the message. Invalid parts are ignored."""
    fields = record.get("fields")
    if isinstance(fields, dict):
        for label, change in fields.items():
            name = label.replace("-", "_")
            if name in _FIELDS and isinstance(change, list) and len(change) == 2:
                _apply_field(content, name, change[0], change[1])
    without = record.get("without")
    if isinstance(without, list):
        for item in without:
            if isinstance(item, str):
                content.application.pop(item, None)
    properties = record.get("properties")
    if isinstance(properties, dict):
        for name, value in properties.items():
            if name not in content.application:
                content.application[str(name)] = value


def _apply_field(content: MessageContent, name: str, read: PropertyValue, value: PropertyValue) -> None:
    if same_value(read, getattr(content, name)) and _fits(name, value):
        setattr(content, name, value)


def _fits(name: str, value: Any) -> bool:
    """Return whether a field may have a value."""
    kind = _FIELDS[name]
    if value is None:
        return kind != _MAP and name not in _NEVER_NONE
    if kind == _TEXT:
        return isinstance(value, str)
    if kind == _IDENTIFIER:
        return _is_identifier(value)
    if kind == _MAP:
        return isinstance(value, dict) and all(isinstance(key, str) for key in value)
    lowest, highest = _RANGES.get(name, (_NUMBER_MIN, _NUMBER_MAX))
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest


def _is_identifier(value: Any) -> bool:
    if isinstance(value, Uuid):
        return len(value) == 16
    if isinstance(value, int):
        return not isinstance(value, bool) and 0 <= value < 2**64
    return isinstance(value, str | bytes)


def same_value(one: Any, other: Any) -> bool:
    """Return whether two values are the same in type and content; lists and maps by their items, maps in any order.

    A key that is a symbol is not the same as one that is a text.
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        if len(one) != len(other):
            return False
        kinds = {key: type(key) for key in other}
        return all(kinds.get(key) is type(key) and same_value(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, float):
        if math.isnan(one):
            return math.isnan(other)
        return one == other and math.copysign(1.0, one) == math.copysign(1.0, other)
    return bool(one == other)
