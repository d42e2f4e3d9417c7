from __future__ import annotations

import math
from typing import Any

import pytest

from annulet.core.base.typed_values import Float32, Symbol, UnsignedInt, UnsignedLong, Uuid
from annulet.core.message.content_differences import apply_differences, differences, same_value
from annulet.core.message.neutral_content import MessageContent


def content(**fields: Any) -> MessageContent:
    made = MessageContent()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_equal_contents_have_no_record() -> None:
    one = content(subject="s", application={"a": UnsignedInt(1)})
    assert differences(one, content(subject="s", application={"a": UnsignedInt(1)})) == {}


def test_a_record_puts_back_what_the_reading_lacks() -> None:
    wanted = content(
        message_id=Uuid(bytes(16)), content_type=None, annotations={"x-opt-a": 1}, application={"a": UnsignedLong(1)}
    )
    natural = content(message_id="text", content_type="text/plain", application={"a": 1, "added": "by the protocol"})
    record = differences(wanted, natural)
    assert record == {
        "fields": {
            "message-id": ["text", bytes(16)],
            "content-type": ["text/plain", None],
            "annotations": [{}, {"x-opt-a": 1}],
        },
        "properties": {"a": 1},
        "without": ["added"],
    }
    del natural.application["a"]  # a converter leaves out what it records
    apply_differences(natural, record)
    assert differences(wanted, natural) == {}


def test_what_was_changed_on_the_way_stays_changed() -> None:
    record = differences(content(reply_to="long name", application={"a": 1}), content(reply_to="short"))
    changed = content(reply_to="elsewhere", application={"a": "other"})
    apply_differences(changed, record)
    assert changed.reply_to == "elsewhere"
    assert changed.application == {"a": "other"}


def test_who_the_user_is_cannot_be_recorded() -> None:
    assert differences(content(user_id=b"admin"), content()) == {}
    guest = content(user_id=b"guest")
    apply_differences(guest, {"fields": {"user-id": [b"guest", b"admin"], "durable": [False, True]}})
    assert guest.user_id == b"guest"
    assert guest.durable is False


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("subject", 5), ("subject", b"x"), ("message-id", 1.5), ("message-id", -1), ("message-id", 2**64),
        ("message-id", True), ("message-id", Uuid(b"short")), ("priority", None), ("priority", 256), ("priority", "4"),
        ("time-to-live", None), ("time-to-live", -2), ("creation-time", 2**63), ("creation-time", True),
        ("annotations", None), ("annotations", []), ("footer", "x"),
    ],
)  # fmt: skip
def test_a_value_the_field_cannot_hold_is_passed_over(field: str, value: Any) -> None:
    untouched, changed = content(), content()
    name = field.replace("-", "_")
    apply_differences(changed, {"fields": {field: [getattr(untouched, name), value]}})
    assert getattr(changed, name) == getattr(untouched, name)


@pytest.mark.parametrize(
    "record",
    [{"fields": []}, {"fields": {"subject": "s"}}, {"fields": {"subject": [None]}}, {"fields": {"no-field": [1, 2]}},
     {"without": "subject"}, {"without": [1]}, {"properties": ["a"]}],
)  # fmt: skip
def test_a_record_that_makes_no_sense_changes_nothing(record: dict[str, Any]) -> None:
    changed = content(subject="s", application={"subject": "s"})
    apply_differences(changed, record)
    assert differences(content(subject="s", application={"subject": "s"}), changed) == {}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, UnsignedInt(1), False), (1, True, False), (1.0, Float32(1.0), False), ("a", Symbol("a"), False),
        (math.nan, math.nan, True), (0.0, -0.0, False), ([1, [2]], [1, [2]], True), ([1], [1, 2], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True), ({"a": 1}, {"a": 1.0}, False), ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
    ],
)  # fmt: skip
def test_values_are_the_same_with_their_types(one: Any, other: Any, same: bool) -> None:
    assert same_value(one, other) is same
