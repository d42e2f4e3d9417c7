from __future__ import annotations

import pytest

from annulet.testing.oracle.records import OracleMessage, OracleSession
from tests.testing.oracle.helpers import NOW, consumer, oracle, publish


def test_limits_count_what_they_are_told_to() -> None:
    ready, everything = oracle(), oracle(limit_counts="all")
    for model in (ready, everything):
        consumer(model, messages_max=1)
        publish(model, None, None, size=2)
        publish(model, None, deliver_at=NOW + 9, size=5)
    assert (ready.counted(), everything.counted()) == ((1, 2), (3, 9))


@pytest.mark.parametrize(("size", "refused"), [(2, True), (1, False)])
def test_reject_refuses_what_would_exceed_a_limit(size: int, refused: bool) -> None:
    model = oracle(overflow="reject", max_length=5, max_bytes=10)
    publish(model, None, size=9)
    assert model.refuses(OracleMessage(9, size=size)) is refused


def test_a_message_is_superseded_when_enough_newer_ones_of_its_key_arrived() -> None:
    model = oracle(last_value_key="k", keep_per_key=2)
    session = OracleSession()
    consumer(model, session, messages_max=1)
    first, *_ = publish(model, "a", "a", "b")
    assert not model.superseded(first)
    publish(model, "a")
    assert model.superseded(first)


def test_time_changes_something_next_at_the_earliest_of_expiry_schedule_and_gate() -> None:
    model = oracle(consumers_before_dispatch=2, delay_before_dispatch=30)
    assert model.next_due() == 0
    consumer(model)
    assert model.next_due() == NOW + 30
    publish(model, None, deliver_at=NOW + 20, own_expiry=NOW + 25)
    assert model.next_due() == NOW + 20
    publish(model, None, own_expiry=NOW + 10)
    assert model.next_due() == NOW + 10


@pytest.mark.parametrize(
    ("settings", "targets"),
    [
        ({}, ["", "", "", ""]),
        ({"dead_letter_address": "d"}, ["dead-letter", "", "dead-letter", ""]),
        ({"dead_letter_exchange": "d"}, ["dead-letter", "dead-letter", "dead-letter", ""]),
        ({"expiry_address": "e", "dropped_address": "x"}, ["", "expiry", "dropped", "dropped"]),
        ({"dead_letter_address": "d", "dropped_address": "x"}, ["dead-letter", "", "dead-letter+dropped", "dropped"]),
    ],
)
def test_each_reason_has_its_target(settings: dict[str, str], targets: list[str]) -> None:
    model = oracle(**settings)
    assert [model.target_of(why) for why in ("dead-lettered", "expired", "overflow", "replaced-ring")] == targets


def test_publishers_go_on_at_four_fifths_of_a_limit_unless_told_otherwise() -> None:
    assert oracle(overflow="block", max_length=11).resume_at() == (9, float("inf"))
    assert oracle(overflow="block", max_length=11, resume_length=2, max_bytes=1).resume_at() == (2, 1)
