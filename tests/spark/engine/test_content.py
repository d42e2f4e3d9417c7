"""Messages of the engine as the core asks for them."""

from __future__ import annotations

import pytest

from annulet.spark.engine.commands import Command, CommandRefused
from annulet.spark.engine.content import VIEW, connection_of, message_of


def test_a_message_is_what_its_command_says() -> None:
    command = Command(
        command="publish", sequence=1, queue="q", message_id="m", group="g", priority=0, duplicate_id="d",
        properties={"a": 1, "b": [1.5, None]}, publisher="p", connection="one", expires_at=9, deliver_at=8,
    )  # fmt: skip
    message = message_of(command, b"body", 7)
    assert (message.body, message.priority, message.accepted_at, message.expires_at) == (b"body", 0, 7, 9)
    properties = VIEW.properties(message)
    assert (properties.message_id, properties.group_id, properties.application) == (
        "m",
        "g",
        {"a": 1, "b": [1.5, None]},
    )
    assert VIEW.application_property(message, "a") == 1
    assert VIEW.application_property(message, "c") is None
    assert (VIEW.given_priority(message), VIEW.deliver_at(message), VIEW.duplicate_id(message)) == (0, 8, "d")
    assert VIEW.schedule_id(message) == ""
    assert message.origin.publisher == "p"


def test_a_message_without_priority_has_the_usual_one_and_none_given() -> None:
    message = message_of(Command(command="publish", sequence=1, queue="q"), b"", 7)
    assert (message.priority, VIEW.given_priority(message), message.origin.connection) == (4, -1, None)


def test_numbers_beyond_64_bits_are_refused() -> None:
    largest = Command(command="publish", sequence=1, properties={"a": 2**64 - 1})
    assert VIEW.application_property(message_of(largest, b"", 7), "a") == 2**64 - 1
    with pytest.raises(CommandRefused, match="field 'properties' has a number beyond 64 bits"):
        message_of(Command(command="publish", sequence=1, properties={"a": [2**64]}), b"", 7)


def test_equal_connections_are_one_object() -> None:
    assert connection_of("a b" + str(1)) is connection_of("a b" + str(1))
    assert connection_of("") is None
