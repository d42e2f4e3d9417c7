from __future__ import annotations

from typing import Any

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.typed_values import TimestampMilliseconds
from annulet.wire.amqp10.messages.facts import IDENTIFIER_OCTETS_MAX, NAMES, TIME_MAX, Facts
from annulet.wire.amqp10.messages.message import FORM_DATA, read_facts, split_incoming
from annulet.wire.amqp10.messages.sections import APPLICATION_PROPERTIES, DATA, MESSAGE_ANNOTATIONS, encode_section

BODY = encode_section(DATA, b"payload")


@pytest.mark.parametrize("section", [MESSAGE_ANNOTATIONS, APPLICATION_PROPERTIES])
@pytest.mark.parametrize(
    ("entries", "due"),
    [
        ({}, 0), ({"x-opt-delivery-delay": 50}, 1050), ({"x-delay": "50"}, 1050), ({"x-delay": -50}, 0),
        ({"x-opt-delivery-time": 3000}, 3000), ({"x-opt-delivery-time": TimestampMilliseconds(3000)}, 3000),
        ({"x-opt-delivery-time": 3000.0}, 3000), ({"_AMQ_SCHED_DELIVERY": 3000, "x-deliver-at": 4000}, 4000),
        ({"x-opt-delivery-delay": 50, "x-opt-delivery-time": 3000}, 3000),
        ({"x-opt-delivery-delay": TIME_MAX}, TIME_MAX + 1000),
    ],
)  # fmt: skip
def test_when_it_is_due(section: int, entries: dict[str, Any], due: int) -> None:
    assert split_incoming(encode_section(section, entries) + BODY).due_at(1000) == due


@pytest.mark.parametrize(
    ("entries", "schedule_id", "duplicate_id", "cancels"),
    [
        ({"x-schedule-id": "a"}, "a", "", False),
        ({"x-schedule-id": "a", "x-schedule-cancel": True}, "a", "", True),
        ({"_AMQ_DUPL_ID": "d"}, "", "d", False),
        ({"_AMQ_DUPL_ID": b"\x01\xff"}, "", "01ff", False),
        ({"x-duplicate-id": "é" * 127}, "", "é" * 127, False),
    ],
)
def test_names_of_schedules_and_duplicates(
    entries: dict[str, Any], schedule_id: str, duplicate_id: str, cancels: bool
) -> None:
    incoming = split_incoming(encode_section(APPLICATION_PROPERTIES, entries) + BODY)
    assert (incoming.schedule_id, incoming.duplicate_id, incoming.cancels) == (schedule_id, duplicate_id, cancels)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-opt-delivery-delay", "soon"), ("x-opt-delivery-delay", TIME_MAX + 1), ("x-opt-delivery-time", -1),
        ("x-opt-delivery-time", 1.5), ("x-opt-delivery-time", True), ("x-opt-delivery-time", [1]),
        ("x-schedule-id", 7), ("x-schedule-id", "x" * (IDENTIFIER_OCTETS_MAX + 1)), ("x-schedule-cancel", "yes"),
        ("x-schedule-cancel", True), ("_AMQ_DUPL_ID", 7), ("_AMQ_DUPL_ID", b"x" * (IDENTIFIER_OCTETS_MAX + 1)),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_kind_is_refused_by_name_and_counts_as_absent_later(name: str, value: Any) -> None:
    section = MESSAGE_ANNOTATIONS if name.startswith("x-opt-") else APPLICATION_PROPERTIES
    payload = encode_section(section, {name: value})
    with pytest.raises(InvalidArgument, match=f"'{name}' is .*; give "):
        split_incoming(payload)
    facts = read_facts(bytes((FORM_DATA,)) + payload, strict=False)
    assert (facts.due_at(1000), facts.schedule_id, facts.duplicate_id) == (0, "", "")


def test_facts_hold_their_defaults() -> None:
    facts = Facts()
    assert (facts.durable, facts.priority, facts.time_to_live, facts.due_at(5), facts.expires_at(5)) == (
        False, -1, -1, 0, 0
    )  # fmt: skip


def test_every_name_has_one_of_two_fragments() -> None:
    """By these a header is searched before its maps are walked through."""
    assert all(b"x-" in name or b"_AMQ_" in name for name in NAMES)
