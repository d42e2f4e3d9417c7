"""Bodies of requests: JSON objects, bounded, each member of its kind."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request

from annulet.admin.bodies import (
    BODY_BYTES_MAX,
    INTEGER,
    INTEGERS,
    OBJECT,
    SWITCH,
    TEXT,
    arguments_of,
    read_fields,
    required,
)
from annulet.admin.responses import ResourceError

KINDS = {"text": TEXT, "count": INTEGER, "switch": SWITCH, "ids": INTEGERS, "members": OBJECT}


def request(body: bytes) -> Request:
    chunks = [body[: len(body) // 2], body[len(body) // 2 :]]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


async def test_members_of_every_kind_and_none() -> None:
    body = b'{"text": "\xc3\xa9", "count": -5, "switch": false, "ids": [1, 2], "members": {"a": null}}'
    assert await read_fields(request(body), KINDS) == {
        "text": "\u00e9", "count": -5, "switch": False, "ids": [1, 2], "members": {"a": None}
    }  # fmt: skip
    assert await read_fields(request(b""), KINDS) == {}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "the body is not JSON"),
        (b'"text"', 400, "must be a JSON object, not 'text'"),
        (b'{"text": "\xff"}', 400, "the body is not JSON"),
        (b'{"text": NaN}', 400, "the body is not JSON"),
        (b'{"members":' * 5000, 400, "the body is not JSON"),
        (b'{"txt": 1}', 400, "unknown field 'txt'; did you mean 'text'?"),
        (b'{"text": 5}', 400, "field 'text' must be a text, not 5"),
        (b'{"count": true}', 400, "field 'count' must be an integer, not True"),
        (b'{"count": 1.0}', 400, "field 'count' must be an integer, not 1.0"),
        (b'{"switch": 0}', 400, "field 'switch' must be true or false, not 0"),
        (b'{"ids": [1, null]}', 400, "field 'ids' must be a list of integers"),
        (b'{"members": []}', 400, "field 'members' must be an object, not []"),
        (b" " * (BODY_BYTES_MAX + 1), 413, "more than"),
    ],
)
async def test_what_is_wrong_is_refused(body: bytes, status: int, words: str) -> None:
    with pytest.raises(ResourceError) as caught:
        await read_fields(request(body), KINDS)
    assert caught.value.status == status
    assert words in caught.value.reason


def test_what_has_to_be_there() -> None:
    assert required({"a": 0}, "a", "a number") == 0
    with pytest.raises(ResourceError, match="field 'a' is missing; give a number"):
        required({}, "a", "a number")


def test_arguments_have_no_null() -> None:
    given = {"a": 1, "b": [True, "c"], "d": {"e": 1.5}}
    assert arguments_of("setting", given) == given
    for value in (None, [None], {"c": None}):
        with pytest.raises(ResourceError, match="is null; give a value, or leave it out"):
            arguments_of("setting", {"a": value})
