"""Recorded messages as the core sees them."""

from __future__ import annotations

from annulet.spark.what_if.traffic import Arrival, message_of


def test_the_core_sees_size_priority_times_and_properties() -> None:
    message = message_of(Arrival(at=5, size=3, priority=7, expires_at=9, group_id="g", properties={"k": "v"}))
    view = message.origin.view

    assert (message.size, message.priority, message.accepted_at, message.expires_at) == (3, 7, 5, 9)
    assert view.application_property(message, "k") == "v"
    assert view.application_property(message, "other") is None
    assert view.properties(message).group_id == "g"
    assert view.given_priority(message) == 7
    assert (view.deliver_at(message), view.schedule_id(message), view.duplicate_id(message)) == (0, "", "")


def test_bodies_of_one_size_are_one_object() -> None:
    assert message_of(Arrival(at=0, size=4096)).body is message_of(Arrival(at=1, size=4096)).body
