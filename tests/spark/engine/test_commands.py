"""What is a command, and what is said about what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from annulet.spark.engine.actions import ACTIONS
from annulet.spark.engine.commands import COMMANDS, CommandRefused, parse_command


def command(**fields: Any) -> dict[str, Any]:
    return {"queue": "q", "sequence": 1, "command": "purge", **fields}


def test_missing_values_are_those_by_default() -> None:
    read = parse_command(json.dumps(command(priority=None, arguments=None, credit=None)))
    assert (read.priority, read.arguments, read.credit, read.credit_mode) == (-1, None, -1, "prefetch")


def test_maps_and_texts_are_objects() -> None:
    read = parse_command(json.dumps(command(properties={"a": "b"}, arguments='{"x-ring-size":3}')))
    assert (read.properties, read.arguments) == ({"a": "b"}, {"x-ring-size": 3})


def deep(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels - 1):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"command": "drink"}, "field 'command' is 'drink'; allowed are configure, publish, consume, "),
        ({"queue": None}, "field 'queue' is None: purge needs one; give its name"),
        ({"queue": "q" * 256}, "field 'queue' has 256 characters; at most 255 are allowed"),
        ({"sequence": "one"}, "field 'sequence' is 'one': Expected `int`, got `str`; correct it and send"),
        ({"properties": {"a": 1}, "credit": 1.5}, "field 'credit' is 1.5: Expected `int`, got `float`"),
        ({"properties": "{"}, "field 'properties' is '{', which is no JSON: .*; give a JSON object"),
        ({"arguments": "[]"}, r"field 'arguments' is '\[\]'; give a JSON object"),
        ({"credit_mode": "much"}, "field 'credit_mode' is 'much'; allowed are prefetch, link"),
        ({"priority": 256}, "field 'priority' is 256; allowed are 0 to 255, or none"),
        ({"credit": -2}, "field 'credit' is -2; allowed are 0 and more, or -1 for no limit"),
        ({"at": -1}, "field 'at' is -1; give milliseconds since 1970, at most 253402300799999"),
        ({"expires_at": 253_402_300_800_000}, "field 'expires_at' is 253402300800000; give"),
        ({"command": "consume", "session": "s"}, "field 'consumer' is '': consume needs it; give one"),
        ({"command": "acknowledge", "session": "s", "tag": -1}, "field 'tag' is -1: acknowledge needs it"),
        ({"command": "restore", "message": 2**53 + 1}, "field 'message' is 9007199254740993; allowed are 0 to 9007"),
        ({"command": "restored", "message": -5}, "field 'message' is -5; allowed are 0 to"),
        ({"delivery_count": 2**63}, "field 'delivery_count' is 9223372036854775808; allowed are 0 to"),
        ({"properties": {"a": deep(64)}}, "field 'properties' is nested too deep; at most 64 levels are allowed"),
        ({"properties": "[" * 100_000}, "field 'properties' is nested too deep"),
    ],
)
def test_what_is_no_command_is_told_with_field_value_and_remedy(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(CommandRefused, match=message):
        parse_command(json.dumps(command(**fields)))


@pytest.mark.parametrize("document", ["", "[1]", '"x"', '{"sequence":1}'])
def test_what_is_no_object_of_a_command_is_refused(document: str) -> None:
    with pytest.raises(CommandRefused):
        parse_command(document)


def test_values_at_the_limits_are_commands() -> None:
    assert parse_command(json.dumps(command(properties={"a": deep(63)}))).properties == {"a": deep(63)}
    assert parse_command(json.dumps(command(message=2**53, delivery_count=2**53))).message == 2**53
    read = parse_command(json.dumps(command(queue="q" * 255, priority=255, credit=0, at=253_402_300_799_999)))
    assert (read.priority, read.credit, read.at) == (255, 0, 253_402_300_799_999)


def test_every_command_has_an_action() -> None:
    assert set(ACTIONS) == set(COMMANDS)
